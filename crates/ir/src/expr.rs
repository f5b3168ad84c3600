//! Expressions, variables, patterns, functions.

use relax_base::{Span, Symbol};
use relax_sym::Dim;

use crate::{
    AttrValue, Attrs, AttrsId, ConstId, Constraint, CtorId, GlobalId, OpId, TypeId, TypeParamId,
};

relax_base::define_id! {
    /// An expression of a module.
    pub struct ExprId("e");
    /// A local variable; each has one binding site.
    pub struct VarId("v");
    /// A pattern of a match clause.
    pub struct PatId("pat");
    /// A function: the definition of a global, or a closure.
    pub struct FuncId("f");
    /// A dataflow block.
    pub struct BlockId("blk");
}

/// A list of expressions in the module's list pool; read it with
/// [`Module::list`](crate::Module::list).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExprList {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl ExprList {
    /// Returns the number of expressions.
    pub fn len(self) -> usize {
        self.len as usize
    }
    /// Returns whether the list is empty.
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
    /// A packed function by name, resolved at run time: `call_packed("name", …)` is a call of it.
    Extern(Symbol),
    /// A constant tensor.
    Const(ConstId),
    /// A tuple.
    Tuple(ExprList),
    /// A projection of a tuple field.
    Proj {
        /// The tuple.
        tuple: ExprId,
        /// The field's index, from 0.
        index: u32,
    },
    /// A closure.
    Func(FuncId),
    /// A call.
    Call {
        /// The callee.
        callee: ExprId,
        /// The arguments.
        args: ExprList,
        /// The attributes, for operators.
        attrs: AttrsId,
        /// Explicit type arguments: an index into the module's table of them, 0 for none.
        type_args: u32,
    },
    /// `let var = value; body`, and the Relax binding `var = value;` (see [`Var::style`]).
    /// A value that is a function may refer to `var`.
    Let {
        /// The variable.
        var: VarId,
        /// Its value.
        value: ExprId,
        /// The body, in which the variable is visible.
        body: ExprId,
    },
    /// `if (cond) { then } else { otherwise }`.
    If {
        /// The condition, a `bool` scalar.
        cond: ExprId,
        /// The branch taken if it holds.
        then: ExprId,
        /// The branch taken otherwise.
        otherwise: ExprId,
    },
    /// `match (value) { clauses }`; `match?` when not `complete`.
    Match {
        /// The scrutinee.
        value: ExprId,
        /// The clauses, tried in order.
        clauses: Box<[Clause]>,
        /// Whether the match is declared exhaustive.
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
    /// `match_shape(value, (k, m))`: checks at run time that `value`, a tensor or shape value, has
    /// these dimensions, and returns it; unbound variables among them are bound from here on in the
    /// enclosing block.
    MatchShape {
        /// The value.
        value: ExprId,
        /// The dimensions.
        dims: Box<[Dim]>,
    },
    /// `match_cast(value, T)`: checks at run time that `value` has type `T`, and returns it; binds
    /// new dimension variables.
    MatchCast {
        /// The value.
        value: ExprId,
        /// The type.
        ty: TypeId,
    },
    /// `dataflow { … }; body`.
    Dataflow {
        /// The block.
        block: BlockId,
        /// The body, which sees the block's outputs.
        body: ExprId,
    },
    /// A placeholder for an expression whose error was already reported.
    Error,
}

/// The syntactic form of a variable's binding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum VarStyle {
    /// `let %x = e;`
    #[default]
    Let,
    /// `%x = e;`, Relax's binding.
    Binding,
    /// `e;`: evaluated only for its effect; the variable is never referenced.
    Effect,
    /// A parameter of a function, or a variable of a pattern.
    Param,
    /// A free variable of an expression file.
    Free,
}

/// A local variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Var {
    /// The name, without sigil.
    pub name: Symbol,
    /// The type annotation.
    pub ty: Option<TypeId>,
    /// The span of the binding.
    pub span: Span,
    /// The form of the binding.
    pub style: VarStyle,
}

/// A match clause: `pattern => body`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Clause {
    /// The pattern.
    pub pattern: PatId,
    /// The body.
    pub body: ExprId,
}

/// A pattern.
#[derive(Clone, PartialEq, Debug)]
pub enum Pattern {
    /// Matches anything: `_`.
    Wildcard,
    /// Binds a variable.
    Var(VarId),
    /// A constructor pattern: `Cons(p, q)`.
    Ctor(CtorId, Box<[PatId]>),
    /// A tuple pattern: `(p, q)`.
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
    /// Attributes, such as `Primitive=1`.
    pub attrs: Attrs,
    /// The span.
    pub span: Span,
}

/// Returns whether an attribute of a function is there and neither 0 nor false.
pub fn has_flag(f: &Function, name: &str) -> bool {
    f.attrs
        .get(name)
        .and_then(AttrValue::as_bool)
        .unwrap_or(false)
}

/// Returns whether a function was marked as one kernel (`Primitive=1`): passes leave its inside
/// alone.
pub fn is_primitive(f: &Function) -> bool {
    has_flag(f, "Primitive")
}

/// A binding of a dataflow block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Binding {
    /// The variable.
    pub var: VarId,
    /// The value.
    pub value: ExprId,
}

/// A dataflow block: pure and without control flow; only `outputs` are visible outside.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// The bindings, in order; each sees the earlier ones.
    pub bindings: Vec<Binding>,
    /// The variables visible outside.
    pub outputs: Vec<VarId>,
    /// The span.
    pub span: Span,
}
