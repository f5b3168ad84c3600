//! `simplify-expr`: algebraic simplification of adjacent operators.
//!
//! The rules are TVM's. Where one of them would change a value beyond rounding, ours is stricter:
//! casts are merged only if the first is lossless, constants only if their combination stays
//! finite, and the scale under an `argmax` must be positive. The one exception is also TVM's: `x +
//! 0` is `x`, though the sum of `-0.0` and `0.0` is `0.0`.

use relax_base::Diagnostics;
use relax_ir::{AttrValue, ExprId};
use relax_ops::Layout;
use relax_tensor::{DType, Tensor, TypeCode};

use crate::edit::Edit;
use crate::evaluate::call_value;
use crate::pattern::{Found, Pat, Rewrite, Rules, any_order, broadcast, c, op, or, x};
use crate::{Analysis, Contract, PassCx, PassDef};

const LAWS: &str = "`x + 0 = x` (also for `-0`), constants of neighbouring sums and products are \
    combined, `(x + a) * b = x * b + a * b`, `x / sqrt(y) = x * rsqrt(y)`";

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "simplify-expr",
    doc: "Applies algebraic rules to neighbouring operators until none applies.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .laws(LAWS)
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    Rules::new(rules()).run(cx, "rules applied")
}

fn rules() -> Vec<(Pat, Rewrite)> {
    let reshapes = &["reshape", "contrib_reverse_reshape"];
    let moves = &["transpose", "layout_transform"];
    let casts = |a: Pat| or([op(&["cast"], [a.clone()]), op(&["cast_like"], [a, x(5)])]);
    let zeros = || or([op(&["zeros"], []), op(&["zeros_like"], [x(5)]), c(2)]);
    let ones = || or([op(&["ones"], []), op(&["ones_like"], [x(5)]), c(2)]);
    let filled = || {
        or([
            op(&["full"], [c(1)]),
            op(&["full_like"], [x(5), c(1)]),
            op(&["ones"], []).keep(2),
            op(&["ones_like"], [x(5)]).keep(2),
            op(&["zeros"], []).keep(3),
            op(&["zeros_like"], [x(5)]).keep(3),
        ])
    };
    vec![
        (op(&["zeros_like"], [x(0)]), |e, f| {
            static_fill(e, f, "zeros")
        }),
        (op(&["ones_like"], [x(0)]), |e, f| static_fill(e, f, "ones")),
        (op(&["full_like"], [x(1), x(0)]), static_full),
        (op(&["reshape_like"], [x(0), x(1)]), |e, f| {
            static_shape(e, f, "reshape", "newshape")
        }),
        (op(&["collapse_sum_like"], [x(0), x(1)]), static_collapse),
        (op(&["broadcast_to_like"], [x(0), x(1)]), |e, f| {
            static_shape(e, f, "broadcast_to", "shape")
        }),
        (op(&["cast_like"], [x(0), x(1)]), static_cast),
        (op(&["add"], [x(0), x(0)]), doubled),
        (
            op(&["divide"], [x(0), op(&["sqrt"], [x(1)])]),
            reciprocal_root,
        ),
        (any_order(&["add"], [x(0), zeros()]), |e, f| {
            neutral(e, f, 0.0)
        }),
        (any_order(&["multiply"], [x(0), ones()]), |e, f| {
            neutral(e, f, 1.0)
        }),
        (op(&["subtract"], [x(0), zeros()]), |e, f| {
            neutral(e, f, 0.0)
        }),
        (op(&["divide"], [x(0), ones()]), |e, f| neutral(e, f, 1.0)),
        (op(reshapes, [op(reshapes, [x(0)])]), reshape_twice),
        (op(moves, [op(moves, [x(0)]).keep(1)]), move_twice),
        (casts(x(0)), cast_to_same),
        (casts(casts(x(0)).keep(1)), cast_twice),
        (broadcast(filled(), x(0)), fill_as_scalar),
        (broadcast(x(0), filled()), fill_as_scalar),
        (
            any_order(
                &["multiply"],
                [any_order(&["add"], [x(0), c(1)]).keep(3), c(2)],
            ),
            product_of_sum,
        ),
        (
            any_order(
                &["multiply"],
                [any_order(&["multiply"], [x(0), c(1)]).keep(3), c(2)],
            ),
            constants_together,
        ),
        (
            any_order(&["add"], [any_order(&["add"], [x(0), c(1)]).keep(3), c(2)]),
            constants_together,
        ),
        (
            op(
                &["argmax", "argmin", "argsort"],
                [op(&["qnn.dequantize"], [x(0), c(1), x(2)])],
            ),
            order_of_quantised,
        ),
        (
            op(
                &["cast"],
                [op(&["cast"], [op(&["clip"], [x(0)]).keep(1)]).keep(2)],
            ),
            cast_of_clipped,
        ),
        (op(&["clip"], [op(&["cast"], [x(0)]).keep(1)]), clip_of_cast),
    ]
}

/// Returns the extents and the element type of a match, when all extents are constants.
fn static_type(e: &Edit<'_>, f: &Found) -> Option<(Vec<i64>, DType)> {
    Some((e.extents(f.root)?, e.dtype(f.root)?))
}

fn static_fill(e: &mut Edit<'_>, f: &Found, name: &'static str) -> Option<ExprId> {
    let (shape, dtype) = static_type(e, f)?;
    let given = [
        ("shape", AttrValue::ints(&shape)),
        ("dtype", AttrValue::DType(dtype)),
    ];
    let span = e.m.span(f.root);
    Some(e.call(name, &[], &given, span))
}

fn static_full(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (shape, dtype) = static_type(e, f)?;
    let given = [
        ("shape", AttrValue::ints(&shape)),
        ("dtype", AttrValue::DType(dtype)),
    ];
    let span = e.m.span(f.root);
    Some(e.call("full", &[f.get(0)], &given, span))
}

fn static_shape(e: &mut Edit<'_>, f: &Found, name: &'static str, attr: &str) -> Option<ExprId> {
    let (shape, _) = static_type(e, f)?;
    let span = e.m.span(f.root);
    // `reshape` reads an extent of 0 as "the same as before".
    if shape.contains(&0) {
        return None;
    }
    Some(e.call(name, &[f.get(0)], &[(attr, AttrValue::ints(&shape))], span))
}

fn static_collapse(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (shape, _) = static_type(e, f)?;
    let extents: Vec<i32> = shape
        .iter()
        .map(|&d| i32::try_from(d).ok())
        .collect::<Option<_>>()?;
    let span = e.m.span(f.root);
    let value = e.constant(Tensor::from_slice(&[extents.len() as i64], &extents), span);
    let given = [("shape", AttrValue::ints(&shape))];
    Some(e.call("collapse_sum_to", &[f.get(0), value], &given, span))
}

fn static_cast(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (dtype, span) = (e.dtype(f.root)?, e.m.span(f.root));
    Some(e.call(
        "cast",
        &[f.get(0)],
        &[("dtype", AttrValue::DType(dtype))],
        span,
    ))
}

fn doubled(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (dtype, span) = (e.dtype(f.root)?, e.m.span(f.root));
    if dtype.is_bool() {
        return None;
    }
    let two = e.constant(Tensor::scalar_i64(dtype, 2), span);
    Some(e.call("multiply", &[f.get(0), two], &[], span))
}

fn reciprocal_root(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let span = e.m.span(f.root);
    let root = e.call("rsqrt", &[f.get(1)], &[], span);
    Some(e.call("multiply", &[f.get(0), root], &[], span))
}

/// Simplifies `x + 0`, `x - 0`, `x * 1`, `x / 1`, if the other operand does not broadcast `x`.
fn neutral(e: &mut Edit<'_>, f: &Found, number: f64) -> Option<ExprId> {
    if let Some(value) = f.maybe(2)
        && e.scalar(value) != Some(number)
    {
        return None;
    }
    e.same_type(f.get(0), f.root).then(|| f.get(0))
}

fn reshape_twice(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (shape, _) = static_type(e, f)?;
    if shape.contains(&0) {
        return None;
    }
    let span = e.m.span(f.root);
    Some(e.call(
        "reshape",
        &[f.get(0)],
        &[("newshape", AttrValue::ints(&shape))],
        span,
    ))
}

/// Returns how `transpose` or a `layout_transform` that only reorders permutes axes: the input axis
/// of each output axis. `None` for one that splits axes.
fn permutation(e: &Edit<'_>, call: ExprId, rank: usize) -> Option<Vec<usize>> {
    let call = e.op_call(call)?;
    if let Some((src, dst)) = layouts(e, &call) {
        let (src, dst) = (Layout::parse(&src)?, Layout::parse(&dst)?);
        let axes = dst.axes().iter();
        let order: Vec<usize> = axes
            .map(|a| src.axes().iter().position(|b| a == b))
            .collect::<Option<_>>()?;
        return (order.len() == rank && src.axes().len() == rank).then_some(order);
    }
    match e.attr(&call, "axes") {
        AttrValue::None => Some((0..rank).rev().collect()),
        axes => {
            let at = |a: i64| usize::try_from(if a < 0 { a + rank as i64 } else { a }).ok();
            let axes: Vec<usize> = axes.as_ints()?.into_iter().map(at).collect::<Option<_>>()?;
            (axes.len() == rank).then_some(axes)
        }
    }
}

/// Returns the layouts of a `layout_transform`.
fn layouts(e: &Edit<'_>, call: &crate::edit::OpCall) -> Option<(String, String)> {
    let text = |name| e.attr(call, name).as_str().map(str::to_owned);
    Some((text("src_layout")?, text("dst_layout")?))
}

fn move_twice(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (outer, inner, data) = (f.root, f.get(1), f.get(0));
    let (rank_in, rank, rank_out) = (
        e.dims(data)?.len(),
        e.dims(inner)?.len(),
        e.dims(outer)?.len(),
    );
    let span = e.m.span(outer);
    if rank_in == rank && rank == rank_out {
        let (first, second) = (permutation(e, inner, rank)?, permutation(e, outer, rank)?);
        let axes: Vec<i64> = second.iter().map(|&a| first[a] as i64).collect();
        if axes.iter().enumerate().all(|(i, &a)| i as i64 == a) {
            return Some(data);
        }
        return Some(e.call(
            "transpose",
            &[data],
            &[("axes", AttrValue::ints(&axes))],
            span,
        ));
    }
    // One of them splits or joins axes: the other is folded into its layout.
    let (first, second) = (e.op_call(inner)?, e.op_call(outer)?);
    let names = |text: &str| -> Option<Vec<char>> {
        // Letters without factors, so that axes are characters.
        text.chars()
            .all(char::is_alphabetic)
            .then(|| text.chars().collect())
    };
    let (src, dst) = match (layouts(e, &first), layouts(e, &second)) {
        (Some((a, b)), Some((c, d))) if rank_in != rank && rank != rank_out => {
            (b == c).then_some((a, d))?
        }
        (_, Some((c, d))) if rank != rank_out => {
            let order = permutation(e, inner, rank)?;
            let c = names(&c)?;
            let mut src = vec!['?'; rank];
            for (to, &from) in order.iter().enumerate() {
                src[from] = *c.get(to)?;
            }
            (src.into_iter().collect(), d)
        }
        (Some((a, b)), _) => {
            let order = permutation(e, outer, rank)?;
            let b = names(&b)?;
            let dst = order
                .iter()
                .map(|&i| b.get(i).copied())
                .collect::<Option<String>>()?;
            (a, dst)
        }
        _ => return None,
    };
    if src == dst {
        return Some(data);
    }
    let text = |s: String| AttrValue::Str(s.into());
    let given = [("src_layout", text(src)), ("dst_layout", text(dst))];
    Some(e.call("layout_transform", &[data], &given, span))
}

fn cast_to_same(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (from, to) = (e.dtype(f.get(0))?, e.dtype(f.root)?);
    (from == to).then(|| f.get(0))
}

/// Returns whether every value of one element type is a value of another.
fn exact(from: DType, to: DType) -> bool {
    let mantissa = |d: DType| match (d.code, d.bits) {
        (TypeCode::BFloat, _) => 8,
        (_, 16) => 11,
        (_, 32) => 24,
        _ => 53,
    };
    let range = |d: DType| match (d.code, d.bits) {
        (TypeCode::BFloat, _) | (_, 32) => 8,
        (_, 16) => 5,
        _ => 11,
    };
    let bits = |d: DType| u32::from(d.bits) - u32::from(d.is_int());
    if from.lanes != 1 || to.lanes != 1 {
        return from == to;
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => mantissa(from) <= mantissa(to) && range(from) <= range(to),
        (true, false) => false,
        (false, true) => bits(from) <= mantissa(to) && (to.bits != 16 || bits(from) < 16),
        (false, false) => {
            bits(from) <= bits(to) && (!from.is_int() || to.is_int()) && !to.is_bool()
        }
    }
}

fn cast_twice(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (from, over, to) = (e.dtype(f.get(0))?, e.dtype(f.get(1))?, e.dtype(f.root)?);
    if from != over && !exact(from, over) {
        return None;
    }
    let span = e.m.span(f.root);
    Some(e.call(
        "cast",
        &[f.get(0)],
        &[("dtype", AttrValue::DType(to))],
        span,
    ))
}

/// Replaces a filled tensor under a broadcasting operator, next to an operand that already has the
/// result's type, by a scalar.
fn fill_as_scalar(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (call, data, span) = (f.call(e), f.get(0), e.m.span(f.root));
    if !e.same_type(data, f.root) {
        return None;
    }
    let value = match f.maybe(1) {
        Some(value) if e.scalar(value).is_some() => value,
        Some(_) => return None,
        None => {
            let dtype = e.dtype(f.maybe(2).or(f.maybe(3))?)?;
            let number = i64::from(f.maybe(2).is_some());
            e.constant(Tensor::scalar_i64(dtype, number), span)
        }
    };
    if e.dtype(value) != e.dtype(data) {
        return None;
    }
    let args = if e.same(call.args[1], data) {
        [value, data]
    } else {
        [data, value]
    };
    let attrs = e.m.attrs(call.attrs).clone();
    // Some operators broadcast in their own way, as `nn.bias_add` does, and accept no scalar.
    let new = e.recall(&call, &args, attrs, span);
    e.same_type(new, f.root).then_some(new)
}

/// Returns the value of an operator on two constants, when no element overflows to infinity or NaN.
fn combined(e: &mut Edit<'_>, name: &str, a: ExprId, b: ExprId) -> Option<Tensor> {
    let (a, b) = (e.constant_value(a)?.clone(), e.constant_value(b)?.clone());
    let value = call_value(e, name, &relax_ir::Attrs::new(), &[a, b])?;
    let finite =
        !value.dtype().is_float() || (0..value.len()).all(|i| value.get_f64(i).is_finite());
    finite.then_some(value)
}

/// Rewrites `(x + c1) * c2` as `x * c2 + c1 * c2`: the form into which scales can be folded. Not where
/// others read the sum, which would be computed beside it.
fn product_of_sum(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (data, c1, c2) = (f.get(0), f.get(1), f.get(2));
    if e.constant_value(data).is_some() || e.is_shared(f.get(3)) {
        return None;
    }
    let span = e.m.span(f.root);
    let value = combined(e, "multiply", c1, c2)?;
    let product = e.call("multiply", &[data, c2], &[], span);
    let value = e.constant(value, span);
    Some(e.call("add", &[product, value], &[], span))
}

/// Rewrites `(x + c1) + c2` as `x + (c1 + c2)`, and the same for products, unless others read the
/// inner one.
fn constants_together(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (data, c1, c2) = (f.get(0), f.get(1), f.get(2));
    if e.constant_value(data).is_some() || e.is_shared(f.get(3)) {
        return None;
    }
    let (name, span) = (f.call(e).def.name, e.m.span(f.root));
    let value = combined(e, name, c1, c2)?;
    let value = e.constant(value, span);
    Some(e.call(name, &[data, value], &[], span))
}

/// Removes a dequantisation, which preserves the order of the integers if the scale is positive.
fn order_of_quantised(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let scale = e.scalar(f.get(1))?;
    // Wider integers may become equal as floats.
    let narrow = e.dtype(f.get(0))?.bits <= 16;
    if scale.partial_cmp(&0.0)? != std::cmp::Ordering::Greater || !scale.is_finite() || !narrow {
        return None;
    }
    let (call, span) = (f.call(e), e.m.span(f.root));
    let attrs = e.m.attrs(call.attrs).clone();
    Some(e.recall(&call, &[f.get(0)], attrs, span))
}

/// Returns whether a `clip` clamps elements exactly to the range of an integer type.
fn clips_to(e: &Edit<'_>, clip: ExprId, dtype: DType) -> bool {
    let Some(call) = e.op_call(clip) else {
        return false;
    };
    let bound = |name| e.attr(&call, name).as_float();
    let Some((least, most)) = dtype.int_range() else {
        return false;
    };
    bound("a_min") == Some(least as f64) && bound("a_max") == Some(most as f64)
}

/// Simplifies `cast(cast(clip(x, least, most), narrow), wide)` to the clipped value, if that was an
/// integer.
fn cast_of_clipped(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (clip, narrow) = (f.get(1), e.dtype(f.get(2))?);
    let same = e.dtype(clip)? == e.dtype(f.root)?;
    let integral = e.dtype(clip)?.is_integral();
    (same && integral && narrow.bits < 32 && clips_to(e, clip, narrow)).then_some(clip)
}

/// Removes a clip to the range of the value's own type.
fn clip_of_cast(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let dtype = e.dtype(f.get(1))?;
    (dtype.bits < 32 && clips_to(e, f.root, dtype)).then(|| f.get(1))
}
