//! The offsets of a convolution's operands: in padded copies of the images and in the weight, both
//! of units. A unit is an element, or a quad of channels.

use super::conv::Conv;
use super::share::Operand;

/// A convolution's offsets, the same for all images and groups.
pub(super) struct Tables<'c> {
    conv: &'c Conv<'c>,
    /// Units of a group's input channels.
    deep: usize,
    /// The offset of each pixel's window in the copy.
    at_pixel: *const usize,
    /// The offset of each filter.
    at_filter: *const usize,
    /// The common axis in the copy.
    along_x: *const usize,
    /// The common axis in the weight.
    along_w: *const usize,
}

/// One group of one image.
pub(super) struct Task<T> {
    /// The windows of the pixels.
    pub x: Operand<T>,
    /// The filters.
    pub weight: Operand<T>,
    /// The group's first filter.
    pub filter: usize,
    /// The output of the sums: with channels last a row for each pixel, otherwise for each filter.
    pub y: *mut i32,
    /// The distance from one row to the next.
    pub ld: usize,
}

impl<'c> Tables<'c> {
    /// Returns the number of offsets for groups of `deep` units.
    pub(super) fn offsets(conv: &Conv, deep: usize) -> usize {
        let s = &conv.s;
        s.oh * s.ow + s.og + 2 * deep * s.kh * s.kw
    }

    /// The tables, in `memory`.
    ///
    /// # Safety
    /// The memory has room for as many numbers as [`Tables::offsets`] says, and lives as long as
    /// the tables and their tasks are used.
    pub(super) unsafe fn new(conv: &'c Conv<'c>, deep: usize, memory: *mut usize) -> Self {
        let (s, (high, wide)) = (&conv.s, conv.read());
        let (pixels, k) = (s.oh * s.ow, deep * s.kh * s.kw);
        let each = if s.nhwc { s.groups * deep } else { 1 };
        // SAFETY: `memory` has as many places as `Tables::offsets` says.
        let (at_pixel, at_filter) = unsafe { (memory, memory.add(pixels)) };
        // SAFETY: `memory` has as many places as `Tables::offsets` says.
        let (along_x, along_w) = unsafe {
            let along_x = at_filter.add(s.og);
            let along_w = along_x.add(k);
            (along_x, along_w)
        };
        // SAFETY: `memory` has as many places as `Tables::offsets` says.
        unsafe {
            for p in 0..pixels {
                *at_pixel.add(p) = (p / s.ow * s.sh * wide + p % s.ow * s.sw) * each;
            }
            for f in 0..s.og {
                *at_filter.add(f) = if s.nhwc { f } else { f * k };
            }
            for p in 0..k {
                let (unit, tap) = conv.unit(deep, p);
                let place = tap / s.kw * s.dh * wide + tap % s.kw * s.dw;
                *along_x.add(p) = if s.nhwc {
                    place * each + unit
                } else {
                    unit * high * wide + place
                };
                *along_w.add(p) = if s.nhwc { p * s.o } else { p };
            }
        }
        Tables {
            conv,
            deep,
            at_pixel,
            at_filter,
            along_x,
            along_w,
        }
    }

    /// The tasks, in copies of all images and a weight.
    ///
    /// # Safety
    /// Copies and weight have all units, and the convolution its output.
    pub(super) unsafe fn tasks<T>(
        &self,
        images: *const T,
        weight: *const T,
    ) -> impl Iterator<Item = Task<T>> {
        let (s, (high, wide), deep) = (&self.conv.s, self.conv.read(), self.deep);
        let (pixels, k) = (s.oh * s.ow, deep * s.kh * s.kw);
        (0..s.n * s.groups).map(move |task| {
            let (n, g) = (task / s.groups, task % s.groups);
            let filter = g * s.og;
            let image = n * self.conv.image(deep);
            let (first, filters) = if s.nhwc {
                (image + g * deep, filter)
            } else {
                (image + g * deep * high * wide, filter * k)
            };
            let (to, ld) = if s.nhwc {
                (n * pixels * s.o + filter, s.o)
            } else {
                ((n * s.o + filter) * pixels, pixels)
            };
            // SAFETY: image and weight have the convolution's sizes, which the tables' places name.
            unsafe {
                Task {
                    x: Operand {
                        data: images.add(first),
                        at: self.at_pixel,
                        along: self.along_x,
                    },
                    weight: Operand {
                        data: weight.add(filters),
                        at: self.at_filter,
                        along: self.along_w,
                    },
                    filter,
                    y: self.conv.v.y.add(to),
                    ld,
                }
            }
        })
    }
}
