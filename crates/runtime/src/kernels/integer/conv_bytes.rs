//! Convolutions of 8 bits as products of quads: four channels of a pixel are a quad, and the image is kept padded with
//! its zero point, so that a pixel's place plus the window's is where its quad lies.

use super::Scratch;
use super::bytes::{Bytes, copied, signed_sum, woven};
use super::conv::Conv;
use super::quads::{Kernel, Product};
use super::share::Operand;
use crate::context::RxContext;
use crate::threads::Share;

/// A convolution of bytes.
pub(super) struct ByteConv<'v> {
    pub conv: &'v Conv<'v>,
    pub x: Bytes,
    pub weight: Bytes,
}

impl ByteConv<'_> {
    /// Quads of a group's input channels.
    fn deep(&self) -> usize {
        self.conv.s.cg.div_ceil(4)
    }

    /// One part of the padded image as quads: with channels first the quad `part` of channels of an image, else row
    /// `part`.
    unsafe fn pad(&self, part: usize, to: *mut u32) {
        let (s, (high, wide)) = (&self.conv.s, self.conv.read());
        let (deep, mask) = (self.deep(), self.x.mask());
        let none = u32::from(self.x.zero as u8) * 0x0101_0101;
        let left = s.pl.max(0) as usize;
        let cut = (-s.pl).max(0) as usize;
        let count = s.w.saturating_sub(cut).min(wide.saturating_sub(left));
        let inside = |y: usize| {
            let row = y as isize - s.pt;
            (row >= 0 && (row as usize) < s.h && count > 0).then_some(row as usize)
        };
        // SAFETY: the callers' promise.
        unsafe {
            let fill = |to: *mut u32, n: usize| {
                for i in 0..n {
                    *to.add(i) = none;
                }
            };
            if s.nhwc {
                let each = s.groups * deep;
                let (n, y) = (part / high, part % high);
                let Some(row) = inside(y) else {
                    fill(to, wide * each);
                    return;
                };
                fill(to, left * each);
                fill(to.add((left + count) * each), (wide - left - count) * each);
                let from = self.x.from.add(((n * s.h + row) * s.w + cut) * s.c);
                let to = to.add(left * each);
                if s.cg.is_multiple_of(4) {
                    copied(from, count * s.c, mask, to);
                } else {
                    for group in 0..count * s.groups {
                        copied(from.add(group * s.cg), s.cg, mask, to.add(group * deep));
                    }
                }
                return;
            }
            let (plane, quad) = (part / deep, part % deep);
            for y in 0..high {
                let to = to.add(y * wide);
                let Some(row) = inside(y) else {
                    fill(to, wide);
                    continue;
                };
                fill(to, left);
                fill(to.add(left + count), wide - left - count);
                // Channels that are not there have weight 0: any will do.
                let line = |i: usize| {
                    let channel = plane * s.cg + (4 * quad + i).min(s.cg - 1);
                    self.x.from.add((channel * s.h + row) * s.w + cut)
                };
                woven(
                    [line(0), line(1), line(2), line(3)],
                    count,
                    mask,
                    to.add(left),
                );
            }
        }
    }

    /// The weight as quads, and the sum of each filter.
    unsafe fn filters(&self, to: *mut u32, sums: *mut i32) {
        let s = &self.conv.s;
        let (deep, taps, mask) = (self.deep(), s.kh * s.kw, self.weight.mask());
        // SAFETY: the callers' promise.
        unsafe {
            std::ptr::write_bytes(sums, 0, s.o);
            for q in 0..deep {
                let rest = (s.cg - 4 * q).min(4);
                let keep = u32::MAX >> (32 - 8 * rest);
                let channel = |i: usize| (4 * q + i).min(s.cg - 1);
                if s.nhwc {
                    for tap in 0..taps {
                        let line = |i: usize| self.weight.from.add((tap * s.cg + channel(i)) * s.o);
                        let to = to.add((tap * deep + q) * s.o);
                        woven([line(0), line(1), line(2), line(3)], s.o, mask, to);
                        for o in 0..s.o {
                            *to.add(o) &= keep;
                            *sums.add(o) = (*sums.add(o)).wrapping_add(signed_sum(*to.add(o)));
                        }
                    }
                    continue;
                }
                for o in 0..s.o {
                    let line = |i: usize| self.weight.from.add((o * s.cg + channel(i)) * taps);
                    let lines = [line(0), line(1), line(2), line(3)];
                    let to = to.add((o * deep + q) * taps);
                    for tap in 0..taps {
                        let byte = |i: usize| *lines[i].add(tap);
                        let quad = u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)]);
                        let quad = (quad ^ mask) & keep;
                        *to.add(tap) = quad;
                        *sums.add(o) = (*sums.add(o)).wrapping_add(signed_sum(quad));
                    }
                }
            }
        }
    }

    /// Computes the convolution.
    ///
    /// # Safety
    /// As `rx_conv2d_i32`; no size of the output is 0, nor the common axis.
    pub(super) unsafe fn run(&self, kernel: Kernel, context: &mut RxContext) -> Result<(), i32> {
        let (s, (high, wide)) = (&self.conv.s, self.conv.read());
        let (deep, taps, pixels) = (self.deep(), s.kh * s.kw, s.oh * s.ow);
        let (k, each) = (deep * taps, s.groups * deep);
        let image = each * high * wide;
        // SAFETY: the scratch has room for tables and quads; the rest is the caller's promise.
        unsafe {
            let tables = (pixels + s.og + 2 * k + 1) * 8;
            let tables = Scratch::new(context, tables).ok_or(context.status)?;
            let copies = s.n * image + s.o * k + k + 2 * s.o + pixels;
            let copies = Scratch::new(context, copies * 4).ok_or(context.status)?;
            let at_pixel = tables.memory.cast::<usize>();
            let (at_filter, along_x) = (at_pixel.add(pixels), at_pixel.add(pixels + s.og));
            let along_w = along_x.add(k);
            let origin = along_w.add(k);
            let data = copies.memory.cast::<u32>();
            let weight = data.add(s.n * image);
            let ones = weight.add(s.o * k);
            let (start, of_pixels) = (ones.add(k).cast::<i32>(), ones.add(k + s.o).cast::<i32>());

            // The image, then the weight, as quads.
            let (parts, size) = if s.nhwc {
                (s.n * high, wide * each)
            } else {
                (s.n * each, high * wide)
            };
            let shared = Share::new((self, data));
            let grain = ((1 << 15) / size.max(1)).max(1);
            context.pool.each(parts, grain, |begin, end, _| {
                let &(conv, data) = shared.get();
                (begin..end).for_each(|part| conv.pad(part, data.add(part * size)));
            });
            self.filters(weight, start);
            let (zu, zs) = (self.x.zero, self.weight.zero);
            let both = (s.k as i32).wrapping_mul(zu).wrapping_mul(zs);
            for o in 0..s.o {
                let sum = start.add(o);
                *sum = both.wrapping_sub(zu.wrapping_mul(*sum));
            }

            let step = if s.nhwc { each } else { 1 };
            for p in 0..pixels {
                *at_pixel.add(p) = (p / s.ow * s.sh * wide + p % s.ow * s.sw) * step;
            }
            for f in 0..s.og {
                *at_filter.add(f) = if s.nhwc { f } else { f * k };
            }
            *origin = 0;
            for p in 0..k {
                let (quad, tap) = if s.nhwc {
                    (p % deep, p / deep)
                } else {
                    (p / taps, p % taps)
                };
                let place = tap / s.kw * s.dh * wide + tap % s.kw * s.dw;
                *along_x.add(p) = if s.nhwc {
                    place * each + quad
                } else {
                    quad * high * wide + place
                };
                *along_w.add(p) = if s.nhwc { p * s.o } else { p };
                let rest = (s.cg - 4 * quad).min(4);
                *ones.add(p) = 0x0101_0101 & (u32::MAX >> (32 - 8 * rest));
            }
            for task in 0..s.n * s.groups {
                let (n, g) = (task / s.groups, task % s.groups);
                let (first, filters) = if s.nhwc {
                    (n * image + g * deep, g * s.og)
                } else {
                    (n * image + g * deep * high * wide, g * s.og * k)
                };
                let x = Operand {
                    data: data.add(first),
                    at: at_pixel,
                    along: along_x,
                };
                let w = Operand {
                    data: weight.add(filters),
                    at: at_filter,
                    along: along_w,
                };
                let mut pixel_start = std::ptr::null();
                if zs != 0 {
                    self.sum_pixels(kernel, context, x, (ones, origin), of_pixels)?;
                    pixel_start = of_pixels.cast_const();
                }
                let filter_start = start.add(g * s.og).cast_const();
                let (to, ld) = if s.nhwc {
                    (n * pixels * s.o + g * s.og, s.o)
                } else {
                    ((n * s.o + g * s.og) * pixels, pixels)
                };
                let product = Product {
                    m: pixels,
                    n: s.og,
                    k,
                    a: x,
                    b: w,
                    signed_rows: false,
                    row_start: pixel_start,
                    column_start: filter_start,
                    c: self.conv.v.y.add(to),
                    ld,
                    accumulate: false,
                };
                let product = if s.nhwc {
                    product
                } else {
                    Product {
                        m: s.og,
                        n: pixels,
                        a: w,
                        b: x,
                        signed_rows: true,
                        row_start: filter_start,
                        column_start: pixel_start,
                        ..product
                    }
                };
                product.run(kernel, context)?;
            }
        }
        Ok(())
    }

    /// What the weight's zero point takes off the sums of every pixel: it times the sum of the pixel's window.
    unsafe fn sum_pixels(
        &self,
        kernel: Kernel,
        context: &mut RxContext,
        x: Operand<u32>,
        (ones, origin): (*const u32, *const usize),
        to: *mut i32,
    ) -> Result<(), i32> {
        let s = &self.conv.s;
        let (k, pixels) = (self.deep() * s.kh * s.kw, s.oh * s.ow);
        let table = Scratch::new(context, k * 8).ok_or(context.status)?;
        let along = table.memory.cast::<usize>();
        // SAFETY: the callers' promise; the table has `k` entries.
        unsafe {
            for p in 0..k {
                *along.add(p) = p;
            }
            let product = Product {
                m: 1,
                n: pixels,
                k,
                a: Operand {
                    data: ones,
                    at: origin,
                    along,
                },
                b: x,
                signed_rows: true,
                row_start: std::ptr::null(),
                column_start: std::ptr::null(),
                c: to,
                ld: pixels,
                accumulate: false,
            };
            product.run(kernel, context)?;
            for p in 0..pixels {
                *to.add(p) = (*to.add(p)).wrapping_mul(self.weight.zero).wrapping_neg();
            }
        }
        Ok(())
    }
}
