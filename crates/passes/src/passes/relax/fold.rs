//! `relax-fold-constant`: evaluates calls of operators and tensor programs on constants.
//!
//! Names are canonical afterwards, and dead bindings are removed.

use relax_base::Diagnostics;
use relax_ir::{Expr, ExprId, GlobalKind, Memo, Module, Type, TypeId, VarId};
use relax_loops::{Stmt, execute_within};
use relax_ops::Lowering;
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use super::{canonical, unused};
use crate::code::{Bind, Value, each_typed_code};
use crate::edit::Edit;
use crate::evaluate::call_value;
use crate::impurity::Impurity;
use crate::passes::fold_constant::computed;
use crate::util::{called_op, extents_of, is_primitive};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-fold-constant",
    doc: "Relax's fold-constant: computes calls of operators and tensor programs on constants.",
    options: &[OptionDef {
        name: "max-bytes",
        ty: OptionType::Int,
        default: "1073741824",
        doc: "calls whose result takes more bytes stay",
    }],
    contract: Contract::TYPED,
    run,
}];

/// The size limit, in bytes, of folded values that are computed without operands.
const SMALL: usize = 1 << 16;

/// The limit on iterations of a tensor program that is evaluated: more than weights have elements.
const MOST_ITERATIONS: u64 = 1 << 30;

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let impurity = Impurity::of(cx)?;
    let most = cx.options.int("max-bytes");
    let mut folded = 0;
    each_typed_code(&mut Edit::new(cx.module, &typing), |edit, func, code| {
        if is_primitive(&edit.m.funcs[func]) {
            return false;
        }
        let before = folded;
        let mut known: FxHashMap<VarId, ExprId> = FxHashMap::default();
        for step in code.steps() {
            let crate::code::Step::Bind(s, p, i) = step else {
                continue;
            };
            let b = code.seqs[s].parts[p].binds[i];
            let Some(e) = b.expr() else {
                continue;
            };
            if let Expr::Const(_) = edit.m.exprs[e] {
                known.insert(b.var, e);
            }
            if let Some(value) = value(edit, &known, &b, e, most) {
                if let Expr::Const(_) = edit.m.exprs[value] {
                    known.insert(b.var, value);
                }
                code.seqs[s].parts[p].binds[i].value = Value::Plain(value);
                let ty = typing.vars[b.var];
                edit.m.vars[b.var].ty.get_or_insert(ty);
                folded += 1;
            }
        }
        let mut changed = folded > before;
        changed |= canonical::canonicalize(edit.m, &typing, code, true);
        changed |= unused::unused_bindings(edit.m, &typing, &impurity, code) > 0;
        changed
    });
    cx.count("calls computed", folded);
    Ok(())
}

/// Returns the value of a binding if it is known statically: a constant, or a tuple of them.
fn value(
    edit: &mut Edit<'_>,
    known: &FxHashMap<VarId, ExprId>,
    b: &Bind,
    e: ExprId,
    most: u64,
) -> Option<ExprId> {
    let Expr::Call { .. } = edit.m.exprs[e] else {
        return None;
    };
    let def = called_op(edit.m, e)?;
    if def.hooks.lowering == Lowering::CallTir && !on_constants(edit.m, known, e) {
        return None;
    }
    let ty = edit.var_ty(b.var);
    let mut memo = Memo::default();
    let node = edit.m.substitute(e, &mut memo, known);
    edit.set_ty(node, ty);
    if def.hooks.lowering == Lowering::CallTir {
        return by_program(edit, node, ty, most);
    }
    let call = edit.op_call(node)?;
    if let Some(ask) = def.hooks.of_shape
        && let [arg] = call.args[..]
        && let Expr::Shape(dims) = &edit.m.exprs[arg]
    {
        let dims: Vec<i64> = dims.iter().map(|d| d.as_const()).collect::<Option<_>>()?;
        let value = ask(&dims, edit.dtype(node)?);
        return Some(edit.constant(value, b.span));
    }
    if call.args.is_empty() {
        if def.effects != relax_ops::Effects::Pure {
            return None;
        }
        let (shape, dtype) = extents_of(edit.m, ty)?;
        if Tensor::byte_len(dtype, &shape)? > SMALL {
            return None;
        }
        let attrs = edit.m.attrs(call.attrs).clone();
        let value = call_value(edit, def.name, &attrs, &[])?;
        return Some(edit.constant(value, b.span));
    }
    // Numeric operands, such as extents, are converted to constants.
    let args: Vec<ExprId> = (call.args.iter())
        .map(|&a| number(edit, a).unwrap_or(a))
        .collect();
    if args == call.args {
        return computed(edit, node, &call, most);
    }
    let attrs = edit.m.attrs(call.attrs).clone();
    let node = edit.recall(&call, &args, attrs, b.span);
    edit.set_ty(node, ty);
    let call = edit.op_call(node)?;
    computed(edit, node, &call, most)
}

/// Returns whether all tensors that a call gives to a tensor program are constants.
fn on_constants(m: &Module, known: &FxHashMap<VarId, ExprId>, call: ExprId) -> bool {
    let Expr::Call { args, .. } = m.exprs[call] else {
        return false;
    };
    let [_, given, ..] = *m.list(args) else {
        return false;
    };
    let seen = |e: ExprId| match m.exprs[e] {
        Expr::Var(v) => known.get(&v).copied().unwrap_or(e),
        _ => e,
    };
    let constant = |f: &ExprId| matches!(m.exprs[seen(*f)], Expr::Const(_));
    matches!(m.exprs[seen(given)], Expr::Tuple(fields) if m.list(fields).iter().all(constant))
}

/// Returns a numeric operand as a constant.
fn number(edit: &mut Edit<'_>, e: ExprId) -> Option<ExprId> {
    let call = edit.op_call(e).filter(|c| c.def.name == "relax.value")?;
    let (shape, _) = extents_of(edit.m, edit.ty(e))?;
    if !shape.is_empty() {
        return None;
    }
    let attrs = edit.m.attrs(call.attrs).clone();
    let value = call_value(edit, call.def.name, &attrs, &[])?;
    let span = edit.m.span(e);
    Some(edit.constant(value, span))
}

/// Evaluates a tensor program on constants.
fn by_program(edit: &mut Edit<'_>, call: ExprId, ty: TypeId, most: u64) -> Option<ExprId> {
    let Expr::Call { args, .. } = edit.m.exprs[call] else {
        return None;
    };
    let args = edit.m.list(args).to_vec();
    let Expr::Global(g) = edit.m.exprs[*args.first()?] else {
        return None;
    };
    let GlobalKind::Prim(program) = &edit.m.globals[g].kind else {
        return None;
    };
    let program = program.clone();
    // A loop with a data-dependent condition may not terminate, and others may take years; the pass
    // must terminate.
    let rounds = |s: &Stmt| matches!(s, Stmt::While { .. });
    if program.statements().any(rounds) {
        return None;
    }
    let mut left = MOST_ITERATIONS;
    let Expr::Tuple(fields) = edit.m.exprs[*args.get(1)?] else {
        return None;
    };
    let inputs: Vec<Tensor> = (edit.m.list(fields).iter())
        .map(|&f| edit.constant_value(f).cloned())
        .collect::<Option<_>>()?;
    let types: Vec<TypeId> = match &edit.m.types[ty] {
        Type::Tuple(fields) => fields.to_vec(),
        _ => vec![ty],
    };
    let mut shapes = Vec::new();
    let mut bytes = 0u64;
    for &t in &types {
        let (shape, dtype) = extents_of(edit.m, t)?;
        bytes += Tensor::byte_len(dtype, &shape)? as u64;
        shapes.push(shape);
    }
    if bytes > most || inputs.len() != program.inputs.len() {
        return None;
    }
    let values = execute_within(&program, &inputs, Some(&shapes), &mut left).ok()?;
    let span = edit.m.span(call);
    let values: Vec<ExprId> = values.into_iter().map(|v| edit.constant(v, span)).collect();
    match (&values[..], &edit.m.types[ty]) {
        (&[one], Type::Tensor(_)) => Some(one),
        _ => Some(edit.tuple(&values, span)),
    }
}
