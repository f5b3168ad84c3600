//! Relax's element-wise mathematical operators that Relay has no operator for.

use relax_ir::{AttrValue, Type};
use relax_loops::{Ex, UnOp};
use relax_tensor::DType as DT;

use super::elementwise::identity;
use super::util::finish;
use super::util_te::Done;
use crate::AttrTy::{Any, Float};
use crate::{Default, Fusion, Input, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const X: &[Input] = &[input("x", "the input")];
const DATA: &[Input] = &[input("data", "the input")];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "relax.nn.gelu",
        "The Gaussian error linear unit, by `erf`.",
        identity,
    )
    .in_relax(super::relax_rules::floats)
    .inputs(DATA)
    .fusion(Fusion::Elementwise)
    .compute(|te| te.elementwise(gelu)),
    OpDef::new(
        "relax.nn.gelu_tanh",
        "The Gaussian error linear unit, by `tanh`.",
        identity,
    )
    .in_relax(super::relax_rules::floats)
    .inputs(DATA)
    .fusion(Fusion::Elementwise)
    .compute(|te| te.elementwise(gelu_tanh)),
    OpDef::new(
        "relax.nn.silu",
        "`x * sigmoid(x)` of each element.",
        identity,
    )
    .in_relax(super::relax_rules::floats)
    .inputs(DATA)
    .fusion(Fusion::Elementwise)
    .compute(|te| te.elementwise(|x| x.clone() * x.unary(UnOp::Sigmoid))),
    OpDef::new(
        "relax.nn.selu",
        "The scaled exponential linear unit.",
        identity,
    )
    .in_relax(super::relax_rules::floats)
    .inputs(DATA)
    .fusion(Fusion::Elementwise)
    .compute(|te| te.elementwise(selu)),
    OpDef::new(
        "relax.nn.softplus",
        "`log(1 + exp(beta * x)) / beta`, and `x` itself beyond the threshold.",
        identity,
    )
    .inputs(DATA)
    .attrs(&[
        attr(
            "beta",
            Float,
            Default::Float(1.0),
            "how steep the transition is",
        ),
        attr(
            "threshold",
            Float,
            Default::Float(20.0),
            "where `beta * x` is taken as large",
        ),
    ])
    .fusion(Fusion::Elementwise)
    .compute(softplus),
    OpDef::new("relax.square", "The square of each element.", identity)
        .inputs(X)
        .fusion(Fusion::Elementwise)
        .compute(|te| te.elementwise(|x| x.clone() * x.clone())),
    OpDef::new("relax.ewise_fma", "`x1 * x2 + x3`.", fma)
        .inputs(&[
            input("x1", "the first factor"),
            input("x2", "the second factor"),
            input("x3", "what is added"),
        ])
        .fusion(Fusion::Elementwise)
        .compute(fma_compute),
    OpDef::new(
        "relax.grad.start_checkpoint",
        "The same tensor: what follows is computed again for the gradient.",
        identity,
    )
    .in_relax(no_constant)
    .inputs(&[input("input", "the input")])
    .fusion(Fusion::Elementwise)
    .compute(|te| te.elementwise(Ex::clone)),
    OpDef::new(
        "relax.grad.end_checkpoint",
        "The same tensor: what is computed again for the gradient ends here.",
        identity,
    )
    .in_relax(no_constant)
    .inputs(&[input("input", "the input")])
    .fusion(Fusion::Elementwise)
    .compute(|te| te.elementwise(Ex::clone)),
    OpDef::new(
        "relax.value",
        "A value that is no tensor: a number, a string, an element type.",
        value,
    )
    .attrs(&[attr("value", Any, Default::Required, "the value")])
    .not_computed()
    .compute(value_compute),
    OpDef::new(
        "relax.condition",
        "Whether two extents compare, a truth value.",
        condition,
    )
    .attrs(&[
        attr("left", Any, Default::Required, "the left extent"),
        attr(
            "op",
            crate::AttrTy::Str,
            Default::Required,
            "`==`, `!=`, `<`, `<=`, `>` or `>=`",
        ),
        attr("right", Any, Default::Required, "the right extent"),
    ])
    .not_computed()
    .compute(condition_compute),
];

fn condition(cx: &mut RelCx<'_>) -> RelResult {
    super::util::word(cx, "op", &["==", "!=", "<", "<=", ">", ">="])?;
    for name in ["left", "right"] {
        if cx.attr(name).as_dim().is_none() {
            return cx.refuse(Subject::Attr(name), format!("`{name}` must be an extent"));
        }
    }
    finish(cx, Vec::new(), DT::BOOL)
}

fn condition_compute(te: &mut Te<'_>) -> Done {
    let side = |name: &str| -> Result<i64, crate::ComputeError> {
        Ok(te
            .attr(name)
            .as_int()
            .ok_or("its extents are known when the program runs")?)
    };
    let (a, b) = (side("left")?, side("right")?);
    let holds = match te.str("op") {
        "==" => a == b,
        "!=" => a != b,
        "<" => a < b,
        "<=" => a <= b,
        ">" => a > b,
        _ => a >= b,
    };
    let y = te.compute("condition", &[], |_| Ex::bool(holds));
    te.output(&y);
    Ok(())
}

/// The operand of a checkpoint is computed: it is not a constant.
fn no_constant(cx: &mut RelCx<'_>) -> RelResult {
    if cx.host.const_arg(0).is_some() {
        let message = format!("`{}` takes what is computed, not a constant", cx.name);
        return cx.refuse(Subject::Arg(0), message);
    }
    Ok(())
}

fn gelu(x: &Ex) -> Ex {
    let half = x.clone() * x.same(0.5);
    let scaled = x.clone() * x.same(std::f64::consts::FRAC_1_SQRT_2);
    half * (x.same(1.0) + scaled.unary(UnOp::Erf))
}

fn gelu_tanh(x: &Ex) -> Ex {
    let cube = x.clone() * x.clone() * x.clone();
    let inner = (x.clone() + cube * x.same(0.044715)) * x.same(0.797_884_560_802_865_4);
    x.clone() * x.same(0.5) * (x.same(1.0) + inner.unary(UnOp::Tanh))
}

fn selu(x: &Ex) -> Ex {
    const ALPHA: f64 = 1.673_263_242_354_377_3;
    const SCALE: f64 = 1.050_700_987_355_480_5;
    let below = (x.unary(UnOp::Exp) - x.same(1.0)) * x.same(ALPHA);
    Ex::where_(&x.gt(0i64), x, &below) * x.same(SCALE)
}

fn softplus(te: &mut Te<'_>) -> Done {
    let (beta, threshold) = (te.float("beta")?, te.float("threshold")?);
    te.elementwise(|x| {
        let scaled = x.clone() * x.same(beta);
        let soft = (x.same(1.0) + scaled.unary(UnOp::Exp)).unary(UnOp::Log) / x.same(beta);
        Ex::where_(&scaled.gt(x.same(threshold)), x, &soft)
    })
}

fn fma(cx: &mut RelCx<'_>) -> RelResult {
    identity(cx)?;
    let ty = cx.arg(0);
    for i in [1, 2] {
        cx.require_arg(i, ty, "all operands have one type")?;
    }
    Ok(())
}

fn fma_compute(te: &mut Te<'_>) -> Done {
    let (a, b, c) = (te.arg(0), te.arg(1), te.arg(2));
    let y = te.compute("y", &a.shape, |i| a.at(i) * b.at(i) + c.at(i));
    te.output(&y);
    Ok(())
}

/// Returns a number with its element type: that of Python's own integers and floats, or the one in
/// the text.
fn number(v: &AttrValue) -> Option<(DT, f64)> {
    match v {
        AttrValue::Int(i) => Some((DT::I64, *i as f64)),
        AttrValue::Bool(b) => Some((DT::BOOL, f64::from(u8::from(*b)))),
        AttrValue::Float(x) => Some((DT::F64, *x)),
        AttrValue::Dict(pairs) => match &pairs[..] {
            [(name, value)] => Some((
                name.as_str().strip_prefix("T.")?.parse().ok()?,
                value.as_float()?,
            )),
            _ => None,
        },
        _ => None,
    }
}

/// Numbers are scalars, everything else has any type.
fn value(cx: &mut RelCx<'_>) -> RelResult {
    let v = cx.attr("value");
    if v.is_none() {
        return cx.refuse(Subject::Attr("value"), "`None` is no value");
    }
    if matches!(v, AttrValue::Dim(_)) {
        return finish(cx, Vec::new(), DT::I64);
    }
    match number(v) {
        Some((dtype, _)) => finish(cx, Vec::new(), dtype),
        None => {
            let object = cx.host.types_mut().intern(Type::Object);
            cx.set_out(object)
        }
    }
}

fn value_compute(te: &mut Te<'_>) -> Done {
    let (dtype, x) = number(te.attr("value")).ok_or("it is no number that is known")?;
    let y = te.compute("value", &[], |_| {
        if dtype.is_float() {
            Ex::float(dtype, x)
        } else {
            Ex::int(dtype, x as i64)
        }
    });
    te.output(&y);
    Ok(())
}
