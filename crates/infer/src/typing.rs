//! The result of inference.

use relax_base::{Diagnostic, Diagnostics, SideTable};
use relax_ir::{
    ConstId, DimInfo, Expr, ExprId, FuncId, GlobalId, IdSet, Module, TypeArena, TypeId, VarId,
};
use relax_sym::Dim;
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use crate::flags::Flags;
use crate::relation_cache::Answers;

/// A property that inference could not prove, and that the compiled program must check.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// The check is made when this expression is evaluated, after its operands.
    pub expr: ExprId,
    /// The property.
    pub kind: CheckKind,
}

/// The properties checked at run time.
#[derive(Clone, PartialEq, Debug)]
pub enum CheckKind {
    /// The two dimensions are equal.
    Equal(Dim, Dim),
    /// The two dimensions are equal, or one of them is 1.
    Broadcast(Dim, Dim),
    /// The expression's value has this type.
    HasType(TypeId),
    /// The scrutinee of a `match_shape` has this shape (a `Shape[…]` type).
    HasShape(TypeId),
}

/// The types of a module, in tables beside its nodes. Unreachable nodes have the error type, or
/// after [`infer_again`](crate::infer_again) the type from when they were reachable.
#[derive(Clone, Debug)]
pub struct Typing {
    /// The types of expressions. Operators, constructors and globals that are only callees have the
    /// error type, or after [`infer_again`](crate::infer_again) the type that they had as values:
    /// look at the call.
    pub exprs: SideTable<ExprId, TypeId>,
    /// The types of variables.
    pub vars: SideTable<VarId, TypeId>,
    /// The types of functions: their `Type::Func`, with the inferred parts.
    pub funcs: SideTable<FuncId, TypeId>,
    /// The types of globals.
    pub globals: SideTable<GlobalId, TypeId>,
    /// The checks that the compiled program must make, in the order of the expressions.
    pub checks: Vec<Check>,
    /// The type arguments of each call of a polymorphic function. Shapes are represented as
    /// `Shape[…]` types, element types as scalar types.
    pub type_args: FxHashMap<ExprId, Box<[TypeId]>>,
    /// Functions without side effects.
    pub pure: SideTable<FuncId, bool>,
    pub(crate) notes: Notes,
}

/// Results that the next inference of the module can reuse.
#[derive(Clone, Default, Debug)]
pub(crate) struct Notes {
    /// Calls of operators whose type depends only on their argument types, and whose relation had
    /// no other effect.
    pub plain: IdSet,
    /// Expressions whose types depend on those of variables and globals alone, and whose inference
    /// had no other effect.
    pub whole: IdSet,
    /// The flags of the module's types.
    pub flags: Flags,
    /// What relations gave.
    pub answers: Answers,
}

impl Typing {
    /// Returns the type of an expression; for a reference to a variable, the variable's.
    pub fn type_of(&self, m: &Module, e: ExprId) -> TypeId {
        match m.exprs[e] {
            Expr::Var(v) => self.vars[v],
            _ => self.exprs[e],
        }
    }

    /// The types of the same module after its globals were numbered anew: `was` says which number
    /// each had, if it was there.
    #[must_use]
    pub fn renumbered(&self, types: &mut TypeArena, was: &[Option<GlobalId>]) -> Typing {
        let error = types.error();
        let ty = |was: &Option<GlobalId>| was.map_or(error, |g| self.globals[g]);
        let globals = SideTable::from_list(error, was.iter().map(ty).collect());
        Typing {
            globals,
            ..self.clone()
        }
    }

    /// The checks at an expression.
    pub fn checks_of(&self, e: ExprId) -> impl Iterator<Item = &Check> {
        let from = self.checks.partition_point(|c| c.expr < e);
        self.checks[from..].iter().take_while(move |c| c.expr == e)
    }
}

pub(crate) struct Outcome {
    pub typing: Typing,
    pub types: TypeArena,
    pub new_dims: Vec<DimInfo>,
    pub literals: Vec<(ConstId, Tensor)>,
    pub diagnostics: Diagnostics,
}

impl Outcome {
    /// Moves the types, dimensions and literals into the module; returns the typing.
    pub fn into_module(mut self, module: &mut Module) -> (Typing, Diagnostics) {
        module.types = self.types;
        for info in self.new_dims {
            module.dims.push(info);
        }
        for (c, value) in self.literals {
            module.consts[c] = value;
            module.literals.insert(c, false);
        }
        if !module.damage.places.is_empty() {
            let sound = |d: &Diagnostic| !module.damage.covers(d.span());
            let kept = self
                .diagnostics
                .into_iter()
                .filter(sound)
                .collect::<Vec<_>>();
            self.diagnostics = Diagnostics::new();
            self.diagnostics.extend(kept);
        }
        self.diagnostics.sort();
        (self.typing, self.diagnostics)
    }
}
