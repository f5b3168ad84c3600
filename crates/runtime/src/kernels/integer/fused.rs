//! Convolutions and dense layers from bytes to bytes: products of quads, and what brings the sums to
//! another scale in the tile, so that sums are never stored.
//!
//! A window's row is one run of bytes, channels last, in the image itself or, where that has to be
//! padded, to be made unsigned, or has channels first or such that are no quads, in a copy. Results
//! with channels first are turned when all are there. Data is unsigned
//! and the weight signed, without its zero point; what the data's zero point adds to each
//! channel's sums, and the bias, is what they start with. The weight comes packed, the same on every
//! processor: panels of 16 channels, quad after quad, or for depthwise windows quads of taps.
//!
//! What an unsigned weight has without its zero point takes nine bits. Where windows are whole quads
//! that all channels read, what is left without 128 is packed, and the rest of the zero point times the
//! sum of a window is taken off; elsewhere an element is the sum of two signed bytes, and windows are
//! read twice.

use std::ffi::c_void;

use super::Scratch;
use super::fused_compute::{Part, compute};
use super::fused_rows::lane;
use super::fused_scales::{MOST, PANEL, Tables};
use super::fused_tile::{BLOCK, PIXELS, Picks, Tile};
use super::fused_walk::{Clip, Image, Pixels, Source, Tiles, Walk};
use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::kernels::conv::{RxConv2dSizes, Sizes};
use crate::threads::{Grain, Share};

c_structure! {
    /// As in the C header.
    pub struct RxConv2dQ8 {
        /// The sizes.
        pub sizes: RxConv2dSizes,
        /// Elements of the weight from one tap to the next, from one input channel to the next, and
        /// from one output channel to the next.
        pub tap_step: i64,
        /// See `tap_step`.
        pub in_step: i64,
        /// See `tap_step`.
        pub out_step: i64,
        /// Input.
        pub x: *const c_void,
        /// The weight, `int8`, or `uint8` where it has a zero point.
        pub weight: *const i8,
        /// The packed weight, or null.
        pub packed: *const c_void,
        /// The number added to the sums of each channel, or null. In fixed point there are as many as
        /// factors.
        pub bias: *const i32,
        /// The factor of sums: one, or one for each channel. Null where they are brought to another
        /// scale in fixed point, as by [`RxRequantize`](crate::kernels::requantize::RxRequantize),
        /// by the five tables that follow.
        pub factor: *const f32,
        /// The number of places of the left shift of a sum with its bias.
        pub left: *const i64,
        /// The factor after that.
        pub multiplier: *const i64,
        /// The number added to the product.
        pub half: *const i64,
        /// The number of places of the right shift after that.
        pub right: *const i64,
        /// The number added to the low 32 bits of the result.
        pub zero: *const i32,
        /// Output.
        pub y: *mut c_void,
        /// The number of factors, or of numbers of each table: 1, or that of channels.
        pub factors: i64,
        /// Whether the input's elements are signed.
        pub x_signed: i32,
        /// The zero point subtracted from every element of the input; padding is 0 after that.
        pub x_zero: i32,
        /// The number added to the rounded products.
        pub y_zero: i32,
        /// The least result.
        pub low: i32,
        /// The largest one.
        pub high: i32,
        /// A [`Layout`](crate::kernels::conv::Layout), of images and results.
        pub layout: i32,
        /// Added to the products of sums by factors where results are floats: null, or a number for
        /// each channel.
        pub shift: *const f32,
        /// The least result that is a float.
        pub least: f32,
        /// The largest one.
        pub most: f32,
        /// Whether results are `float32`: products of sums by factors, neither rounded nor made bytes.
        /// Channels come last then, and no window is depthwise.
        pub floats: i32,
        /// 0 for a weight of `int8`. Otherwise it is of `uint8`, and this the zero point subtracted from
        /// every element, from 1 to 255.
        pub weight_zero: i32,
    }
}

/// A convolution with validated sizes.
#[derive(Clone, Copy)]
pub(super) struct Conv<'v> {
    pub v: &'v RxConv2dQ8,
    /// The sizes, with the channels of neighbours as channels of one pixel.
    pub s: Sizes,
    /// Pixels beside each other that are one.
    pub beside: usize,
}

/// The packed weight: the sums of each channel's elements, then its quads.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    pub sums: *const i32,
    pub quads: *const u8,
}

impl<'v> Conv<'v> {
    fn of(v: &'v RxConv2dQ8) -> Option<Conv<'v>> {
        let s = Sizes::of(&v.sizes, v.layout)?;
        let depthwise = s.cg == 1 && s.og == 1;
        let channels = v.factors == 1 || v.factors == v.sizes.o;
        let byte = if v.x_signed != 0 { -128..=127 } else { 0..=255 };
        let groups = s.groups == 1 || depthwise || s.cg.is_multiple_of(4);
        let mut conv = Conv { v, s, beside: 1 };
        conv.put_beside();
        // Where nothing is padded, the zero point is no byte of a copy.
        let zero = byte.contains(&v.x_zero) || conv.inside();
        let floats = v.floats == 0 || s.nhwc && !depthwise;
        let weight = (0..=255).contains(&v.weight_zero);
        (groups && channels && zero && floats && weight && s.k > 0).then_some(conv)
    }

    /// Makes neighbours of a row channels of one pixel, where these fill vectors better: their windows
    /// are one that has all of them, in which each channel has weights of its own window alone.
    fn put_beside(&mut self) {
        let s = &mut self.s;
        // Rows of a product are as many as there happen to be: its packed weight does not depend on that.
        if !s.nhwc || s.kw == 1 || s.groups > 1 || s.dw > 1 || s.ow == 0 || s.o == 0 || s.k == 0 {
            return;
        }
        // A pixel's window is read quad by quad, each multiplied by a vector of every panel.
        let cost = |beside: usize| {
            let row = (s.kw + (beside - 1) * s.sw) * s.c;
            row.div_ceil(4) * (1 + (s.o * beside).div_ceil(PANEL)) * (MOST / beside)
        };
        let possible =
            (2..=MOST / s.o).filter(|b| s.ow.is_multiple_of(*b) && MOST.is_multiple_of(*b));
        let best = possible.min_by_key(|&b| cost(b));
        let Some(beside) = best.filter(|&b| 8 * cost(b) < 7 * cost(1)) else {
            return;
        };
        self.beside = beside;
        (s.o, s.og) = (s.o * beside, s.og * beside);
        s.kw += (beside - 1) * s.sw;
        s.k = s.cg * s.kh * s.kw;
        s.ow /= beside;
        s.sw *= beside;
        s.plane /= beside;
    }

    /// Returns whether pixels of the copy have the image's channels alone, not whole quads of them: a
    /// window's row is made of quads as a whole.
    fn tight(&self) -> bool {
        self.s.nhwc && self.whole_rows() && !self.s.c.is_multiple_of(4)
    }

    /// The signed bytes that an element of the weight is the sum of.
    pub(super) fn summands(&self) -> usize {
        let several = self.v.weight_zero != 0 && self.lowered().is_none();
        if several { 2 } else { 1 }
    }

    /// What is taken off an unsigned weight beyond 128, times the sum of a window: where that is the
    /// same for all channels, and a window has no bytes that have no weight.
    fn lowered(&self) -> Option<i32> {
        let whole = self.s.cg.is_multiple_of(4) && !self.picked();
        (self.v.weight_zero != 0 && whole).then_some(self.v.weight_zero - 128)
    }

    pub(super) fn depthwise(&self) -> bool {
        self.s.groups > 1 && self.s.cg == 1
    }

    /// Returns whether a panel has whole groups, whose input channels are as many bytes: each lane picks the
    /// quads of its own group.
    pub(super) fn picked(&self) -> bool {
        let s = &self.s;
        s.groups > 1 && s.cg == s.og && [4, 8, 16].contains(&s.og)
    }

    /// Returns the groups whose panels are their own, and the output channels of each.
    fn apart(&self) -> (usize, usize) {
        match self.picked() {
            true => (1, self.s.o),
            false => (self.s.groups, self.s.og),
        }
    }

    /// Input channels of a pixel of the copy.
    pub(super) fn deep(&self) -> usize {
        match self.depthwise() && self.s.nhwc || self.tight() {
            true => self.s.c,
            false => self.s.c.next_multiple_of(4),
        }
    }

    /// Returns what makes bytes of the input unsigned.
    pub(super) fn flip(&self) -> u8 {
        if self.v.x_signed != 0 { 0x80 } else { 0 }
    }

    /// The height and width that windows read.
    pub(super) fn read(&self) -> (usize, usize) {
        self.s.window().reach()
    }

    /// Runs of adjacent bytes of a window, and the quads of each.
    fn runs(&self) -> (usize, usize) {
        let s = &self.s;
        match self.whole_rows() {
            true => (s.kh, (s.kw * self.deep()).div_ceil(4)),
            false => (s.kh * s.kw, s.cg.div_ceil(4)),
        }
    }

    /// Returns whether a row of a window is one run of bytes.
    pub(super) fn whole_rows(&self) -> bool {
        self.s.dw == 1 && self.s.groups == 1
    }

    /// The elements of the packed weight's first part and the bytes of its second one.
    fn parts(&self) -> (usize, usize) {
        let s = &self.s;
        if self.depthwise() {
            let blocks = s.o.next_multiple_of(MOST);
            return (blocks, blocks * 4 * self.column_quads() * s.kw);
        }
        let ((groups, each), (runs, quads)) = (self.apart(), self.runs());
        let panels = groups * each.div_ceil(PANEL);
        (
            s.o.next_multiple_of(PANEL),
            panels * PANEL * 4 * runs * quads * self.summands(),
        )
    }

    /// Packs the weight.
    ///
    /// # Safety
    /// The weight has the convolution's sizes, `to` room for all parts.
    unsafe fn pack(&self, to: *mut u8) {
        let (s, v, (o, bytes)) = (&self.s, self.v, self.parts());
        let (sums, quads) = (to.cast::<i32>(), to.wrapping_add(4 * o));
        let (taps, steps) = (s.kh * s.kw, [v.tap_step, v.in_step, v.out_step]);
        let (summands, lowered) = (self.summands(), self.lowered().unwrap_or(0));
        // SAFETY: as promised; every byte of the second part is of one of a channel's elements, or
        // stays 0.
        unsafe {
            std::ptr::write_bytes(to, 0, 4 * o + bytes);
        }
        let read = |tap: usize, c: usize, o: usize| {
            // SAFETY: as promised; every byte of the second part is of one of a channel's elements, or
            // stays 0.
            unsafe {
                let at = [tap, c, o]
                    .into_iter()
                    .zip(steps)
                    .map(|(i, n)| i as i64 * n);
                let element = *v.weight.offset(at.sum::<i64>() as isize);
                match v.weight_zero {
                    0 => i32::from(element),
                    zero => i32::from(element as u8) - zero,
                }
            }
        };
        // The second summand lies `apart` bytes behind the first.
        let put = |channel: usize, at: usize, apart: usize, value: i32| {
            // SAFETY: as promised; every byte of the second part is of one of a channel's elements, or
            // stays 0.
            unsafe {
                let first = (value + lowered).clamp(-128, 127);
                *quads.add(at) = first as u8;
                if summands > 1 {
                    *quads.add(at + apart) = (value - first) as u8;
                }
                let sum = sums.add(channel);
                *sum = (*sum).wrapping_add(value);
            }
        };
        if self.depthwise() {
            let quads_of = self.column_quads();
            let size = 4 * MOST * quads_of * s.kw;
            for block in 0..s.o.div_ceil(MOST) {
                for place in 0..MOST {
                    let channel = block * MOST + lane(place);
                    for tap in (0..taps).filter(|_| channel < s.o) {
                        let (y, x) = (tap / s.kw, tap % s.kw);
                        let quad = (x * quads_of + y / 4) * MOST + place;
                        let at = block * size + 4 * quad + y % 4;
                        let apart = quads_of / summands * MOST * 4;
                        put(channel, at, apart, read(tap, 0, channel));
                    }
                }
            }
            return;
        }
        let (each, (runs, quads_of)) = (self.apart().1, self.runs());
        // The bytes of a run and of a panel; taps of a run, and their bytes.
        let (run, size) = (4 * quads_of, PANEL * 4 * runs * quads_of);
        let (along, deep) = (taps / runs, self.deep());
        let (own, step) = (s.o / self.beside, s.sw / self.beside);
        let width = s.kw - (self.beside - 1) * step;
        for channel in 0..s.o {
            let (group, within) = (channel / each, channel % each);
            let panel = group * each.div_ceil(PANEL) + within / PANEL;
            let panel = panel * size * summands;
            for (tap, c) in (0..taps).flat_map(|t| (0..s.cg).map(move |c| (t, c))) {
                let k = tap / along * run + tap % along * deep + c;
                let at = panel + (k / 4 * PANEL + within % PANEL) * 4 + k % 4;
                // Of a neighbour's window, a channel has no weights.
                let (y, x) = (tap / s.kw, tap % s.kw);
                let x = x.checked_sub(channel / own * step).filter(|x| *x < width);
                let value = x.map_or(0, |x| read(y * width + x, c, channel % own));
                put(channel, at, size, value);
            }
        }
    }

    /// Computes everything.
    ///
    /// # Safety
    /// Like [`convolve`]; no size of the output is 0.
    unsafe fn run(&self, context: &mut RxContext) -> Result<(), i32> {
        let (s, v, (high, wide), deep) = (&self.s, self.v, self.read(), self.deep());
        let (sums, bytes) = self.parts();
        let own = match v.packed.is_null() {
            true => Some(Scratch::new(context, 4 * sums + bytes).ok_or(context.status)?),
            false => None,
        };
        let place = own.as_ref().map_or(v.packed, |s| s.memory.cast_const());
        let packed = Packed {
            sums: place.cast(),
            quads: place.cast::<u8>().wrapping_add(4 * sums),
        };
        // SAFETY: the arrays have the convolution's sizes, and the scratch has room for what is
        // written there.
        unsafe {
            if let Some(own) = &own {
                self.pack(own.memory.cast());
            }
        }
        let mut image = Image {
            data: v.x.cast(),
            whole: s.h * s.w * s.c,
            row: s.w * s.c,
            column: s.c,
        };
        let (mut copy, mut source) = (None, None);
        if self.in_place() {
            source = Some(Source {
                image,
                high: s.h,
                wide: s.w,
                before: (s.pt, s.pl),
                end: s.n * s.h * s.w * s.c,
                flip: self.flip(),
            });
        } else {
            // Blocks of channels are read whole, beyond the last one too.
            let room = s.n * high * wide * deep + MOST;
            let scratch = Scratch::new(context, room).ok_or(context.status)?;
            let to = scratch.memory.cast::<u8>();
            copy = Some(scratch);
            // SAFETY: the arrays have the convolution's sizes, and the scratch has room for what is
            // written there.
            unsafe {
                self.copy(context, to)?;
            }
            image = Image {
                data: to,
                whole: high * wide * deep,
                row: wide * deep,
                column: deep,
            };
        }
        let source = source.unwrap_or(Source {
            image,
            high,
            wide,
            before: (0, 0),
            end: s.n * high * wide * deep + MOST,
            flip: 0,
        });
        let mut to = Pixels {
            data: v.y.cast(),
            pixel: if v.floats == 0 { s.o } else { 4 * s.o },
            size: if v.floats == 0 { 1 } else { 4 },
        };
        let mut late = None;
        if !s.nhwc {
            to.pixel = s.o.next_multiple_of(4);
            let room = s.n * s.oh * s.ow * to.pixel;
            let scratch = Scratch::new(context, room).ok_or(context.status)?;
            to.data = scratch.memory.cast();
            late = Some(scratch);
        }
        // SAFETY: the arrays have the convolution's sizes, and the scratch has room for what is
        // written there.
        unsafe {
            match self.depthwise() {
                true => self.rows(context, packed, (source, to))?,
                false => self.tiles(context, packed, (source, to))?,
            }
        }
        drop(copy);
        // SAFETY: the arrays have the convolution's sizes, and the scratch has room for what is
        // written there.
        unsafe {
            if late.is_some() {
                self.turn_back(context, to.data, to.pixel)?;
            }
        }
        Ok(())
    }

    /// Returns the places of what lanes read of a panel's 16 bytes, for each quad of a group.
    fn picks(&self) -> Option<Picks> {
        let s = &self.s;
        let byte = |quad: usize, at: usize| (at / 4 / s.og * s.cg + 4 * quad + at % 4) as u8;
        let quad =
            |quad| std::array::from_fn(|at| if quad < s.cg / 4 { byte(quad, at) } else { 0 });
        self.picked().then(|| std::array::from_fn(quad))
    }

    /// Returns which runs of windows are wanted, where not all are: padding that is bytes of 0 adds
    /// nothing to sums.
    fn clip(&self) -> Option<Clip> {
        let s = &self.s;
        let (above, below) = (s.pt > 0, self.read().0 as isize > s.h as isize + s.pt);
        let nothing = self.zero() == 0 && self.summands() == 1;
        (nothing && (above || below)).then_some(Clip {
            rows: s.kh,
            runs: self.runs().0 / s.kh,
            apart: s.dh,
            step: s.sh,
            above: s.pt,
            high: s.h,
        })
    }

    /// Tiles of pixels by channels.
    unsafe fn tiles(
        &self,
        context: &mut RxContext,
        packed: Packed,
        (source, to): (Source, Pixels),
    ) -> Result<(), i32> {
        let (s, image, (once, quads)) = (&self.s, source.image, self.runs());
        // For the second summand, windows are read once more.
        let run_count = once * self.summands();
        let offsets = Scratch::new(context, 8 * run_count).ok_or(context.status)?;
        let runs = offsets.memory.cast::<usize>();
        for at in 0..run_count {
            let run = at % once;
            let (y, x) = match self.whole_rows() {
                true => (run, 0),
                false => (run / s.kw, run % s.kw),
            };
            // SAFETY: there is room for all runs.
            unsafe { *runs.add(at) = y * s.dh * image.row + x * s.dw * image.column };
        }
        let pixels = s.n * s.oh * s.ow;
        let (blocks, (groups, each)) = (pixels.div_ceil(BLOCK), self.apart());
        let per_group = each.div_ceil(MOST);
        let work = run_count * quads * pixels.clamp(6, BLOCK) * each.min(MOST) / 8;
        let (picks, clip) = (self.picks(), self.clip());
        // SAFETY: threads take tasks of their own, which write disjoint places.
        let shared = unsafe { Share::new((*self, packed, (source, to), runs, &picks)) };
        let (grain, tasks) = (Grain::of_work(1 << 16, work), groups * per_group * blocks);
        context.pool.each(tasks, grain, |begin, end, _| {
            let &(conv, packed, (source, to), runs, picks) = shared.get();
            let s = &conv.s;
            let mut tables = Tables::default();
            let mut task = begin;
            while task < end {
                let (part, block) = (task / blocks, task % blocks);
                let count = (blocks - block).min(end - task);
                task += count;
                let (group, within) = (part / per_group, part % per_group * MOST);
                let (first, wide) = (group * each + within, (each - within).min(MOST));
                let from = if picks.is_some() { first } else { group * s.cg };
                let place = group * each.div_ceil(PANEL) + within / PANEL;
                // SAFETY: the group's channels and the blocks' pixels are the convolution's.
                unsafe {
                    conv.in_order(&mut tables, packed.sums, (first, wide));
                    let panel = 4 * PANEL * run_count * quads;
                    let tile = Tile {
                        pixels: [(std::ptr::null(), std::ptr::null_mut(), [0; 2]); PIXELS],
                        clipped: clip.is_some(),
                        high: 0,
                        runs,
                        run_count,
                        quads,
                        picks: picks.as_ref(),
                        flip: [source.flip; 4 * PANEL],
                        weight: packed.quads.add(place * panel),
                        panel,
                        start: tables.start.as_ptr(),
                        lowered: conv.lowered().unwrap_or(0),
                        finish: conv.finish(&tables),
                        wide,
                    };
                    let mut image = source.image;
                    image.data = image.data.wrapping_add(from);
                    let walk = Walk::of(s, block * BLOCK, (image, to), first, clip);
                    let count = (count * BLOCK).min(pixels - block * BLOCK);
                    compute(&Part::Tiles(Tiles { tile, walk, count }));
                }
            }
        });
        Ok(())
    }
}

/// A convolution of bytes, brought to another scale:
/// `min(max(round((sum + bias) * factor) + y_zero, low), high)`, as bytes. Sums wrap; halves are
/// rounded to even; or, as floats, `min(max(sum * factor + shift, least), most)`. Without factors, in fixed point as by
/// [`requantize`](crate::kernels::requantize::requantize).
///
/// # Safety
/// The arrays are as large as the sizes say, and do not overlap the output. Where there is a packed
/// weight, it is one of [`pack_weight`] for the same sizes.
pub unsafe fn convolve(context: &mut RxContext, described: &RxConv2dQ8) -> i32 {
    // SAFETY: the arrays have the sizes that the descriptor says.
    unsafe {
        let Some(conv) = Conv::of(described) else {
            return context.fail(Status::Argument, "rx_conv2d_q8: no such convolution");
        };
        let s = &conv.s;
        if s.n * s.o * s.oh * s.ow == 0 {
            return 0;
        }
        if !conv.has_tables() {
            return context.fail(Status::Argument, "rx_conv2d_q8: no scale");
        }
        conv.run(context).err().unwrap_or(0)
    }
}

/// Returns the bytes of a packed weight, which depend on sizes only; 0 where there is none.
pub fn packed_size(described: &RxConv2dQ8) -> usize {
    Conv::of(described).map_or(0, |c| {
        let (sums, bytes) = c.parts();
        4 * sums + bytes
    })
}

/// Packs a weight.
///
/// # Safety
/// The weight has the descriptor's sizes, `to` room for as many bytes as
/// [`packed_size`] says.
pub unsafe fn pack_weight(described: &RxConv2dQ8, to: *mut u8) {
    if let Some(conv) = Conv::of(described) {
        // SAFETY: the weight has these sizes, and `to` room for its packed parts.
        unsafe { conv.pack(to) };
    }
}
