//! Expressions, variables, patterns, functions.

use relax_base::{Span, Symbol};
use relax_sym::Dim;

use crate::{
    AttrValue, Attrs, AttrsId, ConstId, Constraint, CtorId, GlobalId, OpId, TypeId, TypeParamId,
};

relax_base::define_id! {
    /// An expression of a module.
    pub struct ExprId("e");
    /// A local variable: one per binding place.
    pub struct VarId("v");
    /// A pattern of a match clause.
    pub struct PatId("pat");
    /// A function: the body of a global or a closure.
    pub struct FuncId("f");
    /// A dataflow block.
    pub struct BlockId("blk");
}

/// A list of expressions in the module's pool; read it with [`Module::list`](crate::Module::list).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExprList {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl ExprList {
    /// Number of expressions.
    pub fn len(self) -> usize {
        self.len as usize
    }
    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// An expression node.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A local variable.
    Var(VarId),
    /// A global function or tensor program.
    Global(GlobalId),
    /// An operator as a value (usually the callee of a call).
    Op(OpId),
    /// An ADT constructor as a value.
    Ctor(CtorId),
    /// A function registered at run time, by name: `call_packed("name", …)` is a call of it.
    Extern(Symbol),
    /// A constant tensor.
    Const(ConstId),
    /// A tuple.
    Tuple(ExprList),
    /// A field of a tuple.
    Proj {
        /// The tuple.
        tuple: ExprId,
        /// Which field, from 0.
        index: u32,
    },
    /// A closure.
    Func(FuncId),
    /// A call.
    Call {
        /// What is called.
        callee: ExprId,
        /// With what.
        args: ExprList,
        /// Attributes, for operators.
        attrs: AttrsId,
        /// Explicit type arguments: an index into the module's list of them, 0 for none.
        type_args: u32,
    },
    /// `let var = value; body`, and the Relax binding `var = value;` (see [`Var::style`]).
    /// A value that is a function may refer to `var`.
    Let {
        /// The variable.
        var: VarId,
        /// Its value.
        value: ExprId,
        /// What follows.
        body: ExprId,
    },
    /// `if (cond) { then } else { otherwise }`.
    If {
        /// A `bool` scalar.
        cond: ExprId,
        /// Where it holds.
        then: ExprId,
        /// Where it doesn't.
        otherwise: ExprId,
    },
    /// `match (value) { clauses }`; `match?` when not `complete`.
    Match {
        /// What is looked at.
        value: ExprId,
        /// The clauses, tried in order.
        clauses: Box<[Clause]>,
        /// Whether the clauses are meant to be exhaustive.
        complete: bool,
    },
    /// `ref(value)`: a new reference cell.
    RefNew(ExprId),
    /// `ref_read(cell)`.
    RefRead(ExprId),
    /// `ref_write(cell, value)`, of type `()`.
    RefWrite(ExprId, ExprId),
    /// `shape(n, 4)`: a shape value.
    Shape(Box<[Dim]>),
    /// `match_shape(value, (k, m))`: `value`, a tensor or shape value, checked to have these
    /// dimensions; variables that are new are bound from here on in the enclosing block.
    MatchShape {
        /// What is looked at.
        value: ExprId,
        /// The dimensions.
        dims: Box<[Dim]>,
    },
    /// `match_cast(value, T)`: `value`, checked to have type `T`; binds new dimension variables.
    MatchCast {
        /// What is looked at.
        value: ExprId,
        /// The type.
        ty: TypeId,
    },
    /// `dataflow { … }; body`.
    Dataflow {
        /// The block.
        block: BlockId,
        /// What follows; sees the block's outputs.
        body: ExprId,
    },
    /// Stands where an error was already reported.
    Error,
}

/// How a variable is written where it is bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum VarStyle {
    /// `let %x = e;`
    #[default]
    Let,
    /// `%x = e;`, Relax's binding.
    Binding,
    /// `e;`: only for its effect, the variable is never referred to.
    Effect,
    /// A parameter of a function, or a variable of a pattern.
    Param,
    /// A free variable of an expression file.
    Free,
}

/// A local variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Var {
    /// Its name, without sigil.
    pub name: Symbol,
    /// Its annotation.
    pub ty: Option<TypeId>,
    /// Where it is bound.
    pub span: Span,
    /// How it is bound.
    pub style: VarStyle,
}

/// `pattern => body`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Clause {
    /// What the value must look like.
    pub pattern: PatId,
    /// What is evaluated then.
    pub body: ExprId,
}

/// A pattern.
#[derive(Clone, PartialEq, Debug)]
pub enum Pattern {
    /// `_`.
    Wildcard,
    /// Binds a variable.
    Var(VarId),
    /// `Cons(p, q)`.
    Ctor(CtorId, Box<[PatId]>),
    /// `(p, q)`.
    Tuple(Box<[PatId]>),
}

/// A function.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// Type parameters of kinds `Type`, `BaseType` and `Shape`.
    pub type_params: Vec<TypeParamId>,
    /// Parameters of kind `ShapeVar`, and dimension variables first used in the signature.
    pub dims: Vec<relax_sym::DimVar>,
    /// Parameters.
    pub params: Vec<VarId>,
    /// Annotated result type.
    pub ret: Option<TypeId>,
    /// `where` clauses.
    pub constraints: Vec<Constraint>,
    /// The body.
    pub body: ExprId,
    /// Attributes, `Primitive=1`.
    pub attrs: Attrs,
    /// Where it stands.
    pub span: Span,
}

/// Whether an attribute of a function is there and neither 0 nor false.
pub fn has_flag(f: &Function, name: &str) -> bool {
    f.attrs
        .get(name)
        .and_then(AttrValue::as_bool)
        .unwrap_or(false)
}

/// Whether a function was marked as one kernel (`Primitive=1`): passes leave its inside alone.
pub fn is_primitive(f: &Function) -> bool {
    has_flag(f, "Primitive")
}

/// A binding of a dataflow block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Binding {
    /// The variable.
    pub var: VarId,
    /// Its value.
    pub value: ExprId,
}

/// A dataflow block: pure, no control flow; only `outputs` are visible outside.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// Bindings, in order; each sees those before it.
    pub bindings: Vec<Binding>,
    /// Which variables are visible outside.
    pub outputs: Vec<VarId>,
    /// Where it stands.
    pub span: Span,
}
