//! Constants in place of a function's parameters.

use relax_base::{Span, Symbol};
use relax_ir::{Expr, ExprId, Function, GlobalId, GlobalKind, Memo, Module};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

/// A value to put in place of a parameter.
#[derive(Clone, Debug)]
pub enum Bound {
    /// A tensor.
    Tensor(Tensor),
    /// A tuple.
    Tuple(Vec<Bound>),
}

/// Gives parameters of a global function values, by name: they become constants and are parameters
/// no longer. Returns the names that no parameter has.
pub fn bind_params(
    module: &mut Module,
    global: GlobalId,
    values: Vec<(String, Bound)>,
) -> Vec<String> {
    let Some(func) = module.global_func(global) else {
        return values.into_iter().map(|v| v.0).collect();
    };
    let params = module.funcs[func].params.clone();
    let (mut subst, mut unknown) = (FxHashMap::default(), Vec::new());
    for (name, value) in values {
        let symbol = Symbol::from(name.as_str());
        match params.iter().find(|p| module.vars[**p].name == symbol) {
            Some(&param) => {
                let span = module.vars[param].span;
                subst.insert(param, constant(module, symbol, value, span));
            }
            None => unknown.push(name),
        }
    }
    let body = module.substitute(module.funcs[func].body, &mut Memo::default(), &subst);
    let params = params
        .into_iter()
        .filter(|p| !subst.contains_key(p))
        .collect();
    let function = Function {
        params,
        body,
        ..module.funcs[func].clone()
    };
    module.globals[global].kind = GlobalKind::Func(module.funcs.push(function));
    unknown
}

/// A constant of that name, or a tuple of them.
fn constant(module: &mut Module, name: Symbol, value: Bound, span: Span) -> ExprId {
    enum Step {
        See(Bound),
        Join(usize),
    }
    let (mut work, mut done) = (vec![Step::See(value)], Vec::new());
    while let Some(step) = work.pop() {
        match step {
            Step::See(Bound::Tensor(t)) => {
                let e = module.constant(t, span);
                if let Expr::Const(c) = module.exprs[e] {
                    module.const_names.insert(c, name);
                }
                done.push(e);
            }
            Step::See(Bound::Tuple(fields)) => {
                work.push(Step::Join(fields.len()));
                work.extend(fields.into_iter().rev().map(Step::See));
            }
            Step::Join(n) => {
                let fields = done.split_off(done.len() - n);
                done.push(module.tuple(&fields, span));
            }
        }
    }
    done.pop().expect("one value")
}
