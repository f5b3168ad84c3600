//! `remove-unused-parameters`: removes unused parameters of private functions.
//!
//! A dimension variable that only such a parameter binds becomes a separate shape parameter.

use relax_base::{Diagnostics, Symbol};
use relax_infer::Typing;
use relax_ir::{Expr, ExprId, GlobalId, Module, Shape, Type, TypeId, VarId, VarStyle};
use relax_sym::{Atom, Dim, DimVar};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{expand_tuples, private, unused};
use crate::code::{Code, Value, each_code};
use crate::impurity::Impurity;
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "remove-unused-parameters",
    doc: "Drops parameters of private functions that these do not use.",
    options: &[],
    contract: Contract::RELAX,
    run,
}];

/// The arguments that calls of a function still pass.
struct Left {
    /// The indices of the old arguments that are kept.
    args: Vec<usize>,
    /// Dimensions of the old signature, which are passed first.
    dims: Vec<DimVar>,
    /// The types of the old parameters.
    types: Vec<TypeId>,
}

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    narrow(cx)?;
    expand_tuples::finish(cx)
}

/// Narrows the functions; how many.
pub(super) fn narrow(cx: &mut PassCx<'_>) -> Result<u64, Diagnostics> {
    let typing = cx.typing()?;
    let private = private::only_called(cx.module);
    if private.is_empty() {
        cx.count("functions narrowed", 0);
        return Ok(0);
    }
    let impurity = Impurity::of(cx)?;
    let m = &mut *cx.module;
    let (mut new, mut left) = (FxHashMap::default(), FxHashMap::default());
    for g in private {
        let f = m.global_func(g).expect("a function");
        let mut function = m.funcs[f].clone();
        let Some(mut code) = Code::of(m, function.body) else {
            continue;
        };
        // What only serves bindings that nothing needs is not used.
        let gone = unused::unused_bindings(m, &typing, &impurity, &mut code) > 0;
        let uses = code.uses(m);
        let used = |p: &VarId| uses.contains_key(p);
        if function.params.iter().all(used) {
            continue;
        }
        let types: Vec<TypeId> = function.params.iter().map(|p| typing.vars[*p]).collect();
        let kept: Vec<usize> = (0..types.len())
            .filter(|&i| used(&function.params[i]))
            .collect();
        let bound = bound_dims(m, kept.iter().map(|&i| types[i]));
        let mut spoken = body_dims(m, &code, function.ret);
        spoken.extend(m.dims_in_types(kept.iter().map(|&i| types[i])));
        let mut dims: Vec<DimVar> = (spoken.into_iter())
            .filter(|d| !bound.contains(d) && function.dims.contains(d))
            .collect();
        dims.sort_unstable_by_key(|d| std::cmp::Reverse(function.dims.iter().position(|x| x == d)));
        let mut params = Vec::new();
        for &d in &dims {
            let shape = Shape::Dims([Dim::var(d)].into());
            let ty = m.types.intern(Type::Shape(shape));
            let name = Symbol::new(&format!("param_{}", m.dims[d].name));
            params.push(m.fresh_var(name, Some(ty), VarStyle::Param).0);
        }
        params.extend(kept.iter().map(|&i| function.params[i]));
        function.params = params;
        if gone {
            function.body = code.body(m);
        }
        new.insert(g, function);
        left.insert(
            g,
            Left {
                args: kept,
                dims,
                types,
            },
        );
    }
    let count = new.len() as u64;
    if count == 0 {
        cx.count("functions narrowed", 0);
        return Ok(0);
    }
    private::replace(m, new);
    each_code(m, |m, _, code| calls(m, &typing, code, &left));
    cx.count("functions narrowed", count);
    Ok(count)
}

/// Returns the dimension variables that are an extent by themselves in one of these types.
fn bound_dims(m: &Module, types: impl Iterator<Item = TypeId>) -> FxHashSet<DimVar> {
    let mut bound = FxHashSet::default();
    for leaf in types.flat_map(|t| m.types.leaves(t)) {
        let shape = match &m.types[leaf] {
            Type::Tensor(t) => &t.shape,
            Type::Shape(s) => s,
            _ => continue,
        };
        bound.extend(
            shape
                .dims()
                .unwrap_or_default()
                .iter()
                .filter_map(|d| match d.as_atom() {
                    Some(Atom::Var(v)) => Some(v),
                    _ => None,
                }),
        );
    }
    bound
}

/// Returns the dimension variables that a body or its result type mentions.
fn body_dims(m: &Module, code: &Code, ret: Option<TypeId>) -> FxHashSet<DimVar> {
    let mut dims = FxHashSet::default();
    for (e, ..) in code.exprs() {
        dims.extend(m.free_dims(e));
    }
    let types = code.binds().filter_map(|b| m.vars[b.var].ty).chain(ret);
    dims.extend(m.dims_in_types(types));
    dims
}

fn calls(
    m: &mut Module,
    typing: &Typing,
    code: &mut Code,
    left: &FxHashMap<GlobalId, Left>,
) -> bool {
    let mut changed = false;
    for b in code
        .seqs
        .iter_mut()
        .flat_map(|s| &mut s.parts)
        .flat_map(|p| &mut p.binds)
    {
        let Some(e) = b.expr() else {
            continue;
        };
        let Expr::Call { callee, args, .. } = m.exprs[e] else {
            continue;
        };
        let Expr::Global(g) = m.exprs[callee] else {
            continue;
        };
        let Some(left) = left.get(&g) else {
            continue;
        };
        let args = m.list(args).to_vec();
        let mut new: Vec<ExprId> = Vec::new();
        for &d in &left.dims {
            let mut found = (left.types.iter().zip(&args))
                .filter_map(|(&ty, &arg)| extent(m, ty, typing.exprs[arg], d));
            let Some(dim) = found.next() else {
                continue;
            };
            drop(found);
            let span = m.span(e);
            new.push(m.add(Expr::Shape([dim].into()), span));
        }
        new.extend(left.args.iter().map(|&i| args[i]));
        let span = m.span(e);
        b.value = Value::Plain(m.call(callee, &new, span));
        changed = true;
    }
    changed
}

/// Returns the extent in an argument's type that corresponds to a dimension variable of the
/// parameter's type.
fn extent(m: &Module, param: TypeId, arg: TypeId, d: DimVar) -> Option<Dim> {
    let mut open = vec![(param, arg)];
    while let Some((p, a)) = open.pop() {
        let (p, a) = match (&m.types[p], &m.types[a]) {
            (Type::Tuple(p), Type::Tuple(a)) => {
                open.extend(p.iter().copied().zip(a.iter().copied()));
                continue;
            }
            (Type::Tensor(p), Type::Tensor(a)) => (&p.shape, &a.shape),
            (Type::Shape(p), Type::Shape(a)) => (p, a),
            _ => continue,
        };
        let (Shape::Dims(p), Shape::Dims(a)) = (p, a) else {
            continue;
        };
        let here = p.iter().position(|x| *x == Dim::var(d));
        if let Some(dim) = here.and_then(|i| a.get(i)) {
            return Some(dim.clone());
        }
    }
    None
}
