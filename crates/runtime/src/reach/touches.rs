//! What calls of each kernel touch, by their arguments.

use std::ffi::c_void;

use super::{Args, Axes, Reach};
use crate::kernels::attention::RxAttentionF32;
use crate::kernels::blockwise::RxBlockwiseF32;
use crate::kernels::boxes::RxBoxes;
use crate::kernels::contract::RxContract;
use crate::kernels::conv::volumes::RxDepthwise3dF32;
use crate::kernels::conv::{RxConv2dF32, RxConv2dSizes};
use crate::kernels::gathered::RxGathered;
use crate::kernels::gemm::RxGemmF32;
use crate::kernels::gemm::epilogue::RxEpilogue;
use crate::kernels::gemm::other::RxGemmI32;
use crate::kernels::integer::conv::RxConv2dI32;
use crate::kernels::integer::fused::{self, RxConv2dQ8};
use crate::kernels::kinds::Kind;
use crate::kernels::lines::{RxLines, Work};
use crate::kernels::pick::RxPick;
use crate::kernels::pool2d::RxPool2dF32;
use crate::kernels::requantize::RxRequantize;
use crate::kernels::rows::RxLayerNormF32;
use crate::kernels::strips::RxStrips;
use crate::kernels::sweep::RxSweep;
use crate::slices::slice;

impl Reach {
    /// `lines`: the length of scale and bias; `rows` and `columns`: the extents of the residual.
    fn epilogue(&mut self, e: &RxEpilogue, lines: i64, residual: Axes<'_>) {
        self.all("bias", e.bias, 4, &[lines]);
        self.all("scale", e.scale, 4, &[lines]);
        self.walk("residual", e.residual, 4, residual);
    }

    fn gemm(&mut self, g: &RxGemmF32, [batch, a, b, c]: [i64; 4]) {
        if g.a_packed.is_null() {
            self.walk(
                "left operand",
                g.a,
                4,
                &[(batch, a), (g.m, g.a_rs), (g.k, g.a_cs)],
            );
        }
        if g.b_packed.is_null() {
            self.walk(
                "right operand",
                g.b,
                4,
                &[(batch, b), (g.k, g.b_rs), (g.n, g.b_cs)],
            );
        }
        let result = [(batch, c), (g.m, g.c_ld), (g.n, 1)];
        self.walk("result", g.c, 4, &result);
        let lines = if g.epilogue.bias_axis == 0 { g.m } else { g.n };
        let rows = [(batch, c), (g.m, g.epilogue.residual_ld), (g.n, 1)];
        self.epilogue(&g.epilogue, lines, &rows);
    }

    fn image(&mut self, s: &RxConv2dSizes) -> [i64; 4] {
        [s.n, s.c, s.h, s.w]
    }

    fn conv(&mut self, v: &RxConv2dF32) {
        let s = &v.sizes;
        let image = self.image(s);
        self.all("image", v.x, 4, &image);
        if v.weight_packed.is_null() {
            self.all("weight", v.weight, 4, &[weights(s), s.kh, s.kw]);
        }
        let out = [s.n, s.o, s.oh, s.ow];
        self.all("result", v.y, 4, &out);
        let n = out.iter().try_fold(1i64, |n, e| n.checked_mul(*e));
        self.epilogue(&v.epilogue, s.o, &[(n.unwrap_or(i64::MAX), 1)]);
    }

    fn attention(&mut self, a: &RxAttentionF32) {
        let of = |step: i64, head: i64, share: i64| {
            let last = (a.heads - 1) / share.max(1);
            [(a.batch, step), (last + 1, head)]
        };
        let walk =
            |first: [(i64, i64); 2], last: [(i64, i64); 2]| [first[0], first[1], last[0], last[1]];
        let q = walk(of(a.q_step, a.q_head, 1), [(a.rows, a.q_rs), (a.depth, 1)]);
        self.walk("queries", a.q, 4, &q);
        let k = [(a.depth, a.k_rs), (a.keys, a.k_cs)];
        self.walk("keys", a.k, 4, &walk(of(a.k_step, a.k_head, a.k_share), k));
        let v = [(a.keys, a.v_rs), (a.width, a.v_cs)];
        self.walk(
            "values",
            a.v,
            4,
            &walk(of(a.v_step, a.v_head, a.v_share), v),
        );
        let mask = [(a.rows, a.mask_rs), (a.keys, a.mask_cs)];
        let (size, heads) = (a.masking().size(), of(a.mask_step, a.mask_head, 1));
        self.walk("mask", a.mask, size, &walk(heads, mask));
        let out = [(a.rows, a.out_rs), (a.width, 1)];
        self.walk(
            "result",
            a.out,
            4,
            &walk(of(a.out_step, a.out_head, 1), out),
        );
    }

    unsafe fn strips(&mut self, s: &RxStrips) {
        let (axes, inputs) = (
            (s.axes + s.reduced).max(0) as usize,
            s.inputs.max(0) as usize,
        );
        // SAFETY: the descriptor's arrays are as long as it says.
        unsafe {
            let extents = slice(s.extents, axes);
            let own = |i: usize| Kind::of(*s.kinds.add(i)).map_or(0, Kind::size);
            let size = |i: usize| if s.kinds.is_null() { 4 } else { own(i) };
            for i in 0..inputs {
                let steps = slice(s.strides.wrapping_add(i * axes), axes);
                let axes: Vec<_> = extents.iter().copied().zip(steps.iter().copied()).collect();
                self.walk("operand", *s.data.add(i), size(i), &axes);
            }
            self.all(
                "result",
                s.out,
                size(inputs),
                &extents[..(s.axes.max(0) as usize).min(axes)],
            );
        }
    }

    unsafe fn sweep(&mut self, s: &RxSweep) {
        let axes = (s.axes + s.reduced).max(0) as usize;
        // SAFETY: the descriptor's arrays are as long as it says.
        unsafe {
            let extents = slice(s.extents, axes);
            for i in 0..s.inputs.max(0) as usize {
                // Indices are numbers.
                let Some(kind) = Kind::of(*s.kinds.add(i)) else {
                    continue;
                };
                let steps = slice(s.strides.wrapping_add(i * axes), axes);
                let axes: Vec<_> = extents.iter().copied().zip(steps.iter().copied()).collect();
                self.walk("operand", *s.data.add(i), kind.size(), &axes);
            }
            let size = Kind::of(s.out_type).map_or(8, Kind::size);
            let shape = &extents[..(s.axes.max(0) as usize).min(axes)];
            self.all("result", s.out, size, shape);
        }
    }

    unsafe fn pick(&mut self, p: &RxPick) {
        let size = p.size.max(0) as usize;
        // SAFETY: the descriptor has `axes` extents.
        let extents = unsafe { slice(p.extents, p.axes.max(0) as usize) };
        // SAFETY: the descriptor's tables have a number for each index of each axis.
        if let Some((low, high)) = unsafe { picked(extents, p.tables) } {
            let first = (p.x).wrapping_byte_offset((low as isize).wrapping_mul(size as isize));
            self.walk("array", first, size, &[(high - low + 1, 1)]);
        }
        self.all("result", p.out, size, extents);
    }

    unsafe fn boxes(&mut self, b: &RxBoxes) {
        let axes = b.axes.max(0) as usize;
        let size = Kind::of(b.kind).map_or(0, Kind::size);
        // SAFETY: the descriptor has two extents for each axis.
        let (from, to) = unsafe { slice(b.extents, 2 * axes) }.split_at(axes);
        let whole = |extents: &[i64]| [&[b.outer, b.inner], extents].concat();
        self.all("array", b.x, size, &whole(from));
        self.all("result", b.out, size, &whole(to));
    }

    fn requantize(&mut self, r: &RxRequantize) {
        let all = [r.outer, r.channels, r.inner];
        self.all("sums", r.x, 4, &all);
        if r.outer > 0 && r.inner > 0 {
            for (data, size) in [
                (r.bias.cast::<c_void>(), 4),
                (r.left.cast(), 8),
                (r.factor.cast(), 8),
                (r.half.cast(), 8),
                (r.right.cast(), 8),
                (r.zero.cast(), 4),
            ] {
                self.all("table", data, size, &[r.channels]);
            }
        }
        self.all("result", r.y, element(r.y_type), &all);
    }
}

/// The address among the arguments, of a structure or of elements.
fn pointer<T>(args: Args<'_>, i: usize) -> *const T {
    std::ptr::with_exposed_provenance(args[i] as usize)
}

/// Defines [`Touches`] from methods that take a descriptor.
macro_rules! described {
    ($($(#[$doc:meta])* $name:ident = |$reach:ident, $d:ident: $ty:ty| $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`Touches`].
        pub(crate) unsafe fn $name($reach: &mut Reach, args: Args<'_>) {
            // SAFETY: the first argument is the kernel's descriptor, which is live.
            unsafe {
                let $d = &*pointer::<$ty>(args, 0);
                $body
            }
        }
    )*};
}

described! {
    /// `rx_gemm_f32`.
    gemm = |reach, g: RxGemmF32| reach.gemm(g, [1, 0, 0, 0]);
    /// `rx_gemm_i32`.
    gemm_i32 = |reach, g: RxGemmI32| {
        let (p, a, b) = (&g.gemm, element(g.a_type), element(g.b_type));
        reach.walk("left operand", p.a, a, &[(g.batch, g.a_step), (p.m, p.a_rs), (p.k, p.a_cs)]);
        reach.walk("right operand", p.b, b, &[(g.batch, g.b_step), (p.k, p.b_rs), (p.n, p.b_cs)]);
        reach.walk("result", p.c, 4, &[(g.batch, g.c_step), (p.m, p.c_ld), (p.n, 1)]);
    };
    /// `rx_conv2d_f32` and `rx_conv2d_transpose_f32`.
    conv = |reach, v: RxConv2dF32| reach.conv(v);
    /// `rx_depthwise3d_f32`.
    depthwise3d = |reach, v: RxDepthwise3dF32| {
        reach.all("image", v.x, 4, &[v.n, v.c, v.d, v.h, v.w]);
        reach.all("weight", v.weight, 4, &[v.o, v.kd, v.kh, v.kw]);
        let out = [v.n, v.o, v.od, v.oh, v.ow];
        reach.all("result", v.y, 4, &out);
        let n = out.iter().try_fold(1i64, |n, e| n.checked_mul(*e));
        reach.epilogue(&v.epilogue, v.o, &[(n.unwrap_or(i64::MAX), 1)]);
    };
    /// `rx_conv2d_q8`.
    conv_q8 = |reach, v: RxConv2dQ8| {
        let s = &v.sizes;
        let image = reach.image(s);
        reach.all("image", v.x, 1, &image);
        if v.packed.is_null() {
            reach.all("weight", v.weight, 1, &[weights(s), s.kh, s.kw]);
        } else {
            reach.all("packed weight", v.packed, 1, &[fused::packed_size(v) as i64]);
        }
        // In fixed point, the bias is one of the tables.
        let fixed = v.factor.is_null();
        let biases = i64::from(!v.bias.is_null()) * if fixed { v.factors } else { s.o };
        reach.all("bias", v.bias, 4, &[biases]);
        reach.all("factor", v.factor, 4, &[v.factors * i64::from(!fixed)]);
        let n = &[v.factors * i64::from(fixed)];
        [v.left, v.multiplier, v.half, v.right].iter().for_each(|&t| reach.all("table", t, 8, n));
        reach.all("table", v.zero, 4, n);
        reach.all("shift", v.shift, 4, &[s.o * i64::from(!v.shift.is_null())]);
        let size = if v.floats == 0 { 1 } else { 4 };
        reach.all("result", v.y.cast_const(), size, &[s.n, s.o, s.oh, s.ow]);
    };
    /// `rx_conv2d_i32`.
    conv_i32 = |reach, v: RxConv2dI32| {
        let s = &v.sizes;
        let image = reach.image(s);
        reach.all("image", v.x, element(v.x_type), &image);
        let size = element(v.weight_type);
        reach.all("weight", v.weight, size, &[weights(s), s.kh, s.kw]);
        reach.all("result", v.y, 4, &[s.n, s.o, s.oh, s.ow]);
    };
    /// `rx_pool2d_f32`.
    pool = |reach, p: RxPool2dF32| {
        reach.all("image", p.x, 4, &[p.n, p.c, p.h, p.w]);
        reach.all("result", p.y, 4, &[p.n, p.c, p.oh, p.ow]);
    };
    /// `rx_requantize_i32`.
    requantize = |reach, r: RxRequantize| reach.requantize(r);
    /// `rx_blockwise_f32`.
    blockwise = |reach, q: RxBlockwiseF32| {
        let k = q.blocks.saturating_mul(q.block);
        reach.all("operand", q.x, 4, &[q.m, k]);
        // As `weight_row`, for any numbers.
        let bytes = i128::from(k) * i128::from(q.bits) / 8;
        reach.all("weight", q.weight, 1, &[q.n, i64::try_from(bytes).unwrap_or(i64::MAX)]);
        reach.all("scale", q.scale, 4, &[q.n, q.blocks]);
        reach.all("result", q.y.cast_const(), 4, &[q.m, q.n]);
    };
    /// `rx_layer_norm_f32`.
    layer_norm = |reach, g: RxLayerNormF32| {
        let size = element(g.kind);
        reach.all("operand", g.x, size, &[g.rows, g.cols]);
        let factor = element(g.factors);
        reach.all("scale", g.gamma, factor, &[g.channels]);
        reach.all("shift", g.beta, factor, &[g.channels]);
        reach.all("result", g.y.cast_const(), size, &[g.rows, g.cols]);
    };
    /// `rx_attention_f32`.
    attention = |reach, a: RxAttentionF32| reach.attention(a);
    /// `rx_strips_f32`.
    strips = |reach, s: RxStrips| reach.strips(s);
    /// `rx_lines`.
    lines = |reach, l: RxLines| {
        let size = element(l.kind);
        reach.all("array", l.x, size, &[l.outer, l.extent, l.inner]);
        let along = match Work::of(l.work) {
            Some(Work::Sort) => l.keep,
            Some(Work::Greatest | Work::Least) => 1,
            Some(Work::Sum | Work::Product) | None => l.extent,
        };
        let result = [l.outer, along, l.inner];
        reach.all("values", l.values.cast_const(), size, &result);
        let size = element(l.index_kind);
        reach.all("indices", l.indices.cast_const(), size, &result);
    };
    /// `rx_boxes`.
    boxes = |reach, b: RxBoxes| reach.boxes(b);
    /// `rx_gathered`.
    gathered = |reach, g: RxGathered| {
        let size = element(g.kind);
        let count = [i64::from(g.taps), g.before, g.behind];
        reach.all("places", g.places, 8, &count);
        reach.all("weights", g.weights, size.max(4), &count);
        // A place for each tap and place of the result.
        let places = slice(g.places, count.iter().product::<i64>().max(0) as usize);
        let farthest = places.iter().max().map_or(0, |&p| p.saturating_add(1));
        let all = g.from_before.saturating_mul(g.from_behind).max(farthest);
        reach.all("array", g.x, element(g.from_kind), &[all, g.channels, g.inner]);
        reach.all("result", g.out.cast_const(), size, &[g.before, g.channels, g.behind, g.inner]);
    };
    /// `rx_pick`.
    pick = |reach, p: RxPick| reach.pick(p);
    /// `rx_sweep`.
    sweep = |reach, s: RxSweep| reach.sweep(s);
    /// `rx_contract`.
    contract = |reach, g: RxContract| {
        let n = g.axes.max(0) as usize;
        let (extents, steps) = (slice(g.extents, n), slice(g.steps, 3 * n));
        for (k, (what, data, kind)) in [
            ("left operand", g.a, g.a_type),
            ("right operand", g.b, g.b_type),
            ("result", g.c.cast_const(), g.c_type),
        ]
        .into_iter()
        .enumerate()
        {
            let steps = steps[k * n..][..n].iter().copied();
            let axes: Vec<_> = extents.iter().copied().zip(steps).collect();
            reach.walk(what, data, element(kind), &axes);
        }
    };
}

/// `rx_batch_gemm_f32`.
///
/// # Safety
/// As [`Touches`].
pub(crate) unsafe fn batch_gemm(reach: &mut Reach, args: Args<'_>) {
    // SAFETY: the first argument is a descriptor, which is live.
    let g = unsafe { &*pointer::<RxGemmF32>(args, 0) };
    reach.gemm(g, [args[1], args[2], args[3], args[4]]);
}

/// `rx_conv2d_pool2d_f32`.
///
/// # Safety
/// As [`Touches`].
pub(crate) unsafe fn pooled(reach: &mut Reach, args: Args<'_>) {
    // SAFETY: both arguments are descriptors, which are live.
    let (v, p) = unsafe { (&*pointer(args, 0), &*pointer::<RxPool2dF32>(args, 1)) };
    reach.conv(v);
    reach.all("result", p.y, 4, &[p.n, p.c, p.oh, p.ow]);
}

/// `rx_lookup_bytes`.
///
/// # Safety
/// As [`Touches`]; nothing is read.
pub(crate) unsafe fn lookup(reach: &mut Reach, args: Args<'_>) {
    reach.all("operand", pointer::<u8>(args, 1), 1, &args[..1]);
    reach.all("table", pointer::<u8>(args, 2), 1, &[256]);
    reach.all("result", pointer::<u8>(args, 3), 1, &args[..1]);
}

/// `rx_softmax`.
///
/// # Safety
/// As [`Touches`]; nothing is read.
pub(crate) unsafe fn softmax(reach: &mut Reach, args: Args<'_>) {
    let size = element(args[4] as i32);
    reach.all("operand", pointer::<u8>(args, 2), size, &args[..2]);
    reach.all("result", pointer::<u8>(args, 3), size, &args[..2]);
}

/// `rx_copy_strided`.
///
/// # Safety
/// As [`Touches`].
pub(crate) unsafe fn copy(reach: &mut Reach, args: Args<'_>) {
    let (size, rank) = (args[0] as i32 as usize, (args[1] as i32).max(0) as usize);
    // SAFETY: extents and steps have as many numbers as the rank says.
    let numbers = |i: usize| unsafe { slice(pointer(args, i), rank) };
    let extents = numbers(2);
    for (what, data, steps) in [("operand", 3, 4), ("result", 5, 6)] {
        let axes = extents.iter().copied().zip(numbers(steps).iter().copied());
        let axes: Vec<_> = axes.collect();
        reach.walk(what, pointer::<c_void>(args, data), size, &axes);
    }
}

/// Returns the least and the greatest element that tables of places pick; `None` where they pick
/// none, since the whole result is filled.
///
/// # Safety
/// `tables` has a number for each index of each axis, one axis behind the other.
unsafe fn picked(extents: &[i64], mut tables: *const i64) -> Option<(i64, i64)> {
    let (mut low, mut high) = (0i64, 0i64);
    for &n in extents {
        // SAFETY: the table of this axis has `n` numbers.
        let table = unsafe { slice(tables, n.max(0) as usize) };
        let places = table.iter().filter(|&&t| t >= 0);
        low = low.saturating_add(*places.clone().min()?);
        high = high.saturating_add(*places.max()?);
        tables = tables.wrapping_add(n as usize);
    }
    Some((low, high))
}

/// The number of pairs of channels that have a window in a convolution's weight.
fn weights(s: &RxConv2dSizes) -> i64 {
    s.o.saturating_mul(s.c / s.groups.max(1))
}

/// The size in bytes of an element, by the descriptors' numbers of types.
fn element(number: i32) -> usize {
    Kind::of(number).map_or(8, Kind::size)
}
