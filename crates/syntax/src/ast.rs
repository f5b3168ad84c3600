//! The syntax tree: what was written, with positions, before name resolution.
//!
//! One tree serves both directions. The parser builds it from text; the resolver builds it from a
//! module to print it. It preserves every spelling that the formatter must preserve (parentheses,
//! `data` for `type`, `case` clauses, literal suffixes) as plain data.
//!
//! Invariant: nodes are flat and refer to each other by id, so a tree of any depth is dropped
//! without recursion.
//! Invariant: a node's children have smaller ids than the node, within each arena and (because
//! expressions are the only sort that contains statements, functions and clauses) across them:
//! a bottom-up pass over expressions is one loop over [`Ast::exprs`].

mod build;
mod expr;
mod item;
mod ty;
mod walk;

use relax_base::{Arena, SideTable, Span, Symbol, define_id};

pub use expr::{
    Attr, BinOp, Binder, Clause, Expr, ExprKind, ForKind, Function, Loop, NumSuffix, Pat, PatKind,
    Stmt, StmtKind, StoreOp, TypeParam, VERBATIM,
};
pub use item::{Ctor, GradItem, Item, ItemKind, OpItem, PrimFunc, RelItem, TypeDef};
pub use ty::{TypeExpr, TypeExprKind, TypeOp};

define_id! {
    /// An expression.
    pub struct ExprId("e");
    /// A type-level term: a type, a shape or a dimension expression.
    pub struct TypeId("t");
    /// A pattern.
    pub struct PatId("p");
    /// A statement of a block.
    pub struct StmtId("s");
    /// A place where a variable is bound.
    pub struct BinderId("b");
    /// A function (`def`, `fn`).
    pub struct FnId("f");
    /// An attribute, `key=value`.
    pub struct AttrId("a");
    /// A clause of a `match`.
    pub struct ClauseId("c");
    /// A type parameter.
    pub struct TypeParamId("tp");
    /// A constructor of a data type.
    pub struct CtorId("k");
    /// A loop header of a tensor program.
    pub struct LoopId("l");
}

/// A list of ids, stored in the pool of the tree it belongs to; read it with [`Ast::list`].
#[derive(Debug)]
pub struct List<I> {
    pub(crate) start: u32,
    pub(crate) len: u32,
    pub(crate) id: std::marker::PhantomData<fn() -> I>,
}

impl<I> Clone for List<I> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<I> Copy for List<I> {}
impl<I> PartialEq for List<I> {
    fn eq(&self, other: &Self) -> bool {
        (self.start, self.len) == (other.start, other.len)
    }
}
impl<I> Eq for List<I> {}
impl<I> Default for List<I> {
    fn default() -> Self {
        List::EMPTY
    }
}

impl<I> List<I> {
    /// The empty list.
    pub const EMPTY: List<I> = List {
        start: 0,
        len: 0,
        id: std::marker::PhantomData,
    };
    /// Returns the number of ids.
    pub fn len(self) -> usize {
        self.len as usize
    }
    /// Returns whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// An id that a [`List`] can hold.
pub trait ListItem: relax_base::Id {
    /// Returns the raw number of the id.
    fn raw(self) -> u32;
}

impl<I: relax_base::Id> ListItem for I {
    fn raw(self) -> u32 {
        self.index() as u32
    }
}

/// The form of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileForm {
    /// Items; possibly none.
    #[default]
    Module,
    /// One expression, possibly after `free_var` lines, type and relation items (its block is the
    /// last item, [`ItemKind::Expr`]).
    Expression,
    /// One type ([`ItemKind::Type`]).
    Type,
}

/// A whole file.
#[derive(Clone, Debug, Default)]
pub struct Ast {
    /// The form of the file.
    pub form: FileForm,
    /// The version header's text between the quotes (`0.0.5`) and its span.
    pub version: Option<(Symbol, Span)>,
    /// The items, in order.
    pub items: Vec<Item>,
    /// The span of the JSON text of the `#[metadata]` section (without the header), which is not
    /// parsed here.
    pub metadata: Option<Span>,
    /// JSON text for a tree without a file: printed as the metadata section.
    pub metadata_text: Option<String>,
    /// The spans of the text that could not be parsed, in order.
    pub errors: Vec<Span>,
    /// Expressions.
    pub exprs: Arena<ExprId, Expr>,
    /// Types, shapes and dimensions.
    pub types: Arena<TypeId, TypeExpr>,
    /// Patterns.
    pub pats: Arena<PatId, Pat>,
    /// Statements.
    pub stmts: Arena<StmtId, Stmt>,
    /// Binding places.
    pub binders: Arena<BinderId, Binder>,
    /// Functions.
    pub functions: Arena<FnId, Function>,
    /// Attributes.
    pub attrs: Arena<AttrId, Attr>,
    /// Match clauses.
    pub clauses: Arena<ClauseId, Clause>,
    /// Type parameters.
    pub type_params: Arena<TypeParamId, TypeParam>,
    /// Constructors.
    pub ctors: Arena<CtorId, Ctor>,
    /// Loop headers.
    pub loops: Arena<LoopId, Loop>,
    /// The types that are printed after expressions as `/* ty=… */` (TVM style, typed modules).
    /// Never filled by the parser.
    pub expr_types: SideTable<ExprId, Option<TypeId>>,
    /// The same for binders.
    pub binder_types: SideTable<BinderId, Option<TypeId>>,
    pub(crate) pool: Vec<u32>,
}
