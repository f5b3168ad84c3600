//! The syntax tree: expressions in one list, operands first, and statements in one list, with a
//! block after its head. Nothing here nests by pointers.

use relax_base::Span;

/// An expression: its index in [`Ast::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct NodeId(pub u32);

/// A range of [`Ast::lists`] (or, for calls, of [`Ast::args`], for parameters of [`Ast::params`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct List {
    /// Its first item.
    pub start: u32,
    /// The number of items.
    pub len: u32,
}

impl List {
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// An operation on one or two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub enum Operation {
    Neg,
    Pos,
    Not,
    Invert,
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    Shl,
    Shr,
    BitAnd,
    BitOr,
    BitXor,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
}

/// An expression. Names, numbers and strings are the text at its span.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Node {
    /// A name.
    Name,
    /// A dotted name: `R.nn.relu`.
    Path,
    /// A type with the same text as that of an earlier expression.
    Same(NodeId),
    /// An integer.
    Int,
    /// A float.
    Float,
    /// A string, with its quotes.
    Str,
    /// `True`, `False`.
    Bool(bool),
    /// `None`.
    None,
    /// `base.name` that is not a [`Node::Path`], with the span of the name.
    Attr(NodeId, Span),
    /// `func(args)`.
    Call(NodeId, List),
    /// `base[index]`.
    Index(NodeId, NodeId),
    /// `from:to:step` in an index.
    Slice([Option<NodeId>; 3]),
    /// `a, b`.
    Tuple(List),
    /// `[a, b]`.
    List(List),
    /// `{k: v}`: alternating keys and values.
    Dict(List),
    /// A unary operation.
    Unary(Operation, NodeId),
    /// A binary operation.
    Binary(Operation, NodeId, NodeId),
    /// `lambda a, b: body`: the spans of the first and the last parameter.
    Lambda(List, NodeId),
}

/// An argument of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arg {
    /// The span of the keyword, for `name=value`.
    pub name: Option<Span>,
    /// The value.
    pub value: NodeId,
}

/// A parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Param {
    /// The span of its name.
    pub name: Span,
    /// Its annotation.
    pub ty: Option<NodeId>,
}

/// The kinds of statements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StmtKind {
    /// An expression.
    Expr(NodeId),
    /// `target = value`.
    Assign(NodeId, NodeId),
    /// `target: annotation = value`.
    Annotated(NodeId, NodeId, Option<NodeId>),
    /// `return value`.
    Return(Option<NodeId>),
    /// `assert test, message`.
    Assert(NodeId, Option<NodeId>),
    /// `pass`.
    Pass,
    /// `@decorator`.
    Decorator(NodeId),
    /// `class Name:`.
    Class(Span),
    /// `def name(params) -> result:`.
    Def {
        /// The span of its name.
        name: Span,
        /// Its parameters.
        params: List,
        /// The result's annotation.
        ret: Option<NodeId>,
    },
    /// `with a, b:`.
    With(List),
    /// `for target in iterable:`.
    For(NodeId, NodeId),
    /// `while test:`.
    While(NodeId),
    /// `if test:`.
    If(NodeId),
    /// `elif test:`.
    Elif(NodeId),
    /// `else:`.
    Else,
    /// A line with an error that was reported.
    Bad,
}

/// A statement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stmt {
    /// Its kind.
    pub kind: StmtKind,
    /// Its span; for a compound statement, that of its head.
    pub span: Span,
    /// The index after the last statement nested in it: that of its next sibling.
    pub end: u32,
    /// Its expressions, a range of [`Ast::nodes`]; for a compound statement, those of its head.
    pub nodes: (u32, u32),
}

/// A tree.
#[derive(Clone, Default, Debug)]
pub struct Ast {
    /// All expressions, operands first.
    pub nodes: Vec<Node>,
    /// Their spans.
    pub spans: Vec<Span>,
    /// Items of tuples, lists and so on.
    pub lists: Vec<NodeId>,
    /// Arguments of calls.
    pub args: Vec<Arg>,
    /// Parameters.
    pub params: Vec<Param>,
    /// Statements, in the order of the text.
    pub stmts: Vec<Stmt>,
    /// The expressions that a [`Node::Same`] may refer to, in the order of the text.
    pub shared: Vec<NodeId>,
}

impl Ast {
    /// Returns the expression with an id.
    pub fn node(&self, id: NodeId) -> Node {
        self.nodes[id.0 as usize]
    }
    /// Returns the span of an expression.
    pub fn span(&self, id: NodeId) -> Span {
        self.spans[id.0 as usize]
    }
    /// Returns whether a [`Node::Same`] may refer to it.
    pub fn is_shared(&self, id: NodeId) -> bool {
        self.shared.binary_search(&id).is_ok()
    }
    /// Returns the items of a tuple, list or dictionary.
    pub fn list(&self, list: List) -> &[NodeId] {
        &self.lists[list.range()]
    }
    /// Returns the arguments of a call.
    pub fn call_args(&self, list: List) -> &[Arg] {
        &self.args[list.range()]
    }
    /// Returns the parameters of a function.
    pub fn func_params(&self, list: List) -> &[Param] {
        &self.params[list.range()]
    }
}
