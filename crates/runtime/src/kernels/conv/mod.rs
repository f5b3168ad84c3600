//! Two-dimensional convolution of float32.
//!
//! The general algorithm is a matrix product whose packed operand is unfolded from the image on the
//! fly, a block of pixels at a time, so that the whole unfolded image is never stored. A window of
//! one pixel is a plain product. Depthwise convolution, where each channel has its own window, is
//! memory-bound and has an algorithm of its own.

mod across;
mod blocks;
mod channels_last;
mod depthwise;
mod direct;
mod flat;
mod lanes;
pub mod pooled;
mod rows;
mod sizes;
mod taps;
pub mod transpose;
mod twos;
mod unfold;
mod vectors;
pub mod volumes;
mod ways;
mod winograd;

use crate::context::{RxContext, Status};
use crate::kernels::gemm::epilogue::{RxEpilogue, Target};
use crate::kernels::gemm::tile::{COLS, Columns, ROWS};
use crate::kernels::gemm::{RxGemmF32, block, even_piece, gemm, pack};
use crate::kernels::padded::{Padded, Window};
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::Simd;
use crate::threads::{Grain, Share};
use crate::values::{scratch_alloc, scratch_free};
use crate::{c_enumeration, c_structure};
use blocks::{Blocks, Task};
pub use sizes::RxConv2dSizes;
pub use ways::{by_way, filters_minimally, packed_for, ways_of};

/// The longest piece of the common axis: a 3 by 3 window over 64 channels is one piece.
const KC: usize = 640;
/// Below this number of multiplications a convolution stays on one thread.
const SMALL: usize = 1 << 19;
/// The same of depthwise ones, whose multiplications each read an input of their own.
const SMALL_DEPTHWISE: usize = 1 << 17;

c_enumeration! {
    /// The order of the axes of images and weights.
    pub enum Layout {
        /// Channels before rows, and weights OIHW.
        Nchw = "RX_NCHW",
        /// Channels last, and weights HWIO.
        Nhwc = "RX_NHWC",
    }
}

c_structure! {
    /// As in the C header.
    pub struct RxConv2dF32 {
        /// The sizes.
        pub sizes: RxConv2dSizes,
        /// A [`Layout`].
        pub layout: i32,
        /// 0.
        pub reserved: i32,
        /// Input.
        pub x: *const f32,
        /// Weight.
        pub weight: *const f32,
        /// The weight from [`pack_weight`], or null.
        pub weight_packed: *const f32,
        /// Output.
        pub y: *mut f32,
        /// The operations before storing.
        pub epilogue: RxEpilogue,
    }
}

/// The sizes of a convolution as indices.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub n: usize,
    pub c: usize,
    pub h: usize,
    pub w: usize,
    pub o: usize,
    pub kh: usize,
    pub kw: usize,
    pub oh: usize,
    pub ow: usize,
    pub sh: usize,
    pub sw: usize,
    pub pt: isize,
    pub pl: isize,
    pub dh: usize,
    pub dw: usize,
    pub groups: usize,
    /// Input channels of a group.
    pub cg: usize,
    /// Output channels of a group.
    pub og: usize,
    /// The common axis: `cg * kh * kw`.
    pub k: usize,
    /// With channels first, the distance in floats from one channel of the output to the next.
    pub plane: usize,
    pub nhwc: bool,
}

/// The algorithm of a convolution; a function of its sizes alone, so that packing can determine it
/// too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Each channel has a window of its own.
    Depthwise,
    /// A matrix product without unfolding.
    Pointwise,
    /// A product with the rows of a padded copy, without unfolding.
    Rows,
    /// A product with blocks of the unfolded image.
    Unfold,
    /// Winograd's minimal filtering.
    Winograd,
    /// Vectors along output channels, and inputs that are read in a copy with channels last.
    Direct,
    /// Each position of the window only where it meets the image.
    Taps,
}

impl Sizes {
    /// `None` where the numbers do not describe a convolution.
    pub fn of(v: &RxConv2dSizes, layout: i32) -> Option<Self> {
        let size = |x: i64| usize::try_from(x).ok();
        let positive = |x: i64| size(x).filter(|&x| x > 0);
        let groups = positive(v.groups)?;
        let (c, o, kh, kw) = (size(v.c)?, size(v.o)?, size(v.kh)?, size(v.kw)?);
        let layout = Layout::of(layout)?;
        if c % groups != 0 || o % groups != 0 {
            return None;
        }
        let (oh, ow) = (size(v.oh)?, size(v.ow)?);
        Some(Self {
            n: size(v.n)?,
            c,
            h: size(v.h)?,
            w: size(v.w)?,
            o,
            kh,
            kw,
            oh,
            ow,
            sh: positive(v.stride_h)?,
            sw: positive(v.stride_w)?,
            pt: v.pad_t as isize,
            pl: v.pad_l as isize,
            dh: positive(v.dilation_h)?,
            dw: positive(v.dilation_w)?,
            groups,
            cg: c / groups,
            og: o / groups,
            k: c / groups * kh * kw,
            plane: oh * ow,
            nhwc: layout == Layout::Nhwc,
        })
    }

    /// Returns whether each output reads the one pixel at its own place.
    fn as_it_lies(&self) -> bool {
        let one = (self.kh, self.kw, self.sh, self.sw, self.pt, self.pl) == (1, 1, 1, 1, 0, 0);
        one && (self.oh, self.ow) == (self.h, self.w)
    }

    /// Returns whether each element of the output is written once, not a piece of its sum after the
    /// other.
    fn once(&self, way: Way) -> bool {
        match way {
            Way::Winograd | Way::Depthwise | Way::Rows | Way::Taps | Way::Direct => true,
            Way::Unfold => self.k <= KC,
            Way::Pointwise => false,
        }
    }

    /// The window's movement over the image.
    pub fn window(&self) -> Window {
        Window {
            image: (self.h, self.w),
            output: (self.oh, self.ow),
            window: (self.kh, self.kw),
            stride: (self.sh, self.sw),
            dilation: (self.dh, self.dw),
            pad: (self.pt, self.pl),
        }
    }

    /// The padded copy that unfolding reads for some output rows, with channels first and a
    /// horizontal stride above one: in it, adjacent outputs have adjacent inputs.
    fn padded(&self, rows: std::ops::Range<usize>) -> Option<Padded> {
        let worth = !self.nhwc && self.sw > 1 && self.kh * self.kw > 1;
        let window = self.window();
        worth.then(|| {
            Padded::of(Window {
                output: (rows.len(), self.ow),
                pad: (self.pt - (rows.start * self.sh) as isize, self.pl),
                ..window
            })
        })
    }

    /// Floats of one group's packed weight.
    fn packed_group(&self) -> usize {
        self.og
            .next_multiple_of(if self.nhwc { COLS } else { ROWS })
            * self.k
    }

    fn packed(&self, way: Way) -> usize {
        match way {
            Way::Depthwise => 0,
            Way::Winograd => winograd::packed(self),
            Way::Direct => direct::packed(self),
            _ => self.packed_group() * self.groups,
        }
    }

    /// Packs the weight of all groups.
    unsafe fn pack(&self, way: Way, weight: *const f32, out: *mut f32) {
        if way == Way::Winograd {
            // SAFETY: the weight has the convolution's sizes, and `out` what `Sizes::packed` says.
            return unsafe { winograd::pack(self, weight, out) };
        }
        if way == Way::Direct {
            // SAFETY: the weight has the convolution's sizes, and `out` what `Sizes::packed` says.
            return unsafe { direct::pack(self, weight, out) };
        }
        let (k, o, og) = (self.k, self.o as isize, self.og);
        for g in 0..self.groups {
            // SAFETY: the weight has the convolution's sizes, and `out` what `Sizes::packed` says.
            unsafe {
                let out = out.add(g * self.packed_group());
                if way == Way::Rows {
                    rows::pack(self, weight.add(g * og * k), out);
                } else if way == Way::Taps {
                    rows::by_position(self, weight.add(g * og * k), out);
                } else if self.nhwc {
                    pack::columns(k, og, weight.add(g * og), o, 1, out);
                } else {
                    pack::rows(og, k, weight.add(g * og * k), k as isize, 1, out);
                }
            }
        }
    }

    /// The output and epilogue from an element of group `g` of image `n` on.
    unsafe fn target(&self, v: &RxConv2dF32, n: usize, g: usize, pixel: usize) -> Target {
        let channel = g * self.og;
        let (at, ld, axis) = if self.nhwc {
            let pixels = self.oh * self.ow;
            ((n * pixels + pixel) * self.o + channel, self.o, 1)
        } else {
            let plane = self.plane;
            ((n * self.o + channel) * plane + pixel, plane, 0)
        };
        let mut epilogue = v.epilogue;
        epilogue.bias_axis = axis;
        epilogue.residual_ld = ld as i64;
        // SAFETY: the element lies in the output.
        unsafe {
            epilogue.skip(channel);
            if !epilogue.residual.is_null() {
                epilogue.residual = epilogue.residual.add(at);
            }
            let epilogue = (!epilogue.none()).then_some(epilogue);
            Target {
                c: v.y.add(at),
                ld,
                accumulate: false,
                epilogue,
            }
        }
    }
}

/// Computes some pixels of one group of one image, on one thread.
#[inline(always)]
unsafe fn unfolded<S: Simd>(
    v: &RxConv2dF32,
    s: &Sizes,
    x: *const f32,
    weight: *const f32,
    task: Task,
    scratch: *mut f32,
    room: (usize, usize),
) {
    let Task {
        image,
        group,
        begin,
        end,
        filter,
        filters,
    } = task;
    let pixels = end - begin;
    let top = begin / s.ow;
    let padded = s.padded(top..(end - 1) / s.ow + 1);
    let plane = padded.as_ref().map_or(s.h * s.w, Padded::floats);
    // SAFETY: the task is the convolution's, whose arrays have its sizes, and `scratch` has the
    // room's.
    unsafe {
        let weight = weight.add(group * s.packed_group() + filter * s.k);
        let full = s.target(v, image, group, begin);
        let full = match s.nhwc {
            true => full.shift(0, filter),
            false => full.shift(filter, 0),
        };
        let taps = s.kh * s.kw;
        let (scratch, copies) = (scratch, scratch.add(room.0));
        if padded.is_some() {
            std::ptr::write_bytes(copies, 0, room.1);
        }
        let mut p0 = 0;
        loop {
            let unit = if s.nhwc { 1 } else { taps.max(1) };
            let kc = even_piece(s.k - p0, KC.max(unit), unit).min(s.k - p0);
            let mut target = full;
            target.accumulate = p0 > 0;
            if p0 + kc < s.k {
                target.epilogue = None;
            }
            if s.nhwc {
                let x = x.add(image * s.h * s.w * s.c + group * s.cg);
                unfold::rows(s, x, begin..end, p0..p0 + kc, scratch);
                let b = Columns::of(weight.add(p0 * COLS), s.k * COLS, COLS);
                block(pixels, filters, kc, scratch, kc * ROWS, b, &target);
            } else {
                let mut x = x.add((image * s.c + group * s.cg) * s.h * s.w);
                if let Some(padded) = &padded {
                    // Only this piece's channels are in the copy.
                    let c0 = p0 / taps;
                    for c in c0..(p0 + kc) / taps {
                        padded.fill::<S>(x.add(c * s.h * s.w), copies.add((c - c0) * plane));
                    }
                    x = copies.wrapping_sub(c0 * plane);
                }
                let from = unfold::Source {
                    x,
                    plane,
                    padded: padded.as_ref().map(|p| (p, top)),
                };
                unfold::columns::<S>(s, from, begin..end, p0..p0 + kc, scratch);
                let b = Columns::of(scratch, kc * COLS, COLS);
                block(
                    filters,
                    pixels,
                    kc,
                    weight.add(p0 * ROWS),
                    s.k * ROWS,
                    b,
                    &target,
                );
            }
            p0 += kc;
            if p0 >= s.k {
                return;
            }
        }
    }
}

/// Runs block by block, with or without unfolding.
unsafe fn in_blocks(
    context: &mut RxContext,
    v: &RxConv2dF32,
    s: &Sizes,
    way: Way,
    weight: *const f32,
) -> i32 {
    let threads = context.pool.threads();
    let work = s.n * s.o * s.oh * s.ow * s.k;
    let blocks = Blocks::of(s, way, threads);
    let all = blocks.floats();
    let Some(rooms) = Scratch::new(context, all * threads * 4) else {
        return context.status;
    };
    let scratch = rooms.memory.cast::<f32>();
    // SAFETY: the arrays have the convolution's sizes, and the weight is packed for its way; tasks
    // write disjoint pixels.
    unsafe {
        let x = v.x;
        let shared = Share::new((v, s, x, weight, scratch));
        let tasks = s.n * s.groups * blocks.count;
        let grain = Grain::of_work(SMALL, work / tasks.max(1));
        context.pool.each(tasks, grain, |first, last, worker| {
            let &(v, s, x, weight, scratch) = shared.get();
            let scratch = scratch.add(worker * all);
            for i in first..last {
                let (block, rest) = (i % blocks.count, i / blocks.count);
                let (image, group) = (rest / s.groups, rest % s.groups);
                if let Some(task) = blocks.task(s, image, group, block) {
                    blocks.run(v, s, x, weight, task, scratch);
                }
            }
        });
    }
    0
}

/// Computes a window of one pixel: `y = W x` for each image, or `y = x W` with channels last.
unsafe fn pointwise(
    context: &mut RxContext,
    v: &RxConv2dF32,
    s: &Sizes,
    weight: *const f32,
) -> i32 {
    let pixels = s.h * s.w;
    let images = if s.nhwc { 1 } else { s.n };
    for image in 0..images {
        // SAFETY: the arrays have the convolution's sizes, and the weight is packed for its way.
        let status = unsafe {
            let target = s.target(v, image, 0, 0);
            let mut g = RxGemmF32 {
                k: s.c as i64,
                c: target.c,
                c_ld: target.ld as i64,
                epilogue: target.epilogue.unwrap_or_default(),
                ..Default::default()
            };
            if s.nhwc {
                (g.m, g.n) = ((s.n * pixels) as i64, s.o as i64);
                (g.a, g.a_rs, g.a_cs) = (v.x, s.c as i64, 1);
                g.b_packed = weight;
            } else {
                (g.m, g.n) = (s.o as i64, pixels as i64);
                g.a_packed = weight;
                (g.b, g.b_rs, g.b_cs) = (v.x.add(image * s.c * pixels), pixels as i64, 1);
            }
            gemm(context, &g)
        };
        if status != 0 {
            return status;
        }
    }
    0
}

/// Runs a convolution whose output overwrites the residual, but too early: the residual is copied
/// first.
unsafe fn beside_residual(context: &mut RxContext, v: &RxConv2dF32, s: &Sizes) -> i32 {
    let floats = s.n * s.o * s.oh * s.ow;
    let Some(copy) = Scratch::new(context, floats * 4) else {
        return context.status;
    };
    let residual = copy.memory.cast::<f32>();
    // SAFETY: the residual has the output's size, and so has its copy.
    unsafe {
        std::ptr::copy_nonoverlapping(v.epilogue.residual, residual, floats);
        let mut v = *v;
        v.epilogue.residual = residual;
        convolve(context, &v)
    }
}

/// Returns whether a convolution can overwrite its residual at no cost, because it writes each
/// element of its output once.
pub fn writes_once(sizes: &RxConv2dSizes, layout: i32) -> bool {
    Sizes::of(sizes, layout).is_some_and(|s| s.once(s.way()))
}

/// A convolution.
///
/// # Safety
/// The arrays are as large as the sizes say, and the output overlaps nothing but the residual,
/// which it may overwrite.
pub unsafe fn convolve(context: &mut RxContext, v: &RxConv2dF32) -> i32 {
    // SAFETY: the arrays have the sizes that the descriptor says.
    unsafe {
        let Some(s) = Sizes::of(&v.sizes, v.layout) else {
            let text = "rx_conv2d_f32: sizes that are no convolution";
            return context.fail(Status::Argument, text);
        };
        if s.n * s.o * s.oh * s.ow == 0 {
            return 0;
        }
        let (way, residual) = (s.way(), v.epilogue.residual);
        if std::ptr::eq(residual, v.y) && !s.once(way) {
            return beside_residual(context, v, &s);
        }
        by(context, v, &s, way)
    }
}

/// A convolution by a way that it can go.
///
/// # Safety
/// As [`convolve`]; no size of the output is 0, and a packed weight is for this way.
unsafe fn by(context: &mut RxContext, v: &RxConv2dF32, s: &Sizes, way: Way) -> i32 {
    // SAFETY: the arrays of `v` have the sizes `s`; a weight packed here has those of the way.
    unsafe {
        if way == Way::Depthwise {
            return depthwise::run(context, v, s);
        }
        let mut packed = std::ptr::null_mut();
        if v.weight_packed.is_null() {
            packed = scratch_alloc(context, (s.packed(way) * 4) as u64).cast::<f32>();
            if packed.is_null() {
                return context.status;
            }
            s.pack(way, v.weight, packed);
        }
        let weight = if packed.is_null() {
            v.weight_packed
        } else {
            packed
        };
        let status = match way {
            Way::Pointwise => pointwise(context, v, s, weight),
            Way::Winograd => winograd::run(context, v, s, weight),
            Way::Direct => direct::run(context, v, s, weight),
            Way::Taps => taps::run(context, v, s, weight),
            _ => in_blocks(context, v, s, way, weight),
        };
        scratch_free(context, packed.cast());
        status
    }
}

/// Returns the number of floats of the packed weight; 0 where this convolution packs nothing. Only
/// sizes are read.
pub fn packed_size(v: &RxConv2dF32) -> usize {
    Sizes::of(&v.sizes, v.layout).map_or(0, |s| s.packed(s.way()))
}

/// Packs the weight.
///
/// # Safety
/// The weight has the sizes that the descriptor says, `out` has room for [`packed_size`].
pub unsafe fn pack_weight(v: &RxConv2dF32, out: *mut f32) {
    let Some(s) = Sizes::of(&v.sizes, v.layout) else {
        return;
    };
    let way = s.way();
    if s.packed(way) > 0 {
        // SAFETY: the weight has these sizes, and `out` has what `Sizes::packed` says.
        unsafe { s.pack(way, v.weight, out) };
    }
}
