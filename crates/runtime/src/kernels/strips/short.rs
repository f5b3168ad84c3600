//! Reductions of short rows: as many rows as a vector has lanes are transposed and reduced in
//! parallel lanes.

use super::reduce::{combine, neutral};
use super::space::Offsets;
use super::{INPUTS, Op, Plan};
use crate::kernels::combiner::Combiner;
use crate::kernels::simd::square::{MOST, Turning, columns};

/// The maximum row length for which transposing is faster than reducing row by row.
const SHORT: usize = 64;

/// Returns whether contiguous rows of one input are reduced without computation.
pub(super) fn pays(p: &Plan<'_>) -> bool {
    let plain = p.ops.len() == 1 && p.ops[0].op() == Op::Copy && p.ops[0].args[0] == 0;
    let line = p.over.rank == 1 && p.over.inner_steps()[0] == 1;
    plain && p.v.inputs == 1 && line && p.over.inner() <= SHORT && p.out.inner() >= MOST
}

/// Elements `begin..end` of a result.
#[inline(always)]
pub(super) unsafe fn short<S: Turning>(p: &Plan<'_>, begin: usize, end: usize) {
    let (n, inner) = (p.over.inner(), p.out.inner());
    let step = p.out.inner_steps()[0];
    let (zero, mut base): (Offsets, Offsets) = ([0; INPUTS], [0; INPUTS]);
    let mut element = begin;
    // SAFETY: elements are those of the result, and inputs have what the axes name.
    unsafe {
        while element < end {
            p.out.row(element / inner, &zero, &mut base);
            let within = element % inner;
            let lines = S::LANES.min(end - element).min(inner - within);
            let x = p.data[0].offset(base[0] + within as isize * step);
            let sums = p.combiner == Combiner::Sum;
            let mut acc = [S::splat(neutral(p.combiner)); 4];
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
            if sums {
                acc[0] = acc[0].add(acc[1]).add(acc[2].add(acc[3]));
            }
            acc[0].store_part(p.v.out.add(element), lines);
            element += lines;
        }
    }
}
