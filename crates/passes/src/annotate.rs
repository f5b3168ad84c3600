//! Parameters keep the types that they were found to have.
//!
//! The type of a parameter without annotation is what the operators around it ask for, and a pass
//! may put others in their place, which ask for less: `nn.bias_add(%x, %b)` says that `%b` has one
//! axis, the `add` that takes its place does not. So the manager writes down what was found, before
//! a pass that changed the program is forgotten.

use relax_infer::Typing;
use relax_ir::{DTy, Module, Shape, Type, TypeId, TypeParamId, VarId};
use relax_sym::DimVar;
use rustc_hash::FxHashSet;

use crate::util::any_type;

/// Returns whether some parameter has no annotation, or one that leaves something open.
pub(crate) fn missing(m: &Module) -> bool {
    unannotated(m).next().is_some()
}

fn unannotated(m: &Module) -> impl Iterator<Item = VarId> {
    let open = |v: VarId| match m.vars[v].ty {
        None => true,
        Some(ty) => any_type(m, ty, |t| matches!(t, Type::Infer(_))),
    };
    let params = m.funcs.values().flat_map(|f| f.params.iter().copied());
    params.filter(move |&p| open(p))
}

/// Annotates parameters with the types of `before`, which are those that they had before a pass.
/// Parameters of functions that were generalised have none that could be written down, and stay as
/// they are.
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

/// What the program gives a name in the heads of its functions.
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

    /// Returns whether an annotation can say the type: all of it is known, and its variables are
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
        !any_type(m, ty, |t| match t {
            Type::Tensor(t) => !shape(&t.shape) || !dtype(t.dtype),
            Type::Shape(s) => !shape(s),
            Type::Param(p) => !self.params.contains(p),
            // What a function type binds is not known outside of it.
            Type::Func(f) => !f.params.is_empty() || !f.dims.is_empty(),
            Type::Object | Type::Error | Type::Infer(_) => true,
            Type::Tuple(_) | Type::Adt(..) | Type::Ref(_) => false,
        })
    }
}
