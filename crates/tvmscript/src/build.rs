//! The actions of the grammar: they create nodes and lists of the tree.

use relax_base::Span;

use lalrpop_util::ParseError;

use crate::ast::{Arg, Ast, List, Node, NodeId, Operation, Param, Stmt, StmtKind};
use crate::token::Tok;

/// An operator and its span.
pub(crate) type Operator = (Operation, u32, u32);
/// An expression and its span, including parentheses around it.
pub(crate) type Operand = (NodeId, u32, u32);
type Mistake = ParseError<u32, Tok, ()>;

/// An element of a chain of operators, in order.
#[derive(Clone, Copy)]
pub(crate) enum Item {
    Operand(Operand),
    Infix(Operator),
    Prefix(Operator),
}

/// `not` binds weaker than comparisons, and stronger than `and`.
const NOT: u8 = 3;
const COMPARISON: u8 = 4;
const POWER: u8 = 12;

impl Item {
    /// Returns the precedence of an operator, as in Python.
    fn strength(self) -> u8 {
        use Operation as Op;
        let (Item::Infix((op, ..)) | Item::Prefix((op, ..))) = self else {
            return 0;
        };
        match op {
            Op::Or => 1,
            Op::And => 2,
            Op::Not => NOT,
            Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => COMPARISON,
            Op::BitOr => 5,
            Op::BitXor => 6,
            Op::BitAnd => 7,
            Op::Shl | Op::Shr => 8,
            Op::Add | Op::Sub => 9,
            Op::Mul | Op::Div | Op::FloorDiv | Op::Mod => 10,
            Op::Neg | Op::Pos | Op::Invert => 11,
            Op::Pow => POWER,
        }
    }
}

/// Builds the tree, line by line.
#[derive(Default)]
pub struct Builder {
    pub(crate) ast: Ast,
    /// The span of the current line.
    pub(crate) line: Span,
    /// The first expression of the line.
    pub(crate) first: u32,
    /// Whether the line is the head of a block that must follow.
    pub(crate) opens: bool,
    /// The elements of unfinished chains of operators, and the arguments of unfinished calls.
    pub(crate) items: Vec<Item>,
    pub(crate) arguments: Vec<Arg>,
    /// The items of unfinished lists.
    pub(crate) listed: Vec<NodeId>,
    /// The type of the line, if an earlier line has the same.
    pub(crate) same: Option<NodeId>,
    /// The type of the line, if later lines may have the same.
    pub(crate) typed: Option<NodeId>,
}

impl Builder {
    pub(crate) fn node(&mut self, node: Node, start: u32, end: u32) -> NodeId {
        self.ast.nodes.push(node);
        self.ast.spans.push(Span::new(start, end));
        NodeId(self.ast.nodes.len() as u32 - 1)
    }
    /// Returns an empty list.
    pub(crate) fn nothing(&self) -> List {
        List {
            start: self.ast.lists.len() as u32,
            len: 0,
        }
    }
    /// Pushes the first item of a list; returns its index.
    pub(crate) fn first_item(&mut self, item: NodeId) -> u32 {
        self.listed.push(item);
        self.listed.len() as u32 - 1
    }
    pub(crate) fn item(&mut self, item: NodeId) {
        self.listed.push(item);
    }
    /// Creates a list of the pushed items from an index on.
    pub(crate) fn list(&mut self, from: u32) -> List {
        let items = self.listed.drain(from as usize..);
        let list = List {
            start: self.ast.lists.len() as u32,
            len: items.len() as u32,
        };
        self.ast.lists.extend(items);
        list
    }
    pub(crate) fn no_params(&self) -> List {
        List {
            start: self.ast.params.len() as u32,
            len: 0,
        }
    }
    pub(crate) fn first_param(&mut self, param: Param) -> List {
        self.param(self.no_params(), param)
    }
    pub(crate) fn param(&mut self, list: List, param: Param) -> List {
        self.ast.params.push(param);
        let len = list.len + 1;
        List { len, ..list }
    }
    /// Creates a call with the pushed arguments from an index on.
    pub(crate) fn call(&mut self, func: NodeId, from: Option<u32>, start: u32, end: u32) -> NodeId {
        let from = from.map_or(self.arguments.len(), |from| from as usize);
        let args = List {
            start: self.ast.args.len() as u32,
            len: (self.arguments.len() - from) as u32,
        };
        self.ast.args.extend(self.arguments.drain(from..));
        self.node(Node::Call(func, args), start, end)
    }
    /// Pushes the first argument of a call; returns its index.
    pub(crate) fn first_argument(&mut self, arg: Arg) -> u32 {
        self.arguments.push(arg);
        self.arguments.len() as u32 - 1
    }
    pub(crate) fn argument(&mut self, arg: Arg) {
        self.arguments.push(arg);
    }
    /// Begins a line: discards what an erroneous line left unfinished.
    pub(crate) fn begin(&mut self, line: Span) {
        self.items.clear();
        self.arguments.clear();
        self.listed.clear();
        self.typed = None;
        self.line = line;
        self.first = self.ast.nodes.len() as u32;
        self.opens = false;
    }
    /// Pushes an operand and the operator after it; returns the start of the chain.
    pub(crate) fn infix(
        &mut self,
        from: Option<u32>,
        operand: Operand,
        op: Operator,
    ) -> Result<u32, Mistake> {
        let from = from.unwrap_or(self.items.len() as u32);
        self.items.push(Item::Operand(operand));
        let item = Item::Infix(op);
        let strength = item.strength();
        self.settle(from, strength);
        let before = self.before(from, 1);
        if strength == COMPARISON && before.is_some_and(|b| b.strength() == COMPARISON) {
            return Err(unexpected(op));
        }
        self.items.push(item);
        Ok(from)
    }
    /// Pushes a prefix operator; returns the start of the chain.
    pub(crate) fn prefix(&mut self, from: Option<u32>, op: Operator) -> Result<u32, Mistake> {
        let from = from.unwrap_or(self.items.len() as u32);
        let before = self.before(from, 0);
        if op.0 == Operation::Not && before.is_some_and(|b| b.strength() > NOT) {
            return Err(unexpected(op));
        }
        self.items.push(Item::Prefix(op));
        Ok(from)
    }
    /// Pushes the last operand of a chain; returns the expression of the chain.
    pub(crate) fn chain(&mut self, from: u32, last: Operand) -> NodeId {
        self.items.push(Item::Operand(last));
        self.settle(from, 0);
        self.items.truncate(from as usize);
        NodeId(self.ast.nodes.len() as u32 - 1)
    }
    /// Returns the item before the last ones of a chain.
    fn before(&self, from: u32, last: usize) -> Option<Item> {
        let at = self.items.len().checked_sub(last + 1)?;
        (at >= from as usize).then(|| self.items[at])
    }
    /// Reduces the operators at the end of a chain that bind stronger than the next one, or equally
    /// if they associate to the left.
    fn settle(&mut self, from: u32, next: u8) {
        while let Some(op) = self.before(from, 1)
            && let Some(&Item::Operand((right, _, end))) = self.items.last()
        {
            let strength = op.strength();
            let equal = strength == next && next != POWER && next != COMPARISON;
            if strength < next || strength == next && !equal {
                break;
            }
            let (node, start, taken) = match (op, self.before(from, 2)) {
                (Item::Infix((op, ..)), Some(Item::Operand((left, start, _)))) => {
                    (Node::Binary(op, left, right), start, 3)
                }
                (Item::Prefix((op, start, _)), _) => (Node::Unary(op, right), start, 2),
                _ => break,
            };
            let id = self.node(node, start, end);
            self.items.truncate(self.items.len() - taken);
            self.items.push(Item::Operand((id, start, end)));
        }
    }
    fn push(&mut self, kind: StmtKind, span: Span) {
        let nodes = (self.first, self.ast.nodes.len() as u32);
        let end = self.ast.stmts.len() as u32 + 1;
        let stmt = Stmt {
            kind,
            span,
            end,
            nodes,
        };
        self.ast.stmts.push(stmt);
    }
    /// Pushes a simple statement.
    pub(crate) fn stmt(&mut self, kind: StmtKind, start: u32, end: u32) {
        self.push(kind, Span::new(start, end));
    }
    /// Pushes an annotated binding, whose type other lines may have as well.
    pub(crate) fn annotated(&mut self, target: NodeId, ty: NodeId, value: NodeId, l: u32, r: u32) {
        self.typed = Some(ty);
        self.stmt(StmtKind::Annotated(target, ty, Some(value)), l, r);
    }
    /// Creates a node for a type that an earlier line has.
    pub(crate) fn known(&mut self, start: u32, end: u32) -> NodeId {
        let node = self.same.map_or(Node::None, Node::Same);
        self.node(node, start, end)
    }
    /// Pushes the head of a block.
    pub(crate) fn head(&mut self, kind: StmtKind) {
        self.opens = true;
        self.push(kind, self.line);
    }
    /// Makes the last statement, on the same line, the block of the head before it.
    pub(crate) fn inner(&mut self) {
        self.opens = false;
        let n = self.ast.stmts.len();
        self.ast.stmts[n - 2].end = n as u32;
    }
}

/// Reports an operator that is not allowed at this precedence.
fn unexpected((op, start, end): Operator) -> Mistake {
    let tok = match op {
        Operation::Not => Tok::Not,
        Operation::Eq => Tok::EqEq,
        Operation::Ne => Tok::NotEq,
        Operation::Lt => Tok::Lt,
        Operation::Le => Tok::Le,
        Operation::Gt => Tok::Gt,
        _ => Tok::Ge,
    };
    ParseError::UnrecognizedToken {
        token: (start, tok, end),
        expected: Vec::new(),
    }
}
