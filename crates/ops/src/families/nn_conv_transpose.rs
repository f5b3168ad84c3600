//! Transposed convolutions: each input element is scattered over a window of the output.

use relax_loops::{Combiner, Ex, Hint, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use super::conv_attrs;
use super::nn_conv::{
    Layouts, Pairs, at_canonical, canonical_arg, declared_channels, declared_window, numbers,
    of_image, padding_of, pairs, reach, require_weight, steps, taps_of_weight, weight_of,
};
use super::util::need_multiple;
use super::util_te::{narrowed, wide, widened};
use crate::{
    AttrDef, AttrTy, ComputeError, DTy, Default, Former, Fusion, OpDef, RelCx, RelResult, Stop,
    Subject, Te, attr, former, input,
};

macro_rules! transpose_attrs {
    ($ones:expr, $zeros:expr, $data:expr, $kernel:expr) => {
        &[
            conv_attrs::CHANNELS,
            conv_attrs::KERNEL_SIZE,
            attr(
                "strides",
                AttrTy::Ints,
                Default::Ints($ones),
                "distance that neighbouring inputs get in the output",
            ),
            attr(
                "output_padding",
                AttrTy::Ints,
                Default::Ints($zeros),
                "added to the output's extents at the end",
            ),
            attr(
                "padding",
                AttrTy::Ints,
                Default::Ints($zeros),
                "taken off the output before and after each spatial axis",
            ),
            conv_attrs::dilation($ones),
            conv_attrs::GROUPS,
            conv_attrs::data_layout($data),
            conv_attrs::kernel_layout($kernel),
            conv_attrs::OUT_LAYOUT,
            conv_attrs::OUT_DTYPE,
        ]
    };
}

/// The attributes of the 2-D form, shared with its quantised form.
pub(super) const CONV2D_TRANSPOSE_ATTRS: &[AttrDef] =
    transpose_attrs!(&[1, 1], &[0, 0], "NCHW", "IOHW");

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.conv1d_transpose",
        "Transposed convolution over one spatial axis.",
        |cx| rel(cx, 1),
    )
    .narrow_precision()
    .affine_product(super::nn_conv_spread::of_numbers)
    .result_dtype("out_dtype")
    .scale(crate::ScaleRole::Contraction(
        super::scale_rules::transposed_convolution,
    ))
    .layout(super::layout_rules::transposed_convolution)
    .in_relax(super::relax_rules::one_type_unless_given)
    .hinted(super::hinted_windows::conv1d_transpose)
    .inputs(&[
        input("data", "(n, c, w) in its layout"),
        input("weight", "(i, o, kw) in its layout"),
    ])
    .former(&[Former::form(
        "nn.conv1d_transpose",
        11,
        former::swap_letters,
    )])
    .attrs(transpose_attrs!(&[1], &[0], "NCW", "IOW"))
    .fusion(Fusion::OutElementwise)
    .compute(|te| compute(te, 1)),
    OpDef::new(
        "nn.conv2d_transpose",
        "Transposed convolution over two spatial axes.",
        |cx| rel(cx, 2),
    )
    .narrow_precision()
    .affine_product(super::nn_conv_spread::of_numbers)
    .result_dtype("out_dtype")
    .scale(crate::ScaleRole::Contraction(
        super::scale_rules::transposed_convolution,
    ))
    .layout(super::layout_rules::transposed_convolution)
    .in_relax(super::relax_rules::one_type_unless_given)
    .cost(super::costs::conv2d_transpose)
    .hinted(super::hinted_windows::conv2d_transpose)
    .inputs(&[
        input("data", "(n, c, h, w) in its layout"),
        input("weight", "(i, o, kh, kw) in its layout"),
    ])
    .former(&[Former::form(
        "nn.conv2d_transpose",
        11,
        former::transposed_2d,
    )])
    .attrs(CONV2D_TRANSPOSE_ATTRS)
    .fusion(Fusion::OutElementwise)
    .compute(|te| compute(te, 2)),
    OpDef::new(
        "nn.conv3d_transpose",
        "Transposed convolution over three spatial axes.",
        |cx| rel(cx, 3),
    )
    .for_kernels(super::nn_conv_spread::of_volume)
    .narrow_precision()
    .affine_product(super::nn_conv_spread::of_numbers)
    .result_dtype("out_dtype")
    .scale(crate::ScaleRole::Contraction(
        super::scale_rules::transposed_convolution,
    ))
    .layout(super::layout_rules::transposed_convolution)
    .in_relax(super::relax_rules::one_type_unless_given)
    .inputs(&[
        input("data", "(n, c, d, h, w) in its layout"),
        input("weight", "(i, o, kd, kh, kw) in its layout"),
    ])
    .former(&[Former::form(
        "nn.conv3d_transpose",
        11,
        former::swap_letters,
    )])
    .attrs(transpose_attrs!(&[1, 1, 1], &[0, 0, 0], "NCDHW", "IODHW"))
    .fusion(Fusion::OutElementwise)
    .compute(|te| compute(te, 3)),
];

fn rel(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    let (out, dtype) = transpose_result(cx, n)?;
    cx.set_tensor(out, dtype)
}

/// Returns the result type of a transposed convolution; unifies the weight's type where the
/// attributes determine it.
pub(super) fn transpose_result(cx: &mut RelCx<'_>, n: usize) -> RelResult<(Vec<Dim>, DTy)> {
    let l = Layouts::of_rel(cx, n, "IO")?;
    let (data, dtype) = canonical_arg(cx, 0, &l.data, &l.canonical)?;
    let groups = cx.int("groups")?;
    if groups < 1 {
        return cx.refuse(
            Subject::Attr("groups"),
            format!("`groups` must be at least 1, not {groups}"),
        );
    }
    let rule = "the data's channels, which `groups` divides,";
    need_multiple(cx, &data[1], groups, Subject::Attr("groups"), rule)?;
    let count = groups;
    let groups = Dim::from(groups);
    let (strides, dilation) = (steps(cx, "strides", n, 1)?, steps(cx, "dilation", n, 1)?);
    // TVM reads one number per axis, and ignores further ones.
    let extra = cx.ints("output_padding")?.unwrap_or_default();
    if extra.len() < n || extra.iter().any(|&e| e < 0) {
        let text = format!("`output_padding={extra:?}` needs {n} numbers, none negative");
        return cx.refuse(Subject::Attr("output_padding"), text);
    }
    if let Some(k) = (0..n).find(|&k| extra[k] >= strides[k].max(dilation[k])) {
        let text = format!(
            "`output_padding` must be less than the stride (or the dilation), but {} is not less than {}",
            extra[k],
            strides[k].max(dilation[k])
        );
        return cx.refuse(Subject::Attr("output_padding"), text);
    }
    let padding = padding_of(cx, n)?;
    let weight = weight_of(cx, &l)?;
    let (channels, taps) = match declared_window(cx, n)? {
        Some((channels, taps)) => {
            let head = [data[1].clone(), channels.floordiv(&groups)];
            require_weight(cx, &l, head, &taps, weight.map_or(dtype, |w| w.1))?;
            (channels, taps)
        }
        None => {
            let Some((w, _)) = weight else {
                return Err(Stop::Wait);
            };
            let taps = taps_of_weight(cx, &w, n)?;
            let channels = declared_channels(cx);
            if let Some(c) = &channels {
                let what = "`channels` divided by `groups` must be the weight's output channels";
                cx.require_eq(&w[1], &c.floordiv(&groups), Subject::Attr("channels"), what)?;
            }
            if !(data[1].is_any() || w[0].is_any()) {
                let what = "the weight's input channels must be the data's";
                cx.require_eq(&w[0], &data[1], Subject::Arg(1), what)?;
            }
            (channels.unwrap_or_else(|| &w[1] * &groups), taps)
        }
    };
    let rule = "the result's channels, which `groups` divides,";
    need_multiple(cx, &channels, count, Subject::Attr("groups"), rule)?;
    let mut out = vec![data[0].clone(), channels];
    for i in 0..n {
        let size = &data[2 + i];
        if size.is_any() {
            out.push(Dim::ANY);
            continue;
        }
        let spread = (size - &Dim::ONE) * Dim::from(strides[i]) + reach(&taps[i], dilation[i]);
        let cut = padding[i]
            .0
            .saturating_add(padding[i].1)
            .saturating_sub(extra[i]);
        let extent = spread - Dim::from(cut);
        if extent.as_const().is_some_and(|e| e < 0) {
            return cx.refuse(
                Subject::Attr("padding"),
                "`padding` takes more off than the result has",
            );
        }
        out.push(extent);
    }
    let out = l.canonical.convert_dims(&l.out, &out);
    Ok((out, cx.dtype("out_dtype").map_or(dtype, Into::into)))
}

fn compute(te: &mut Te<'_>, n: usize) -> Result<(), ComputeError> {
    let l = Layouts::of_te(te, n, "IO")?;
    let (x, w) = (te.arg(0), te.arg(1));
    let y = transpose_stage(te, n, &l, &x, &w)?;
    te.output(&y);
    Ok(())
}

/// A transposed convolution under construction: operands, their canonical extents, and the
/// parameters of each spatial axis.
struct Spreading<'a> {
    l: &'a Layouts,
    x: &'a TensorRef,
    w: &'a TensorRef,
    data: Vec<Ex>,
    weight: Vec<Ex>,
    dtype: DType,
    groups: i64,
    strides: Vec<i64>,
    dilation: Vec<i64>,
    padding: Pairs,
    extra: Vec<i64>,
}

/// Builds the transposed convolution of `x` with `w` as stages; the result is in the output layout.
/// Narrow floats are rounded once, after the sum.
pub(super) fn transpose_stage(
    te: &mut Te<'_>,
    n: usize,
    l: &Layouts,
    x: &TensorRef,
    w: &TensorRef,
) -> Result<TensorRef, ComputeError> {
    let padding =
        pairs(&te.ints("padding").unwrap_or_default(), n).ok_or("`padding` has a wrong length")?;
    let dtype = te.out(0).dtype;
    let (x, w) = (widened(te, x), widened(te, w));
    let s = Spreading {
        l,
        x: &x,
        w: &w,
        data: l.data.convert_extents(&l.canonical, &x.shape),
        weight: l.kernel.convert_extents(&l.canonical_kernel, &w.shape),
        dtype: wide(dtype),
        groups: te.int("groups")?,
        strides: numbers(te, "strides", n),
        dilation: numbers(te, "dilation", n),
        padding,
        extra: numbers(te, "output_padding", n),
    };
    if let Some(hint) = s.hint() {
        let y = s.spread(te);
        te.program.hints.push((y.buf, hint));
        return Ok(narrowed(te, &y, dtype));
    }
    // A tap that does not exist in every phase would be a product with zero, which is not neutral
    // for infinities and NaN.
    let even = s.axes().all(|k| {
        let taps = s.weight[2 + k].as_int();
        s.dilation[k] == 1 && taps.is_some_and(|n| n % s.strides[k] == 0)
    });
    let y = match even {
        true => s.phased(te),
        false => s.spread(te),
    };
    Ok(narrowed(te, &y, dtype))
}

impl Spreading<'_> {
    /// Returns the hint for the kernel for images and lines, where it supports these layouts and
    /// element types.
    fn hint(&self) -> Option<Hint> {
        let dtypes = [self.x.dtype, self.w.dtype, self.dtype];
        if !self.l.tuned_transpose() || dtypes.iter().any(|&d| d != DType::F32) {
            return None;
        }
        let [rows, columns] = of_image(&self.padding, (0, 0))?;
        Some(Hint::Conv2dTranspose {
            data: self.x.buf,
            weight: self.w.buf,
            strides: of_image(&self.strides, 1)?,
            padding: [rows.0, columns.0],
            dilation: of_image(&self.dilation, 1)?,
            groups: self.groups,
        })
    }

    fn axes(&self) -> std::ops::Range<usize> {
        0..self.strides.len()
    }

    /// The result's extents in its layout.
    fn shape(&self) -> Vec<Ex> {
        let mut shape = vec![self.data[0].clone(), &self.weight[1] * self.groups];
        for k in self.axes() {
            let reach = (&self.weight[2 + k] - 1) * self.dilation[k] + 1;
            let cut = self.padding[k].0 + self.padding[k].1 - self.extra[k];
            shape.push((&self.data[2 + k] - 1) * self.strides[k] + reach - cut);
        }
        self.l.canonical.convert_extents(&self.l.out, &shape)
    }

    fn per_group(&self) -> Ex {
        self.data[1].floor_div(self.groups)
    }

    /// Returns the channel of the data, and the column of the weight, of the `r`th term of channel
    /// `o` of the result.
    fn channel(&self, o: &Ex, r: &Ex) -> (Ex, Ex) {
        if self.groups == 1 {
            return (r.clone(), o.clone());
        }
        let group = o.floor_div(&self.weight[1]);
        (group * self.per_group() + r, o.floor_mod(&self.weight[1]))
    }

    /// Reads the data at canonical indices; spatial ones may be out of bounds, where the value is
    /// zero.
    fn around(&self, at: &[Ex], mut inside: Ex) -> Ex {
        for k in self.axes() {
            inside = inside & at[2 + k].ge(0i64) & at[2 + k].lt(&self.data[2 + k]);
        }
        let x = at_canonical(self.x, &self.l.data, &self.l.canonical, at);
        Ex::where_(&inside, &x, &x.same(0.0))
    }

    /// Builds the sum of products of the weight and the data, whose elements are `stride` apart
    /// with zeros between and around them.
    fn spread(&self, te: &mut Te<'_>) -> TensorRef {
        let shape = self.shape();
        let reach: Vec<Ex> = (self.axes())
            .map(|k| (&self.weight[2 + k] - 1) * self.dilation[k])
            .collect();
        let canonical = self.l.out.convert_extents(&self.l.canonical, &shape);
        let mut wide = self.data[..2].to_vec();
        wide.extend(self.axes().map(|k| &canonical[2 + k] + &reach[k]));
        let spread = te.compute("spread", &wide, |i| {
            let mut at = i[..2].to_vec();
            let mut hits = Ex::bool(true);
            for k in self.axes() {
                let from = &i[2 + k] + self.padding[k].0 - &reach[k];
                if self.strides[k] > 1 {
                    hits = hits & from.floor_mod(self.strides[k]).eq(0i64);
                }
                at.push(from.floor_div(self.strides[k]));
            }
            self.around(&at, hits)
        });
        let mut over = vec![self.per_group()];
        over.extend(self.weight[2..].iter().cloned());
        te.reduce("conv_transpose", &shape, &over, Combiner::Sum, |i, r| {
            let at = self.l.canonical.index_from(&self.l.out, i);
            let (channel, column) = self.channel(&at[1], &r[0]);
            let mut x_at = vec![at[0].clone(), channel.clone()];
            let mut w_at = vec![channel, column];
            for k in self.axes() {
                // Output y receives input i through tap t where i * stride + t * dilation = y +
                // pad.
                x_at.push(&at[2 + k] + &reach[k] - &r[1 + k] * self.dilation[k]);
                w_at.push(r[1 + k].clone());
            }
            spread.at(&x_at).cast(self.dtype) * self.tap(&w_at)
        })
    }

    fn tap(&self, at: &[Ex]) -> Ex {
        at_canonical(self.w, &self.l.kernel, &self.l.canonical_kernel, at).cast(self.dtype)
    }

    /// Like `spread`, without the products with zeros between elements, for adjacent taps whose
    /// number is a multiple of the strides: with a stride of `s`, positions of the result that are
    /// `s` apart read the same taps, every `s`th of them. So there is one convolution for each of
    /// the `s` phases along an axis, and all of them together are a single contraction, whose
    /// result is read in its order.
    fn phased(&self, te: &mut Te<'_>) -> TensorRef {
        // The taps per phase, the number of positions beyond the data after the result, and the
        // steps of a phase.
        let taps: Vec<Ex> = (self.axes())
            .map(|k| self.weight[2 + k].floor_div(self.strides[k]))
            .collect();
        let beyond: Vec<i64> = (self.axes())
            .map(|k| (self.extra[k] - self.padding[k].1).max(0))
            .map(|n| n as u64)
            .zip(&self.strides)
            .map(|(n, &s)| n.div_ceil(s as u64) as i64)
            .collect();
        let mut wide = self.data[..2].to_vec();
        wide.extend((self.axes()).map(|k| &self.data[2 + k] + (&taps[k] - 1) * 2i64 + beyond[k]));
        let around = te.compute("pad", &wide, |i| {
            let mut at = i[..2].to_vec();
            at.extend(self.axes().map(|k| &i[2 + k] - (&taps[k] - 1)));
            self.around(&at, Ex::bool(true))
        });
        let mut phases = vec![self.data[0].clone(), &self.weight[1] * self.groups];
        for k in self.axes() {
            phases.push(&self.data[2 + k] + (&taps[k] - 1) + beyond[k]);
            phases.push(Ex::idx(self.strides[k]));
        }
        let mut over = vec![self.per_group()];
        over.extend(taps.iter().cloned());
        let sums = te.reduce("conv_transpose", &phases, &over, Combiner::Sum, |i, r| {
            let (channel, column) = self.channel(&i[1], &r[0]);
            let mut x_at = vec![i[0].clone(), channel.clone()];
            let mut w_at = vec![channel, column];
            for k in self.axes() {
                let (step, phase) = (&i[2 + 2 * k], &i[3 + 2 * k]);
                x_at.push(step + (&taps[k] - 1) - &r[1 + k]);
                w_at.push(phase + &r[1 + k] * self.strides[k]);
            }
            around.at(&x_at).cast(self.dtype) * self.tap(&w_at)
        });
        te.compute("cut", &self.shape(), |i| {
            let at = self.l.canonical.index_from(&self.l.out, i);
            let mut from = at[..2].to_vec();
            for k in self.axes() {
                let place = &at[2 + k] + self.padding[k].0;
                from.push(place.floor_div(self.strides[k]));
                from.push(place.floor_mod(self.strides[k]));
            }
            sums.at(&from)
        })
    }
}
