//! `fold-constant`: evaluates calls of operators on constants.
//!
//! The value is computed as by the reference evaluator. Calls without arguments (`zeros`) are kept:
//! their values would only take space.

use relax_base::Diagnostics;
use relax_ir::{AttrValue, Expr, ExprId, IdMap, Memo, Type, VarId};
use relax_ops::{Effects, TensorInfo};
use relax_programs::{Request, flatten};
use relax_tensor::{DType, Tensor};

use crate::edit::{Edit, OpCall};
use crate::util::is_primitive;
use crate::{Analysis, Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "fold-constant",
    doc: "Computes calls of operators on constants.",
    options: &[OptionDef {
        name: "max-bytes",
        ty: OptionType::Int,
        default: "1073741824",
        doc: "calls whose result takes more bytes stay",
    }],
    contract: Contract::TYPED
        .idempotent()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let most = cx.options.int("max-bytes");
    let mut edit = Edit::new(cx.module, &typing);
    let mut folded = 0;
    for (global, body) in edit.m.global_bodies() {
        let func = edit.m.global_func(global).expect("it has a body");
        if is_primitive(&edit.m.funcs[func]) {
            continue;
        }
        let new = fold(&mut edit, body, most, &mut folded, &mut |_, _| None);
        edit.m.set_global_body(global, new);
    }
    cx.count("calls computed", folded);
    Ok(())
}

/// Folds a body. `before` may first return a replacement for a node over folded operands.
pub(super) fn fold(
    edit: &mut Edit<'_>,
    body: ExprId,
    most: u64,
    folded: &mut u64,
    before: &mut dyn FnMut(&mut Edit<'_>, ExprId) -> Option<ExprId>,
) -> ExprId {
    let order = edit.m.post_order_within([body], |e| match edit.m.exprs[e] {
        Expr::Func(f) => !is_primitive(&edit.m.funcs[f]),
        _ => true,
    });
    // The last variable bound to each value, and for each variable the previous one.
    let (mut last, mut before_it) = (IdMap::<ExprId, VarId>::new(), IdMap::<VarId, VarId>::new());
    for &e in &order {
        if let Expr::Let { var, value, .. } = edit.m.exprs[e]
            && let Some(other) = last.insert(value, var)
        {
            before_it.insert(var, other);
        }
    }
    let (mut memo, mut values) = (Memo::default(), IdMap::<VarId, ExprId>::new());
    for e in order {
        let new = match edit.m.exprs[e] {
            Expr::Var(v) => values.get(&v).copied().unwrap_or(e),
            Expr::Func(f) if is_primitive(&edit.m.funcs[f]) => e,
            Expr::Let { var, body, .. } if values.contains_key(&var) => memo[&body],
            _ => {
                let node = edit.m.map_children(e, |c| memo[&c]);
                if node != e {
                    edit.set_ty(node, edit.ty(e));
                    edit.retype(node);
                }
                let node = before(edit, node).unwrap_or(node);
                step(edit, node, node, most, folded)
            }
        };
        memo.insert(e, new);
        if let Expr::Const(_) = edit.m.exprs[new] {
            let mut bound = last.get(&e);
            while let Some(var) = bound {
                values.insert(*var, new);
                bound = before_it.get(var);
            }
        }
    }
    memo[&body]
}

fn step(edit: &mut Edit<'_>, old: ExprId, node: ExprId, most: u64, folded: &mut u64) -> ExprId {
    match edit.m.exprs[node] {
        Expr::If {
            cond,
            then,
            otherwise,
        } => match edit.constant_value(cond) {
            Some(cond) => {
                if cond.get_i64(0) != 0 {
                    then
                } else {
                    otherwise
                }
            }
            None => node,
        },
        Expr::Proj { tuple, index } => match edit.m.exprs[tuple] {
            Expr::Tuple(fields) => edit.m.list(fields)[index as usize],
            _ => node,
        },
        Expr::Call { .. } => {
            let Some(call) = edit.op_call(node) else {
                return node;
            };
            if call.args.is_empty() {
                return node;
            }
            match computed(edit, old, &call, most) {
                Some(new) => {
                    *folded += 1;
                    new
                }
                None => node,
            }
        }
        _ => node,
    }
}

/// Returns the constants that an argument consists of: one, or the fields of a tuple.
fn constants(edit: &Edit<'_>, arg: ExprId) -> Option<Vec<Tensor>> {
    let (mut out, mut stack) = (Vec::new(), vec![arg]);
    while let Some(e) = stack.pop() {
        match edit.m.exprs[e] {
            Expr::Const(_) => out.push(edit.constant_value(e)?.clone()),
            Expr::Tuple(fields) => stack.extend(edit.m.list(fields).iter().rev()),
            _ => return None,
        }
    }
    Some(out)
}

/// Returns the value of a typed call of a pure operator on constants: a constant, or a tuple of
/// them. `None` if it is not known statically, takes more than `most` bytes, or its computation
/// fails.
pub(super) fn computed(
    edit: &mut Edit<'_>,
    old: ExprId,
    call: &OpCall,
    most: u64,
) -> Option<ExprId> {
    let def = call.def;
    if def.effects != Effects::Pure {
        return None;
    }
    let span = edit.m.span(old);
    if let Some(ask) = def.hooks.of_shape {
        // The result depends on the operand's type alone.
        let Expr::Call { args, .. } = edit.m.exprs[old] else {
            return None;
        };
        let operand = edit.m.list(args)[0];
        let extents = edit.extents(operand)?;
        let dtype = edit.m.attrs(call.attrs).get("dtype");
        let dtype = match dtype {
            Some(AttrValue::DType(d)) if *d != DType::VOID => *d,
            Some(AttrValue::Str(s)) => s.parse().ok()?,
            // The default in the operators' relations.
            _ => DType::I32,
        };
        return Some(edit.constant(ask(&extents, dtype), span));
    }
    let hooks = &def.hooks;
    if !hooks.computable() {
        return None;
    }
    let mut inputs = Vec::new();
    let mut infos = Vec::new();
    let mut consts = Vec::new();
    for &arg in &call.args {
        let parts = constants(edit, arg)?;
        infos.push(parts.iter().map(TensorInfo::from).collect::<Vec<_>>());
        consts.push(match (&parts[..], &edit.m.exprs[arg]) {
            ([one], Expr::Const(_)) => Some(one.clone()),
            _ => None,
        });
        inputs.extend(parts);
    }
    let ty = edit.ty(old);
    let outs = flatten(edit.m, ty)?;
    let (mut shapes, mut known, mut bytes) = (Vec::new(), true, 0u64);
    for out in &outs {
        match out.shape.iter().copied().collect::<Option<Vec<i64>>>() {
            Some(extents) => {
                bytes += Tensor::byte_len(out.dtype, &extents)? as u64;
                shapes.push(extents);
            }
            None => known = false,
        }
    }
    if bytes > most {
        return None;
    }
    let request = Request {
        op: def,
        args: &infos,
        consts,
        attrs: edit.m.attrs(call.attrs),
        outs: &outs,
    };
    let program = request.program(|_| ()).ok()?.program;
    let values = relax_loops::execute_for(&program, &inputs, known.then_some(&shapes[..])).ok()?;
    // Rebuilds the nested tuples of the type from the values, in order.
    rebuild(edit, ty, values, span)
}

fn rebuild(
    edit: &mut Edit<'_>,
    ty: relax_ir::TypeId,
    values: Vec<Tensor>,
    span: relax_base::Span,
) -> Option<ExprId> {
    let mut values = values.into_iter();
    let mut done: Vec<ExprId> = Vec::new();
    let mut work = vec![(ty, false)];
    while let Some((t, ready)) = work.pop() {
        match edit.m.types[t].clone() {
            Type::Tuple(fields) if ready => {
                let parts = done.split_off(done.len() - fields.len());
                let tuple = edit.tuple(&parts, span);
                done.push(tuple);
            }
            Type::Tuple(fields) => {
                work.push((t, true));
                work.extend(fields.iter().rev().map(|&f| (f, false)));
            }
            _ => {
                let value = values.next()?;
                done.push(edit.constant(value, span));
            }
        }
    }
    done.pop()
}
