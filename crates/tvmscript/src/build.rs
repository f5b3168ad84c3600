//! What the grammar's actions do: nodes and lists of the tree.

use relax_base::Span;

use crate::ast::{Arg, Ast, List, Node, NodeId, Param, Stmt, StmtKind};

/// Builds the tree, line by line.
#[derive(Default)]
pub struct Builder {
    pub(crate) ast: Ast,
    /// The place of the line that is read.
    pub(crate) line: Span,
    /// Where the expressions of the line begin.
    pub(crate) first: u32,
    /// Whether the line is the head of a block that has to follow.
    pub(crate) opens: bool,
}

fn list_of<T>(pool: &mut Vec<T>, items: Vec<T>) -> List {
    let start = pool.len() as u32;
    let len = items.len() as u32;
    pool.extend(items);
    List { start, len }
}

impl Builder {
    pub(crate) fn node(&mut self, node: Node, start: u32, end: u32) -> NodeId {
        self.ast.nodes.push(node);
        self.ast.spans.push(Span::new(start, end));
        NodeId(self.ast.nodes.len() as u32 - 1)
    }
    pub(crate) fn list(&mut self, items: Vec<NodeId>) -> List {
        list_of(&mut self.ast.lists, items)
    }
    pub(crate) fn params(&mut self, items: Vec<Param>) -> List {
        list_of(&mut self.ast.params, items)
    }
    pub(crate) fn call(&mut self, func: NodeId, args: Vec<Arg>, start: u32, end: u32) -> NodeId {
        let args = list_of(&mut self.ast.args, args);
        self.node(Node::Call(func, args), start, end)
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
    /// A statement on a line of its own.
    pub(crate) fn stmt(&mut self, (start, kind, end): (u32, StmtKind, u32)) {
        self.push(kind, Span::new(start, end));
    }
    /// The head of a block.
    pub(crate) fn head(&mut self, kind: StmtKind) {
        self.opens = true;
        self.push(kind, self.line);
    }
    /// The head of a block that is one statement on the same line.
    pub(crate) fn inner(&mut self, kind: StmtKind, simple: (u32, StmtKind, u32)) {
        self.push(kind, self.line);
        self.stmt(simple);
        let n = self.ast.stmts.len();
        self.ast.stmts[n - 2].end = n as u32;
    }
}
