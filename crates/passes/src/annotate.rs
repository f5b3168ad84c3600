//! Annotates parameters with their inferred types.
//!
//! The type of a parameter without annotation follows from the operators around it, and a pass may
//! replace these by others with weaker requirements: `nn.bias_add(%x, %b)` requires `%b` to have
//! one axis, the `add` that replaces it does not. So the manager records what was inferred as
//! annotations, before the types from before a pass are dropped.

use relax_infer::Typing;
use relax_ir::{DTy, Module, Shape, Type, TypeId, TypeParamId, VarId};
use relax_sym::DimVar;
use rustc_hash::FxHashSet;

/// Returns whether some parameter has no annotation, or one that leaves something open.
pub(crate) fn missing(m: &Module) -> bool {
    unannotated(m).next().is_some()
}

fn unannotated(m: &Module) -> impl Iterator<Item = VarId> {
    let open = move |v: VarId| match m.vars[v].ty {
        None => true,
        Some(_) if m.type_holes == 0 => false,
        Some(ty) => m.types.any(ty, |t| matches!(t, Type::Infer(_))),
    };
    let params = m.funcs.values().flat_map(|f| f.params.iter().copied());
    params.filter(move |&p| open(p))
}

/// Annotates parameters with the types of `before`, which are those that they had before a pass.
/// Parameters of generalised functions have no type that could be written down, and are left alone.
pub(crate) fn annotate(m: &mut Module, before: &Typing) {
    let missing: Vec<VarId> = unannotated(m).collect();
    if missing.is_empty() {
        return;
    }
    let declared = Declared::of(m);
    for var in missing {
        let ty = before.vars[var];
        if declared.can_say(m, ty) {
            m.vars[var].ty = Some(ty);
        }
    }
}

/// The names that the program declares in the headers of its functions.
struct Declared {
    params: FxHashSet<TypeParamId>,
    dims: FxHashSet<DimVar>,
}

impl Declared {
    fn of(m: &Module) -> Declared {
        let (mut params, mut dims) = (FxHashSet::default(), FxHashSet::default());
        for function in m.funcs.values() {
            params.extend(function.type_params.iter().copied());
            dims.extend(function.dims.iter().copied());
        }
        Declared { params, dims }
    }

    /// Returns whether an annotation can express the type: it is fully known, and its variables are
    /// declared.
    fn can_say(&self, m: &Module, ty: TypeId) -> bool {
        let shape = |s: &Shape| match s {
            Shape::Dims(dims) => (dims.iter())
                .all(|d| d.free_vars().iter().all(|v| self.dims.contains(v)) && !d.has_infer()),
            Shape::Param(p) => self.params.contains(p),
            Shape::Unknown | Shape::Infer(_) => false,
        };
        let dtype = |d: DTy| match d {
            DTy::Known(_) => true,
            DTy::Param(p) => self.params.contains(&p),
            DTy::Unknown | DTy::Infer(_) => false,
        };
        !m.types.any(ty, |t| match t {
            Type::Tensor(t) => !shape(&t.shape) || !dtype(t.dtype),
            Type::Shape(s) => !shape(s),
            Type::Param(p) => !self.params.contains(p),
            // Variables that a function type binds are unknown outside of it.
            Type::Func(f) => !f.params.is_empty() || !f.dims.is_empty(),
            Type::Object | Type::Error | Type::Infer(_) => true,
            Type::Tuple(_) | Type::Adt(..) | Type::Ref(_) => false,
        })
    }
}
