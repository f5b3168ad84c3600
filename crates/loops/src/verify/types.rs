//! Element types: the rule of each kind of expression.

use relax_tensor::{DType, TypeCode};

use crate::{Ex, ExKind, Program, UnOp};

/// Returns whether programs support such elements.
pub(crate) fn computes(dtype: DType) -> bool {
    dtype.lanes == 1
        && match dtype.code {
            TypeCode::Int | TypeCode::UInt => (1..=64).contains(&dtype.bits),
            TypeCode::Float => matches!(dtype.bits, 16 | 32 | 64),
            TypeCode::BFloat => dtype.bits == 16,
            TypeCode::Handle | TypeCode::Param => false,
        }
}

/// Returns the typing rule that a node breaks.
pub(super) fn type_problem(program: &Program, e: &Ex) -> Option<String> {
    let t = e.dtype();
    let wrong = |what: String| Some(what);
    match e.kind() {
        _ if !computes(t) => wrong(format!("an expression of {t:?}")),
        ExKind::Int(_) if t.is_float() => wrong(format!("an integer constant of {t}")),
        ExKind::Float(_) if !t.is_float() => wrong(format!("a float constant of {t}")),
        ExKind::Int(_) | ExKind::Float(_) => None,
        ExKind::Var(v) => match program.vars.get(*v) {
            Some(info) if info.dtype == t => None,
            Some(info) => wrong(format!("`{}` is {}, not {t}", info.name, info.dtype)),
            None => wrong("a variable of another program".into()),
        },
        ExKind::Load(buf, index) => match program.bufs.get(*buf) {
            None => wrong("a buffer of another program".into()),
            Some(b) if b.dtype != t => wrong(format!("`{}` is {}, not {t}", b.name, b.dtype)),
            Some(b) if b.shape.len() != index.len() => wrong(format!(
                "a load of `{}` has {} indices for {} axes",
                b.name,
                index.len(),
                b.shape.len()
            )),
            Some(b) => {
                let bad = index.iter().find(|i| i.dtype() != DType::I64)?;
                wrong(format!(
                    "an index of `{}` is {}, not int64",
                    b.name,
                    bad.dtype()
                ))
            }
        },
        ExKind::Unary(op, a) => {
            let test = matches!(op, UnOp::IsNan | UnOp::IsInf | UnOp::IsFinite);
            let result = if test { DType::BOOL } else { a.dtype() };
            let exists = crate::exec::unary_exists(*op, a.dtype());
            (!exists || result != t).then(|| format!("{op:?} of {} as {t}", a.dtype()))
        }
        ExKind::Binary(op, a, b) => {
            let result = if op.is_comparison() {
                DType::BOOL
            } else {
                a.dtype()
            };
            let right =
                a.dtype() == b.dtype() && result == t && crate::exec::binary_exists(*op, a.dtype());
            (!right).then(|| format!("{op:?} of {} and {} as {t}", a.dtype(), b.dtype()))
        }
        ExKind::Select(c, a, b) => {
            let right = c.dtype().is_bool() && a.dtype() == t && b.dtype() == t;
            (!right).then(|| {
                format!(
                    "a select by {} of {} and {} as {t}",
                    c.dtype(),
                    a.dtype(),
                    b.dtype()
                )
            })
        }
        ExKind::Cast(_) => None,
        ExKind::Reinterpret(a) => (a.dtype().size() != t.size())
            .then(|| format!("the bits of {} as {t}, which is not as wide", a.dtype())),
    }
}
