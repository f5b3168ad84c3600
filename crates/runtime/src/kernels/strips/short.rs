//! Reductions of short rows: as many rows as a vector has lanes are transposed and reduced in
//! parallel lanes.

use super::reduce::{chains, combine, neutral, together};
use super::space::Offsets;
use super::{INPUTS, Op, Plan};
use crate::kernels::combiner::Combiner;
use crate::kernels::simd::Simd;
use crate::kernels::simd::square::{MOST, Turning, columns};

/// The maximum row length for which transposing is faster than reducing row by row.
const SHORT: usize = 64;
/// The maximum row length for which reducing the lanes of its sums takes long beside the rest: the
/// sums of several rows are transposed.
const LONGER: usize = 512;

/// Returns whether contiguous rows of one input are reduced without computation.
pub(super) fn pays(p: &Plan<'_>) -> bool {
    let plain = p.ops.len() == 1 && p.ops[0].op() == Op::Copy && p.ops[0].args[0] == 0;
    let line = p.over.rank == 1 && p.over.inner_steps()[0] == 1;
    plain && p.v.inputs == 1 && line && p.over.inner() <= LONGER && p.out.inner() >= MOST
}

/// Elements `begin..end` of a result.
#[inline(always)]
pub(super) unsafe fn short<S: Turning>(p: &Plan<'_>, begin: usize, end: usize) {
    let (n, inner) = (p.over.inner(), p.out.inner());
    let step = p.out.inner_steps()[0];
    let (zero, mut base): (Offsets, Offsets) = ([0; INPUTS], [0; INPUTS]);
    let mut element = begin;
    // The sums of longer rows.
    let mut rows = [0.0f32; MOST * MOST];
    while element < end {
        p.out.row(element / inner, &zero, &mut base);
        let within = element % inner;
        let lines = S::LANES.min(end - element).min(inner - within);
        // SAFETY: elements are those of the result, and inputs have what the axes name.
        let x = unsafe { p.data[0].offset(base[0] + within as isize * step) };
        let sums = p.combiner == Combiner::Sum;
        // SAFETY: the instruction set of `S` is enabled here.
        let mut acc = unsafe { [S::splat(neutral(p.combiner)); 4] };
        // SAFETY: elements are those of the result, and inputs have what the axes name.
        let (x, step, n) = unsafe {
            match n <= SHORT {
                true => (x, step, n),
                false => {
                    for line in 0..lines {
                        let row = x.offset(line as isize * step);
                        let all = vector::<S>(p.combiner, row, n);
                        all.store(rows.as_mut_ptr().add(line * S::LANES));
                    }
                    (rows.as_ptr(), S::LANES as isize, S::LANES)
                }
            }
        };
        // SAFETY: elements are those of the result, and inputs have what the axes name.
        unsafe {
            for i in (0..n).step_by(S::LANES) {
                let part = (n - i).min(S::LANES);
                let square = columns::<S>(x.add(i), step, lines, part);
                for (k, &column) in square.iter().enumerate().take(S::LANES) {
                    if k < part {
                        // Sums use several independent chains; extremes are found in order.
                        let chain = if sums { k % 4 } else { 0 };
                        acc[chain] = combine(p.combiner, acc[chain], column);
                    }
                }
            }
        }
        if sums {
            acc[0] = acc[0].add(acc[1]).add(acc[2].add(acc[3]));
        }
        // SAFETY: elements are those of the result, and inputs have what the axes name.
        unsafe {
            acc[0].store_part(p.v.out.add(element), lines);
        }
        element += lines;
    }
}

/// Reduces a row to a vector.
#[inline(always)]
unsafe fn vector<S: Simd>(combiner: Combiner, row: *const f32, n: usize) -> S {
    // SAFETY: the row has `n` elements.
    unsafe {
        let (mut acc, i) = chains::<S>(combiner, row, n);
        if i < n {
            // Lanes beyond the row are neutral.
            let rest = n - i;
            let mut last = [neutral(combiner); MOST];
            S::load_part(row.add(i), rest).store_part(last.as_mut_ptr(), rest);
            acc[1] = combine(combiner, acc[1], S::load(last.as_ptr()));
        }
        together(combiner, acc)
    }
}
