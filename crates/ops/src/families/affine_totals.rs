//! How sums and means compute with integers that stand for numbers: rules of
//! `fake-quantization-to-integer`.

use relax_ir::{AttrValue, ExprId};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use super::affine_rules::{Integers, number, reach, uniform};
use super::conv_forms::{pairs, per_axis, spatial};
use crate::{Affine, AffineSite, Build};

/// `sum` and `mean` along some axes: sums of 32 bits, where they fit.
fn totals(b: &mut dyn Build, s: &AffineSite, mean: bool, over: &[(&str, AttrValue)]) -> Integers {
    let (e, kind) = s.affine(0)?;
    let whole: i64 = b.extents(e)?.iter().product();
    let left: i64 = b.extents(s.site.call)?.iter().product();
    let (zero, n) = (uniform(b, kind.zero)?, whole / left.max(1));
    let fits = n > 0 && n.saturating_mul(2 * reach(kind.dtype)?) <= i64::from(i32::MAX);
    if !fits || kind.axis.is_some() || kind.dtype == DType::I16 {
        return None;
    }
    let scale = if mean {
        shared(b, kind.scale, n)
    } else {
        kind.scale
    };
    let wide = b.call("cast", &[e], &[("dtype", AttrValue::DType(DType::I32))]);
    let y = b.call("sum", &[wide], over);
    let kind = Affine {
        scale,
        zero: number(b, DType::I32, zero as i64 * n),
        dtype: DType::I32,
        axis: None,
        even: false,
    };
    Some((y, kind))
}

/// Returns the scale of sums of `n` integers that are to be their mean.
fn shared(b: &mut dyn Build, scale: ExprId, n: i64) -> ExprId {
    match b.value(scale) {
        Some(mut v) => {
            v.set_f64(0, f64::from(v.get_f64(0) as f32 / n as f32));
            b.constant(v)
        }
        None => {
            let n = b.constant(Tensor::scalar_f64(DType::F32, n as f64));
            b.call("divide", &[scale, n], &[])
        }
    }
}

fn along(s: &AffineSite) -> Vec<(&'static str, AttrValue)> {
    ["axis", "keepdims", "exclude"]
        .map(|name| (name, s.site.value(name)))
        .to_vec()
}

/// `sum`.
pub fn sum(b: &mut dyn Build, s: &AffineSite) -> Integers {
    totals(b, s, false, &along(s))
}

/// `mean`.
pub fn mean(b: &mut dyn Build, s: &AffineSite) -> Integers {
    totals(b, s, true, &along(s))
}

/// `nn.global_avg_pool2d`.
pub fn global_mean(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let axes: &[i64] = match s.site.value("layout").as_str()? {
        "NCHW" => &[2, 3],
        "NHWC" => &[1, 2],
        _ => return None,
    };
    let over = [
        ("axis", AttrValue::ints(axes)),
        ("keepdims", AttrValue::Bool(true)),
    ];
    totals(b, s, true, &over)
}

/// `nn.avg_pool1d` and `nn.avg_pool2d`, where all windows have as many elements: a convolution of each
/// channel by ones, for which there are kernels of bytes.
pub fn window_mean(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let (e, kind) = s.affine(0)?;
    let layout = s.site.value("layout");
    let n = b.rank(e)?.checked_sub(2)?;
    let last = match (n, layout.as_str()?) {
        (1, "NCW") | (2, "NCHW") => false,
        (1, "NWC") | (2, "NHWC") => true,
        _ => return None,
    };
    let axes = spatial(n);
    let out = s.site.value("out_layout");
    let same = out
        .as_str()
        .is_none_or(|o| o.is_empty() || layout.as_str() == Some(o));
    let window = per_axis(s.site.value("pool_size").as_ints()?, n);
    let padding = pairs(&s.site.value("padding").as_ints()?, n)?;
    let counted = s.site.flag("count_include_pad") || padding.iter().all(|p| *p == (0, 0));
    let byte = matches!(kind.dtype, DType::I8 | DType::U8);
    let count: i64 = window.iter().product();
    let few = count > 1 && count.saturating_mul(2 * reach(kind.dtype)?) <= i64::from(i32::MAX);
    let even = counted && !s.site.flag("ceil_mode") && window.len() == n;
    if !same || !byte || !few || !even || kind.axis.is_some() {
        return None;
    }
    let place = if last { n + 1 } else { 1 };
    let c = b.dims(e)?.get(place).and_then(Dim::as_const)?;
    let zero = uniform(b, kind.zero)?;
    let (shape, kernel) = match last {
        false => ([&[c, 1], &window[..]].concat(), format!("OI{axes}")),
        true => ([&window[..], &[c, 1]].concat(), format!("{axes}OI")),
    };
    let mut ones = Tensor::zeros(DType::I8, &shape);
    (0..ones.len()).for_each(|i| ones.set_i64(i, 1));
    let before = padding.iter().map(|p| p.0);
    let around: Vec<i64> = before.chain(padding.iter().map(|p| p.1)).collect();
    let attrs = [
        ("strides", s.site.value("strides")),
        ("padding", AttrValue::ints(&around)),
        ("dilation", s.site.value("dilation")),
        ("groups", AttrValue::Int(c)),
        ("channels", AttrValue::Int(c)),
        ("kernel_size", AttrValue::ints(&window)),
        ("data_layout", layout.clone()),
        ("kernel_layout", AttrValue::Str(kernel.as_str().into())),
        ("out_dtype", AttrValue::DType(DType::I32)),
    ];
    let (ones, none) = (b.constant(ones), number(b, DType::I32, 0));
    let one = b.constant(Tensor::scalar_f64(DType::F32, 1.0));
    let data_zero = number(b, DType::I32, zero as i64);
    let op = if n == 1 { "qnn.conv1d" } else { "qnn.conv2d" };
    let y = b.call(op, &[e, ones, data_zero, none, kind.scale, one], &attrs);
    let scale = shared(b, kind.scale, count);
    let kind = Affine {
        scale,
        zero: none,
        dtype: DType::I32,
        axis: None,
        even: false,
    };
    Some((y, kind))
}
