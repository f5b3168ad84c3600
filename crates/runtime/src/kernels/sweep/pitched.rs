//! Short rows of a window reduction, as parts of one long row.
//!
//! The rows of a plane, and planes, lie at even steps in the input. Where these are whole numbers of
//! steps along a row, the rows are parts of one row, whose results between them are computed, too,
//! and left out. What is read there lies between what is read for the first and for the last row.

use super::space::Space;
use crate::kernels::strided::copy_row;

/// Elements of a row from which it is reduced alone.
const SHORT: usize = 64;
/// How many times as many elements as are needed may be computed.
const WASTE: usize = 4;

/// Rows that are reduced as one.
pub(super) struct Pitched {
    /// Elements of a row of the result.
    inner: usize,
    /// The extents and the distances in the long row, of the axes before the last: the first of
    /// them is cut in pieces.
    axes: Vec<(usize, usize)>,
    /// The indices of the first of these axes that a piece has, and the elements of a long row of
    /// one.
    most: usize,
    one: usize,
}

impl Pitched {
    /// The rows of a result whose input is read in steps of `step`; a long row has at most `longest`
    /// elements, of which to compute `little` takes less than to begin another one. `alike` says of an axis
    /// whether its rows may be one. `None` where rows are better reduced alone.
    pub(super) fn of(
        out: &Space,
        step: usize,
        longest: usize,
        little: usize,
        alike: impl Fn(usize) -> bool,
    ) -> Option<Self> {
        let inner = out.inner();
        if inner >= SHORT {
            return None;
        }
        let (mut axes, mut one, mut needed) = (Vec::new(), inner, inner);
        for axis in (0..out.rank().saturating_sub(1)).rev() {
            let (extent, along) = out.axis(axis, 0);
            let even = usize::try_from(along).ok();
            let even = even.filter(|a| a % step == 0 && alike(axis));
            let (Some(along), Some(left)) = (even, longest.checked_sub(one)) else {
                break;
            };
            let pitch = along / step;
            let most = left / pitch.max(1) + 1;
            let wastes = pitch > WASTE * needed && pitch > little;
            if pitch < one || wastes || most < 2 {
                break;
            }
            axes.insert(0, (extent, pitch));
            if most < extent {
                return Some(Self {
                    inner,
                    axes,
                    most,
                    one,
                });
            }
            one += (extent - 1) * pitch;
            needed *= extent;
        }
        let &(extent, pitch) = axes.first()?;
        one -= (extent - 1) * pitch;
        Some(Self {
            inner,
            axes,
            most: extent,
            one,
        })
    }

    /// The pieces of the axis that is cut.
    fn pieces(&self) -> usize {
        self.axes[0].0.div_ceil(self.most)
    }

    /// The rows of one index of that axis.
    fn below(&self) -> usize {
        self.axes[1..].iter().map(|a| a.0).product()
    }

    /// The number of tasks for `rows` rows.
    pub(super) fn tasks(&self, rows: usize) -> usize {
        rows / (self.axes[0].0 * self.below()) * self.pieces()
    }

    /// The elements of the longest row.
    pub(super) fn longest(&self) -> usize {
        (self.most - 1) * self.axes[0].1 + self.one
    }

    /// The first row of a task, the number of its rows, and of the elements of its long row.
    pub(super) fn task(&self, task: usize) -> (usize, usize, usize) {
        let (outer, piece) = (task / self.pieces(), task % self.pieces());
        let (extent, pitch) = self.axes[0];
        let first = piece * self.most;
        let many = (extent - first).min(self.most);
        let row = (outer * extent + first) * self.below();
        (row, many * self.below(), (many - 1) * pitch + self.one)
    }

    /// Copies `rows` rows out of a long row, of elements of `size` bytes.
    ///
    /// # Safety
    /// They are those of a task, and `to` has room for them.
    pub(super) unsafe fn taken(&self, rows: usize, size: usize, from: *const u8, to: *mut u8) {
        // SAFETY: the rows lie in the long row, and in the result one behind the other.
        unsafe {
            match size {
                1 => self.rows::<u8>(rows, from.cast(), to.cast()),
                2 => self.rows::<u16>(rows, from.cast(), to.cast()),
                4 => self.rows::<u32>(rows, from.cast(), to.cast()),
                _ => self.rows::<u64>(rows, from.cast(), to.cast()),
            }
        }
    }

    unsafe fn rows<T: Copy>(&self, rows: usize, from: *const T, to: *mut T) {
        let last = self.axes.len() - 1;
        let (many, pitch) = match last {
            0 => (rows, self.axes[0].1),
            _ => self.axes[last],
        };
        let mut index = [0; super::AXES];
        let (mut from, mut to) = (from, to);
        // SAFETY: as for `taken`.
        unsafe {
            for _ in 0..rows / many.max(1) {
                for row in 0..many {
                    copy_row(from.add(row * pitch), to, self.inner);
                    to = to.add(self.inner);
                }
                // On along the axes before.
                for k in (0..last).rev() {
                    let (extent, pitch) = self.axes[k];
                    index[k] += 1;
                    from = from.wrapping_add(pitch);
                    if k == 0 || index[k] < extent {
                        break;
                    }
                    from = from.wrapping_sub(extent * pitch);
                    index[k] = 0;
                }
            }
        }
    }
}
