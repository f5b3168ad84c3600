//! `dynamic-to-static`: replaces operators whose extents are given by constant tensors by their
//! static forms.
//!
//! An operator's entry names its static form, which takes attributes in place of these tensors
//! ([`relax_ops::StaticForm`]). Constants are folded along the way: a static shape makes a
//! `shape_of` constant, which makes the next operator static.

use relax_base::Diagnostics;
use relax_ir::{AttrValue, Expr, ExprId, Function, Type};
use relax_ops::{AttrTy, registry};
use relax_tensor::Tensor;

use crate::edit::Edit;
use crate::passes::fold_constant::fold;
use crate::{Contract, PassCx, PassDef};

/// The size limit of computed constants, in bytes.
const MOST: u64 = 1 << 30;

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "dynamic-to-static",
    doc: "Makes dynamic operators static where the tensors that give their extents are constants.",
    options: &[],
    contract: Contract::TYPED.idempotent(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut edit = Edit::new(cx.module, &typing);
    let (mut count, mut folded) = (0, 0);
    for (global, body) in edit.m.global_bodies() {
        let new = fold(&mut edit, body, MOST, &mut folded, &mut |edit, node| {
            let new = static_call(edit, node)?;
            count += 1;
            Some(new)
        });
        edit.m.set_global_body(global, new);
    }
    cx.count("operators made static", count);
    cx.count("calls computed", folded);
    if count > 0 {
        infer_results(cx)?;
    }
    Ok(())
}

/// Returns the static form of a call whose shape arguments are constants.
fn static_call(e: &mut Edit<'_>, node: ExprId) -> Option<ExprId> {
    let call = e.op_call(node)?;
    let form = call.def.hooks.static_form?;
    let def = registry().get(registry().find(form.name)?)?;
    let mut attrs = def.default_attrs();
    for (name, value) in e.m.attrs(call.attrs).iter() {
        if attrs.get(name.as_str()).is_some() {
            attrs.set(*name, value.clone());
        }
    }
    let mut args = Vec::new();
    for (input, &arg) in call.def.inputs.iter().zip(&call.args) {
        let renamed = form.renamed.iter().find(|r| r.0 == input.name);
        let Some(attr) = def.attr(renamed.map_or(input.name, |r| r.1)) else {
            args.push(arg);
            continue;
        };
        let value = attribute(e.constant_value(arg)?, attr.ty)?;
        attrs.set(attr.name, value);
    }
    let (callee, span) = (e.op(def.name), e.m.span(node));
    let new = e.call_with(callee, &args, attrs, span);
    e.typed(new).then_some(new)
}

/// Converts a constant to an attribute value.
fn attribute(value: &Tensor, ty: AttrTy) -> Option<AttrValue> {
    let floats = value.dtype().is_float();
    let int = |i: usize| {
        if floats {
            AttrValue::Int(value.get_f64(i) as i64)
        } else {
            AttrValue::Int(value.get_i64(i))
        }
    };
    let float = |i: usize| {
        if floats {
            AttrValue::Float(value.get_f64(i))
        } else {
            AttrValue::Float(value.get_i64(i) as f64)
        }
    };
    let n = value.len();
    match (ty, value.shape()) {
        (AttrTy::Int | AttrTy::Any, _) if n == 1 => Some(int(0)),
        (AttrTy::Float, _) if n == 1 => Some(float(0)),
        (AttrTy::Ints | AttrTy::Dims | AttrTy::IntOrInts, [_]) => {
            Some(AttrValue::array((0..n).map(int)))
        }
        (AttrTy::Floats, [_]) => Some(AttrValue::array((0..n).map(float))),
        (AttrTy::IntLists, [_, columns]) => {
            let columns = usize::try_from(*columns).ok()?;
            let row = |r: usize| AttrValue::array((r * columns..(r + 1) * columns).map(int));
            Some(AttrValue::array((0..n.checked_div(columns)?).map(row)))
        }
        _ => None,
    }
}

/// Updates result annotations to the functions' new result types.
fn infer_results(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let annotate =
        |cx: &mut PassCx<'_>,
         ret: &dyn Fn(&PassCx<'_>, relax_ir::FuncId) -> Option<relax_ir::TypeId>| {
            let mut memo = relax_ir::Memo::default();
            for (global, body) in cx.module.global_bodies() {
                let old = cx.module.global_func(global).expect("it has a body");
                let ret_of = |m: &PassCx<'_>, f| ret(m, f);
                // Closures first, then the function itself.
                let closures: Vec<ExprId> = (cx.module.post_order([body]).into_iter())
                    .filter(|&e| matches!(cx.module.exprs[e], Expr::Func(_)))
                    .collect();
                let mut rets = rustc_hash::FxHashMap::default();
                for e in closures {
                    if let Expr::Func(f) = cx.module.exprs[e] {
                        rets.insert(e, ret_of(cx, f));
                    }
                }
                let new = cx.module.rewrite(body, &mut memo, |m, node, old| {
                    let (Some(&ret), Expr::Func(f)) = (rets.get(&old), &m.exprs[node]) else {
                        return node;
                    };
                    let f = m.funcs.push(Function {
                        ret,
                        ..m.funcs[*f].clone()
                    });
                    m.add(Expr::Func(f), m.span(node))
                });
                let ret = ret_of(cx, old);
                let func = Function {
                    body: new,
                    ret,
                    ..cx.module.funcs[old].clone()
                };
                cx.module.set_global_func(global, func);
            }
        };
    annotate(cx, &|_, _| None);
    let typing = cx.typing()?;
    annotate(cx, &|cx, f| match &cx.module.types[typing.funcs[f]] {
        Type::Func(t) => Some(t.ret),
        _ => None,
    });
    Ok(())
}
