//! The syntax tree: expressions in one list, operands before what is made of them, and statements
//! in one list, a block behind its head. Nothing here nests by pointers.

use relax_base::Span;

/// An expression: its index in [`Ast::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct NodeId(pub u32);

/// A run of [`Ast::lists`] (or, for calls, of [`Ast::args`], for parameters of [`Ast::params`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct List {
    /// Its first item.
    pub start: u32,
    /// How many.
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

/// An expression. Names, numbers and strings are what the text has at its place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Node {
    /// A name.
    Name,
    /// A name and those of its members: `R.nn.relu`.
    Path,
    /// A type that is written as the expression is that stands elsewhere.
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
    /// `base.name` of what is no [`Node::Path`]; the name's place.
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
    /// `{k: v}`: keys and values in turn.
    Dict(List),
    /// An operation on one operand.
    Unary(Operation, NodeId),
    /// An operation on two operands.
    Binary(Operation, NodeId, NodeId),
    /// `lambda a, b: body`: its parameters' places are the first and the last one's.
    Lambda(List, NodeId),
}

/// An argument of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arg {
    /// The keyword's place, for `name=value`.
    pub name: Option<Span>,
    /// The value.
    pub value: NodeId,
}

/// A parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Param {
    /// Its name's place.
    pub name: Span,
    /// Its annotation.
    pub ty: Option<NodeId>,
}

/// What a statement is.
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
        /// Its name's place.
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
    /// A line with a mistake that was reported.
    Bad,
}

/// A statement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Its place; of a compound one, its head's.
    pub span: Span,
    /// The index behind the last statement inside of it: the next one beside it.
    pub end: u32,
    /// Its expressions: a run of [`Ast::nodes`], of a compound one its head's.
    pub nodes: (u32, u32),
}

/// A tree.
#[derive(Clone, Default, Debug)]
pub struct Ast {
    /// All expressions, operands first.
    pub nodes: Vec<Node>,
    /// Where they stand.
    pub spans: Vec<Span>,
    /// Items of tuples, lists and so on.
    pub lists: Vec<NodeId>,
    /// Arguments of calls.
    pub args: Vec<Arg>,
    /// Parameters.
    pub params: Vec<Param>,
    /// Statements, in the order of the text.
    pub stmts: Vec<Stmt>,
    /// What a [`Node::Same`] may stand for, in the order of the text.
    pub shared: Vec<NodeId>,
}

impl Ast {
    /// The expression behind an id.
    pub fn node(&self, id: NodeId) -> Node {
        self.nodes[id.0 as usize]
    }
    /// Returns where an expression stands.
    pub fn span(&self, id: NodeId) -> Span {
        self.spans[id.0 as usize]
    }
    /// Returns whether a [`Node::Same`] may stand for it.
    pub fn is_shared(&self, id: NodeId) -> bool {
        self.shared.binary_search(&id).is_ok()
    }
    /// The items of a tuple, list or dictionary.
    pub fn list(&self, list: List) -> &[NodeId] {
        &self.lists[list.range()]
    }
    /// The arguments of a call.
    pub fn call_args(&self, list: List) -> &[Arg] {
        &self.args[list.range()]
    }
    /// The parameters of a function.
    pub fn func_params(&self, list: List) -> &[Param] {
        &self.params[list.range()]
    }
}
