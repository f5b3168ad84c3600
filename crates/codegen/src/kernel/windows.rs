//! Convolutions and pooling through the runtime's kernels: their descriptors.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::epilogue::Epilogue;
use relax_loops::fits;
use relax_loops::pooled::Pooled;
use relax_loops::{Buf, Hint, Stage};

use super::draft::Fields;
use super::{Kernel, Result};

/// The axes of images, channels, rows and columns of a convolution's data, and of the window's rows and
/// columns in its weight.
fn conv_axes(nhwc: bool) -> ([usize; 4], [usize; 2]) {
    if nhwc {
        ([0, 3, 1, 2], [0, 1])
    } else {
        ([0, 1, 2, 3], [2, 3])
    }
}

/// Extents of an image, or of its window, whose rows are axis `row`; a line is an image of `one` row.
fn with_row<T: Copy>(extents: &[T], row: usize, one: T) -> Vec<T> {
    let mut image = extents.to_vec();
    if image.len() == 3 {
        image.insert(row, one);
    }
    image
}

impl Kernel<'_, '_, '_> {
    /// Emits the stages of a convolution and its pooling as a call of the kernel that does them at once.
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
        self.run_with("rx_conv2d_pool2d_f32", &[conv, pool]);
        Ok(())
    }

    /// `RxConv2dF32` of a convolution, transposed or not, with an output of extents `y`; its array may be none of memory.
    pub(super) fn conv_f32(
        &mut self,
        hint: &Hint,
        y: &[Value],
        out: Option<Value>,
        epilogue: &Epilogue,
    ) -> Fields {
        let f = self.structure(216);
        let c = Conv::of(hint);
        self.put_conv(&f, &c, y);
        let ((x, _), (w, _)) = (self.of(c.data), self.of(c.weight));
        self.put(&f, 136, x);
        let packed = self.packed.contains(&c.weight);
        self.put(&f, if packed { 152 } else { 144 }, w);
        if let Some(out) = out {
            self.put(&f, 160, out);
        }
        self.put_epilogue(&f, 168, c.nhwc.into(), epilogue);
        f
    }

    /// Emits a convolution of small integers, whose zero points are `zeros`.
    pub(super) fn conv_i32(
        &mut self,
        hint: &Hint,
        y: &[Value],
        [x_type, weight_type]: [i64; 2],
        zeros: Vec<Value>,
        out: Value,
    ) {
        let f = self.structure(176);
        let c = Conv::of(hint);
        self.put_conv(&f, &c, y);
        self.put_int32(&f, 132, x_type);
        self.put_int32(&f, 136, weight_type);
        let ((x, _), (w, _)) = (self.of(c.data), self.of(c.weight));
        for (at, v) in [(144, x), (152, w), (160, out)] {
            self.put(&f, at, v);
        }
        for (at, zero) in [168, 172].into_iter().zip(zeros) {
            self.put(&f, at, zero);
        }
        self.run_with("rx_conv2d_i32", &[f]);
    }

    /// Writes the sizes and the layout of a convolution with which its descriptors begin.
    fn put_conv(&mut self, f: &Fields, c: &Conv, y: &[Value]) {
        let ((_, x), (_, k)) = (self.of(c.data), self.of(c.weight));
        let one = self.b.ins().iconst(types::I64, 1);
        for (i, v) in c.extents(&x, &k, y, one).into_iter().enumerate() {
            self.put(f, 8 * i as i32, v);
        }
        for (i, v) in c.numbers().into_iter().enumerate() {
            self.put_int(f, 72 + 8 * i as i32, v);
        }
        self.put_int32(f, 128, c.nhwc.into());
    }

    /// `RxPool2dF32` of a pooling of an array `x`, which may be none of memory, of extents `from`.
    pub(super) fn pool_f32(
        &mut self,
        hint: &Hint,
        from: &[Value],
        x: Option<Value>,
        to: &[Value],
        y: Value,
    ) -> Fields {
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
        let f = self.structure(136);
        let (axes, _) = conv_axes(nhwc);
        let one = self.b.ins().iconst(types::I64, 1);
        let [from, to] = [from, to].map(|extents| with_row(extents, axes[2], one));
        for (i, &axis) in axes.iter().enumerate() {
            self.put(&f, 8 * i as i32, from[axis]);
        }
        self.put_int(&f, 32, window[0]);
        self.put_int(&f, 40, window[1]);
        self.put(&f, 48, to[axes[2]]);
        self.put(&f, 56, to[axes[3]]);
        let numbers = [
            strides[0],
            strides[1],
            padding[0],
            padding[1],
            dilation[0],
            dilation[1],
        ];
        for (i, v) in numbers.into_iter().enumerate() {
            self.put_int(&f, 64 + 8 * i as i32, v);
        }
        let op = match (max, count_include_pad) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        self.put_int32(&f, 112, nhwc.into());
        self.put_int32(&f, 116, op);
        if let Some(x) = x {
            self.put(&f, 120, x);
        }
        self.put(&f, 128, y);
        f
    }
}

/// What the hints of both kinds of convolutions say.
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
    /// The extents in the order of a descriptor, from those of input, weight and output: images, channels, height and
    /// width, output channels, window, output.
    /// Lines are images of `one` row.
    pub fn extents<T: Copy>(&self, x: &[T], k: &[T], y: &[T], one: T) -> [T; 9] {
        let (at, taps) = conv_axes(self.nhwc);
        let [x, y] = [x, y].map(|extents| with_row(extents, at[2], one));
        let k = with_row(k, taps[0], one);
        let [n, c, h, w] = at.map(|axis| x[axis]);
        let [_, o, oh, ow] = at.map(|axis| y[axis]);
        let [kh, kw] = taps.map(|axis| k[axis]);
        [n, c, h, w, o, kh, kw, oh, ow]
    }

    /// The numbers that follow them in a descriptor: steps, padding, distances, groups.
    pub fn numbers(&self) -> [i64; 7] {
        let ([sh, sw], [top, left], [dh, dw]) = (self.strides, self.corner, self.dilation);
        [sh, sw, top, left, dh, dw, self.groups]
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
