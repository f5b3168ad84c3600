//! Symbols that outlined functions mention.

use relax_infer::Typing;
use relax_ir::{AttrValue, Attrs, Expr, FuncId, Function, Module, Type, TypeId, VarId, VarStyle};
use relax_sym::DimVar;
use rustc_hash::FxHashSet;

use crate::abstracted::mention_type_params;
use crate::code::{Bind, Code, Part, Seq, each_var, fresh};

/// Returns the dimension variables that a function mentions and no parameter binds.
pub(super) fn free_dims(
    m: &Module,
    typing: &Typing,
    code: &Code,
    (params, ret): (&[VarId], TypeId),
) -> Vec<DimVar> {
    let bound = bare_dims(m, params.iter().filter_map(|p| m.vars[*p].ty));
    let mut free = m.dims_in_types([ret]);
    for b in code.binds() {
        free.extend(m.dims_in_types([typing.vars[b.var]]));
        if let Some(e) = b.expr() {
            free.extend(m.free_dims(e));
        }
    }
    free.extend(m.dims_in_types(params.iter().filter_map(|p| m.vars[*p].ty)));
    let mut free: Vec<DimVar> = free.into_iter().filter(|d| !bound.contains(d)).collect();
    free.sort_unstable();
    free
}

/// Returns the dimension variables that are an extent by themselves: parameters of these types bind
/// them.
fn bare_dims(m: &Module, types: impl Iterator<Item = TypeId>) -> FxHashSet<DimVar> {
    let mut bound = FxHashSet::default();
    let mut open: Vec<TypeId> = types.collect();
    while let Some(t) = open.pop() {
        let shape = match &m.types[t] {
            Type::Tensor(t) => &t.shape,
            Type::Shape(s) => s,
            Type::Tuple(fields) => {
                open.extend(fields.iter());
                continue;
            }
            _ => continue,
        };
        for dim in shape.dims().into_iter().flatten() {
            let vars = dim.free_vars();
            bound.extend(vars.into_iter().filter(|v| *dim == relax_sym::Dim::var(*v)));
        }
    }
    bound
}

/// Returns a public function that calls `inner`, which is nested in it and uses its symbols.
pub(super) fn enclosed(m: &mut Module, inner: FuncId, codegen: &str) -> FuncId {
    let function = m.funcs[inner].clone();
    let span = function.span;
    let (mut params, mut args) = (Vec::new(), Vec::new());
    for &p in &function.params {
        let (name, ty) = (m.vars[p].name, m.vars[p].ty);
        let (var, e) = m.fresh_var(name, ty, VarStyle::Param);
        if let Some(attrs) = m.var_attrs.get(&p).cloned() {
            m.var_attrs.insert(var, attrs);
        }
        params.push(var);
        args.push(e);
    }
    let dims = std::mem::take(&mut m.funcs[inner].dims);
    let closure = m.add(Expr::Func(inner), span);
    let (local, callee) = fresh(m, "local_func", None);
    let call = m.call(callee, &args, span);
    let (output, value) = fresh(m, "output", function.ret);
    let code = Code {
        seqs: vec![Seq {
            parts: vec![Part {
                flow: false,
                binds: vec![
                    Bind::plain(local, closure, span),
                    Bind::plain(output, call, span),
                ],
                outputs: Vec::new(),
                span,
            }],
            value,
        }],
    };
    let body = code.body(m);
    let attrs = Attrs::new().with("Codegen", AttrValue::Str(codegen.into()));
    let func = m.funcs.push(Function {
        dims,
        params,
        body,
        attrs,
        ..function
    });
    m.copy_func(func)
}

/// Returns whether the types of what bindings take and compute can be written outside of the
/// function around them: of a type parameter only the relations of that function say that it is a
/// tensor.
pub(super) fn speaks_alone(m: &Module, typing: &Typing, part: &Part, binds: &[usize]) -> bool {
    let mut vars: Vec<VarId> = binds.iter().map(|&i| part.binds[i].var).collect();
    for e in binds.iter().filter_map(|&i| part.binds[i].expr()) {
        each_var(m, e, |v| vars.push(v));
    }
    !mention_type_params(m, vars.into_iter().map(|v| typing.vars[v]).collect())
}
