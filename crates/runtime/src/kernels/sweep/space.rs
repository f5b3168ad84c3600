//! The flattened axes of a result, or of a reduction, with the strides of all inputs.

use super::{AXES, INPUTS};

/// The axes with the strides of all inputs, adjacent ones merged where all inputs allow it.
pub(super) struct Space {
    rank: usize,
    inputs: usize,
    extent: [usize; AXES],
    steps: [[isize; AXES]; INPUTS],
}

/// A position in a space, and the offsets of all inputs there.
pub(super) struct Cursor {
    index: [usize; AXES],
    /// The index along the last axis.
    pub inner: usize,
    pub offset: [isize; INPUTS],
}

impl Space {
    /// Creates the axes from `skip` on; `strides` has, for each input, a stride for every one of
    /// `axes` axes.
    pub fn new(extents: &[i64], strides: &[i64], axes: usize, skip: usize) -> Self {
        let inputs = strides.len() / axes.max(1);
        let mut space = Self {
            rank: 0,
            inputs,
            extent: [1; AXES],
            steps: [[0; AXES]; INPUTS],
        };
        for (k, &n) in extents.iter().enumerate() {
            let n = n.max(0) as usize;
            if n == 1 {
                continue;
            }
            let step = |i: usize| strides[i * axes + skip + k] as isize;
            let last = space.rank.wrapping_sub(1);
            let alike = space.rank > 0
                && (0..inputs).all(|i| space.steps[i][last] == step(i).wrapping_mul(n as isize));
            let at = if alike { last } else { space.rank };
            space.extent[at] *= n;
            space.rank = at + 1;
            for i in 0..inputs {
                space.steps[i][at] = step(i);
            }
        }
        space
    }

    /// Returns whether an input is contiguous in the order of the space.
    pub fn dense(&self, input: usize) -> bool {
        let mut step = 1;
        let steps = &self.steps[input][..self.rank];
        steps.iter().zip(&self.extent).rev().all(|(&s, &n)| {
            let fits = s == step;
            step *= n as isize;
            fits
        })
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.extent[..self.rank].iter().product()
    }
    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.rank
    }
    /// The extent of the last axis.
    pub fn inner(&self) -> usize {
        self.extent[self.rank.saturating_sub(1)]
    }
    /// An input's step along the last axis.
    #[inline(always)]
    pub fn inner_step(&self, input: usize) -> isize {
        self.steps[input][self.rank.saturating_sub(1)]
    }

    /// The greatest offset of an input's elements; `None` where steps lead backwards.
    pub fn most(&self, input: usize) -> Option<isize> {
        let axes = self.steps[input][..self.rank].iter().zip(&self.extent);
        axes.map(|(&step, &n)| (step >= 0).then(|| step * (n as isize - 1)))
            .sum()
    }

    /// Returns whether all rows of an input are the same one.
    pub fn repeats(&self, input: usize) -> bool {
        let before = self.rank.saturating_sub(1);
        self.steps[input][..before].iter().all(|&step| step == 0)
    }

    /// The extent of an axis, and an input's step along it.
    pub fn axis(&self, axis: usize, input: usize) -> (usize, isize) {
        (self.extent[axis], self.steps[input][axis])
    }

    /// Returns the offset of an input's element of a flat index.
    pub fn offset(&self, flat: usize, input: usize) -> isize {
        let (mut rest, mut offset) = (flat, 0);
        for k in (0..self.rank).rev() {
            offset += (rest % self.extent[k]) as isize * self.steps[input][k];
            rest /= self.extent[k];
        }
        offset
    }

    /// Returns the position of a flat index, with offsets that are added.
    pub fn cursor(&self, flat: usize, base: Option<&[isize; INPUTS]>) -> Cursor {
        let mut cursor = Cursor {
            index: [0; AXES],
            inner: 0,
            offset: base.copied().unwrap_or([0; INPUTS]),
        };
        let mut rest = flat;
        for k in (0..self.rank).rev() {
            let i = rest % self.extent[k];
            rest /= self.extent[k];
            cursor.index[k] = i;
            for (o, s) in cursor.offset.iter_mut().zip(&self.steps).take(self.inputs) {
                *o += i as isize * s[k];
            }
        }
        cursor.inner = cursor.index[self.rank.saturating_sub(1)];
        cursor
    }

    /// Moves from the beginning of a row to that of the next one; after the last one to the first.
    pub fn next_row(&self, cursor: &mut Cursor) {
        self.step(cursor, self.rank.saturating_sub(1));
    }

    /// Moves from an element to the next one; after the last one to the first. Offsets and indices
    /// are those of the new place, `inner` is not.
    pub fn next(&self, cursor: &mut Cursor) {
        self.step(cursor, self.rank);
    }

    /// Moves on by one along the last of the first `axes` axes, and carries.
    #[inline(always)]
    fn step(&self, cursor: &mut Cursor, axes: usize) {
        for k in (0..axes).rev() {
            cursor.index[k] += 1;
            let back = cursor.index[k] == self.extent[k];
            for (o, s) in cursor.offset.iter_mut().zip(&self.steps).take(self.inputs) {
                *o += s[k];
                if back {
                    *o -= self.extent[k] as isize * s[k];
                }
            }
            if !back {
                return;
            }
            cursor.index[k] = 0;
        }
    }
}

impl Cursor {
    /// Returns the rows, or parts of them, that contain `n` elements from here on: for each the
    /// input's offset, the number of elements before it, and its own number.
    #[inline(always)]
    pub fn rows(
        &self,
        space: &Space,
        input: usize,
        n: usize,
        mut row: impl FnMut(isize, usize, usize),
    ) {
        let steps = &space.steps[input];
        let last = space.rank.saturating_sub(1);
        let mut index = self.index;
        let (mut at, mut done) = (self.offset[input], 0);
        while done < n {
            let len = (space.extent[last] - index[last]).min(n - done);
            row(at, done, len);
            done += len;
            // On to the next row.
            at -= index[last] as isize * steps[last];
            index[last] = 0;
            for k in (0..last).rev() {
                index[k] += 1;
                at += steps[k];
                if index[k] < space.extent[k] {
                    break;
                }
                at -= space.extent[k] as isize * steps[k];
                index[k] = 0;
            }
        }
    }
}
