//! `infer-type`: infers the types and reports all diagnostics about them.

use relax_base::Diagnostics;
use relax_infer::Typing;
use relax_ir::{Module, Type, TypeId};
use relax_sym::Dim;

use crate::{Contract, Form, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "infer-type",
    doc: "Finds the types of all expressions, reports what does not fit.",
    options: &[],
    contract: Contract::PLAIN.idempotent().gives(&[Form::Typed]).keeps(&[
        Form::ANormal,
        Form::GraphNormal,
        Form::BasicBlockNormal,
        Form::Relax,
    ]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    cx.say_types()?;
    if cx.module.is_script() {
        let typing = cx.typing()?;
        if corrected(cx.module, &typing) {
            cx.typing()?;
        }
    }
    Ok(())
}

/// Removes annotated results that their functions' bodies do not have, which inference has warned
/// about. Returns whether there are any.
fn corrected(m: &mut Module, typing: &Typing) -> bool {
    let mut any = false;
    for (global, body) in m.global_bodies() {
        let func = m.global_func(global).expect("it has a body");
        let wrong = |ret: TypeId| differ(m, ret, typing.exprs[body]);
        if m.funcs[func].ret.is_some_and(wrong) {
            let mut function = m.funcs[func].clone();
            function.ret = None;
            m.set_global_func(global, function);
            any = true;
        }
    }
    any
}

/// Returns whether no value has both types, as far as ranks, extents, element types and numbers of
/// fields show.
fn differ(m: &Module, a: TypeId, b: TypeId) -> bool {
    let mut open = vec![(a, b)];
    while let Some((a, b)) = open.pop() {
        match (&m.types[a], &m.types[b]) {
            (Type::Tensor(a), Type::Tensor(b)) => {
                let dtypes = a.dtype.known().zip(b.dtype.known());
                let apart = |(x, y): (&[Dim], &[Dim])| {
                    let known = |(x, y): (&Dim, &Dim)| x.as_const().zip(y.as_const());
                    let mut pairs = x.iter().zip(y).filter_map(known);
                    x.len() != y.len() || pairs.any(|(x, y)| x != y)
                };
                if dtypes.is_some_and(|(x, y)| x != y)
                    || a.shape.dims().zip(b.shape.dims()).is_some_and(apart)
                {
                    return true;
                }
            }
            (Type::Tuple(a), Type::Tuple(b)) if a.len() != b.len() => return true,
            (Type::Tuple(a), Type::Tuple(b)) => {
                open.extend(a.iter().copied().zip(b.iter().copied()));
            }
            (Type::Tensor(_), Type::Tuple(_)) | (Type::Tuple(_), Type::Tensor(_)) => return true,
            _ => {}
        }
    }
    false
}
