//! Type checking of `grad` items about `op` items.
//!
//! The signature of an `op` item gives the operands and the result types, so its `grad` item is a
//! function: of operands, result and gradient to the operands' gradients. A function of this form is
//! inferred in a module of its own. Built-in operators have no such signature; their items are
//! checked where they are used.

use relax_base::{Diagnostics, Span, Symbol};
use relax_ir::{
    AttrValue, Attrs, DTy, Expr, ExprId, Function, Global, GlobalKind, GradItem, GradNode, Kind,
    Module, TypeId, TypeSubst, UserOp, Var, VarId, VarStyle,
};
use relax_tensor::{DType, Tensor};

use crate::{InferOptions, codes, infer};

/// Checks the types of the `grad` items about the module's own operators.
pub fn check_gradients(module: &Module, options: &InferOptions) -> Diagnostics {
    let mut found = Diagnostics::new();
    for item in &module.grads {
        let Some(op) = module.user_op(item.op) else {
            continue;
        };
        if module.damage.user_ops.contains(&item.op) {
            continue;
        }
        if let Some(mut probe) = probe(module, item, op) {
            for mut d in infer(&mut probe, options).1 {
                // Of the function that stands for the item, the text knows nothing.
                if d.code == codes::RETURN {
                    d.message = format!(
                        "the gradients of `{}` are of other types than its operands",
                        item.name
                    );
                }
                found.push(d);
            }
        }
    }
    found
}

/// Returns a module with the function that an item is; `None` where its types are not known: the
/// operator's relation determines the result, or an attribute has no default.
fn probe(module: &Module, item: &GradItem, op: &UserOp) -> Option<Module> {
    let ret = op.ret?;
    let mut m = Module::new();
    m.types = module.types.clone();
    m.dims = module.dims.clone();
    m.adts = module.adts.clone();
    m.ctors = module.ctors.clone();
    m.relations = module.relations.clone();
    m.user_ops = module.user_ops.clone();
    let mut at = elements(module, op);
    let ret = at.ty(&mut m.types, ret);
    let operands: Vec<TypeId> = (op.params.iter())
        .map(|p| at.ty(&mut m.types, p.1))
        .collect();
    let names = item.operands.iter().chain(&item.bound);
    let types = operands.iter().copied().chain([ret, ret]);
    let params: Vec<VarId> = names
        .zip(types)
        .map(|(&name, ty)| param(&mut m, name, ty, item.span))
        .collect();
    let dtype = m.types.as_tensor(ret).and_then(|t| t.dtype.known());
    let attrs = assumed(item, op);
    let mut made: Vec<ExprId> = Vec::with_capacity(item.nodes.len());
    for (node, &span) in item.nodes.iter().zip(&item.spans) {
        let parts: Vec<ExprId> = node.parts().iter().map(|&p| made[p as usize]).collect();
        made.push(match node {
            GradNode::Operand(i) => m.add(Expr::Var(params[*i as usize]), span),
            GradNode::Result => m.add(Expr::Var(params[operands.len()]), span),
            GradNode::Gradient => m.add(Expr::Var(params[operands.len() + 1]), span),
            GradNode::Attr(name) => {
                let value = attrs.get(name.as_str())?.as_float()?;
                number(&mut m, dtype, value, span)
            }
            GradNode::Const { value, plain: true } => number(&mut m, dtype, value.get_f64(0), span),
            GradNode::Const { value, .. } => m.constant(value.clone(), span),
            GradNode::Call {
                op, attrs: given, ..
            } => {
                if !given.iter().all(|(_, v)| is_known(v, &attrs)) {
                    return None;
                }
                let given = given.iter().map(|(n, v)| (*n, v.with_attrs(&attrs)));
                let given: Attrs = given.collect();
                let callee = m.add(Expr::Op(*op), span);
                m.call_attrs(callee, &parts, given, span)
            }
            GradNode::Tuple(_) => m.tuple(&parts, span),
            GradNode::Field { index, .. } => {
                let (tuple, index) = (parts[0], *index);
                m.add(Expr::Proj { tuple, index }, span)
            }
        });
    }
    let ret = match operands[..] {
        [one] => one,
        _ => m.types.tuple(operands),
    };
    let func = m.funcs.push(Function {
        type_params: (op.type_params.iter().copied())
            .filter(|&p| m.types.params[p].kind != Kind::BaseType)
            .collect(),
        dims: op.dims.clone(),
        params,
        ret: Some(ret),
        constraints: op.constraints.clone(),
        body: made[item.body as usize],
        attrs: Attrs::new(),
        span: item.span,
    });
    m.globals.push(Global {
        name: item.name,
        kind: GlobalKind::Func(func),
        span: item.span,
        prelude: false,
    });
    Some(m)
}

fn param(m: &mut Module, name: Symbol, ty: TypeId, span: Span) -> VarId {
    m.vars.push(Var {
        name,
        ty: Some(ty),
        span,
        style: VarStyle::Param,
    })
}

/// Returns the element types that an item is checked at, for those that are parameters: numbers, and
/// functions of real ones, have no type at a parameter.
fn elements(module: &Module, op: &UserOp) -> TypeSubst {
    let mut at = TypeSubst::new();
    for (param, index) in op.element_params(&module.types).zip(0..) {
        let fits = |dtype: &DType| op.unfit(index, *dtype).is_none();
        let dtype = [DType::F32, DType::I32, DType::U8, DType::BOOL]
            .into_iter()
            .find(fits);
        at.dtypes
            .insert(param, DTy::Known(dtype.unwrap_or(DType::F32)));
    }
    at
}

/// Returns a number of an element type; where that is not known, one that takes it from its context.
fn number(m: &mut Module, dtype: Option<DType>, value: f64, span: Span) -> ExprId {
    let tensor = match dtype {
        Some(dtype) if dtype.is_float() => Tensor::scalar_f64(dtype, value),
        Some(dtype) => Tensor::scalar_i64(dtype, value as i64),
        None => Tensor::scalar_f64(DType::F32, value),
    };
    let e = m.constant(tensor, span);
    if let (None, Expr::Const(c)) = (dtype, &m.exprs[e]) {
        m.literals.insert(*c, true);
    }
    e
}

/// Returns the attributes of the call that an item is checked on: what it is only about, or the
/// defaults.
fn assumed(item: &GradItem, op: &UserOp) -> Attrs {
    let value = |(name, _, default): &(Symbol, Symbol, Option<AttrValue>)| {
        let only = item.attrs.iter().find(|a| a.0 == *name);
        let value = only.and_then(|a| a.1.clone()).or_else(|| default.clone());
        Some((*name, value?))
    };
    op.attrs.iter().filter_map(value).collect()
}

/// Returns whether a value consists of attributes that are known. The recursion is bounded, as the
/// resolver rejects deeply nested values.
fn is_known(value: &AttrValue, attrs: &Attrs) -> bool {
    match value {
        AttrValue::Attr(name) => attrs.get(name.as_str()).is_some(),
        AttrValue::Array(items) => items.iter().all(|item| is_known(item, attrs)),
        _ => true,
    }
}
