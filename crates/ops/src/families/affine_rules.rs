//! How operators compute with integers that stand for numbers: the rules of
//! `fake-quantization-to-integer` that several operators share.

use relax_ir::{AttrValue, ExprId};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use super::nn_conv_planes::{self, Operands};
use crate::{Affine, AffineSite, Build, Layout, Number};

pub(super) type Integers = Option<(ExprId, Affine)>;

/// The value of a constant with one element, or of a uniform one.
pub(super) fn uniform(b: &dyn Build, e: ExprId) -> Option<f64> {
    let value = b.value(e)?;
    let first = (!value.is_empty()).then(|| value.get_f64(0))?;
    (1..value.len())
        .all(|i| value.get_f64(i) == first)
        .then_some(first)
}

/// Returns whether two scales are the same number but for its last bits, or two zero points are the
/// same.
fn close(b: &dyn Build, x: ExprId, y: ExprId) -> bool {
    if b.same(x, y) {
        return true;
    }
    let (Some(x), Some(y)) = (b.value(x), b.value(y)) else {
        return false;
    };
    let near = |i: usize, k: usize| {
        let (x, y) = (x.get_f64(i), y.get_f64(k));
        (x - y).abs() <= 1e-5 * y.abs()
    };
    match (x.len(), y.len()) {
        (1, n) => (0..n).all(|k| near(0, k)),
        (n, 1) => (0..n).all(|i| near(i, 0)),
        (m, n) => m == n && (0..n).all(|i| near(i, i)),
    }
}

/// Returns whether integers of one kind are those of the other.
fn same(b: &dyn Build, x: Affine, y: Affine) -> bool {
    x.dtype == y.dtype
        && (x.axis == y.axis || x.axis.is_none() || y.axis.is_none())
        && close(b, x.scale, y.scale)
        && close(b, x.zero, y.zero)
}

pub(super) fn number(b: &mut dyn Build, dtype: DType, value: i64) -> ExprId {
    b.constant(Tensor::scalar_i64(dtype, value))
}

fn axis_value(axis: Option<usize>) -> AttrValue {
    AttrValue::Int(axis.map_or(-1, |a| a as i64))
}

/// Returns integers of another kind that stand for the same numbers, rounded. `None` where there is
/// no operator for that: the other kind has several scales.
pub fn requantized(b: &mut dyn Build, e: ExprId, from: Affine, to: Affine) -> Option<ExprId> {
    if same(b, from, to) {
        return Some(e);
    }
    if to.axis.is_some() {
        return None;
    }
    let mut attrs = vec![
        ("axis", axis_value(from.axis)),
        ("out_dtype", AttrValue::DType(to.dtype)),
    ];
    if to.even {
        attrs.push(("rounding", AttrValue::Str("TOEVEN".into())));
        attrs.push(("compute_dtype", AttrValue::Str("float32".into())));
    }
    let args = [e, from.scale, from.zero, to.scale, to.zero];
    Some(b.call("qnn.requantize", &args, &attrs))
}

/// Returns the numbers that integers stand for.
pub fn dequantized(b: &mut dyn Build, e: ExprId, kind: Affine) -> ExprId {
    let attrs = [("axis", axis_value(kind.axis))];
    b.call("qnn.dequantize", &[e, kind.scale, kind.zero], &attrs)
}

/// Returns the product of two scales.
fn scale_product(b: &mut dyn Build, x: ExprId, y: ExprId) -> ExprId {
    match (b.value(x), b.value(y)) {
        (Some(x), Some(y)) if x.is_scalar() || y.is_scalar() => {
            let (one, many) = if x.is_scalar() { (x, y) } else { (y, x) };
            let (one, mut product) = (one.get_f64(0) as f32, many.clone());
            for i in 0..product.len() {
                product.set_f64(i, f64::from(many.get_f64(i) as f32 * one));
            }
            b.constant(product)
        }
        _ => b.call("multiply", &[x, y], &[]),
    }
}

/// Returns what sums of products of two operands' integers stand for; scales run along the result's
/// `axis`.
pub(super) fn sums(b: &mut dyn Build, x: Affine, w: Affine, axis: usize) -> Affine {
    Affine {
        scale: scale_product(b, x.scale, w.scale),
        zero: number(b, DType::I32, 0),
        dtype: DType::I32,
        axis: w.axis.map(|_| axis),
        even: false,
    }
}

/// The largest difference of an integer and its zero point, if that is of the type too.
pub(super) fn reach(dtype: DType) -> Option<i64> {
    match dtype {
        DType::I8 | DType::U8 => Some(255),
        DType::I16 => Some(65_535),
        _ => None,
    }
}

/// Returns whether sums of `terms` products fit 32 bits.
fn sums_fit(x: Affine, w: Affine, terms: i64) -> bool {
    let (Some(x), Some(w)) = (reach(x.dtype), reach(w.dtype)) else {
        return false;
    };
    terms.saturating_mul(x * w) <= i64::from(i32::MAX)
}

/// Integers minus a zero point, in 32 bits.
fn shifted(b: &mut dyn Build, e: ExprId, a: Affine) -> Option<ExprId> {
    let wide = b.call("cast", &[e], &[("dtype", AttrValue::DType(DType::I32))]);
    match uniform(b, a.zero) {
        Some(0.0) => Some(wide),
        Some(z) => {
            let z = number(b, DType::I32, z as i64);
            Some(b.call("subtract", &[wide, z], &[]))
        }
        None if b.rank(a.zero) == Some(0) => Some(b.call("subtract", &[wide, a.zero], &[])),
        None => None,
    }
}

/// The attributes of a call, with sums of 32 bits.
fn wide_attrs(s: &AffineSite) -> Vec<(&str, AttrValue)> {
    let mut attrs: Vec<_> = (s.site.attrs.iter())
        .filter(|(name, _)| name.as_str() != "out_dtype")
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    attrs.push(("out_dtype", AttrValue::DType(DType::I32)));
    attrs
}

/// Both operands of a product, if they are small integers, the first with one scale.
pub(super) fn factors(s: &AffineSite) -> Option<[(ExprId, Affine); 2]> {
    let [x, w] = [s.affine(0)?, s.affine(1)?];
    x.1.axis.is_none().then_some([x, w])
}

/// The axes of a convolution's weight and result along which its filters run; checks that sums fit.
fn filters(b: &dyn Build, s: &AffineSite, letter: char) -> Option<(usize, usize)> {
    let (filter, channel) = filters_fit(b, s, letter)?;
    let [_, (w, kind)] = factors(s)?;
    // Scales along an axis are those of the result's channels where the axis has all of them.
    let channels = b.dims(s.site.call)?.get(channel).and_then(Dim::as_const);
    let whole = kind.axis.is_none() || channels == Some(b.extents(w)?[filter]);
    whole.then_some((filter, channel))
}

/// The same where the axis may have the channels of one group.
pub(super) fn filters_fit(b: &dyn Build, s: &AffineSite, letter: char) -> Option<(usize, usize)> {
    let [(_, x), (w, kind)] = factors(s)?;
    let layout = |name: &str| Some(s.site.attrs.get(name)?.as_str()?.to_owned());
    let data = layout("data_layout")?;
    let out = layout("out_layout")
        .filter(|l| !l.is_empty())
        .unwrap_or(data);
    let (kernel, out) = (
        Layout::parse(&layout("kernel_layout")?)?,
        Layout::parse(&out)?,
    );
    let (filter, channel) = (kernel.position(letter)?, out.position('C')?);
    let blocked = kernel.axes().iter().chain(out.axes()).any(|a| a.factor > 0);
    let extents = b.extents(w)?;
    let terms = extents.iter().product::<i64>() / extents.get(filter).copied()?.max(1);
    let fits = !blocked && kind.axis.is_none_or(|a| a == filter) && sums_fit(x, kind, terms);
    fits.then_some((filter, channel))
}

pub(super) fn quantised_product(
    b: &mut dyn Build,
    s: &AffineSite,
    op: &'static str,
    axis: usize,
) -> Integers {
    Some(quantised(b, factors(s)?, (op, &wide_attrs(s)), axis))
}

/// A product of `qnn`, of two operands.
fn quantised(
    b: &mut dyn Build,
    [(x, of_x), (w, of_w)]: [(ExprId, Affine); 2],
    (op, attrs): (&'static str, &[(&str, AttrValue)]),
    axis: usize,
) -> (ExprId, Affine) {
    let args = [x, w, of_x.zero, of_w.zero, of_x.scale, of_w.scale];
    (b.call(op, &args, attrs), sums(b, of_x, of_w, axis))
}

fn plain_product(b: &mut dyn Build, s: &AffineSite, axis: usize) -> Integers {
    let [(x, of_x), (w, of_w)] = factors(s)?;
    let (x, w) = (shifted(b, x, of_x)?, shifted(b, w, of_w)?);
    let y = b.again(&s.site, &[x, w], &wide_attrs(s));
    Some((y, sums(b, of_x, of_w, axis)))
}

/// `nn.conv1d`.
pub fn conv1d(b: &mut dyn Build, s: &AffineSite) -> Integers {
    filtered(b, s, "qnn.conv1d")
}

/// `nn.conv2d`.
pub fn conv2d(b: &mut dyn Build, s: &AffineSite) -> Integers {
    filtered(b, s, "qnn.conv2d")
}

/// A convolution by the quantised operator of a name.
fn filtered(b: &mut dyn Build, s: &AffineSite, name: &'static str) -> Integers {
    let (_, channel) = filters(b, s, 'O')?;
    quantised_product(b, s, name, channel)
}

/// `nn.conv3d`: there is no such operator on integers, but images are made of volumes.
pub fn conv3d(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let (_, channel) = filters(b, s, 'O')?;
    let [(x, of_x), (w, of_w)] = factors(s)?;
    let zero = uniform(b, of_x.zero)?;
    let all = [x, w, of_x.zero, of_w.zero, of_x.scale, of_w.scale];
    let y = nn_conv_planes::convolved(b, &s.site, &Operands::Integers(all, zero as i64))?;
    Some((y, sums(b, of_x, of_w, channel)))
}

/// Checks that a product's sums fit 32 bits, and that scales of its right operand are by column.
fn product_fits(b: &dyn Build, s: &AffineSite, transposed: bool) -> Option<()> {
    let [(_, x), (w, kind)] = factors(s)?;
    let extents = b.extents(w)?;
    let back = |n: usize| extents.len().checked_sub(n);
    let (terms, column) = (
        back(if transposed { 1 } else { 2 })?,
        back(if transposed { 2 } else { 1 })?,
    );
    let by_column = kind.axis.is_none_or(|a| a == column && extents.len() == 2);
    (by_column && sums_fit(x, kind, extents[terms])).then_some(())
}

/// `nn.dense`.
pub fn dense(b: &mut dyn Build, s: &AffineSite) -> Integers {
    product_fits(b, s, true)?;
    let last = b.rank(s.site.call)?.checked_sub(1)?;
    quantised_product(b, s, "qnn.dense", last)
}

/// `nn.matmul`.
pub fn matmul(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let rows = s.site.flag("transpose_b");
    product_fits(b, s, rows)?;
    let last = b.rank(s.site.call)?.checked_sub(1)?;
    if s.site.flag("transpose_a") {
        return plain_product(b, s, last);
    }
    let [x, (w, of_w)] = factors(s)?;
    // The quantised product reads rows of its right operand.
    let (w, axis) = match rows {
        true => (w, of_w.axis),
        false => {
            let turned = [("axes", AttrValue::ints(&[1, 0]))];
            (b.call("transpose", &[w], &turned), of_w.axis.map(|a| 1 - a))
        }
    };
    let attrs = [
        ("units", s.site.value("units")),
        ("out_dtype", AttrValue::DType(DType::I32)),
    ];
    let w = (w, Affine { axis, ..of_w });
    Some(quantised(b, [x, w], ("qnn.dense", &attrs), last))
}

/// `nn.batch_matmul`.
pub fn batch_matmul(b: &mut dyn Build, s: &AffineSite) -> Integers {
    product_fits(b, s, s.site.flag("transpose_b"))?;
    quantised_product(b, s, "qnn.batch_matmul", 2)
}

/// Returns operand `k`, a bias, as integers that are added to sums: `axis` is the axis of the sums'
/// channels in it. Floats are rounded to the sums' scale only where integers follow.
fn bias(
    b: &mut dyn Build,
    s: &AffineSite,
    k: usize,
    sums: Affine,
    axis: Option<usize>,
) -> Option<ExprId> {
    let floats = match &s.operands[k] {
        Number::Affine(e, a) if a.dtype == DType::I32 && uniform(b, a.zero) == Some(0.0) => {
            if close(b, a.scale, sums.scale) {
                return Some(*e);
            }
            dequantized(b, *e, *a)
        }
        Number::Plain(e) if b.given(*e) && s.wanted.is_some() => *e,
        _ => return None,
    };
    let attrs = [
        ("out_dtype", AttrValue::DType(DType::I32)),
        ("axis", axis_value(axis)),
        ("rounding", AttrValue::Str("TOEVEN".into())),
    ];
    Some(b.call("qnn.quantize", &[floats, sums.scale, sums.zero], &attrs))
}

/// Sums of products, at operand `k`, and a bias.
fn biased(b: &mut dyn Build, s: &AffineSite, k: usize) -> Integers {
    let (e, sums) = s.affine(k)?;
    if sums.dtype != DType::I32 || uniform(b, sums.zero) != Some(0.0) {
        return None;
    }
    let other = match &s.operands[1 - k] {
        Number::Plain(e) | Number::Affine(e, _) => *e,
        Number::Tuple(_) => return None,
    };
    let (rank, of_bias) = (b.rank(e)?, b.extents(other)?);
    // A bias has no more than a number for each channel.
    if of_bias.iter().filter(|n| **n != 1).count() > 1 || of_bias.len() > rank {
        return None;
    }
    let axis = match (sums.axis, s.site.int("axis")) {
        (None, _) => None,
        (Some(_), Some(_)) => Some(0),
        (Some(a), None) => Some((a + of_bias.len()).checked_sub(rank)?),
    };
    let channels = match (sums.axis, axis) {
        (Some(_), Some(a)) => b.extents(sums.scale)?.first() == of_bias.get(a),
        _ => true,
    };
    let at_channels = match (sums.axis, s.site.int("axis")) {
        (Some(a), Some(at)) => at == a as i64 || at + rank as i64 == a as i64,
        _ => true,
    };
    if !channels || !at_channels {
        return None;
    }
    let other = bias(b, s, 1 - k, sums, axis)?;
    let args = if k == 0 { [e, other] } else { [other, e] };
    Some((b.again(&s.site, &args, &[]), sums))
}

/// `nn.bias_add`.
pub fn bias_add(b: &mut dyn Build, s: &AffineSite) -> Integers {
    biased(b, s, 0)
}

/// An operator on two tensors that has a quantised form, which rounds halves up.
fn arithmetic(b: &mut dyn Build, s: &AffineSite, op: &'static str) -> Integers {
    let [(x, of_x), (y, of_y)] = [s.affine(0)?, s.affine(1)?];
    let to = s.wanted.filter(|w| w.axis.is_none() && !w.even)?;
    if of_x.dtype != to.dtype || of_y.dtype != to.dtype {
        return None;
    }
    let args = [
        x, y, of_x.scale, of_x.zero, of_y.scale, of_y.zero, to.scale, to.zero,
    ];
    let attrs = [
        ("lhs_axis", axis_value(of_x.axis)),
        ("rhs_axis", axis_value(of_y.axis)),
    ];
    Some((b.call(op, &args, &attrs), to))
}

/// `add`.
pub fn add(b: &mut dyn Build, s: &AffineSite) -> Integers {
    biased(b, s, 0)
        .or_else(|| biased(b, s, 1))
        .or_else(|| arithmetic(b, s, "qnn.add"))
}

/// `subtract`.
pub fn subtract(b: &mut dyn Build, s: &AffineSite) -> Integers {
    arithmetic(b, s, "qnn.subtract")
}

/// `multiply`.
pub fn multiply(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let one = |i: usize| Some(s.affine(i)?.1.axis.is_none());
    (one(0)? && one(1)?).then(|| arithmetic(b, s, "qnn.mul"))?
}

/// Numbers brought into bounds: what is wanted first, since rounding keeps the order.
fn bounded(
    b: &mut dyn Build,
    at: Integers,
    wanted: Option<Affine>,
    low: f64,
    high: f64,
) -> Integers {
    let (mut e, mut kind) = at?;
    if let Some(to) = wanted {
        e = requantized(b, e, kind, to)?;
        kind = to;
    }
    let exact = wanted.is_some() || (low == 0.0 && high == f64::INFINITY);
    let (least, most) = kind.dtype.int_range()?;
    if !exact || kind.axis.is_some() && uniform(b, kind.zero).is_none() {
        return None;
    }
    let zero = uniform(b, kind.zero);
    let mut bounds = [least as f64, most as f64];
    for (op, bound, none) in [
        ("maximum", low, f64::NEG_INFINITY),
        ("minimum", high, f64::INFINITY),
    ] {
        if bound == none {
            continue;
        }
        let by = match (zero, uniform(b, kind.scale)) {
            (Some(zero), _) if bound == 0.0 => zero,
            (Some(zero), Some(scale)) => {
                let steps = f64::from(bound as f32 / scale as f32);
                zero + if kind.even {
                    steps.round_ties_even()
                } else {
                    steps.round()
                }
            }
            _ if bound == 0.0 && b.rank(kind.zero) == Some(0) => {
                let to = [("dtype", AttrValue::DType(kind.dtype))];
                let zero = b.call("cast", &[kind.zero], &to);
                e = b.call(op, &[e, zero], &[]);
                continue;
            }
            _ => return None,
        };
        let by = by.clamp(least as f64, most as f64);
        let k = usize::from(op == "minimum");
        if kind.dtype != DType::I32 {
            bounds[k] = by;
        } else if by != bounds[k] {
            let by = number(b, kind.dtype, by as i64);
            e = b.call(op, &[e, by], &[]);
        }
    }
    if bounds != [least as f64, most as f64] {
        let bounds = ["a_min", "a_max"]
            .into_iter()
            .zip(bounds.map(AttrValue::Float));
        e = b.call("clip", &[e], &bounds.collect::<Vec<_>>());
    }
    Some((e, kind))
}

/// `nn.relu`.
pub fn relu(b: &mut dyn Build, s: &AffineSite) -> Integers {
    bounded(b, s.affine(0), s.wanted, 0.0, f64::INFINITY)
}

/// `clip`.
pub fn clip(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let (low, high) = (s.site.float("a_min")?, s.site.float("a_max")?);
    bounded(b, s.affine(0), s.wanted, low, high)
}

/// `maximum` and `minimum`: with a number, bounds of the other operand.
fn extremum(b: &mut dyn Build, s: &AffineSite, greater: bool) -> Integers {
    let k = usize::from(s.affine(0).is_none());
    let Number::Plain(bound) = s.operands[1 - k] else {
        return None;
    };
    let bound = b.value(bound).filter(Tensor::is_scalar)?.get_f64(0);
    let (low, high) = match greater {
        true => (bound, f64::INFINITY),
        false => (f64::NEG_INFINITY, bound),
    };
    bounded(b, s.affine(k), s.wanted, low, high)
}

/// `maximum`.
pub fn maximum(b: &mut dyn Build, s: &AffineSite) -> Integers {
    extremum(b, s, true)
}

/// `minimum`.
pub fn minimum(b: &mut dyn Build, s: &AffineSite) -> Integers {
    extremum(b, s, false)
}

/// An operator whose result consists of elements of its operand, the greatest for example.
pub fn selection(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let (mut e, mut kind) = s.affine(0)?;
    // Few bytes rather than many sums of 32 bits.
    if let Some(to) = s.wanted.filter(|_| kind.dtype == DType::I32) {
        e = requantized(b, e, kind, to)?;
        kind = to;
    }
    let mut args = s.site.args.clone();
    args[0] = e;
    let alone = s.operands[1..].iter().all(|o| o.affine().is_none());
    (kind.axis.is_none() && alone).then(|| (b.again(&s.site, &args, &[]), kind))
}

/// `transpose`: scales run along the axis where theirs lies afterwards.
pub fn transposed(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let (e, kind) = s.affine(0)?;
    let rank = b.rank(e)?;
    let axes = match s.site.value("axes").as_ints() {
        Some(axes) => axes,
        None => (0..rank as i64).rev().collect(),
    };
    let at = |axis: usize| {
        let axis = axis as i64;
        axes.iter()
            .position(|a| *a == axis || *a + rank as i64 == axis)
    };
    let axis = match kind.axis {
        Some(axis) => Some(at(axis)?),
        None => None,
    };
    Some((b.again(&s.site, &[e], &[]), Affine { axis, ..kind }))
}

/// `concatenate`: of integers of one kind, that of the first or what is wanted.
pub fn concatenated(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let Some(Number::Tuple(parts)) = s.operands.first() else {
        return None;
    };
    let parts: Vec<_> = parts.iter().map(Number::affine).collect::<Option<_>>()?;
    let first = parts.first()?.1;
    let alike = parts
        .iter()
        .all(|p| p.1.axis.is_none() && same(b, p.1, first));
    let to = s.wanted.or(alike.then_some(first))?;
    let of_one_type = parts
        .iter()
        .all(|p| p.1.axis.is_none() && p.1.dtype == to.dtype);
    if !alike && !to.even && of_one_type {
        let all = |b: &mut dyn Build, f: fn(&(ExprId, Affine)) -> ExprId| {
            let fields: Vec<_> = parts.iter().map(f).collect();
            b.tuple(&fields)
        };
        let args = [
            all(b, |p| p.0),
            all(b, |p| p.1.scale),
            all(b, |p| p.1.zero),
            to.scale,
            to.zero,
        ];
        let axis = [("axis", s.site.value("axis"))];
        return Some((b.call("qnn.concatenate", &args, &axis), to));
    }
    let parts: Vec<_> = (parts.into_iter())
        .map(|(e, from)| requantized(b, e, from, to))
        .collect::<Option<_>>()?;
    let parts = b.tuple(&parts);
    Some((b.again(&s.site, &[parts], &[]), to))
}

/// `nn.pad`: with a number that is one of the integers.
pub fn padded(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let (e, kind) = s.affine(0)?;
    let Number::Plain(by) = *s.operands.get(1)? else {
        return None;
    };
    let by = b.value(by).filter(Tensor::is_scalar)?.get_f64(0);
    if kind.axis.is_some() {
        return None;
    }
    let filled = s.site.value("pad_mode").as_str() == Some("constant");
    let by = match (uniform(b, kind.zero), uniform(b, kind.scale)) {
        (Some(zero), _) if by == 0.0 || !filled => zero,
        (Some(zero), Some(scale)) => zero + by / scale,
        _ => return None,
    };
    let (least, most) = kind.dtype.int_range()?;
    let one = (by - by.round()).abs() <= 1e-4 && (least as f64..=most as f64).contains(&by);
    let by = one.then(|| number(b, kind.dtype, by.round() as i64))?;
    Some((b.again(&s.site, &[e, by], &[]), kind))
}
