//! `call-tir-rewrite` and `lower-alloc-tensor`: results of tensor programs are allocated before the
//! programs run.
//!
//! A call that returns a tensor becomes the allocation of that tensor followed by a call that
//! writes it; a result computed in place is the argument. Tensors are then located in blocks of
//! memory.
//!
//! Only TVMScript calls programs so. In the text format `call_tir` makes its result itself until
//! `plan-memory` places it, so such a module stays as it is, with a note.

use relax_base::{Diagnostic, Diagnostics, Severity, Span};
use relax_infer::Typing;
use relax_ir::{AttrValue, Expr, ExprId, Module, Type, TypeId, VarStyle};
use relax_ops::Lowering;
use relax_sym::Dim;
use relax_tensor::DType;

use super::kept;
use crate::code::{Bind, each_code, fresh};
use crate::util::{called_op, dims_of};
use crate::{Contract, PassCx, PassDef, codes};

pub(crate) static PASSES: &[PassDef] = &[
    PassDef {
        name: "call-tir-rewrite",
        doc: "Makes tensors for the results of tensor programs, which then write them.",
        options: &[],
        contract: Contract::TYPED,
        run: rewrite,
    },
    PassDef {
        name: "lower-alloc-tensor",
        doc: "Puts tensors into blocks of memory.",
        options: &[],
        contract: Contract::TYPED,
        run: lower,
    },
];

pub(super) const ALLOC: &str = "builtin.alloc_tensor";

fn rewrite(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    if !cx.module.is_script() {
        let first = first_call(cx.module);
        cx.diagnostics.extend(first.map(kept_calls));
        return Ok(());
    }
    let typing = cx.typing()?;
    let mut calls = 0;
    each_code(cx.module, |m, _, code| {
        let before = calls;
        for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            if part.flow {
                continue;
            }
            for b in std::mem::take(&mut part.binds) {
                match b.expr().and_then(|e| written(m, &typing, &b, e)) {
                    Some(new) => {
                        calls += 1;
                        part.binds.extend(new);
                    }
                    None => part.binds.push(b),
                }
            }
        }
        calls > before
    });
    cx.count("calls that write their results", calls);
    Ok(())
}

/// Returns whether a call makes the results of a program.
fn makes_results(m: &Module, e: ExprId) -> bool {
    called_op(m, e).is_some_and(|d| {
        matches!(
            d.hooks.lowering,
            Lowering::CallTir | Lowering::CallDpsPacked
        )
    })
}

/// Returns the source location of the first call in a module that makes the results of a program.
fn first_call(m: &Module) -> Option<Span> {
    let bodies = m.global_bodies().into_iter().map(|g| g.1);
    let all = m.post_order(bodies).into_iter();
    all.filter(|&e| makes_results(m, e))
        .map(|e| m.span(e))
        .min_by_key(|s| s.start)
}

fn kept_calls(place: Span) -> Diagnostic {
    let message = "calls of programs make their results themselves, this one and those after it";
    Diagnostic::new(Severity::Note, codes::CALLS_KEPT, place, message)
        .note("only TVMScript calls a program with the tensors that it writes; in the text format `plan-memory` says where results lie")
}

/// Returns the bindings that replace a call of a tensor program.
fn written(m: &mut Module, typing: &Typing, b: &Bind, e: ExprId) -> Option<Vec<Bind>> {
    let Expr::Call { args, .. } = m.exprs[e] else {
        return None;
    };
    let args = m.list(args).to_vec();
    let inplace = match kept::name(m, e) {
        Some("call_tir_inplace") => Some(kept::attr(m, e, "inplace_indices")?.as_ints()?),
        Some(_) => return None,
        None if makes_results(m, e) => None,
        None => return None,
    };
    let (&callee, &given) = (args.first()?, args.get(1)?);
    let Expr::Tuple(fields) = m.exprs[given] else {
        return None;
    };
    let mut operands = m.list(fields).to_vec();
    let outs: Vec<TypeId> = match &m.types[typing.vars[b.var]] {
        Type::Tuple(outs) => outs.to_vec(),
        _ => vec![typing.vars[b.var]],
    };
    let (mut binds, mut results) = (Vec::new(), Vec::new());
    for (i, &ty) in outs.iter().enumerate() {
        let of = inplace
            .as_ref()
            .map_or(-1, |all| all.get(i).copied().unwrap_or(-1));
        if let Ok(k) = usize::try_from(of) {
            results.push(*operands.get(k)?);
            continue;
        }
        let (dims, dtype) = dims_of(m, ty)?;
        let shape = m.add(Expr::Shape(dims.into()), b.span);
        let attrs = [
            ("dtype", AttrValue::DType(dtype)),
            ("runtime_device_index", AttrValue::Int(0)),
            ("storage_scope", kept::string("global")),
        ];
        let call = kept::call(m, (ALLOC, false), &[("shape", shape)], &attrs, b.span);
        let (var, alloc) = fresh(m, "alloc", Some(ty));
        binds.push(Bind::plain(var, call, b.span));
        operands.push(alloc);
        results.push(alloc);
    }
    let call = m.call(callee, &operands, b.span);
    let unit = m.types.tuple(Vec::new());
    let (effect, _) = m.fresh_var("_", Some(unit), VarStyle::Effect);
    binds.push(Bind::plain(effect, call, b.span));
    let result = match results[..] {
        [one] if !matches!(m.types[typing.vars[b.var]], Type::Tuple(_)) => one,
        _ => m.tuple(&results, b.span),
    };
    binds.push(Bind::plain(b.var, result, b.span));
    if m.vars[b.var].ty.is_none() {
        m.vars[b.var].ty = Some(typing.vars[b.var]);
    }
    Some(binds)
}

fn lower(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut placed = 0;
    each_code(cx.module, |m, _, code| {
        let before = placed;
        for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            for mut b in std::mem::take(&mut part.binds) {
                let e = b.expr().filter(|&e| kept::name(m, e) == Some(ALLOC));
                if let Some((storage, tensor)) = e.and_then(|e| place(m, &typing, &b, e)) {
                    placed += 1;
                    part.binds.push(storage);
                    b = tensor;
                }
                part.binds.push(b);
            }
        }
        placed > before
    });
    cx.count("tensors placed", placed);
    Ok(())
}

/// Returns the bindings of a block of memory and of the tensor in it.
fn place(m: &mut Module, typing: &Typing, b: &Bind, e: ExprId) -> Option<(Bind, Bind)> {
    let (dims, dtype) = dims_of(m, typing.vars[b.var])?;
    let bytes = dtype.bits.div_ceil(8) as i64;
    let size = (dims.iter()).fold(Dim::from(bytes), |size, d| size * d.clone());
    let size = m.add(Expr::Shape([size].into()), b.span);
    let scope = kept::attr(m, e, "storage_scope").cloned();
    let scope = scope.unwrap_or_else(|| kept::string("global"));
    let attrs = [
        ("virtual_device_index", AttrValue::Int(0)),
        ("storage_scope", scope),
        ("dtype", AttrValue::DType(DType::U8)),
    ];
    let call = kept::call(
        m,
        ("memory.alloc_storage", true),
        &[("size", size)],
        &attrs,
        b.span,
    );
    let object = m.types.intern(Type::Object);
    let (storage, at) = fresh(m, "storage", Some(object));
    let shape = m.add(Expr::Shape(dims.into()), b.span);
    let attrs = [
        ("offset", AttrValue::Int(0)),
        ("dtype", AttrValue::DType(dtype)),
        ("runtime_device_ind", AttrValue::Int(0)),
    ];
    let args = [("storage", at), ("shape", shape)];
    let tensor = kept::call(m, ("memory.alloc_tensor", true), &args, &attrs, b.span);
    Some((
        Bind::plain(storage, call, b.span),
        Bind::plain(b.var, tensor, b.span),
    ))
}
