//! The axes of an expression, and where its inputs' elements lie along them.

use super::{AXES, INPUTS};

/// Axes with the steps of all inputs, neighbours that lie alike joined.
pub(super) struct Space {
    pub(super) rank: usize,
    pub(super) extent: [usize; AXES],
    pub(super) steps: Steps,
}

/// The inputs' steps along the axes of a space.
type Steps = [[isize; AXES]; INPUTS];
/// An offset for every input.
pub(super) type Offsets = [isize; INPUTS];

impl Space {
    /// No axes.
    pub(super) const fn new() -> Self {
        Self {
            rank: 0,
            extent: [1; AXES],
            steps: [[0; AXES]; INPUTS],
        }
    }

    /// Takes on the axes from `skip` on; `strides` has, for each input, a step for every one of
    /// `axes` axes.
    pub(super) fn set(&mut self, extents: &[i64], strides: &[i64], axes: usize, skip: usize) {
        let inputs = strides.len() / axes.max(1);
        for (k, &n) in extents.iter().enumerate() {
            let n = n.max(0) as usize;
            if n == 1 {
                continue;
            }
            let last = self.rank.wrapping_sub(1);
            let alike = self.rank > 0
                && (0..inputs).all(|i| {
                    let step = strides[i * axes + skip + k] as isize;
                    self.steps[i][last] == step * n as isize
                });
            let at = if alike {
                self.extent[last] *= n;
                last
            } else {
                self.extent[self.rank] = n;
                self.rank += 1;
                self.rank - 1
            };
            for (i, to) in self.steps.iter_mut().enumerate().take(inputs) {
                to[at] = strides[i * axes + skip + k] as isize;
            }
        }
    }

    /// The extent of the last axis.
    pub(super) fn inner(&self) -> usize {
        if self.rank == 0 {
            1
        } else {
            self.extent[self.rank - 1]
        }
    }
    /// The number of elements.
    pub(super) fn count(&self) -> usize {
        self.extent[..self.rank].iter().product()
    }
    /// The number of rows along the last axis.
    pub(super) fn rows(&self) -> usize {
        self.extent[..self.rank.saturating_sub(1)].iter().product()
    }
    /// Where the inputs' elements of a row begin.
    pub(super) fn row(&self, mut row: usize, base: &Offsets, out: &mut Offsets) {
        *out = *base;
        for k in (0..self.rank.saturating_sub(1)).rev() {
            let i = (row % self.extent[k]) as isize;
            row /= self.extent[k];
            for (o, s) in out.iter_mut().zip(&self.steps) {
                *o += i * s[k];
            }
        }
    }
    /// The inputs' steps along the last axis.
    pub(super) fn inner_steps(&self) -> Offsets {
        let mut inner = [0; INPUTS];
        if self.rank > 0 {
            for (to, steps) in inner.iter_mut().zip(&self.steps) {
                *to = steps[self.rank - 1];
            }
        }
        inner
    }
}
