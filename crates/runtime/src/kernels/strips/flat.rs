//! Short rows: many of them form one strip, for which operands with another layout are gathered
//! first.

use super::bytes::{self, Input};
use super::space::{Offsets, Space};
use super::{INPUTS, Plan, STRIP};
use crate::kernels::kinds::Kind;
use crate::kernels::simd::Simd;

/// Elements of a row from which on rows are strips of their own.
const SHORT: usize = 128;
/// The same where not all are floats, which are brought into strips anyway.
const SHORT_OTHERS: usize = (STRIP - SLACK) / 2 + 1;
/// Floats after a strip's last row that a vector may write.
const SLACK: usize = 16;
/// The number of elements of a result below which gathering does not pay.
const FEW: usize = 128;

/// Returns whether rows are so short, and so numerous, that they are combined.
pub(super) fn pays(out: &Space, floats: bool) -> bool {
    let short = if floats { SHORT } else { SHORT_OTHERS };
    out.inner() < short && out.rows() > 1 && out.count() >= FEW
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

    /// Returns whether the elements of an input are the same for every row.
    fn repeated(&self, input: usize) -> bool {
        let last = self.rank.saturating_sub(1);
        self.steps[input][..last].iter().all(|&step| step == 0)
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
    let mut s = unsafe { p.strip(room, STRIP) };
    for task in begin..end {
        let first = task * high;
        let count = (rows - first).min(high);
        p.out.row(first, &zero, &mut at);
        for (k, &at) in at.iter().enumerate().take(inputs) {
            let kind = p.kinds.as_ref().map_or(Kind::F32, |(of, _)| of[k]);
            let input = Input {
                data: p.data[k].cast(),
                kind,
                at,
                step: p.out.inner_steps()[k],
            };
            // SAFETY: tasks are strips of the result, and `room` has what the plan says.
            unsafe {
                if kind == Kind::F32 && p.out.dense(k) {
                    s.operands[k] = p.data[k].offset(at);
                } else if p.out.dense(k) {
                    bytes::read(&mut s, k, input, count * wide, false);
                } else if task == begin || !p.out.repeated(k) {
                    // What is repeated stays; later strips have no more rows than the first.
                    let to = s.room.add(k * STRIP);
                    s.operands[k] = to.cast_const();
                    gather::<S>(&p.out, k, input, (first, count), to);
                }
            }
        }
        // SAFETY: tasks are strips of the result, and `room` has what the plan says.
        unsafe {
            match p.kinds {
                Some((_, kind)) if kind != Kind::F32 => {
                    // The last strip of room is for results.
                    let result = room.add(p.room() - STRIP);
                    p.run_whole::<S>(&mut s, count * wide, result);
                    bytes::write(result, count * wide, p.v.out.cast::<u8>().add(first * wide));
                }
                _ => p.run_whole::<S>(&mut s, count * wide, p.v.out.add(first * wide)),
            }
        }
    }
}

/// Gathers rows of an input, from one on. Rows are written as whole vectors: lanes beyond the end
/// of one are overwritten by the next, or fall into the slack.
#[inline(always)]
unsafe fn gather<S: Simd>(
    space: &Space,
    k: usize,
    mut input: Input,
    (first, count): (usize, usize),
    to: *mut f32,
) {
    let steps = &space.steps[k];
    let last = space.rank - 1;
    let wide = space.extent[last];
    // The row of the axis before the last one.
    let mut index = [0usize; super::AXES];
    let mut rest = first;
    for k in (0..last).rev() {
        index[k] = rest % space.extent[k];
        rest /= space.extent[k];
    }
    let mut to = to;
    let mut left = count;
    while left > 0 {
        // Rows up to the end of the axis before the last are evenly spaced.
        let (next, many) = match last {
            0 => (0, 1),
            _ => (steps[last - 1], space.extent[last - 1] - index[last - 1]),
        };
        let many = many.min(left);
        // SAFETY: the rows lie in the input, and a strip has room for them.
        unsafe {
            match input.kind {
                Kind::F32 => {
                    let from = input.data.cast::<f32>().offset(input.at);
                    lines::<S>((from, input.step, next), (many, wide), to);
                }
                _ => bytes::rows(input, next, (many, wide), to),
            }
        }
        left -= many;
        // SAFETY: the rows lie in the input, and a strip has room for them.
        unsafe {
            to = to.add(many * wide);
        }
        if last == 0 {
            break;
        }
        input.at += next * many as isize;
        index[last - 1] += many;
        for k in (0..last).rev() {
            if index[k] < space.extent[k] {
                break;
            }
            input.at -= steps[k] * space.extent[k] as isize;
            index[k] = 0;
            if k > 0 {
                index[k - 1] += 1;
                input.at += steps[k - 1];
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
