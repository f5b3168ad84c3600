//! Constants in place of a function's parameters.

use relax_base::Symbol;
use relax_ir::{Function, GlobalId, GlobalKind, Module};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

/// Gives parameters of a global function values, by name: they become constants and are parameters
/// no longer. Returns the names that no parameter has.
pub fn bind_params(
    module: &mut Module,
    global: GlobalId,
    values: Vec<(String, Tensor)>,
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
                subst.insert(param, module.constant(value, span));
            }
            None => unknown.push(name),
        }
    }
    let body = module.substitute(module.funcs[func].body, &subst);
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
