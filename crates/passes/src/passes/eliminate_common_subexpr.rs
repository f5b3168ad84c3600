//! `eliminate-common-subexpr`: two calls of a pure operator on the same operands become one.

use relax_base::Diagnostics;
use relax_ir::{AttrsId, ConstId, CtorId, Expr, ExprId, GlobalId, Memo, Module, OpId, VarId};
use relax_ops::Effects;
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use crate::{Contract, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "eliminate-common-subexpr",
    doc: "Computes equal calls of pure operators once.",
    options: &[],
    contract: Contract::PLAIN.idempotent(),
    run,
}];

/// An operand, up to what makes two operands the same.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Operand {
    Node(ExprId),
    Var(VarId),
    Global(GlobalId),
    Ctor(CtorId),
    Op(OpId),
    Const(ConstId),
    Scalar(DType, Box<[u8]>),
    Tuple(Box<[Operand]>),
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Call(OpId, Box<[Operand]>),
    Proj(Operand, u32),
}

fn leaf(m: &Module, e: ExprId) -> Operand {
    match m.exprs[e] {
        Expr::Var(v) => Operand::Var(v),
        Expr::Global(g) => Operand::Global(g),
        Expr::Ctor(c) => Operand::Ctor(c),
        Expr::Op(o) => Operand::Op(o),
        Expr::Const(c) if m.consts[c].is_scalar() => {
            Operand::Scalar(m.consts[c].dtype(), m.consts[c].bytes().into())
        }
        Expr::Const(c) => Operand::Const(c),
        _ => Operand::Node(e),
    }
}

fn operand(m: &Module, e: ExprId) -> Operand {
    match m.exprs[e] {
        Expr::Tuple(fields) => Operand::Tuple(m.list(fields).iter().map(|&f| leaf(m, f)).collect()),
        _ => leaf(m, e),
    }
}

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let m = &mut *cx.module;
    let mut merged = 0;
    for (global, body) in m.global_bodies() {
        let mut known: FxHashMap<Key, Vec<(AttrsId, ExprId)>> = FxHashMap::default();
        let new = m.rewrite(body, &mut Memo::default(), |m, new, _| {
            let (key, attrs) = match m.exprs[new] {
                Expr::Call {
                    callee,
                    args,
                    attrs,
                    ..
                } if !args.is_empty() => {
                    let Expr::Op(op) = m.exprs[callee] else {
                        return new;
                    };
                    let pure = relax_ops::registry().get(op);
                    if pure.is_some_and(|d| d.effects != Effects::Pure) {
                        return new;
                    }
                    let args = m.list(args).iter().map(|&a| operand(m, a)).collect();
                    (Key::Call(op, args), attrs)
                }
                Expr::Proj { tuple, index } => (Key::Proj(leaf(m, tuple), index), AttrsId::NONE),
                _ => return new,
            };
            let same = known.entry(key).or_default();
            let found = same
                .iter()
                .find(|s| s.0 == attrs || m.attrs(s.0).same_spelling(m.attrs(attrs)));
            match found {
                Some(&(_, e)) => {
                    merged += u64::from(e != new);
                    e
                }
                None => {
                    same.push((attrs, new));
                    new
                }
            }
        });
        m.set_global_body(global, new);
    }
    cx.count("calls merged", merged);
    Ok(())
}
