//! A channel with its padding around it, columns sorted by their remainder modulo the stride, so
//! that the inputs of adjacent outputs are adjacent and no position needs a check.

use crate::kernels::simd::{Simd, load_two};

/// The parameters of a window that slides over an image.
#[derive(Clone, Copy)]
pub struct Window {
    /// Height and width of the image.
    pub image: (usize, usize),
    /// Height and width of the output, both at least 1.
    pub output: (usize, usize),
    /// Height and width of the window.
    pub window: (usize, usize),
    /// Steps.
    pub stride: (usize, usize),
    /// The dilation of the window.
    pub dilation: (usize, usize),
    /// Padding above and to the left; negative crops.
    pub pad: (isize, isize),
}

impl Window {
    /// The rows and columns that it reads, padding included. Sizes saturate: a request beyond all
    /// memory fails as out of memory.
    pub fn reach(&self) -> (usize, usize) {
        let reach = |n: usize, step: usize, taps: usize, distance: usize| {
            let places = (n - 1).saturating_mul(step);
            places
                .saturating_add((taps.max(1) - 1).saturating_mul(distance))
                .saturating_add(1)
        };
        let (output, stride, window) = (self.output, self.stride, self.window);
        (
            reach(output.0, stride.0, window.0, self.dilation.0),
            reach(output.1, stride.1, window.1, self.dilation.1),
        )
    }
}

/// The layout of a channel's elements in padded form.
#[derive(Clone, Copy)]
pub struct Padded {
    rows: usize,
    /// Floats of one remainder's part of a row.
    phase: usize,
    /// Floats of a row.
    pub row: usize,
    /// Columns of the image to the left of what is read.
    left: usize,
    /// Column of the first column of the image.
    first: usize,
    /// Columns of the image that are read.
    count: usize,
    window: Window,
}

/// Floats that vectors may read past the end.
const SLACK: usize = 64;

impl Padded {
    /// The form for a window.
    pub fn of(window: Window) -> Self {
        let sw = window.stride.1;
        let (rows, columns) = window.reach();
        let phase = columns.div_ceil(sw);
        let left = (-window.pad.1).max(0) as usize;
        let first = window.pad.1.max(0) as usize;
        let count = window
            .image
            .1
            .saturating_sub(left)
            .min(columns.saturating_sub(first));
        Self {
            rows,
            phase,
            row: phase.saturating_mul(sw),
            left,
            first,
            count,
            window,
        }
    }

    /// Returns whether the form is that of the channel itself.
    pub fn is_channel(&self) -> bool {
        let (h, w) = self.window.image;
        let whole = (self.rows, self.row, self.count) == (h, w, w);
        whole && self.window.stride.1 == 1 && self.window.pad == (0, 0)
    }

    /// Elements of a channel.
    pub fn elements(&self) -> usize {
        self.rows.saturating_mul(self.row)
    }

    /// Floats of a channel, with what vectors may read past its end.
    pub fn floats(&self) -> usize {
        self.elements().saturating_add(SLACK)
    }

    /// Returns the offset of the input of output column 0 for a window position, from the output
    /// row's first row on; the inputs of the other columns follow.
    #[inline(always)]
    pub fn tap(&self, ky: usize, kx: usize) -> usize {
        let column = kx * self.window.dilation.1;
        // Divisions by variables would dominate the cost of this function.
        let (phase, at) = match self.window.stride.1 {
            1 => (0, column),
            2 => (column % 2, column / 2),
            sw => (column % sw, column / sw),
        };
        ky * self.window.dilation.0 * self.row + phase * self.phase + at
    }

    /// Copies some columns of a row to their positions.
    #[inline(always)]
    unsafe fn spread(&self, from: *const f32, to: *mut f32, columns: std::ops::Range<usize>) {
        let (sw, column) = (self.window.stride.1, self.first + columns.start);
        let (mut phase, mut at) = (column % sw, column / sw);
        for j in columns {
            // SAFETY: `from` has the columns, and `to` room for a padded row.
            unsafe { *to.add(phase * self.phase + at) = *from.add(j) };
            phase += 1;
            if phase == sw {
                (phase, at) = (0, at + 1);
            }
        }
    }

    /// Copies a channel; the padding around it must be there already, and is unchanged.
    ///
    /// # Safety
    /// `x` is a channel of the image and `out` has room for [`Padded::floats`].
    #[inline(always)]
    pub unsafe fn fill<S: Simd>(&self, x: *const f32, out: *mut f32) {
        let (h, w) = self.window.image;
        let (pt, sw) = (self.window.pad.0, self.window.stride.1);
        let (left, first, count) = (self.left, self.first, self.count);
        // SAFETY: `x` has the image's floats, and `out` room for the padded copy.
        unsafe {
            for i in 0..self.rows {
                let y = i as isize - pt;
                if y < 0 || y as usize >= h {
                    continue;
                }
                let from = x.add(y as usize * w + left);
                let to = out.add(i * self.row);
                match sw {
                    1 => copy::<S>(from, to.add(first), count),
                    2 => {
                        // The first column of the image goes to one half, the next to the other.
                        let a = to.add(first % 2 * self.phase + first / 2);
                        let b = to.add((first + 1) % 2 * self.phase + first.div_ceil(2));
                        let whole = 2 * S::LANES;
                        for j in (0..count / whole * whole).step_by(whole) {
                            let (even, odd) =
                                S::unzip(S::load(from.add(j)), S::load(from.add(j + S::LANES)));
                            even.store(a.add(j / 2));
                            odd.store(b.add(j / 2));
                        }
                        let (done, rest) = (count / whole * whole, count % whole);
                        if rest > 0 {
                            let (first, second) = load_two::<S>(from.add(done), rest);
                            let (even, odd) = S::unzip(first, second);
                            even.store_part(a.add(done / 2), rest.div_ceil(2));
                            odd.store_part(b.add(done / 2), rest / 2);
                        }
                    }
                    _ => self.spread(from, to, 0..count),
                }
            }
        }
    }

    /// Like [`Padded::fill`], for strides of four.
    ///
    /// # Safety
    /// See [`Padded::fill`].
    #[inline(always)]
    pub unsafe fn fill_fours<S: Simd>(&self, x: *const f32, out: *mut f32) {
        let (h, w) = self.window.image;
        let (first, count) = (self.first, self.count);
        for i in 0..self.rows {
            let y = i as isize - self.window.pad.0;
            if y < 0 || y as usize >= h {
                continue;
            }
            // SAFETY: `x` has the image's floats, and `out` room for the padded copy.
            let (from, to) = unsafe { (x.add(y as usize * w + self.left), out.add(i * self.row)) };
            // Up to a column of remainder 0, then groups of four vectors, then the rest.
            let before = ((4 - first % 4) % 4).min(count);
            let wide = 4 * S::LANES;
            let groups = (count - before) / wide;
            // SAFETY: `x` has the image's floats, and `out` room for the padded copy.
            unsafe {
                self.spread(from, to, 0..before);
                for group in 0..groups {
                    let from = from.add(before + group * wide);
                    let column = (first + before) / 4 + group * S::LANES;
                    let parts = S::unweave([
                        S::load(from),
                        S::load(from.add(S::LANES)),
                        S::load(from.add(2 * S::LANES)),
                        S::load(from.add(3 * S::LANES)),
                    ]);
                    parts[0].store(to.add(column));
                    parts[1].store(to.add(self.phase + column));
                    parts[2].store(to.add(2 * self.phase + column));
                    parts[3].store(to.add(3 * self.phase + column));
                }
                self.spread(from, to, before + groups * wide..count);
            }
        }
    }
}

/// Copies `n` floats.
///
/// # Safety
/// Both have `n` floats and do not overlap.
#[inline(always)]
pub unsafe fn copy<S: Simd>(from: *const f32, to: *mut f32, n: usize) {
    // SAFETY: both have `n` floats.
    unsafe {
        let mut i = 0;
        while i + S::LANES <= n {
            S::load(from.add(i)).store(to.add(i));
            i += S::LANES;
        }
        if i < n {
            S::load_part(from.add(i), n - i).store_part(to.add(i), n - i);
        }
    }
}
