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

/// Something that inference could not prove and that the compiled program has to see to.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// Where: the check takes place when this expression is evaluated, after its parts.
    pub expr: ExprId,
    /// What.
    pub kind: CheckKind,
}

/// What is checked at run time.
#[derive(Clone, PartialEq, Debug)]
pub enum CheckKind {
    /// The two dimensions are equal.
    Equal(Dim, Dim),
    /// The two dimensions are equal, or one of them is 1.
    Broadcast(Dim, Dim),
    /// The expression's value has this type.
    HasType(TypeId),
    /// The value that a `match_shape` looks at has this shape (a `Shape[…]` type).
    HasShape(TypeId),
}

/// The types of a module, beside its nodes. Nodes that no function reaches have the error type, or
/// after [`infer_again`](crate::infer_again) that which they had when one did.
#[derive(Clone, Debug)]
pub struct Typing {
    /// Of expressions. Operators, constructors and globals that are only called have the error
    /// type, or after [`infer_again`](crate::infer_again) what they had as values: look at the
    /// call.
    pub exprs: SideTable<ExprId, TypeId>,
    /// Of variables.
    pub vars: SideTable<VarId, TypeId>,
    /// Of functions: their `Type::Func`, with what was inferred filled in.
    pub funcs: SideTable<FuncId, TypeId>,
    /// Of globals.
    pub globals: SideTable<GlobalId, TypeId>,
    /// What the compiled program has to check, in order of the expressions.
    pub checks: Vec<Check>,
    /// What stands for the type parameters in each call of a polymorphic function. Shapes stand as
    /// `Shape[…]` types, element types as scalar types.
    pub type_args: FxHashMap<ExprId, Box<[TypeId]>>,
    /// Functions whose evaluation does nothing but give a value.
    pub pure: SideTable<FuncId, bool>,
    pub(crate) notes: Notes,
}

/// What the next inference of the module need not find out again.
#[derive(Clone, Default, Debug)]
pub(crate) struct Notes {
    /// Calls of operators whose type depends on nothing but those of their arguments, and of which
    /// there is no more to say.
    pub plain: IdSet,
    /// Facts about the types of the module.
    pub flags: Flags,
    /// What relations gave.
    pub answers: Answers,
}

impl Typing {
    /// The type of an expression: of a reference to a variable, the variable's.
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
    /// Puts into the module what was found about it; the types beside it.
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
