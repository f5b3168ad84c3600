//! Expressions that are reduced: along rows, or rows onto each other.

use super::space::Offsets;
use super::{INPUTS, Op, Plan, STRIP};
use crate::kernels::combiner::Combiner;
use crate::kernels::simd::Simd;

/// Elements of the next row that are asked for while one is reduced.
const AHEAD: usize = 1024;

/// One step of a reduction, lane by lane.
#[inline(always)]
pub(super) fn combine<S: Simd>(combiner: Combiner, acc: S, x: S) -> S {
    match combiner {
        Combiner::Sum => acc.add(x),
        Combiner::Product => acc.mul(x),
        Combiner::Max => acc.max(x),
        _ => acc.min(x),
    }
}

pub(super) fn neutral(combiner: Combiner) -> f32 {
    match combiner {
        Combiner::Sum => 0.0,
        Combiner::Product => 1.0,
        Combiner::Max => f32::MIN,
        _ => f32::MAX,
    }
}

/// Reduces the whole vectors of `n` elements in four chains; returns these, and the number of
/// elements.
#[inline(always)]
pub(super) unsafe fn chains<S: Simd>(
    combiner: Combiner,
    from: *const f32,
    n: usize,
) -> ([S; 4], usize) {
    // SAFETY: there are `n` elements.
    unsafe {
        let mut acc = [S::splat(neutral(combiner)); 4];
        let i = onto(combiner, &mut acc, from, n);
        (acc, i)
    }
}

/// Reduces the whole vectors of `n` elements onto four chains; returns the number of elements.
#[inline(always)]
unsafe fn onto<S: Simd>(combiner: Combiner, acc: &mut [S; 4], from: *const f32, n: usize) -> usize {
    // SAFETY: there are `n` elements.
    unsafe {
        let mut i = 0;
        while i + 4 * S::LANES <= n {
            for (k, acc) in acc.iter_mut().enumerate() {
                *acc = combine(combiner, *acc, S::load(from.add(i + k * S::LANES)));
            }
            i += 4 * S::LANES;
        }
        while i + S::LANES <= n {
            acc[0] = combine(combiner, acc[0], S::load(from.add(i)));
            i += S::LANES;
        }
        i
    }
}

/// Reduces `n` elements, less than a vector, onto a chain.
#[inline(always)]
unsafe fn rest_onto<S: Simd>(combiner: Combiner, acc: S, from: *const f32, n: usize) -> S {
    // SAFETY: there are `n` elements.
    unsafe {
        let part = S::load_part(from, n);
        if combiner == Combiner::Sum {
            return acc.add(part);
        }
        // Lanes beyond the elements are neutral.
        let mut whole = [neutral(combiner); 16];
        part.store_part(whole.as_mut_ptr(), n);
        combine(combiner, acc, S::load(whole.as_ptr()))
    }
}

/// Reduces what chains hold onto a result.
#[inline(always)]
fn finished<S: Simd>(combiner: Combiner, total: f64, acc: [S; 4]) -> f64 {
    let mut lanes = [0.0f32; 16];
    let all = together(combiner, acc);
    // SAFETY: there is room for a vector.
    unsafe { all.store(lanes.as_mut_ptr()) };
    let lanes = &lanes[..S::LANES];
    match combiner {
        // Exact in any type; comparisons of unknown outcome would be mispredicted branches.
        Combiner::Max => lanes
            .iter()
            .fold(total as f32, |a, &b| if a > b { a } else { b })
            .into(),
        Combiner::Min => lanes
            .iter()
            .fold(total as f32, |a, &b| if a < b { a } else { b })
            .into(),
        _ => (lanes.iter()).fold(total, |a, &b| combine_f64(combiner, a, f64::from(b))),
    }
}

/// Reduces four chains to one vector.
#[inline(always)]
pub(super) fn together<S: Simd>(combiner: Combiner, [a, b, c, d]: [S; 4]) -> S {
    let (left, right) = (combine(combiner, a, b), combine(combiner, c, d));
    combine(combiner, left, right)
}

fn combine_f64(combiner: Combiner, a: f64, b: f64) -> f64 {
    match combiner {
        Combiner::Sum => a + b,
        Combiner::Product => a * b,
        Combiner::Max if a > b => a,
        Combiner::Min if a < b => a,
        _ => b,
    }
}

/// Elements `begin..end` of a result, each from strips along the last reduced axis. Strips are
/// reduced in eight chains of vectors, their results in float64.
#[inline(always)]
pub(super) unsafe fn rows<S: Simd>(p: &Plan<'_>, begin: usize, end: usize, room: *mut f32) {
    // SAFETY: elements are those of the result, inputs have what the axes name, and `room` has what
    // the plan says.
    unsafe {
        let alone = p.chain.alone();
        let mut s = p.strip(room, if alone { 1 } else { STRIP });
        let result = room.add(p.room() - STRIP);
        let start = neutral(p.combiner);
        let steps = p.over.inner_steps();
        // Elements that are reduced as they are, where they lie, need no memory.
        let only = p.ops[0].args[0] as usize % INPUTS;
        let copied = p.ops.len() == 1 && p.ops[0].op() == Op::Copy && steps[only] == 1;
        let piece = if copied { 4 * STRIP } else { STRIP };
        let (n, outer) = (p.over.inner(), p.over.rows());
        let inner = p.out.inner();
        let out_steps = p.out.inner_steps();
        let zero: Offsets = [0; INPUTS];
        let (mut base, mut after) = (zero, zero);
        for element in begin..end {
            p.out.row(element / inner, &zero, &mut base);
            for (b, s) in base.iter_mut().zip(&out_steps) {
                *b += (element % inner) as isize * s;
            }
            let mut total = f64::from(start);
            // What chains hold of rows that are shorter than a strip together.
            let (mut acc, mut held) = ([S::splat(start); 4], 0);
            if outer > 0 {
                p.over.row(0, &base, &mut after);
            }
            for row in 0..outer {
                let mut at = after;
                if row + 1 < outer {
                    p.over.row(row + 1, &base, &mut after);
                    if copied {
                        // Elsewhere, where no processor expects it.
                        let next = p.data[only].wrapping_offset(after[only]);
                        for line in (0..n.min(AHEAD)).step_by(16) {
                            S::prefetch(next.wrapping_add(line));
                        }
                    }
                }
                let mut first = 0;
                while first < n {
                    let len = (n - first).min(piece);
                    p.read::<S>(&mut s, &at, &steps, len, alone);
                    // Elements that are reduced as they are need no copy.
                    let result = match p.ops {
                        [op] if op.op() == Op::Copy => s.operands[op.args[0] as usize],
                        _ => {
                            p.run_whole::<S>(&mut s, len, result);
                            result.cast_const()
                        }
                    };
                    if held + len > piece {
                        total = finished(p.combiner, total, acc);
                        (acc, held) = ([S::splat(start); 4], 0);
                    }
                    let i = onto(p.combiner, &mut acc, result, len);
                    if i < len {
                        acc[1] = rest_onto(p.combiner, acc[1], result.add(i), len - i);
                    }
                    held += len;
                    for (a, s) in at.iter_mut().zip(&steps) {
                        *a += len as isize * s;
                    }
                    first += len;
                }
            }
            *p.v.out.add(element) = finished(p.combiner, total, acc) as f32;
        }
    }
}

/// Strips `begin..end` of a result, each accumulated over all reduced axes.
#[inline(always)]
pub(super) unsafe fn columns<S: Simd>(p: &Plan<'_>, begin: usize, end: usize, room: *mut f32) {
    // SAFETY: tasks are strips of the result, inputs have what the axes name, and `room` has what
    // the plan says.
    unsafe {
        let mut s = p.strip(room, STRIP);
        let result = room.add(p.room() - STRIP);
        let start = neutral(p.combiner);
        let n = p.out.inner();
        let strips = n.div_ceil(STRIP).max(1);
        let steps = p.out.inner_steps();
        let over_steps = p.over.inner_steps();
        let zero: Offsets = [0; INPUTS];
        let (mut base, mut at) = (zero, zero);
        for task in begin..end {
            let (row, first) = (task / strips, task % strips * STRIP);
            p.out.row(row, &zero, &mut base);
            for (b, s) in base.iter_mut().zip(&steps) {
                *b += first as isize * s;
            }
            let len = (n - first).min(STRIP);
            let out = p.v.out.add(row * n + first);
            for i in 0..len {
                *out.add(i) = start;
            }
            for outer in 0..p.over.rows() {
                p.over.row(outer, &base, &mut at);
                for _ in 0..p.over.inner() {
                    p.read::<S>(&mut s, &at, &steps, len, false);
                    p.run(&mut s, len, result);
                    let mut i = 0;
                    while i + S::LANES <= len {
                        let (x, acc) = (S::load(result.add(i)), S::load(out.add(i)));
                        combine(p.combiner, acc, x).store(out.add(i));
                        i += S::LANES;
                    }
                    if i < len {
                        let part = len - i;
                        let x = S::load_part(result.add(i), part);
                        let acc = S::load_part(out.add(i), part);
                        combine(p.combiner, acc, x).store_part(out.add(i), part);
                    }
                    for (a, s) in at.iter_mut().zip(&over_steps) {
                        *a += s;
                    }
                }
            }
        }
    }
}
