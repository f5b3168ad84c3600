//! Convolutions of 8 bits as products of quads: four channels of a pixel are a quad, and the image
//! is copied with its zero point as padding, so that a pixel's offset plus the window's is the
//! offset of its quad.

use super::Scratch;
use super::bytes::{Bytes, copied, signed_sum, woven};
use super::conv::{Conv, Inside};
use super::quads::{Kernel, Product};
use super::share::Operand;
use super::tables::Tables;
use crate::context::RxContext;
use crate::threads::{Grain, Share};

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

    /// Packs one part of the padded image as quads: with channels first the quad `part` of channels
    /// of an image, otherwise row `part`.
    unsafe fn pad(&self, part: usize, to: *mut u32) {
        let (s, (high, wide)) = (&self.conv.s, self.conv.read());
        let (deep, mask) = (self.deep(), self.x.mask());
        let none = u32::from(self.x.zero as u8) * 0x0101_0101;
        let inside = self.conv.inside();
        let Inside {
            left, cut, count, ..
        } = inside;
        // SAFETY: the part is one of the image's, and `to` has room for its padded copy.
        unsafe {
            let fill = |to: *mut u32, n: usize| {
                for i in 0..n {
                    *to.add(i) = none;
                }
            };
            if s.nhwc {
                let each = s.groups * deep;
                let (n, y) = (part / high, part % high);
                let Some(row) = inside.row(y) else {
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
                let Some(row) = inside.row(y) else {
                    fill(to, wide);
                    continue;
                };
                fill(to, left);
                fill(to.add(left + count), wide - left - count);
                // Missing channels have weight 0, so their data is arbitrary.
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
        // SAFETY: the weight has the convolution's sizes, `to` room for its quads, and `sums` for
        // each output channel.
        unsafe {
            std::ptr::write_bytes(sums, 0, s.o);
        }
        for q in 0..deep {
            let rest = (s.cg - 4 * q).min(4);
            let keep = u32::MAX >> (32 - 8 * rest);
            let channel = |i: usize| (4 * q + i).min(s.cg - 1);
            // SAFETY: the weight has the convolution's sizes, `to` room for its quads, and `sums`
            // for each output channel.
            unsafe {
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
    /// Like `rx_conv2d_i32`; no size of the output is 0, nor the common axis.
    pub(super) unsafe fn run(&self, kernel: Kernel, context: &mut RxContext) -> Result<(), i32> {
        let (s, (high, wide)) = (&self.conv.s, self.conv.read());
        let (deep, pixels) = (self.deep(), s.oh * s.ow);
        let (k, each) = (deep * s.kh * s.kw, s.groups * deep);
        let image = self.conv.image(deep);
        // SAFETY: the arrays have the convolution's sizes, and the scratch has room for tables and
        // quads.
        unsafe {
            let offsets = Tables::offsets(self.conv, deep);
            let tables = Scratch::new(context, (offsets + 1) * 8).ok_or(context.status)?;
            let copies = s.n * image + s.o * k + k + 2 * s.o + pixels;
            let copies = Scratch::new(context, copies * 4).ok_or(context.status)?;
            let tables = tables.memory.cast::<usize>();
            let origin = tables.add(offsets);
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
            let grain = Grain::of_work(1 << 15, size);
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

            *origin = 0;
            for p in 0..k {
                let rest = (s.cg - 4 * self.conv.unit(deep, p).0).min(4);
                *ones.add(p) = 0x0101_0101 & (u32::MAX >> (32 - 8 * rest));
            }
            for task in Tables::new(self.conv, deep, tables).tasks(data, weight) {
                let mut pixel_start = std::ptr::null();
                if zs != 0 {
                    self.sum_pixels(kernel, context, task.x, (ones, origin), of_pixels)?;
                    pixel_start = of_pixels.cast_const();
                }
                let filter_start = start.add(task.filter).cast_const();
                let product = Product {
                    m: pixels,
                    n: s.og,
                    k,
                    a: task.x,
                    b: task.weight,
                    signed_rows: false,
                    row_start: pixel_start,
                    column_start: filter_start,
                    c: task.y,
                    ld: task.ld,
                    accumulate: false,
                };
                let product = if s.nhwc {
                    product
                } else {
                    Product {
                        m: s.og,
                        n: pixels,
                        a: task.weight,
                        b: task.x,
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

    /// Returns the weight's zero point's contribution to the sums of every pixel, to be subtracted:
    /// it times the sum of the pixel's window.
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
        // SAFETY: the image has the pixels' quads, `along` room for `k` entries, and `to` for each
        // pixel.
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
