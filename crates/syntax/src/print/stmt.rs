//! Statements.

use super::emit::{Emitter, Work};
use crate::ast::*;

impl Emitter<'_> {
    pub(super) fn stmt(&mut self, s: StmtId) {
        let ast = self.ast;
        let Stmt { kind, span } = ast.stmts[s];
        match kind {
            StmtKind::Error => self.literal(span, ";"),
            StmtKind::Let { binder, value } => self.then(&[
                Work::tok("let"),
                Work::Space,
                Work::Binder(binder),
                Work::Space,
                Work::tok("="),
                Work::Space,
                Work::Expr(value),
                Work::tok(";"),
            ]),
            StmtKind::Bind { binder, value } => self.then(&[
                Work::Binder(binder),
                Work::Space,
                Work::tok("="),
                Work::Space,
                Work::Expr(value),
                Work::tok(";"),
            ]),
            StmtKind::Graph { index, value } => {
                self.then(&[
                    Work::Space,
                    Work::tok("="),
                    Work::Space,
                    Work::Expr(value),
                    Work::tok(";"),
                ]);
                if self.sink.comments.is_some() {
                    self.sink.next_as_is();
                } else {
                    self.sink.tok(&format!("%{index}"));
                }
            }
            StmtKind::Expr(e) => {
                if !self.is_bare_if(s) {
                    self.work.push(Work::tok(";"));
                }
                self.work.push(Work::Expr(e));
            }
            StmtKind::FreeVar(b) => self.keyword("free_var", Work::Binder(b), true),
            StmtKind::Dataflow(body) => self.keyword("dataflow", Work::Expr(body), true),
            StmtKind::Output(items) => {
                self.work.push(Work::tok(";"));
                self.listed("(", ast.list(items).map(Work::Expr), ")", false);
                self.work.push(Work::tok("output"));
            }
            StmtKind::For { kind, loops, body } => self.for_(kind, loops, body),
            StmtKind::While { cond, body } => self.then(&[
                Work::tok("while"),
                Work::Space,
                Work::tok("("),
                Work::Expr(cond),
                Work::tok(")"),
                Work::Space,
                Work::Expr(body),
            ]),
            StmtKind::Store { target, op, value } => {
                let op = match op {
                    StoreOp::Set => "=",
                    StoreOp::Add => "+=",
                    StoreOp::Mul => "*=",
                };
                self.then(&[
                    Work::Expr(target),
                    Work::Space,
                    Work::tok(op),
                    Work::Space,
                    Work::Expr(value),
                    Work::tok(";"),
                ]);
            }
            StmtKind::Alloc(b) => self.keyword("alloc", Work::Binder(b), true),
            StmtKind::Init(body) => self.keyword("init", Work::Expr(body), false),
            StmtKind::Kernel { name, body } => self.then(&[
                Work::tok("kernel"),
                Work::Space,
                Work::Expr(name),
                Work::Space,
                Work::Expr(body),
            ]),
            StmtKind::Compute { indices, value } => {
                self.then(&[Work::Expr(value), Work::tok(";")]);
                if !indices.is_empty() {
                    self.then(&[Work::Space, Work::tok("=>"), Work::Space]);
                    self.inline("[", ast.list(indices).map(Work::Binder), "]", false);
                }
                self.then(&[Work::tok("compute"), Work::Space]);
            }
        }
    }

    /// Prints a keyword, its operand, and optionally a semicolon.
    fn keyword(&mut self, keyword: &'static str, what: Work, semicolon: bool) {
        if semicolon {
            self.work.push(Work::tok(";"));
        }
        self.then(&[Work::tok(keyword), Work::Space, what]);
    }

    pub(super) fn for_(&mut self, kind: ForKind, loops: List<LoopId>, body: ExprId) {
        let ast = self.ast;
        self.then(&[Work::Space, Work::Expr(body)]);
        let extents = ast.list(loops).map(|l| Work::Expr(ast.loops[l].extent));
        self.listed("(", extents, ")", false);
        self.then(&[Work::Space, Work::tok("in"), Work::Space, Work::tok("grid")]);
        self.separated(ast.list(loops).map(|l| Work::Binder(ast.loops[l].binder)));
        self.then(&[Work::tok("for"), Work::Space]);
        match kind {
            ForKind::Serial => {}
            ForKind::Parallel => self.then(&[Work::tok("parallel"), Work::Space]),
            ForKind::Unroll => self.then(&[Work::tok("unroll"), Work::Space]),
            ForKind::Vectorize(w) => {
                let width = relax_base::Symbol::new(&w.to_string());
                self.then(&[
                    Work::tok("vectorize"),
                    Work::tok("("),
                    Work::Name(width),
                    Work::tok(")"),
                    Work::Space,
                ]);
            }
        }
    }
}
