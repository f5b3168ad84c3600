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
                Work::Tok("let"),
                Work::Space,
                Work::Binder(binder),
                Work::Space,
                Work::Tok("="),
                Work::Space,
                Work::Expr(value),
                Work::Tok(";"),
            ]),
            StmtKind::Bind { binder, value } => self.then(&[
                Work::Binder(binder),
                Work::Space,
                Work::Tok("="),
                Work::Space,
                Work::Expr(value),
                Work::Tok(";"),
            ]),
            StmtKind::Graph { index, value } => {
                self.then(&[
                    Work::Space,
                    Work::Tok("="),
                    Work::Space,
                    Work::Expr(value),
                    Work::Tok(";"),
                ]);
                if self.sink.weave.is_some() {
                    self.sink.next_as_is();
                } else {
                    self.sink.tok(&format!("%{index}"));
                }
            }
            StmtKind::Expr(e) => {
                let bare = matches!(
                    ast.exprs[e].kind,
                    ExprKind::If {
                        otherwise: None,
                        ..
                    }
                );
                if !bare {
                    self.work.push(Work::Tok(";"));
                }
                self.work.push(Work::Expr(e));
            }
            StmtKind::FreeVar(b) => self.then(&[
                Work::Tok("free_var"),
                Work::Space,
                Work::Binder(b),
                Work::Tok(";"),
            ]),
            StmtKind::Dataflow(body) => self.then(&[
                Work::Tok("dataflow"),
                Work::Space,
                Work::Expr(body),
                Work::Tok(";"),
            ]),
            StmtKind::Output(items) => {
                self.work.push(Work::Tok(";"));
                self.listed("(", ast.list(items).map(Work::Expr), ")", false);
                self.work.push(Work::Tok("output"));
            }
            StmtKind::For { kind, loops, body } => self.for_(kind, loops, body),
            StmtKind::Store { target, op, value } => {
                let op = match op {
                    StoreOp::Set => "=",
                    StoreOp::Add => "+=",
                    StoreOp::Mul => "*=",
                };
                self.then(&[
                    Work::Expr(target),
                    Work::Space,
                    Work::Tok(op),
                    Work::Space,
                    Work::Expr(value),
                    Work::Tok(";"),
                ]);
            }
            StmtKind::Alloc(b) => self.then(&[
                Work::Tok("alloc"),
                Work::Space,
                Work::Binder(b),
                Work::Tok(";"),
            ]),
            StmtKind::Init(body) => {
                self.then(&[Work::Tok("init"), Work::Space, Work::Expr(body)]);
            }
            StmtKind::Compute { indices, value } => {
                self.then(&[Work::Expr(value), Work::Tok(";")]);
                if !indices.is_empty() {
                    self.then(&[Work::Space, Work::Tok("=>"), Work::Space]);
                    self.inline("[", ast.list(indices).map(Work::Binder), "]", false);
                }
                self.then(&[Work::Tok("compute"), Work::Space]);
            }
        }
    }

    pub(super) fn for_(&mut self, kind: ForKind, loops: List<LoopId>, body: ExprId) {
        let ast = self.ast;
        self.then(&[Work::Space, Work::Expr(body)]);
        let extents = ast.list(loops).map(|l| Work::Expr(ast.loops[l].extent));
        self.listed("(", extents, ")", false);
        self.then(&[Work::Space, Work::Tok("in"), Work::Space, Work::Tok("grid")]);
        self.separated(ast.list(loops).map(|l| Work::Binder(ast.loops[l].binder)));
        self.then(&[Work::Tok("for"), Work::Space]);
        match kind {
            ForKind::Serial => {}
            ForKind::Parallel => self.then(&[Work::Tok("parallel"), Work::Space]),
            ForKind::Unroll => self.then(&[Work::Tok("unroll"), Work::Space]),
            ForKind::Vectorize(w) => {
                let width = relax_base::Symbol::new(&w.to_string());
                self.then(&[
                    Work::Tok("vectorize"),
                    Work::Tok("("),
                    Work::Name(width),
                    Work::Tok(")"),
                    Work::Space,
                ]);
            }
        }
    }
}
