//! Columns whose elements of an operand lie side by side, with others between them: lines of an
//! image, one behind the other. What is summed between them is left out.

use super::plan::{Axis, count};
use crate::kernels::kinds::{Kind, Sum};

/// Two axes of a result, or one, that are computed as one.
#[derive(Clone, Copy)]
pub(super) struct Line {
    /// Columns of one of the lines.
    pub inner: usize,
    /// The number of lines, and the distance from one to the next: in the operand and in the result.
    pub lines: usize,
    pitch: usize,
    step: isize,
    /// The number of axes that are left, and of their indices.
    pub axes: usize,
    pub many: usize,
}

impl Line {
    /// The last axes, if an operand's elements lie so along them.
    pub fn of(axes: &[Axis], operand: usize) -> Option<Self> {
        let (last, before) = axes.split_last()?;
        if last.steps[operand] != 1 || last.steps[2] != 1 {
            return None;
        }
        let pitches = last.extent as isize..2 * last.extent as isize;
        let more = (before.last()).filter(|a| pitches.contains(&a.steps[operand]));
        let (lines, pitch) = more.map_or((1, 0), |a| (a.extent, a.steps[operand] as usize));
        let left = before.len() - usize::from(more.is_some());
        Some(Self {
            inner: last.extent,
            lines,
            pitch,
            step: more.map_or(0, |a| a.steps[2]),
            axes: left,
            many: count(&before[..left]),
        })
    }

    /// The elements from the first to the last.
    pub fn extent(&self) -> usize {
        (self.lines - 1) * self.pitch + self.inner
    }

    /// Writes the sums of `n` elements from `first` on to the result, whose first one is at `at`.
    ///
    /// # Safety
    /// There are so many sums, and the result has the columns.
    pub unsafe fn put<T: Sum>(
        &self,
        sums: *const T,
        (first, n): (usize, usize),
        c: *mut u8,
        at: isize,
        kind: Kind,
    ) {
        let mut line = first.checked_div(self.pitch).unwrap_or(0);
        while line < self.lines && line * self.pitch < first + n {
            let begin = (line * self.pitch).max(first);
            let end = (line * self.pitch + self.inner).min(first + n);
            if begin < end {
                let to = at + line as isize * self.step + (begin - line * self.pitch) as isize;
                // SAFETY: there are sums for all elements, and the result has the columns.
                unsafe {
                    let to = c.offset(to * kind.size() as isize);
                    T::narrow(kind, end - begin, sums.add(begin - first), to);
                }
            }
            line += 1;
        }
    }
}
