//! Short rows: many of them form one strip, for which operands with another layout are gathered
//! first.

use super::space::{Offsets, Space};
use super::{INPUTS, Plan, STRIP};
use crate::kernels::simd::Simd;

/// Elements of a row from which on rows are strips of their own.
const SHORT: usize = 128;
/// Floats after a strip's last row that a vector may write.
const SLACK: usize = 16;
/// The number of elements of a result below which gathering does not pay.
const FEW: usize = 128;

/// Returns whether rows are so short, and so numerous, that they are combined.
pub(super) fn pays(out: &Space) -> bool {
    out.inner() < SHORT && out.rows() > 1 && out.count() >= FEW
}

/// Rows of a strip.
fn together(out: &Space) -> usize {
    (STRIP - SLACK) / out.inner().max(1)
}

/// The number of strips.
pub(super) fn strips(out: &Space) -> usize {
    out.rows().div_ceil(together(out))
}

impl Space {
    /// Returns whether an input is contiguous in the order of the space.
    fn dense(&self, input: usize) -> bool {
        let mut step = 1;
        for k in (0..self.rank).rev() {
            if self.steps[input][k] != step {
                return false;
            }
            step *= self.extent[k] as isize;
        }
        true
    }
}

/// Strips `begin..end` of a plan without reduction.
#[inline(always)]
pub(super) unsafe fn plain<S: Simd>(p: &Plan<'_>, begin: usize, end: usize, room: *mut f32) {
    let (wide, rows) = (p.out.inner(), p.out.rows());
    let high = together(&p.out);
    let inputs = p.v.inputs as usize;
    let zero: Offsets = [0; INPUTS];
    let mut at = zero;
    // SAFETY: tasks are strips of the result, and `room` has what the plan says.
    unsafe {
        let mut s = p.strip(room, STRIP);
        for task in begin..end {
            let first = task * high;
            let count = (rows - first).min(high);
            p.out.row(first, &zero, &mut at);
            for (k, &at) in at.iter().enumerate().take(inputs) {
                let from = p.data[k].offset(at);
                let to = s.room.add(k * STRIP);
                s.operands[k] = if p.out.dense(k) {
                    from
                } else {
                    gather::<S>(&p.out, k, from, (first, count), to);
                    to.cast_const()
                };
            }
            p.run_whole::<S>(&mut s, count * wide, p.v.out.add(first * wide));
        }
    }
}

/// Gathers rows of an input, from one on. Rows are written as whole vectors: lanes beyond the end
/// of one are overwritten by the next, or fall into the slack.
#[inline(always)]
unsafe fn gather<S: Simd>(
    space: &Space,
    input: usize,
    from: *const f32,
    (first, count): (usize, usize),
    to: *mut f32,
) {
    let steps = &space.steps[input];
    let last = space.rank - 1;
    let (wide, step) = (space.extent[last], steps[last]);
    // The row of the axis before the last one.
    let mut index = [0usize; super::AXES];
    let mut rest = first;
    for k in (0..last).rev() {
        index[k] = rest % space.extent[k];
        rest /= space.extent[k];
    }
    let (mut from, mut to) = (from, to);
    let mut left = count;
    // SAFETY: the rows lie in the input, and a strip has room for them.
    unsafe {
        while left > 0 {
            // Rows up to the end of the axis before the last are evenly spaced.
            let (next, many) = match last {
                0 => (0, 1),
                _ => (steps[last - 1], space.extent[last - 1] - index[last - 1]),
            };
            let many = many.min(left);
            lines::<S>((from, step, next), (many, wide), to);
            left -= many;
            to = to.add(many * wide);
            if last == 0 {
                break;
            }
            from = from.wrapping_offset(next * many as isize);
            index[last - 1] += many;
            for k in (0..last).rev() {
                if index[k] < space.extent[k] {
                    break;
                }
                from = from.wrapping_offset(-(steps[k] * space.extent[k] as isize));
                index[k] = 0;
                if k > 0 {
                    index[k - 1] += 1;
                    from = from.wrapping_offset(steps[k - 1]);
                }
            }
        }
    }
}

/// Copies some rows that are `next` apart, whose elements are `step` apart.
#[inline(always)]
unsafe fn lines<S: Simd>(
    (from, step, next): (*const f32, isize, isize),
    (count, wide): (usize, usize),
    to: *mut f32,
) {
    // SAFETY: there are `count` rows of `wide` elements, and a strip has room for them.
    unsafe {
        for row in 0..count {
            let (from, to) = (from.offset(row as isize * next), to.add(row * wide));
            match step {
                0 => {
                    let x = S::splat(*from);
                    for i in (0..wide).step_by(S::LANES) {
                        x.store(to.add(i));
                    }
                }
                1 => {
                    let mut i = 0;
                    while i + S::LANES <= wide {
                        S::load(from.add(i)).store(to.add(i));
                        i += S::LANES;
                    }
                    if i < wide {
                        S::load_part(from.add(i), wide - i).store(to.add(i));
                    }
                }
                step => {
                    for i in 0..wide {
                        *to.add(i) = *from.offset(i as isize * step);
                    }
                }
            }
        }
    }
}
