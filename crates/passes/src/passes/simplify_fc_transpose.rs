//! `simplify-fc-transpose`: removes the transposes of `nn.dense(x, transpose(w))` and of the operands
//! of `nn.batch_matmul`, which has forms that read either operand by columns.
//!
//! A constant weight is transposed at compile time; for another one, `nn.matmul` reads the columns.
//! For parameters that the option names, callers pass the transposed weight instead, as with TVM.

use relax_base::{Diagnostic, Diagnostics, Symbol};
use relax_ir::{AttrValue, Expr, ExprId, Function, GlobalKind, VarId, VarStyle};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::edit::Edit;
use crate::evaluate::call_value;
use crate::pattern::{Found, Pat, op, x};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef, codes};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "simplify-fc-transpose",
    doc: "Takes the transposes of weights out of dense products, and those of operands out of products of batches.",
    options: &[OptionDef {
        name: "weights",
        ty: OptionType::Text,
        default: "",
        doc: "parameters whose transposes callers give from now on: `w1,w2`; they are called `w1.T`, `w2.T`",
    }],
    contract: Contract::TYPED.idempotent(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let named: FxHashSet<String> = (cx.options.text("weights").split(','))
        .map(|n| n.trim().trim_start_matches('%').to_owned())
        .filter(|n| !n.is_empty())
        .collect();
    let typing = cx.typing()?;
    let mut edit = Edit::new(cx.module, &typing);
    let pattern = op(&["nn.dense"], [x(0), op(&["transpose"], [x(1)]).keep(2)]);
    let parameters = chosen(&edit, &named);
    let mut turned: FxHashMap<VarId, VarId> = FxHashMap::default();
    let count = edit.replace(|edit, node| {
        let found = pattern.find(edit, node)?;
        simplified(edit, &found, &parameters, &mut turned)
    });
    let mut errors = Diagnostics::new();
    for (var, new) in &turned {
        replace_parameter(&mut edit, *var, *new, &mut errors);
    }
    let found: FxHashSet<String> = turned
        .keys()
        .map(|v| edit.m.vars[*v].name.to_string())
        .collect();
    let mut missing: Vec<&String> = named.iter().filter(|n| !found.contains(*n)).collect();
    missing.sort();
    for name in missing {
        let message =
            format!("`%{name}` is no parameter whose transpose is the weight of a dense product");
        let place = cx.options.place("weights");
        errors.push(Diagnostic::error(codes::UNSUPPORTED, place, message));
    }
    if errors.has_errors() {
        return Err(errors);
    }
    // One operand after the other: what replaces a product is not looked at again.
    let mut both = 0;
    for side in [0, 1] {
        let forms = batched(side);
        both += edit.replace(|edit, node| {
            let found = forms.iter().find_map(|p| p.find(edit, node))?;
            as_it_lies(edit, &found, side)
        });
    }
    cx.count("transposes taken out", count + both);
    Ok(())
}

/// Products of batches, one operand of which is transposed, or transposed and reshaped.
fn batched(side: usize) -> [Pat; 2] {
    [false, true].map(|reshaped| {
        let inner = op(&["transpose"], [x(1)]).keep(2);
        let turned = if reshaped {
            op(&["reshape"], [inner]).keep(3)
        } else {
            inner
        };
        let args = if side == 0 {
            [turned, x(0)]
        } else {
            [x(0), turned]
        };
        op(&["nn.batch_matmul"], args)
    })
}

/// Returns a product of batches that reads rows where it read the columns of their transpose.
fn as_it_lies(edit: &mut Edit<'_>, found: &Found, side: usize) -> Option<ExprId> {
    let (other, data, span) = (found.get(0), found.get(1), edit.m.span(found.root));
    let (product, transpose) = (found.call(edit), edit.op_call(found.get(2))?);
    let rank = edit.dims(data)?.len() as i64;
    let axes = edit.attr(&transpose, "axes");
    let axes: Vec<i64> = (axes.as_ints()?.iter())
        .map(|a| a.rem_euclid(rank))
        .collect();
    // The matrices alone are transposed.
    let kept = (0..rank - 2).chain([rank - 1, rank - 2]);
    if rank < 3 || !axes.iter().copied().eq(kept) {
        return None;
    }
    let mut own = data;
    if let Some(reshaped) = found.maybe(3) {
        let (from, to) = (edit.extents(found.get(2))?, edit.extents(reshaped)?);
        let [batch, rows, columns] = to[..] else {
            return None;
        };
        if !from.ends_with(&[rows, columns]) || rows * columns == 0 {
            return None;
        }
        let shape = AttrValue::ints(&[batch, columns, rows]);
        own = edit.call("reshape", &[data], &[("newshape", shape)], span);
    } else if rank != 3 {
        return None;
    }
    let name = ["transpose_a", "transpose_b"][side];
    let mut attrs = edit.m.attrs(product.attrs).clone();
    let swapped = attrs
        .get(name)
        .and_then(AttrValue::as_bool)
        .unwrap_or(false);
    attrs.set(name, AttrValue::Bool(!swapped));
    let args = if side == 0 {
        [own, other]
    } else {
        [other, own]
    };
    Some(edit.recall(&product, &args, attrs, span))
}

/// Returns the parameters of global functions with these names.
fn chosen(edit: &Edit<'_>, names: &FxHashSet<String>) -> FxHashSet<VarId> {
    let m = &*edit.m;
    let mut out = FxHashSet::default();
    for global in m.globals.values() {
        if let GlobalKind::Func(f) = global.kind {
            let params = m.funcs[f].params.iter().copied();
            out.extend(params.filter(|p| names.contains(m.vars[*p].name.as_str())));
        }
    }
    out
}

fn simplified(
    edit: &mut Edit<'_>,
    found: &Found,
    parameters: &FxHashSet<VarId>,
    turned: &mut FxHashMap<VarId, VarId>,
) -> Option<ExprId> {
    let (data, weight, span) = (found.get(0), found.get(1), edit.m.span(found.root));
    let (dense, transpose) = (found.call(edit), edit.op_call(found.get(2))?);
    let axes = edit.attr(&transpose, "axes");
    let swaps = axes.is_none() || axes.as_ints()?.iter().map(|a| a.rem_euclid(2)).eq([1, 0]);
    if !swaps || edit.dims(weight)?.len() != 2 {
        return None;
    }
    let attrs = edit.m.attrs(dense.attrs).clone();
    if let Expr::Const(c) = edit.m.exprs[weight] {
        let value = edit.m.consts[c].clone();
        let given = edit.m.attrs(transpose.attrs).clone();
        let value = call_value(edit, transpose.def.name, &given, &[value])?;
        let weight = edit.constant(value, span);
        return Some(edit.recall(&dense, &[data, weight], attrs, span));
    }
    if let Expr::Var(v) = edit.m.exprs[weight]
        && parameters.contains(&v)
    {
        let ty = edit.ty(found.get(2));
        let new = *turned.entry(v).or_insert_with(|| {
            let name = Symbol::from(format!("{}.T", edit.m.vars[v].name).as_str());
            edit.fresh_var(name, ty, VarStyle::Param).0
        });
        let weight = edit.m.add(Expr::Var(new), span);
        edit.set_ty(weight, ty);
        return Some(edit.recall(&dense, &[data, weight], attrs, span));
    }
    let given: Vec<(&str, AttrValue)> = ["units", "out_dtype"]
        .into_iter()
        .filter_map(|n| Some((n, attrs.get(n)?.clone())))
        .collect();
    Some(edit.call("nn.matmul", &[data, weight], &given, span))
}

/// Replaces a function's parameter by the transposed one; no other use of it may remain.
fn replace_parameter(edit: &mut Edit<'_>, old: VarId, new: VarId, errors: &mut Diagnostics) {
    let bodies = edit.m.global_bodies();
    for (global, body) in bodies {
        let func = edit.m.global_func(global).expect("it has a body");
        if !edit.m.funcs[func].params.contains(&old) {
            continue;
        }
        if edit.m.free_vars(body).contains(&old) {
            let message = format!(
                "`%{}` is used in other places than a dense product",
                edit.m.vars[old].name
            );
            let place = edit.m.vars[old].span;
            errors.push(Diagnostic::error(codes::UNSUPPORTED, place, message));
            continue;
        }
        let mut function: Function = edit.m.funcs[func].clone();
        for p in &mut function.params {
            if *p == old {
                *p = new;
            }
        }
        edit.m.set_global_func(global, function);
    }
}
