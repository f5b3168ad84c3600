//! Two-dimensional convolution of small integers with 32-bit sums.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use super::bytes::Bytes;
use super::conv_bytes::ByteConv;
use super::pairs::Product;
use super::quads::Kernel;
use super::tables::Tables;
use super::{Element, Scratch};
use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::kernels::conv::{RxConv2dSizes, Sizes};
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};

c_structure! {
    /// As in the C header.
    pub struct RxConv2dI32 {
        /// The sizes.
        pub sizes: RxConv2dSizes,
        /// A [`Layout`](crate::kernels::conv::Layout).
        pub layout: i32,
        /// The input's elements, a number of [`Element`].
        pub x_type: i32,
        /// The weight's elements.
        pub weight_type: i32,
        /// 0.
        pub reserved: i32,
        /// Input.
        pub x: *const c_void,
        /// Weight.
        pub weight: *const c_void,
        /// Output.
        pub y: *mut i32,
        /// The zero point subtracted from every element of the input; padding is 0 after that.
        pub x_zero: i32,
        /// The zero point subtracted from every element of the weight.
        pub weight_zero: i32,
    }
}

/// A convolution with validated sizes.
pub(super) struct Conv<'v> {
    pub(super) v: &'v RxConv2dI32,
    pub(super) s: Sizes,
    x: Element,
    weight: Element,
}

/// The part of an image that its padded copy contains.
#[derive(Clone, Copy)]
pub(super) struct Inside {
    /// The rows of padding above it; if negative, the number of image rows cropped there.
    top: isize,
    /// The image's rows.
    high: usize,
    /// The columns of padding to its left.
    pub left: usize,
    /// The image columns cropped there.
    pub cut: usize,
    /// The image columns in the copy.
    pub count: usize,
}

impl Inside {
    /// The row of the image in line `y` of the copy, if any.
    pub(super) fn row(&self, y: usize) -> Option<usize> {
        let row = y as isize - self.top;
        (row >= 0 && (row as usize) < self.high && self.count > 0).then_some(row as usize)
    }
}

impl<'v> Conv<'v> {
    fn of(v: &'v RxConv2dI32) -> Option<Conv<'v>> {
        Some(Conv {
            v,
            s: Sizes::of(&v.sizes, v.layout)?,
            x: Element::of(v.x_type)?,
            weight: Element::of(v.weight_type)?,
        })
    }

    /// The height and width that the window reads.
    pub(super) fn read(&self) -> (usize, usize) {
        self.s.window().reach()
    }

    /// Returns the part of its image that a padded copy contains.
    pub(super) fn inside(&self) -> Inside {
        let (s, (_, wide)) = (&self.s, self.read());
        let left = s.pl.max(0) as usize;
        let cut = (-s.pl).max(0) as usize;
        let count = s.w.saturating_sub(cut).min(wide.saturating_sub(left));
        Inside {
            top: s.pt,
            high: s.h,
            left,
            cut,
            count,
        }
    }

    /// The number of units of a padded image, with groups of `deep` units.
    pub(super) fn image(&self, deep: usize) -> usize {
        let (high, wide) = self.read();
        self.s.groups * deep * high * wide
    }

    /// The channel unit and the window position at index `p` of the common axis, with groups of
    /// `deep` units.
    pub(super) fn unit(&self, deep: usize, p: usize) -> (usize, usize) {
        let taps = self.s.kh * self.s.kw;
        if self.s.nhwc {
            (p % deep, p / deep)
        } else {
            (p / taps, p % taps)
        }
    }

    /// Writes a padded copy of one image's channel (its rows with all channels, where they come
    /// last) in 16 bits. `false` where an element does not fit.
    unsafe fn pad(&self, from: *const c_void, to: *mut i16) -> bool {
        let (s, (high, wide)) = (&self.s, self.read());
        let each = if s.nhwc { s.c } else { 1 };
        let inside = self.inside();
        let mut fits = true;
        for y in 0..high {
            // SAFETY: `from` is a channel of the image, and `to` has room for its padded copy; rows
            // outside of the image stay zeros.
            unsafe {
                let to = to.add(y * wide * each);
                std::ptr::write_bytes(to, 0, wide * each);
                if let Some(row) = inside.row(y) {
                    let at = (row * s.w + inside.cut) * each * self.x.size();
                    fits &= self.x.narrow(
                        from.byte_add(at),
                        inside.count * each,
                        self.v.x_zero,
                        to.add(inside.left * each),
                    );
                }
            }
        }
        fits
    }

    /// Writes padded copies of all images; `false` where an element does not fit 16 bits.
    unsafe fn pad_all(&self, context: &mut RxContext, to: *mut i16) -> bool {
        let (s, (high, wide)) = (&self.s, self.read());
        let (parts, each) = if s.nhwc { (s.n, s.c) } else { (s.n * s.c, 1) };
        let fits = AtomicBool::new(true);
        let grain = Grain::of_work(1 << 16, high * wide * each);
        // SAFETY: the image has all channels, and `to` room for the copies, which are disjoint.
        let shared = unsafe { Share::new((self, to, &fits)) };
        context.pool.each(parts, grain, |begin, end, _| {
            let &(conv, to, fits) = shared.get();
            for i in begin..end {
                // SAFETY: as above.
                let fine = unsafe {
                    let from = conv.v.x.byte_add(i * s.h * s.w * each * conv.x.size());
                    conv.pad(from, to.add(i * high * wide * each))
                };
                if !fine {
                    fits.store(false, Ordering::Relaxed);
                }
            }
        });
        fits.into_inner()
    }

    /// Computes everything as 16-bit products; `Ok(false)` where an element does not fit.
    unsafe fn products(&self, context: &mut RxContext) -> Result<bool, i32> {
        let s = &self.s;
        let (image, pixels, weights) = (self.image(s.cg), s.oh * s.ow, s.o * s.k);
        let offsets = Tables::offsets(self, s.cg);
        let bytes = offsets * size_of::<usize>() + (s.n * image + weights) * 2;
        let scratch = Scratch::new(context, bytes).ok_or(context.status)?;
        // SAFETY: the scratch has room for tables and copies; the arrays have the convolution's
        // sizes.
        unsafe {
            let tables = scratch.memory.cast::<usize>();
            let data = tables.add(offsets).cast::<i16>();
            let weight = data.add(s.n * image);
            let zero = self.v.weight_zero;
            let fits = self.weight.narrow(self.v.weight, weights, zero, weight);
            if !fits || !self.pad_all(context, data) {
                return Ok(false);
            }
            if s.cg == 1 && s.groups > 1 && !s.nhwc {
                self.depthwise(context, data, weight);
                return Ok(true);
            }
            if s.cg == 1 && s.og == 1 && s.groups > 1 {
                self.depthwise_last(context, data, weight);
                return Ok(true);
            }
            for task in Tables::new(self, s.cg, tables).tasks(data, weight) {
                let ((m, a), (n, b)) = if s.nhwc {
                    ((pixels, task.x), (s.og, task.weight))
                } else {
                    ((s.og, task.weight), (pixels, task.x))
                };
                let product = Product {
                    m,
                    n,
                    k: s.k,
                    a,
                    b,
                    c: task.y,
                    ld: task.ld,
                    accumulate: false,
                };
                product.run(context)?;
            }
        }
        Ok(true)
    }

    /// One input channel per group, channels first: rows of sums, tap by tap.
    unsafe fn depthwise(&self, context: &mut RxContext, data: *const i16, weight: *const i16) {
        #[inline(always)]
        #[allow(clippy::extra_unused_type_parameters)] // The code differs all the same.
        unsafe fn row<S: Simd>(to: *mut i32, from: *const i16, n: usize, step: usize, w: i16) {
            // SAFETY: `from` has the inputs of `n` outputs, `step` apart, and `to` room for them.
            unsafe {
                let w = i32::from(w);
                if step == 1 {
                    for x in 0..n {
                        *to.add(x) = (*to.add(x)).wrapping_add(i32::from(*from.add(x)) * w);
                    }
                } else {
                    for x in 0..n {
                        let product = i32::from(*from.add(x * step)) * w;
                        *to.add(x) = (*to.add(x)).wrapping_add(product);
                    }
                }
            }
        }
        let (s, (high, wide)) = (&self.s, self.read());
        let (pixels, taps) = (s.oh * s.ow, s.kh * s.kw);
        let grain = Grain::of_work(1 << 16, pixels * taps.max(1));
        // SAFETY: image and weight have the convolution's sizes; output channels are disjoint.
        let shared = unsafe { Share::new((self, data, weight)) };
        context.pool.each(s.n * s.o, grain, |begin, end, _| {
            let &(conv, data, weight) = shared.get();
            for i in begin..end {
                // SAFETY: as above; the copies have all places that the window reads.
                unsafe {
                    let (n, o) = (i / s.o, i % s.o);
                    let from = data.add((n * s.c + o / s.og) * high * wide);
                    let to = conv.v.y.add(i * pixels);
                    std::ptr::write_bytes(to, 0, pixels);
                    for y in 0..s.oh {
                        let to = to.add(y * s.ow);
                        for tap in 0..taps {
                            let w = *weight.add(o * taps + tap);
                            let line = (y * s.sh + tap / s.kw * s.dh) * wide + tap % s.kw * s.dw;
                            let (from, n, step) = (from.add(line), s.ow, s.sw);
                            dispatch!(row(
                                to: *mut i32,
                                from: *const i16,
                                n: usize,
                                step: usize,
                                w: i16,
                            ));
                        }
                    }
                }
            }
        });
    }

    /// One input and one output channel per group, channels last: pixels of sums, tap by tap.
    unsafe fn depthwise_last(&self, context: &mut RxContext, data: *const i16, weight: *const i16) {
        #[inline(always)]
        #[allow(clippy::extra_unused_type_parameters)] // The code differs all the same.
        unsafe fn add<S: Simd>(to: *mut i32, from: *const i16, weight: *const i16, n: usize) {
            // SAFETY: all three have `n` numbers.
            unsafe {
                for c in 0..n {
                    let product = i32::from(*from.add(c)) * i32::from(*weight.add(c));
                    *to.add(c) = (*to.add(c)).wrapping_add(product);
                }
            }
        }
        let (s, (high, wide)) = (&self.s, self.read());
        let taps = s.kh * s.kw;
        let grain = Grain::of_work(1 << 16, s.ow * s.c * taps.max(1));
        // SAFETY: image and weight have the convolution's sizes; rows of the output are disjoint.
        let shared = unsafe { Share::new((self, data, weight)) };
        context.pool.each(s.n * s.oh, grain, |begin, end, _| {
            let &(conv, data, weight) = shared.get();
            for (row, x) in (begin..end).flat_map(|r| (0..s.ow).map(move |x| (r, x))) {
                // SAFETY: as above; the copies have all places that the window reads.
                unsafe {
                    let to = conv.v.y.add((row * s.ow + x) * s.o);
                    std::ptr::write_bytes(to, 0, s.o);
                    let line = row / s.oh * high + row % s.oh * s.sh;
                    for tap in 0..taps {
                        let (down, across) = (tap / s.kw * s.dh, tap % s.kw * s.dw);
                        let from = data.add(((line + down) * wide + x * s.sw + across) * s.c);
                        let (weight, n) = (weight.add(tap * s.o), s.o);
                        dispatch!(add(
                            to: *mut i32,
                            from: *const i16,
                            weight: *const i16,
                            n: usize,
                        ));
                    }
                }
            }
        });
    }

    /// The operands as bytes with their kernel, if they are bytes; depthwise windows have too few
    /// elements to sum.
    fn bytes(&self) -> Option<(Kernel, ByteConv<'_>)> {
        let s = &self.s;
        if s.k == 0 || (s.cg == 1 && s.groups > 1) {
            return None;
        }
        let bytes = ByteConv {
            conv: self,
            x: Bytes::data(self.v.x, self.x, self.v.x_zero)?,
            weight: Bytes::weight(self.v.weight, self.weight, self.v.weight_zero)?,
        };
        Some((Kernel::chosen()?, bytes))
    }

    /// Computes the sums one by one, for elements beyond 16 bits.
    unsafe fn plain(&self, context: &mut RxContext) {
        let s = &self.s;
        // SAFETY: the arrays have the convolution's sizes; elements of the output are disjoint.
        let shared = unsafe { Share::new(self) };
        context
            .pool
            .each(s.n * s.oh * s.ow, Grain::of_work(16, 1), |begin, end, _| {
                let &conv = shared.get();
                for p in begin..end {
                    for o in 0..s.o {
                        // SAFETY: as above.
                        unsafe { conv.element(p, o) };
                    }
                }
            });
    }

    /// Computes one element of the output.
    unsafe fn element(&self, p: usize, o: usize) {
        let (s, v) = (&self.s, self.v);
        let (n, oy, ox) = (p / (s.oh * s.ow), p / s.ow % s.oh, p % s.ow);
        let group = o / s.og;
        let mut sum = 0i32;
        for (ky, kx) in (0..s.kh * s.kw).map(|t| (t / s.kw, t % s.kw)) {
            let y = (oy * s.sh + ky * s.dh) as isize - s.pt;
            let x = (ox * s.sw + kx * s.dw) as isize - s.pl;
            if y < 0 || x < 0 || y as usize >= s.h || x as usize >= s.w {
                continue;
            }
            let (y, x) = (y as usize, x as usize);
            for channel in 0..s.cg {
                let c = group * s.cg + channel;
                let (from, at) = if s.nhwc {
                    (
                        ((n * s.h + y) * s.w + x) * s.c + c,
                        ((ky * s.kw + kx) * s.cg + channel) * s.o + o,
                    )
                } else {
                    (
                        ((n * s.c + c) * s.h + y) * s.w + x,
                        ((o * s.cg + channel) * s.kh + ky) * s.kw + kx,
                    )
                };
                // SAFETY: both places are in the arrays.
                let (a, b) = unsafe { (self.x.read(v.x, from), self.weight.read(v.weight, at)) };
                let (a, b) = (a.wrapping_sub(v.x_zero), b.wrapping_sub(v.weight_zero));
                sum = sum.wrapping_add(a.wrapping_mul(b));
            }
        }
        let to = if s.nhwc {
            p * s.o + o
        } else {
            (n * s.o + o) * s.oh * s.ow + oy * s.ow + ox
        };
        // SAFETY: as above.
        unsafe { *v.y.add(to) = sum };
    }
}

/// A convolution of integers. Sums wrap.
///
/// # Safety
/// The arrays are as large as the sizes say, and do not overlap.
pub unsafe fn convolve(context: &mut RxContext, described: &RxConv2dI32) -> i32 {
    // SAFETY: the arrays have the sizes that the descriptor says.
    unsafe {
        let Some(conv) = Conv::of(described) else {
            let text = "rx_conv2d_i32: sizes that are no convolution";
            return context.fail(Status::Argument, text);
        };
        let s = &conv.s;
        if s.n * s.o * s.oh * s.ow == 0 {
            return 0;
        }
        if let Some((kernel, bytes)) = conv.bytes() {
            return bytes.run(kernel, context).err().unwrap_or(0);
        }
        match conv.products(context) {
            Ok(true) => 0,
            Ok(false) => {
                conv.plain(context);
                0
            }
            Err(status) => status,
        }
    }
}
