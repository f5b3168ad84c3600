//! The descriptors of convolutions and pooling for the runtime's kernels.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::epilogue::Epilogue;
use relax_loops::fits;
use relax_loops::pooled::Pooled;
use relax_loops::{Buf, Hint, Stage};
use relax_runtime::abi::{self, Field, Part};
use relax_runtime::kernels::conv::volumes::RxDepthwise3dF32;
use relax_runtime::kernels::conv::{Layout, RxConv2dF32, RxConv2dSizes};
use relax_runtime::kernels::gemm::epilogue::BiasAxis;
use relax_runtime::kernels::integer::conv::RxConv2dI32;
use relax_runtime::kernels::pool2d::{Pooling, RxPool2dF32};
use relax_runtime::{field, fields, part};

use super::draft::Descriptor;
use super::{Kernel, Result};

/// The axes of images, channels, rows and columns of a convolution's data, and of the window's rows
/// and columns in its weight.
fn conv_axes(nhwc: bool) -> ([usize; 4], [usize; 2]) {
    if nhwc {
        ([0, 3, 1, 2], [0, 1])
    } else {
        ([0, 1, 2, 3], [2, 3])
    }
}

/// Returns the runtime's code for a layout.
pub(crate) fn layout_of(nhwc: bool) -> Layout {
    match nhwc {
        true => Layout::Nhwc,
        false => Layout::Nchw,
    }
}

/// The extents of an image, or of its window, whose rows are axis `row`; a line becomes an image
/// with the row extent `one`.
fn with_row<T: Copy>(extents: &[T], row: usize, one: T) -> Vec<T> {
    let mut image = extents.to_vec();
    if image.len() == 3 {
        image.insert(row, one);
    }
    image
}

impl Kernel<'_, '_, '_> {
    /// Emits the stages of a convolution and its pooling as one call of the fused kernel.
    pub(super) fn pooled(&mut self, p: &Pooled, epilogue: &Epilogue) -> Result<()> {
        let program = self.program;
        let hint = |stage: usize| match &program.stages[stage] {
            Stage::Compute(c) => Some((c.out, program.hint(c.out)?)),
            Stage::Nest(_) => None,
        };
        let (Some((sums, conv)), Some((out, pool))) = (hint(p.conv), hint(p.pool)) else {
            unreachable!("both stages are found by their hints")
        };
        self.place(out)?;
        self.require_fits(fits::of_hint(program, sums, conv))?;
        self.require_fits(fits::of_hint(program, out, pool))?;
        let (y, shape) = self.of(out);
        let between = (program.bufs[p.between].shape.iter())
            .map(|e| self.eval(e))
            .collect::<Result<Vec<Value>>>()?;
        let conv = self.conv_f32(conv, &between, None, epilogue);
        let pool = self.pool_f32(pool, &between, None, &shape, y);
        let args = [self.address_of(&conv), self.address_of(&pool)];
        self.run(abi::rx_conv2d_pool2d_f32, &args);
        Ok(())
    }

    /// The descriptor `RxConv2dF32` of a convolution, transposed or not, with an output of extents
    /// `y`; the output may have no memory.
    pub(super) fn conv_f32(
        &mut self,
        hint: &Hint,
        y: &[Value],
        out: Option<Value>,
        epilogue: &Epilogue,
    ) -> Descriptor<RxConv2dF32> {
        let f = self.structure::<RxConv2dF32>();
        let c = Conv::of(hint);
        let layout = field!(RxConv2dF32, layout);
        self.put_conv(&f, (part!(RxConv2dF32, sizes), layout), &c, y);
        let ((x, _), (w, _)) = (self.of(c.data), self.of(c.weight));
        self.put(&f, fields!(RxConv2dF32 { x: x }));
        let weight = match self.packed.contains(&c.weight) {
            true => field!(RxConv2dF32, weight_packed),
            false => field!(RxConv2dF32, weight),
        };
        self.put(&f, [(weight, w)]);
        if let Some(out) = out {
            self.put(&f, fields!(RxConv2dF32 { y: out }));
        }
        // As in a product of pixels and channels, or of channels and pixels.
        let axis = match c.nhwc {
            true => BiasAxis::Column,
            false => BiasAxis::Row,
        };
        self.put_epilogue(&f, part!(RxConv2dF32, epilogue), axis, epilogue);
        f
    }

    /// The descriptor of windows over volumes that each channel has of its own, with an output of
    /// extents `y`.
    pub(super) fn depthwise3d_f32(
        &mut self,
        hint: &Hint,
        y: &[Value],
        out: Value,
        epilogue: &Epilogue,
    ) -> Descriptor<RxDepthwise3dF32> {
        let Hint::Depthwise3d {
            data,
            weight,
            strides,
            padding,
            dilation,
            last,
        } = *hint
        else {
            unreachable!("a hint about windows over volumes")
        };
        let f = self.structure::<RxDepthwise3dF32>();
        let ((x, from), (w, window)) = (self.of(data), self.of(weight));
        let (at, taps, axis) = match last {
            true => ([0, 4, 1, 2, 3], [0, 1, 2], BiasAxis::Column),
            false => ([0, 1, 2, 3, 4], [2, 3, 4], BiasAxis::Row),
        };
        let [n, c, d, h, width] = at.map(|axis| from[axis]);
        let [_, o, od, oh, ow] = at.map(|axis| y[axis]);
        let [kd, kh, kw] = taps.map(|axis| window[axis]);
        self.put(
            &f,
            fields!(RxDepthwise3dF32 {
                n: n,
                c: c,
                d: d,
                h: h,
                w: width,
                o: o,
                kd: kd,
                kh: kh,
                kw: kw,
                od: od,
                oh: oh,
                ow: ow,
                x: x,
                weight: w,
                y: out,
            }),
        );
        self.put_ints(
            &f,
            fields!(RxDepthwise3dF32 {
                stride_d: strides[0],
                stride_h: strides[1],
                stride_w: strides[2],
                pad_d: padding[0],
                pad_t: padding[1],
                pad_l: padding[2],
                dilation_d: dilation[0],
                dilation_h: dilation[1],
                dilation_w: dilation[2],
                layout: layout_of(last) as i64,
            }),
        );
        self.put_epilogue(&f, part!(RxDepthwise3dF32, epilogue), axis, epilogue);
        f
    }

    /// Emits a convolution of small integers with the zero points `zeros`.
    pub(super) fn conv_i32(
        &mut self,
        hint: &Hint,
        y: &[Value],
        [x_type, weight_type]: [i64; 2],
        zeros: [Value; 2],
        out: Value,
    ) {
        let f = self.structure::<RxConv2dI32>();
        let c = Conv::of(hint);
        let layout = field!(RxConv2dI32, layout);
        self.put_conv(&f, (part!(RxConv2dI32, sizes), layout), &c, y);
        self.put_ints(
            &f,
            fields!(RxConv2dI32 {
                x_type: x_type,
                weight_type: weight_type,
            }),
        );
        let ((x, _), (w, _)) = (self.of(c.data), self.of(c.weight));
        self.put(
            &f,
            fields!(RxConv2dI32 {
                x: x,
                weight: w,
                y: out,
                x_zero: zeros[0],
                weight_zero: zeros[1],
            }),
        );
        self.run_with(abi::rx_conv2d_i32, f);
    }

    /// Writes the sizes and the layout of a convolution.
    fn put_conv<S>(
        &mut self,
        f: &Descriptor<S>,
        (sizes, layout): (Part<S, RxConv2dSizes>, Field<S>),
        c: &Conv,
        y: &[Value],
    ) {
        self.put_sizes(f, sizes, c, y);
        self.put_ints(f, [(layout, layout_of(c.nhwc) as i64)]);
    }

    /// Writes the sizes of a convolution.
    pub(super) fn put_sizes<S>(
        &mut self,
        f: &Descriptor<S>,
        sizes: Part<S, RxConv2dSizes>,
        c: &Conv,
        y: &[Value],
    ) {
        let ((_, x), (_, k)) = (self.of(c.data), self.of(c.weight));
        let one = self.b.ins().iconst(types::I64, 1);
        let [n, channels, h, w, o, kh, kw, oh, ow] = c.extents(&x, &k, y, one);
        let extents = fields!(RxConv2dSizes {
            n: n,
            c: channels,
            h: h,
            w: w,
            o: o,
            kh: kh,
            kw: kw,
            oh: oh,
            ow: ow,
        });
        self.put(f, extents.map(|(field, v)| (sizes.field(field), v)));
        let numbers = fields!(RxConv2dSizes {
            stride_h: c.strides[0],
            stride_w: c.strides[1],
            pad_t: c.corner[0],
            pad_l: c.corner[1],
            dilation_h: c.dilation[0],
            dilation_w: c.dilation[1],
            groups: c.groups,
        });
        self.put_ints(f, numbers.map(|(field, n)| (sizes.field(field), n)));
    }

    /// The descriptor `RxPool2dF32` of a pooling of an array `x` of extents `from`; the array may
    /// have no memory.
    pub(super) fn pool_f32(
        &mut self,
        hint: &Hint,
        from: &[Value],
        x: Option<Value>,
        to: &[Value],
        y: Value,
    ) -> Descriptor<RxPool2dF32> {
        let Hint::Pool2d {
            nhwc,
            window,
            strides,
            padding,
            dilation,
            max,
            count_include_pad,
            ..
        } = *hint
        else {
            unreachable!("a hint about pooling")
        };
        let f = self.structure::<RxPool2dF32>();
        let (axes, _) = conv_axes(nhwc);
        let one = self.b.ins().iconst(types::I64, 1);
        let [from, to] = [from, to].map(|extents| with_row(extents, axes[2], one));
        let [n, c, h, w] = axes.map(|axis| from[axis]);
        self.put(
            &f,
            fields!(RxPool2dF32 {
                n: n,
                c: c,
                h: h,
                w: w,
            }),
        );
        self.put_ints(
            &f,
            fields!(RxPool2dF32 {
                kh: window[0],
                kw: window[1],
            }),
        );
        self.put(
            &f,
            fields!(RxPool2dF32 {
                oh: to[axes[2]],
                ow: to[axes[3]],
            }),
        );
        let op = match (max, count_include_pad) {
            (true, _) => Pooling::Max,
            (false, true) => Pooling::Average,
            (false, false) => Pooling::AverageValid,
        };
        self.put_ints(
            &f,
            fields!(RxPool2dF32 {
                stride_h: strides[0],
                stride_w: strides[1],
                pad_t: padding[0],
                pad_l: padding[1],
                dilation_h: dilation[0],
                dilation_w: dilation[1],
                layout: layout_of(nhwc) as i64,
                op: op as i64,
            }),
        );
        if let Some(x) = x {
            self.put(&f, fields!(RxPool2dF32 { x: x }));
        }
        self.put(&f, fields!(RxPool2dF32 { y: y }));
        f
    }
}

/// The parameters shared by the hints of both kinds of convolutions.
pub(crate) struct Conv {
    pub data: Buf,
    pub weight: Buf,
    strides: [i64; 2],
    /// Padding at the top and at the left.
    corner: [i64; 2],
    dilation: [i64; 2],
    groups: i64,
    pub nhwc: bool,
}

impl Conv {
    /// The extents in the order of a descriptor, from those of input, weight and output: images,
    /// channels, height and width, output channels, window, output. Lines are images of `one` row.
    fn extents<T: Copy>(&self, x: &[T], k: &[T], y: &[T], one: T) -> [T; 9] {
        let (at, taps) = conv_axes(self.nhwc);
        let [x, y] = [x, y].map(|extents| with_row(extents, at[2], one));
        let k = with_row(k, taps[0], one);
        let [n, c, h, w] = at.map(|axis| x[axis]);
        let [_, o, oh, ow] = at.map(|axis| y[axis]);
        let [kh, kw] = taps.map(|axis| k[axis]);
        [n, c, h, w, o, kh, kw, oh, ow]
    }

    /// Returns the sizes of a convolution whose input, weight and output have known extents.
    pub fn sizes(&self, x: &[i64], k: &[i64], y: &[i64]) -> RxConv2dSizes {
        let [n, c, h, w, o, kh, kw, oh, ow] = self.extents(x, k, y, 1);
        RxConv2dSizes {
            n,
            c,
            h,
            w,
            o,
            kh,
            kw,
            oh,
            ow,
            stride_h: self.strides[0],
            stride_w: self.strides[1],
            pad_t: self.corner[0],
            pad_l: self.corner[1],
            dilation_h: self.dilation[0],
            dilation_w: self.dilation[1],
            groups: self.groups,
        }
    }

    pub fn of(hint: &Hint) -> Conv {
        match *hint {
            Hint::Conv2d {
                data,
                weight,
                strides,
                padding,
                dilation,
                groups,
                nhwc,
            } => Conv {
                data,
                weight,
                strides,
                corner: [padding[0], padding[1]],
                dilation,
                groups,
                nhwc,
            },
            Hint::Conv2dTranspose {
                data,
                weight,
                strides,
                padding,
                dilation,
                groups,
            } => Conv {
                data,
                weight,
                strides,
                corner: padding,
                dilation,
                groups,
                nhwc: false,
            },
            _ => unreachable!("a hint about a convolution"),
        }
    }
}
