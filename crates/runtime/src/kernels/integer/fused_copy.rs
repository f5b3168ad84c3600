//! The copy of an image that windows of [`fused`](super::fused) are read in, where they cannot be
//! read in the image itself: with its padding, of unsigned bytes, with whole quads of channels that
//! come last. And the other way, results with channels first.

use super::Scratch;
use super::bytes::woven;
use super::fused::Conv;
use crate::context::RxContext;
use crate::kernels::simd::square::{Turning, columns, dispatch_turning};
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};
use std::ops::Range;

/// The pixels that are turned together: short rows are copied several at a time.
const BLOCK: usize = 64;

impl Conv<'_> {
    /// Returns whether windows are read in the image itself.
    pub(super) fn in_place(&self) -> bool {
        let s = &self.s;
        // Picked bytes are read 16 at a time, and others 4 of a pixel or of a window's row.
        let whole = match (self.picked(), self.whole_rows()) {
            (true, _) => s.c.is_multiple_of(16),
            (_, true) => (s.kw * s.c).is_multiple_of(4),
            _ => s.c.is_multiple_of(4),
        };
        s.nhwc && (self.depthwise() || self.inside() && whole)
    }

    /// Returns whether no window goes beyond the image.
    pub(super) fn inside(&self) -> bool {
        let (s, (high, wide)) = (&self.s, self.read());
        s.pt == 0 && s.pl == 0 && high <= s.h && wide <= s.w
    }

    /// Makes the copy.
    ///
    /// # Safety
    /// `to` has room for it.
    pub(super) unsafe fn copy(&self, context: &mut RxContext, to: *mut u8) -> Result<(), i32> {
        let (s, (high, wide), deep) = (&self.s, self.read(), self.deep());
        // Rows whose pixels follow each other in the image and in the copy.
        let whole = s.pl == 0 && wide == s.w && s.pt == 0 && high <= s.h;
        let each = match whole && !s.nhwc {
            true => (BLOCK / wide).clamp(1, high),
            false => 1,
        };
        let words = if s.nhwc { 0 } else { deep / 4 * s.w * each };
        let bytes = 4 * words * context.pool.threads();
        let rooms = Scratch::new(context, bytes).ok_or(context.status)?;
        let parts = high.div_ceil(each);
        let grain = Grain::of_work(1 << 17, each * wide * deep);
        // SAFETY: parts of the copy are disjoint, and each worker has a room of its own.
        unsafe {
            let shared = Share::new((*self, to, rooms.memory.cast::<u32>()));
            context.pool.each(s.n * parts, grain, |begin, end, worker| {
                let &(conv, to, rooms) = shared.get();
                for task in begin..end {
                    let (n, first) = (task / parts, task % parts * each);
                    let rows = first..(first + each).min(high);
                    let to = to.add((n * high + first) * wide * deep);
                    match conv.s.nhwc {
                        true => conv.copy_row(n, first, to),
                        false => conv.copy_planes(n, rows, to, rooms.add(worker * words)),
                    }
                }
            });
        }
        Ok(())
    }

    /// Rows of an image's copy, of an image with channels first. More than one have no padding.
    ///
    /// # Safety
    /// `to` has room for the rows, and `words` for their quads.
    unsafe fn copy_planes(&self, n: usize, rows: Range<usize>, to: *mut u8, words: *mut u32) {
        let (s, v, (_, wide), deep) = (&self.s, self.v, self.read(), self.deep());
        let flip = self.flip();
        let none = v.x_zero as u8 ^ flip;
        let row = rows.start as isize - s.pt;
        let (left, cut) = (s.pl.max(0) as usize, (-s.pl).max(0) as usize);
        let count = s.w.saturating_sub(cut).min(wide.saturating_sub(left));
        // SAFETY: the rows are those of the image, or none of its bytes is read.
        unsafe {
            if row < 0 || row as usize >= s.h || count == 0 {
                std::ptr::write_bytes(to, none, rows.len() * wide * deep);
                return;
            }
            std::ptr::write_bytes(to, none, left * deep);
            let right = left + count;
            std::ptr::write_bytes(to.add(right * deep), none, (wide - right) * deep);
            let count = count + (rows.len() - 1) * wide;
            let from = v.x.cast::<u8>().add(n * s.c * s.h * s.w);
            let from = from.add(row as usize * s.w + cut);
            let quads = deep / 4;
            for quad in 0..quads {
                // Missing channels have weight 0, so their data is arbitrary.
                let line = |i: usize| from.add((4 * quad + i).min(s.c - 1) * s.h * s.w);
                let lines = [line(0), line(1), line(2), line(3)];
                let mask = u32::from(flip) * 0x0101_0101;
                woven(lines, count, mask, words.add(quad * count));
            }
            let (words, to) = (words.cast::<f32>().cast_const(), to.add(left * deep));
            let (to, sizes) = (to.cast::<f32>(), (quads, count));
            dispatch_turning!(turn(words: *const f32, sizes: (usize, usize), to: *mut f32));
        }
    }

    /// Brings results whose pixels are `step` bytes apart to their places with channels first.
    ///
    /// # Safety
    /// There are all pixels, in whole words, and the output has the convolution's size.
    pub(super) unsafe fn turn_back(
        &self,
        context: &mut RxContext,
        from: *const u8,
        step: usize,
    ) -> Result<(), i32> {
        let (o, plane) = (self.s.o, self.s.plane);
        let (words, blocks) = (step / 4, plane.div_ceil(BLOCK));
        let bytes = 4 * words * BLOCK * context.pool.threads();
        let rooms = Scratch::new(context, bytes).ok_or(context.status)?;
        let grain = Grain::of_work(1 << 17, BLOCK * step);
        // SAFETY: pixels of the output are disjoint, and each worker has a room of its own.
        unsafe {
            let y = self.v.y.cast::<u8>();
            let shared = Share::new((from, y, rooms.memory.cast::<f32>()));
            let tasks = self.s.n * blocks;
            context.pool.each(tasks, grain, |begin, end, worker| {
                let &(from, y, rooms) = shared.get();
                for task in begin..end {
                    let (image, first) = (task / blocks, task % blocks * BLOCK);
                    let count = (plane - first).min(BLOCK);
                    let from = from.add((image * plane + first) * step).cast::<f32>();
                    let (room, sizes) = (rooms.add(worker * words * BLOCK), (count, words));
                    dispatch_turning!(turn(from: *const f32, sizes: (usize, usize), room: *mut f32));
                    let quads = room.cast::<u32>().cast_const();
                    for channel in 0..o {
                        let quads = quads.add(channel / 4 * count);
                        let to = y.add((image * o + channel) * plane + first);
                        let shift = (8 * (channel % 4)) as u32;
                        dispatch!(byte(quads: *const u32, count: usize, shift: u32, to: *mut u8));
                    }
                }
            });
        }
        Ok(())
    }

    /// Row `y` of an image's copy: what lies outside is the zero point; all bytes are unsigned.
    ///
    /// # Safety
    /// `to` has room for the row.
    pub(super) unsafe fn copy_row(&self, n: usize, y: usize, to: *mut u8) {
        let (s, v, (_, wide), deep) = (&self.s, self.v, self.read(), self.deep());
        let flip = self.flip();
        let none = v.x_zero as u8 ^ flip;
        let row = y as isize - s.pt;
        let (left, cut) = (s.pl.max(0) as usize, (-s.pl).max(0) as usize);
        let count = s.w.saturating_sub(cut).min(wide.saturating_sub(left));
        // SAFETY: the row is one of the image, or none of its bytes is read.
        unsafe {
            if row < 0 || row as usize >= s.h || count == 0 {
                std::ptr::write_bytes(to, none, wide * deep);
                return;
            }
            std::ptr::write_bytes(to, none, left * deep);
            let right = left + count;
            std::ptr::write_bytes(to.add(right * deep), none, (wide - right) * deep);
            let from =
                v.x.cast::<u8>()
                    .add(((n * s.h + row as usize) * s.w + cut) * s.c);
            let to = to.add(left * deep);
            if deep == s.c {
                std::ptr::copy_nonoverlapping(from, to, count * deep);
            } else {
                spread((from, s.c), (to, deep), count, none);
            }
            if flip != 0 {
                let all = std::slice::from_raw_parts_mut(to, count * deep);
                all.iter_mut().for_each(|b| *b ^= flip);
            }
        }
    }
}

/// Transposes words: `sizes.0` lines of `sizes.1` words each.
///
/// # Safety
/// `from` has the words, and `to` room for them.
#[inline(always)]
unsafe fn turn<S: Turning>(from: *const f32, (lines, count): (usize, usize), to: *mut f32) {
    for first in (0..lines).step_by(S::LANES) {
        let some = (lines - first).min(S::LANES);
        for i in (0..count).step_by(S::LANES) {
            let part = (count - i).min(S::LANES);
            // SAFETY: the square is part of the words.
            unsafe {
                let from = from.add(first * count + i);
                let square = columns::<S>(from, count as isize, some, part);
                for (k, vector) in square.iter().enumerate().take(part) {
                    let to = to.add((i + k) * lines + first);
                    match some == S::LANES {
                        true => vector.store(to),
                        false => vector.store_part(to, some),
                    }
                }
            }
        }
    }
}

/// The bytes of some words at a place.
///
/// # Safety
/// There are `count` words, and room for as many bytes.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The code differs all the same.
unsafe fn byte<S: Simd>(words: *const u32, count: usize, shift: u32, to: *mut u8) {
    for i in 0..count {
        // SAFETY: as promised.
        unsafe { *to.add(i) = (*words.add(i) >> shift) as u8 };
    }
}

/// Copies `count` pixels of fewer channels than the copy's have; the others become `none`.
///
/// # Safety
/// `from` has the pixels, and `to` room for them.
unsafe fn spread(
    (from, channels): (*const u8, usize),
    (to, deep): (*mut u8, usize),
    count: usize,
    none: u8,
) {
    // Pixels of a first layer's image are read and written as words, except those whose words would
    // end beyond the last one.
    let words = match deep {
        4 => count.saturating_sub((4 - channels).div_ceil(channels)),
        _ => 0,
    };
    let kept = u32::from_le_bytes(std::array::from_fn(|i| if i < channels { 255 } else { 0 }));
    let others = !kept & u32::from_le_bytes([none; 4]);
    // SAFETY: all pixels are there, and words end with the last one at most.
    unsafe {
        for p in 0..words {
            let word = from.add(p * channels).cast::<[u8; 4]>().read();
            let word = u32::from_le_bytes(word) & kept | others;
            to.add(p * 4).cast::<[u8; 4]>().write(word.to_le_bytes());
        }
        for p in words..count {
            let to = to.add(p * deep);
            std::ptr::copy_nonoverlapping(from.add(p * channels), to, channels);
            std::ptr::write_bytes(to.add(channels), none, deep - channels);
        }
    }
}
