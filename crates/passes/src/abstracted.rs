//! What a function names of the functions around it, over which it has to abstract to stand alone:
//! type parameters and dimension variables.

use relax_infer::Typing;
use relax_ir::{
    AttrValue, DTy, Expr, ExprId, FuncId, IdSet, Module, Shape, TensorType, Type, TypeId,
    TypeParamId, VarId,
};
use relax_sym::DimVar;
use rustc_hash::FxHashSet;

use crate::scope::{Nameable, alone};

/// The names of its surroundings that a function binds itself once it stands alone.
pub(crate) struct Abstracted {
    pub type_params: Vec<TypeParamId>,
    /// Each is determined by an argument or by a captured value.
    pub dims: Vec<DimVar>,
    by_own: Vec<DimVar>,
    by_given: Vec<DimVar>,
}

impl Abstracted {
    /// Returns the names that `func`, whose parameters are annotated, has to bind when it is moved
    /// out of its surroundings, which bind the dimension variables `around`, and gets the values of
    /// `captured` as arguments. `None` if the arguments do not determine them: then it has to stay.
    pub fn of(
        m: &Module,
        typing: &Typing,
        func: FuncId,
        captured: &[VarId],
        around: &FxHashSet<DimVar>,
    ) -> Option<Abstracted> {
        let own: Vec<TypeId> = (m.funcs[func].params.iter())
            .filter_map(|p| m.vars[*p].ty)
            .collect();
        let given: Vec<TypeId> = captured.iter().map(|v| typing.vars[*v]).collect();
        let arguments = || own.iter().chain(&given).copied();
        let (mut dims, values) = dims_used(m, func, around);
        let (by_own, by_given) = (
            dims_in_order(m, own.clone()),
            dims_in_order(m, given.clone()),
        );
        dims.extend(by_given.iter().filter(|d| around.contains(d)));
        let mut seen = FxHashSet::default();
        dims.retain(|d| seen.insert(*d));
        // In a function's type a name would be that type's own.
        let known = extents(m, arguments());
        if !dims.iter().all(|d| known.contains(d)) || !values.is_subset(&known) {
            return None;
        }
        let type_params = free_type_params(m, func, captured, typing);
        let told = params_in_types(m, arguments().collect(), &mut FxHashSet::default());
        type_params
            .iter()
            .all(|p| told.contains(p))
            .then_some(Abstracted {
                type_params,
                dims,
                by_own,
                by_given,
            })
    }

    /// Returns the dimension variables that the function's own parameters bind, and those that only
    /// captured values do, in the order in which a text declares these.
    pub fn own_and_given(&self) -> (Vec<DimVar>, Vec<DimVar>) {
        let own = |d: &DimVar| self.by_own.contains(d) && !self.by_given.contains(d);
        let (own, mut given): (Vec<DimVar>, Vec<DimVar>) = self.dims.iter().copied().partition(own);
        given.sort_by_key(|d| self.by_given.iter().position(|g| g == d));
        (own, given)
    }
}

/// Returns whether the type of a function literal and those of what it uses can be written outside
/// of its surroundings. Type parameters that inference made up cannot: no function's text binds
/// them.
pub(crate) fn has_writable_types(
    m: &Module,
    typing: &Typing,
    nameable: &mut Nameable,
    func: FuncId,
    uses: &[VarId],
) -> bool {
    let uses = uses.iter().map(|v| typing.vars[*v]);
    let own = std::iter::once(typing.funcs[func]);
    // Expressions that another pass or an error left untyped stay so.
    let mut said = (uses.chain(own)).filter(|t| m.types[*t] != Type::Error);
    if !said.all(|t| nameable.annotation(m, t).is_some() && !constrained(m, t)) {
        return false;
    }
    match &m.types[typing.funcs[func]] {
        Type::Func(f) => f.params.len() <= m.funcs[func].type_params.len(),
        _ => true,
    }
}

/// Returns the dimension variables that are bound outside of a closure, in the function that has
/// `dims` and the nodes of `order`.
pub(crate) fn bound_outside(
    m: &Module,
    dims: &[DimVar],
    order: &[ExprId],
    closure: ExprId,
) -> FxHashSet<DimVar> {
    let inside: IdSet = m.post_order([closure]).into_iter().collect();
    let mut found: FxHashSet<DimVar> = dims.iter().copied().collect();
    for &e in order.iter().filter(|e| !inside.contains(**e)) {
        match &m.exprs[e] {
            Expr::Func(f) => found.extend(&m.funcs[*f].dims),
            Expr::MatchCast { ty, .. } => found.extend(m.dims_in_types([*ty])),
            Expr::MatchShape { dims, .. } => found.extend(dims.iter().flat_map(|d| d.free_vars())),
            _ => {}
        }
    }
    found
}

/// Returns the dimension variables among `bound` that a function mentions, in order of first
/// mention, and those whose values it uses.
fn dims_used(
    m: &Module,
    func: FuncId,
    bound: &FxHashSet<DimVar>,
) -> (Vec<DimVar>, FxHashSet<DimVar>) {
    let (mut types, mut values) = (Vec::new(), Vec::new());
    let mut signature = |f: FuncId| {
        let f = &m.funcs[f];
        types.extend(f.params.iter().filter_map(|p| m.vars[*p].ty));
        types.extend(f.ret);
    };
    signature(func);
    let order = m.post_order([m.funcs[func].body]);
    for &e in &order {
        if let Expr::Func(f) = &m.exprs[e] {
            signature(*f);
        }
    }
    for &e in &order {
        match &m.exprs[e] {
            Expr::MatchCast { ty, .. } => types.push(*ty),
            Expr::MatchShape { dims, .. } | Expr::Shape(dims) => {
                values.extend(dims.iter().flat_map(|d| d.free_vars()));
            }
            Expr::Call {
                type_args, attrs, ..
            } => {
                types.extend(m.type_args(*type_args));
                attr_dims(m.attrs(*attrs).iter().map(|a| &a.1), &mut values);
            }
            _ => {}
        }
        types.extend(m.bound_vars(e).into_iter().filter_map(|v| m.vars[v].ty));
    }
    let mut mentioned = dims_in_order(m, types);
    mentioned.extend(&values);
    let mut seen = FxHashSet::default();
    mentioned.retain(|d| bound.contains(d) && seen.insert(*d));
    values.retain(|d| bound.contains(d));
    (mentioned, values.into_iter().collect())
}

/// Returns the dimension variables that types mention, in textual order.
fn dims_in_order(m: &Module, mut types: Vec<TypeId>) -> Vec<DimVar> {
    types.reverse();
    let (mut found, mut seen) = (Vec::new(), IdSet::new());
    while let Some(ty) = types.pop() {
        if !seen.insert(ty) {
            continue;
        }
        if let Type::Tensor(TensorType { shape, .. }) | Type::Shape(shape) = &m.types[ty] {
            let dims = shape.dims().unwrap_or_default();
            found.extend(dims.iter().flat_map(|d| d.free_vars()));
        }
        types.extend(m.types.children(ty).into_iter().rev());
    }
    found
}

/// The dimension variables in values of attributes.
fn attr_dims<'a>(values: impl Iterator<Item = &'a AttrValue>, found: &mut Vec<DimVar>) {
    let mut work: Vec<&AttrValue> = values.collect();
    while let Some(value) = work.pop() {
        match value {
            AttrValue::Dim(d) => found.extend(d.free_vars()),
            AttrValue::Array(items) => work.extend(items.iter()),
            _ => {}
        }
    }
}

/// Returns the dimension variables that are an extent of tensors of these types.
pub(crate) fn extents(m: &Module, types: impl Iterator<Item = TypeId>) -> FxHashSet<DimVar> {
    let (mut work, mut found): (Vec<TypeId>, _) = (types.collect(), FxHashSet::default());
    while let Some(ty) = work.pop() {
        match &m.types[ty] {
            Type::Tensor(TensorType { shape, .. }) | Type::Shape(shape) => {
                found.extend(shape.dims().unwrap_or_default().iter().filter_map(alone));
            }
            Type::Tuple(fields) => work.extend(fields),
            _ => {}
        }
    }
    found
}

/// Returns whether a type is that of a function with relations, which cannot instantiate a type
/// parameter.
fn constrained(m: &Module, ty: TypeId) -> bool {
    matches!(&m.types[ty], Type::Func(f) if !f.constraints.is_empty())
}

/// Returns the type parameters that a function mentions and does not bind, in order of first
/// mention.
fn free_type_params(
    m: &Module,
    func: FuncId,
    captured: &[VarId],
    typing: &Typing,
) -> Vec<TypeParamId> {
    let (mut types, mut bound) = (Vec::<TypeId>::new(), FxHashSet::default());
    let mut funcs = vec![func];
    for &v in captured {
        types.push(typing.vars[v]);
    }
    for e in m.post_order([m.funcs[func].body]) {
        match &m.exprs[e] {
            Expr::Func(f) => funcs.push(*f),
            Expr::MatchCast { ty, .. } => types.push(*ty),
            Expr::Call { type_args, .. } => types.extend(m.type_args(*type_args)),
            _ => {}
        }
        types.extend(m.bound_vars(e).into_iter().filter_map(|v| m.vars[v].ty));
    }
    for f in funcs {
        let f = &m.funcs[f];
        bound.extend(f.type_params.iter().copied());
        types.extend(f.ret);
        types.extend(f.params.iter().filter_map(|p| m.vars[*p].ty));
    }
    params_in_types(m, types, &mut bound)
}

/// Returns whether types mention type parameters that they do not bind.
pub(crate) fn mention_type_params(m: &Module, types: Vec<TypeId>) -> bool {
    !params_in_types(m, types, &mut FxHashSet::default()).is_empty()
}

/// Returns the type parameters that types mention, in order of first mention, but for those in
/// `bound`, to which they are added.
fn params_in_types(
    m: &Module,
    mut types: Vec<TypeId>,
    bound: &mut FxHashSet<TypeParamId>,
) -> Vec<TypeParamId> {
    let (mut out, mut seen) = (Vec::new(), IdSet::new());
    types.reverse();
    while let Some(ty) = types.pop() {
        if !seen.insert(ty) {
            continue;
        }
        match &m.types[ty] {
            Type::Param(p) => out.extend(Some(*p).filter(|p| bound.insert(*p))),
            Type::Shape(Shape::Param(p)) => out.extend(Some(*p).filter(|p| bound.insert(*p))),
            Type::Tensor(t) => {
                let shape = match t.shape {
                    Shape::Param(p) => Some(p),
                    _ => None,
                };
                let dtype = match t.dtype {
                    DTy::Param(p) => Some(p),
                    _ => None,
                };
                out.extend(shape.into_iter().chain(dtype).filter(|p| bound.insert(*p)));
            }
            Type::Func(f) => {
                bound.extend(f.params.iter().copied());
                types.extend(m.types.children(ty).into_iter().rev());
            }
            _ => types.extend(m.types.children(ty).into_iter().rev()),
        }
    }
    out
}
