//! `raise-ops`: calls operators with kernels of their own in place of several that compute the same.
//!
//! What exporters write for a layer that their format has no operator for (a layer normalisation
//! before ONNX had one, root mean squares of language models, a softmax by hand) becomes the
//! operator, and reads its rows once. A normalisation is recognised first, with a scale of ones and
//! a shift of zeros; products and sums with vectors around it then become its scale and its shift.

use relax_base::Diagnostics;
use relax_ir::{AttrValue, ExprId};
use relax_tensor::DType;

use crate::edit::Edit;
use crate::pattern::{Found, Pat, Rewrite, Rules, any_order, c, op, or, x};
use crate::{Analysis, Contract, PassCx, PassDef};

const LAYER_NORM: &str = "nn.layer_norm";
const GROUP_NORM: &str = "nn.group_norm";
const RMS_NORM: &str = "relax.nn.rms_norm";

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "raise-ops",
    doc: "Calls one operator with a kernel of its own in place of several that compute the same.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .reorders()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    Rules::new(rules()).run(cx, "operators raised")
}

/// Slots: 0 the data, 1 its mean or maximum, 2 what the second reduction reads, 3 that reduction, 4
/// what is added to it, 5 an exponent, 6 a scale, 7 the scale by the inverse root, 8 a shift. Of a
/// normalisation that is a call already: 1 its scale, 3 the call, 6 a vector.
fn rules() -> Vec<(Pat, Rewrite)> {
    let first_mean = || op(&["mean"], [x(0)]).keep(1);
    let centred = || subtract(first_mean()).keep(2);
    let square = |a: Pat, again: Pat| {
        or([
            op(&["multiply"], [a.clone(), again]),
            op(&["power"], [a, c(5)]),
        ])
    };
    let mean = |a: Pat| op(&["mean"], [a]).keep(3);
    let variance = || {
        or([
            mean(square(centred(), x(2))),
            op(&["variance"], [x(0), x(1)]).keep(3),
            op(&["relax.variance"], [x(0)]).keep(3),
        ])
    };
    let inverse = |a: Pat| op(&["rsqrt"], [any_order(&["add"], [a, c(4)])]);
    // `data` before its root: what the root reads is found in it.
    let over_root = |data: Pat, a: Pat| {
        or([
            any_order(&["multiply"], [data.clone(), inverse(a.clone())]),
            op(
                &["divide"],
                [data, op(&["sqrt"], [any_order(&["add"], [a, c(4)])])],
            ),
        ])
    };
    let exponentials = || subtract(op(&["max"], [x(0)]).keep(1));
    let total = |a: Pat| op(&["sum"], [a]).keep(3);
    let scale = any_order(&["multiply"], [inverse(variance()), x(6)]).keep(7);
    let scaled = any_order(&["multiply"], [x(0), scale]);
    let shift = op(
        &["subtract"],
        [x(8), any_order(&["multiply"], [first_mean(), x(7)])],
    );
    let ones = || op(&["ones"], []);
    let zeros = || op(&["zeros"], []);
    vec![
        (
            op(
                &["divide"],
                [op(&["exp"], [exponentials()]).keep(2), total(x(2))],
            ),
            |e, f| softmax(e, f, "nn.softmax"),
        ),
        (
            op(
                &["subtract"],
                [
                    exponentials().keep(2),
                    op(&["log"], [total(op(&["exp"], [x(2)]))]),
                ],
            ),
            |e, f| softmax(e, f, "nn.log_softmax"),
        ),
        (over_root(centred(), variance()), layer_norm),
        (any_order(&["add"], [scaled, shift]), folded_norm),
        (over_root(x(0), mean(square(x(0), x(0)))), rms_norm),
        (
            op(
                &["reshape"],
                [op(
                    &["nn.instance_norm"],
                    [
                        op(&["reshape"], [x(0)]).keep(2),
                        or([ones(), c(6)]),
                        or([zeros(), c(8)]),
                    ],
                )
                .keep(3)],
            ),
            group_norm,
        ),
        (
            any_order(
                &["multiply"],
                [
                    op(&[LAYER_NORM, GROUP_NORM], [x(0), ones(), zeros()]).keep(3),
                    x(6),
                ],
            ),
            |e, f| with_vector(e, f, 1),
        ),
        (
            any_order(
                &["add"],
                [
                    op(&[LAYER_NORM, GROUP_NORM], [x(0), x(1), zeros()]).keep(3),
                    x(6),
                ],
            ),
            |e, f| with_vector(e, f, 2),
        ),
        (
            any_order(
                &["multiply"],
                [op(&[RMS_NORM], [x(0), ones()]).keep(3), x(6)],
            ),
            |e, f| with_vector(e, f, 1),
        ),
    ]
}

/// Matches the data less a reduction of it.
fn subtract(reduction: Pat) -> Pat {
    op(&["subtract"], [x(0), reduction])
}

/// Returns the only axis of a reduction of `rank` axes that keeps it with extent 1.
fn reduced_axis(e: &Edit<'_>, reduction: ExprId, rank: usize) -> Option<i64> {
    let call = e.op_call(reduction)?;
    let set = |name| e.attr(&call, name).as_bool() == Some(true);
    let axes = e.attr(&call, "axis").as_ints()?;
    let [axis] = axes[..] else { return None };
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    (set("keepdims") && !set("exclude") && !set("unbiased")).then_some(axis)
}

/// Returns the axis that all reductions of a match are over.
fn common_axis(e: &Edit<'_>, f: &Found) -> Option<i64> {
    let rank = e.dims(f.get(0))?.len();
    let axis = reduced_axis(e, f.get(3), rank)?;
    let first = f.maybe(1).map_or(Some(axis), |m| reduced_axis(e, m, rank));
    (first == Some(axis)).then_some(axis)
}

/// Narrow floats round after each operator that the text names, and would not within one.
fn wide(e: &Edit<'_>, data: ExprId) -> Option<DType> {
    e.dtype(data)
        .filter(|d| [DType::F32, DType::F64].contains(d))
}

fn softmax(e: &mut Edit<'_>, f: &Found, name: &'static str) -> Option<ExprId> {
    wide(e, f.get(0))?;
    let axis = common_axis(e, f)?;
    let span = e.m.span(f.root);
    Some(e.call(name, &[f.get(0)], &[("axis", AttrValue::Int(axis))], span))
}

/// Rows along the last axis that are normalised.
struct Rows {
    data: ExprId,
    dtype: DType,
    /// How many elements a row has.
    count: i64,
    /// What is added to the variance or to the mean square.
    epsilon: f64,
}

impl Rows {
    fn of(e: &Edit<'_>, f: &Found) -> Option<Rows> {
        let data = f.get(0);
        let dtype = wide(e, data)?;
        let dims = e.dims(data)?;
        let (last, count) = (dims.len().checked_sub(1)?, dims.last()?.as_const()?);
        let squared = f.maybe(5).is_none_or(|p| number(e, p) == Some(2.0));
        let epsilon = number(e, f.get(4)).filter(|x| (0.0..1.0).contains(x))?;
        // The attribute is what was written, of which the constant is the nearest float32.
        let written = (epsilon as f32).to_string().parse();
        let epsilon = if dtype == DType::F32 {
            written.ok()?
        } else {
            epsilon
        };
        let fits = common_axis(e, f)? == last as i64 && squared && e.same_type(data, f.root);
        fits.then_some(Rows {
            data,
            dtype,
            count,
            epsilon,
        })
    }

    /// Returns the call of a normalisation over the last axis.
    fn call(&self, e: &mut Edit<'_>, f: &Found, name: &'static str, args: &[ExprId]) -> ExprId {
        let epsilon = AttrValue::Float(self.epsilon);
        let span = e.m.span(f.root);
        e.call(name, args, &[("epsilon", epsilon)], span)
    }
}

/// Returns a scale of ones and a shift of zeros.
fn neutral(e: &mut Edit<'_>, f: &Found, dtype: DType, count: i64) -> [ExprId; 2] {
    let given = [
        ("shape", AttrValue::ints(&[count])),
        ("dtype", AttrValue::DType(dtype)),
    ];
    let span = e.m.span(f.root);
    ["ones", "zeros"].map(|by| e.call(by, &[], &given, span))
}

/// `(x - mean) / sqrt(variance + epsilon)`.
fn layer_norm(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let rows = Rows::of(e, f)?;
    let [scale, shift] = neutral(e, f, rows.dtype, rows.count);
    Some(rows.call(e, f, LAYER_NORM, &[rows.data, scale, shift]))
}

/// `x * scale + (shift - mean * scale)`, where a part of the scale is the inverse root.
fn folded_norm(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let rows = Rows::of(e, f)?;
    let (scale, shift) = (f.get(6), f.get(8));
    let fits = is_vector(e, scale, rows.count) && is_vector(e, shift, rows.count);
    fits.then(|| rows.call(e, f, LAYER_NORM, &[rows.data, scale, shift]))
}

/// `x / sqrt(mean(x * x) + epsilon)`.
fn rms_norm(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let rows = Rows::of(e, f)?;
    let [scale, _] = neutral(e, f, rows.dtype, rows.count);
    Some(rows.call(e, f, RMS_NORM, &[rows.data, scale]))
}

/// Normalisation of an image's channels in groups, written as that of a few long channels.
fn group_norm(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (data, span) = (f.get(0), e.m.span(f.root));
    let dtype = wide(e, data)?;
    let (whole, groups) = (e.extents(data)?, e.extents(f.get(2))?);
    let call = e.op_call(f.get(3))?;
    let plain = all_are(e, f.maybe(6), 1.0) && all_are(e, f.maybe(8), 0.0);
    let same = e.same_type(data, f.root) && e.attr(&call, "axis").as_int() == Some(1);
    let ([n, channels, ..], [batch, count, _]) = (&whole[..], &groups[..]) else {
        return None;
    };
    if !(plain && same && n == batch && *count > 0 && channels % count == 0) {
        return None;
    }
    let [scale, shift] = neutral(e, f, dtype, *channels);
    let given = [
        ("num_groups", AttrValue::Int(*count)),
        ("axis", AttrValue::Int(1)),
        ("epsilon", e.attr(&call, "epsilon")),
    ];
    Some(e.call(GROUP_NORM, &[data, scale, shift], &given, span))
}

/// Returns whether all elements of a constant, if it is one, are one number.
fn all_are(e: &Edit<'_>, constant: Option<ExprId>, number: f64) -> bool {
    constant
        .and_then(|c| e.constant_value(c))
        .is_none_or(|t| (0..t.len()).all(|i| t.get_f64(i) == number))
}

/// Returns the number that a constant of one element holds.
fn number(e: &Edit<'_>, constant: ExprId) -> Option<f64> {
    let value = e.constant_value(constant)?;
    (value.len() == 1).then(|| value.get_f64(0))
}

fn is_vector(e: &Edit<'_>, vector: ExprId, count: i64) -> bool {
    e.extents(vector).is_some_and(|d| d == [count])
}

/// Makes a vector around a normalisation its scale (argument 1) or its shift (2), in place of ones or
/// zeros.
fn with_vector(e: &mut Edit<'_>, f: &Found, which: usize) -> Option<ExprId> {
    let call = e.op_call(f.get(3))?;
    let (rank, span) = (e.dims(f.get(0))?.len() as i64, e.m.span(f.root));
    let unused = |name| e.attr(&call, name).as_bool() == Some(false);
    let axis = match e.attr(&call, "axes").as_ints().as_deref() {
        Some(&[axis]) => axis,
        _ => e.attr(&call, "axis").as_int()?,
    };
    let behind = usize::try_from(if axis < 0 { -1 - axis } else { rank - 1 - axis }).ok()?;
    let count = e.extents(call.args[which])?;
    // Along that axis of the data, with an extent of 1 along all others.
    let given = e.extents(f.get(6))?;
    let (before, rest) = given.split_at(given.len().checked_sub(behind + 1)?);
    let along = rest[..1] == count[..] && before.iter().chain(&rest[1..]).all(|&d| d == 1);
    if !along || unused("scale") || unused("center") || !e.same_type(f.get(3), f.root) {
        return None;
    }
    let mut args = call.args.clone();
    args[which] = match given.len() {
        1 => f.get(6),
        _ => e.call(
            "reshape",
            &[f.get(6)],
            &[("newshape", AttrValue::ints(&count))],
            span,
        ),
    };
    let attrs = e.m.attrs(call.attrs).clone();
    Some(e.recall(&call, &args, attrs, span))
}
