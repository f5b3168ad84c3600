//! The dimension variables and type parameters that a function's text binds.

use std::cell::OnceCell;

use relax_infer::Typing;
use relax_ir::{DTy, Expr, ExprId, FuncId, Module, Shape, TensorType, Type, TypeId, TypeParamId};
use relax_sym::{Atom, Dim, DimVar};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::util::is_primitive;

/// Returns the dimension variables whose value is known in a running function: those that are an
/// extent of a parameter or of something that is matched. One that occurs only in a product
/// (`g * r`) is not among them.
pub(crate) fn dims_in_scope(
    m: &Module,
    typing: &Typing,
    func: FuncId,
    body: ExprId,
) -> FxHashSet<DimVar> {
    let mut funcs = vec![func];
    let mut types: Vec<TypeId> = Vec::new();
    let mut found = FxHashSet::default();
    if m.dims.is_empty() {
        return found;
    }
    for e in m.post_order([body]) {
        match &m.exprs[e] {
            // Variables bound by a kernel's parameters are only known inside it.
            Expr::Func(f) if !is_primitive(&m.funcs[*f]) => funcs.push(*f),
            Expr::MatchCast { ty, .. } => types.push(*ty),
            Expr::MatchShape { dims, .. } => found.extend(dims.iter().filter_map(alone)),
            _ => {}
        }
    }
    for f in funcs {
        types.extend(m.funcs[f].params.iter().map(|p| typing.vars[*p]));
    }
    let mut seen = FxHashSet::default();
    while let Some(ty) = types.pop() {
        // Types inside function types do not describe the value itself.
        if (ty.0 as usize) >= m.types.len() || !seen.insert(ty) {
            continue;
        }
        match &m.types[ty] {
            Type::Tensor(TensorType { shape, .. }) | Type::Shape(shape) => {
                found.extend(shape.dims().unwrap_or_default().iter().filter_map(alone));
            }
            Type::Tuple(fields) => types.extend(fields),
            _ => {}
        }
    }
    found
}

/// Returns the variable, if a dimension is one.
pub(crate) fn alone(d: &Dim) -> Option<DimVar> {
    match d.as_atom() {
        Some(Atom::Var(v)) => Some(v),
        _ => None,
    }
}

/// The names that types inside a function can be written with. The types of functions without
/// complete annotations have parameters and dimensions that inference generated: these have no name
/// in the text, and a type that mentions one cannot be an annotation.
pub(crate) struct Nameable {
    params: FxHashSet<TypeParamId>,
    dims: FxHashSet<DimVar>,
    known: FxHashMap<TypeId, bool>,
    /// The type parameters that texts of the module bind, once a type asks for them.
    said: OnceCell<FxHashSet<TypeParamId>>,
}

impl Nameable {
    /// Collects those of a function and its nested functions; `order` holds the nodes of its body.
    pub fn new(m: &Module, func: FuncId, order: &[ExprId]) -> Nameable {
        let mut this = Nameable {
            params: FxHashSet::default(),
            dims: FxHashSet::default(),
            known: FxHashMap::default(),
            said: OnceCell::new(),
        };
        this.function(m, func);
        for &e in order {
            match &m.exprs[e] {
                Expr::Func(f) => this.function(m, *f),
                Expr::MatchCast { ty, .. } => this.dims.extend(m.dims_in_types([*ty])),
                Expr::MatchShape { dims, .. } => {
                    this.dims.extend(dims.iter().flat_map(|d| d.free_vars()));
                }
                _ => {}
            }
        }
        this
    }

    fn function(&mut self, m: &Module, func: FuncId) {
        self.params.extend(&m.funcs[func].type_params);
        self.dims.extend(&m.funcs[func].dims);
    }

    /// Returns the type as an annotation; `None` where it cannot be written.
    pub fn annotation(&mut self, m: &Module, ty: TypeId) -> Option<TypeId> {
        if let Some(&known) = self.known.get(&ty) {
            return known.then_some(ty);
        }
        let known = self.can_write(m, ty);
        self.known.insert(ty, known);
        known.then_some(ty)
    }

    fn can_write(&self, m: &Module, ty: TypeId) -> bool {
        let mut bound: FxHashSet<TypeParamId> = FxHashSet::default();
        let mut bound_dims: FxHashSet<DimVar> = FxHashSet::default();
        let (mut stack, mut seen) = (vec![ty], FxHashSet::default());
        while let Some(ty) = stack.pop() {
            if !seen.insert(ty) {
                continue;
            }
            let param = |p: &TypeParamId| self.params.contains(p) || bound.contains(p);
            let shape = |s: &Shape| match s {
                Shape::Param(p) => param(p),
                Shape::Dims(dims) => dims
                    .iter()
                    .flat_map(|d| d.free_vars())
                    .all(|v| self.dims.contains(&v) || bound_dims.contains(&v)),
                Shape::Unknown => true,
                Shape::Infer(_) => false,
            };
            let fine = match &m.types[ty] {
                Type::Param(p) => param(p),
                Type::Shape(s) => shape(s),
                Type::Tensor(t) => {
                    let dtype = match &t.dtype {
                        DTy::Param(p) => param(p),
                        DTy::Infer(_) => false,
                        _ => true,
                    };
                    dtype && shape(&t.shape)
                }
                // The relation of an operator has no name of its own.
                Type::Func(f) if f.relates_as_operator() => false,
                // A function without annotations has no type of its own where one is expected that
                // binds the parameters which inference made up for it.
                Type::Func(f) if !f.params.iter().all(|p| self.is_said(m, p)) => false,
                Type::Func(f) => {
                    bound.extend(f.params.iter().copied());
                    bound_dims.extend(f.dims.iter().copied());
                    true
                }
                Type::Error | Type::Infer(_) => false,
                _ => true,
            };
            if !fine {
                return false;
            }
            stack.extend(m.types.children(ty));
        }
        true
    }

    /// Returns whether some text binds a type parameter: a function's literal, or a function's type
    /// in an annotation.
    fn is_said(&self, m: &Module, p: &TypeParamId) -> bool {
        self.params.contains(p) || self.said.get_or_init(|| said(m)).contains(p)
    }
}

/// Returns the type parameters that function literals and annotations of a module bind.
fn said(m: &Module) -> FxHashSet<TypeParamId> {
    let (mut found, mut seen) = (FxHashSet::default(), FxHashSet::default());
    let mut types: Vec<TypeId> = m.vars.iter().filter_map(|(_, v)| v.ty).collect();
    for (_, f) in m.funcs.iter() {
        found.extend(&f.type_params);
        types.extend(f.ret);
    }
    for (_, e) in m.exprs.iter() {
        if let Expr::MatchCast { ty, .. } = e {
            types.push(*ty);
        }
    }
    while let Some(ty) = types.pop() {
        if seen.insert(ty) {
            if let Type::Func(f) = &m.types[ty] {
                found.extend(&f.params);
            }
            types.extend(m.types.children(ty));
        }
    }
    found
}
