//! Statements and blocks.

use relax_base::{Code, Diagnostic, Span, Symbol};

use super::Builder;
use crate::ast::*;

impl Builder<'_> {
    pub(crate) fn block(
        &mut self,
        (n, tail): (u32, Option<ExprId>),
        braces: bool,
        l: u32,
        r: u32,
    ) -> ExprId {
        let (n, tail) = self.output_at_end(n, tail);
        let stmts = self.take(n);
        let kind = ExprKind::Block {
            stmts,
            tail,
            braces,
        };
        self.expr(kind, l, r)
    }

    pub(crate) fn let_stmt(&mut self, binder: BinderId, value: ExprId, l: u32, r: u32) -> StmtId {
        self.stmt(StmtKind::Let { binder, value }, l, r)
    }

    pub(crate) fn let_name(&mut self, l: u32, m: u32, ty: Option<TypeId>) -> BinderId {
        self.missing_sigil(l, m, "variable");
        let name = self.name_symbol(l, m);
        self.ast.binder(name, ty, Span::new(l, m))
    }

    /// Builds a loop variable without its sigil.
    pub(crate) fn bare_loop_var(&mut self, l: u32, m: u32) -> BinderId {
        self.missing_sigil(l, m, "loop variable");
        let name = self.name_symbol(l, m);
        self.ast.binder(name, None, Span::new(l, m))
    }

    pub(crate) fn let_graph(&mut self, l: u32, m: u32, ty: Option<TypeId>) -> BinderId {
        let span = Span::new(l, m);
        self.diagnostics.push(
            Diagnostic::error(Code(111), span, "`let` cannot bind a graph variable")
                .note("write `%0 = …;` without `let`, or give the variable a name"),
        );
        self.ast.binder("".into(), ty, span)
    }

    /// Converts a result `output(…)` to the statement without its `;`.
    fn output_at_end(&mut self, n: u32, tail: Option<ExprId>) -> (u32, Option<ExprId>) {
        let Some(e) = tail else { return (n, tail) };
        let Expr { kind, span } = self.ast.exprs[e];
        let ExprKind::Call { callee, attrs, .. } = kind else {
            return (n, tail);
        };
        let name = matches!(self.ast.exprs[callee].kind, ExprKind::Name(name) if name == "output");
        if !name || !attrs.is_empty() {
            return (n, tail);
        }
        let stmt = self.expr_stmt(e, span.start, span.end);
        self.push(stmt);
        (n + 1, None)
    }

    pub(crate) fn expr_stmt(&mut self, e: ExprId, l: u32, r: u32) -> StmtId {
        if let ExprKind::Call {
            callee,
            args,
            attrs,
        } = self.ast.exprs[e].kind
            && attrs.is_empty()
            && let ExprKind::Name(name) = self.ast.exprs[callee].kind
            && name == "output"
        {
            return self.stmt(StmtKind::Output(args), l, r);
        }
        self.stmt(StmtKind::Expr(e), l, r)
    }

    /// Builds `target = value;` and `target: ty = value;`.
    pub(crate) fn bind_stmt(
        &mut self,
        target: ExprId,
        ty: Option<TypeId>,
        value: ExprId,
        l: u32,
        r: u32,
    ) -> StmtId {
        let Expr { kind, span } = self.ast.exprs[target];
        let kind = match kind {
            ExprKind::Local(name) => {
                let binder = self.ast.binder(name, ty, span);
                StmtKind::Bind { binder, value }
            }
            ExprKind::Graph(index) => {
                if let Some(ty) = ty {
                    let at = self.ast.types[ty].span;
                    self.diagnostics.push(
                        Diagnostic::error(Code(111), at, "a graph binding takes no type")
                            .note("give the variable a name to annotate it"),
                    );
                }
                StmtKind::Graph { index, value }
            }
            ExprKind::Index { .. } if ty.is_none() => StmtKind::Store {
                target,
                op: StoreOp::Set,
                value,
            },
            ExprKind::Tuple(items) if ty.is_none() && self.are_variables(items) => {
                StmtKind::Store {
                    target,
                    op: StoreOp::Set,
                    value,
                }
            }
            ExprKind::Name(name) => {
                self.missing_sigil(span.start, span.end, "variable");
                let binder = self.ast.binder(name, ty, span);
                StmtKind::Bind { binder, value }
            }
            ExprKind::Proj { .. } if let Some(name) = self.dotted(target) => {
                let binder = self.ast.binder(name, ty, span);
                StmtKind::Bind { binder, value }
            }
            ExprKind::Error => StmtKind::Error,
            _ => {
                self.bad_target(span);
                StmtKind::Error
            }
        };
        self.stmt(kind, l, r)
    }

    /// Returns whether a tuple has fields, all of them variables.
    fn are_variables(&self, items: List<ExprId>) -> bool {
        let variable = |e| matches!(self.ast.exprs[e].kind, ExprKind::Local(_));
        !items.is_empty() && self.ast.list(items).all(variable)
    }

    /// Returns the name that a projection of a variable denotes where it is bound: `%input.1 = …;`.
    fn dotted(&self, target: ExprId) -> Option<Symbol> {
        let mut base = target;
        while let ExprKind::Proj { tuple, .. } = self.ast.exprs[base].kind {
            base = tuple;
        }
        let ExprKind::Local(_) = self.ast.exprs[base].kind else {
            return None;
        };
        let span = self.ast.exprs[target].span;
        let text = self.slice(span.start + 1, span.end);
        let blank = |c: char| c.is_whitespace() || c == '*';
        (!text.contains(blank)).then(|| Symbol::new(text))
    }

    pub(crate) fn store_stmt(
        &mut self,
        target: ExprId,
        op: StoreOp,
        value: ExprId,
        l: u32,
        r: u32,
    ) -> StmtId {
        let Expr { kind, span } = self.ast.exprs[target];
        let kind = match kind {
            ExprKind::Index { .. } => StmtKind::Store { target, op, value },
            ExprKind::Error => StmtKind::Error,
            _ => {
                self.bad_target(span);
                StmtKind::Error
            }
        };
        self.stmt(kind, l, r)
    }

    fn bad_target(&mut self, span: Span) {
        self.diagnostics.push(
            Diagnostic::error(
                Code(111),
                span,
                "nothing can be assigned to this expression",
            )
            .note("the left side is a variable (`%x = …;`) or a buffer element (`%X[%i] = …;`)")
            .note("equality is spelled `==`"),
        );
    }

    pub(crate) fn for_stmt(
        &mut self,
        mark: Option<ExprId>,
        n: u32,
        extent: ExprId,
        body: ExprId,
        l: u32,
        r: u32,
    ) -> StmtId {
        let kind = mark.map_or(Some(ForKind::Serial), |m| self.for_kind(m));
        let kind = kind.unwrap_or_else(|| {
            let span = mark.map_or(Span::NONE, |m| self.ast.exprs[m].span);
            self.diagnostics.push(
                Diagnostic::error(Code(116), span, "this is no kind of loop")
                    .note("a loop is marked `parallel`, `vectorize(4)` or `unroll`"),
            );
            ForKind::Serial
        });
        let extents: Vec<ExprId> = match self.ast.exprs[extent].kind {
            ExprKind::Call { callee, args, .. } if matches!(self.ast.exprs[callee].kind, ExprKind::Name(n) if n == "grid") => {
                self.ast.list(args).collect()
            }
            ExprKind::Error => vec![extent; n as usize],
            _ => {
                let span = self.ast.exprs[extent].span;
                self.diagnostics.push(
                    Diagnostic::error(Code(116), span, "a loop runs over a `grid`")
                        .note("write `for %i, %j in grid(m, n) { … }`"),
                );
                vec![extent; n as usize]
            }
        };
        let binders: List<BinderId> = self.take(n);
        if extents.len() != binders.len() {
            let span = self.ast.exprs[extent].span;
            self.diagnostics.push(Diagnostic::error(
                Code(116),
                span,
                format!(
                    "the loop has {} variables and {} extents",
                    binders.len(),
                    extents.len()
                ),
            ));
        }
        let binders: Vec<BinderId> = self.ast.list(binders).collect();
        let loops: Vec<LoopId> = binders
            .into_iter()
            .zip(extents)
            .map(|(binder, extent)| self.ast.loops.push(Loop { binder, extent }))
            .collect();
        let loops = self.ast.make_list(loops);
        self.stmt(StmtKind::For { kind, loops, body }, l, r)
    }

    fn for_kind(&self, mark: ExprId) -> Option<ForKind> {
        match self.ast.exprs[mark].kind {
            ExprKind::Name(n) if n == "parallel" => Some(ForKind::Parallel),
            ExprKind::Name(n) if n == "unroll" => Some(ForKind::Unroll),
            ExprKind::Call { callee, args, .. } => {
                let width = self.ast.nth(args, 0)?;
                match (self.ast.exprs[callee].kind, self.ast.exprs[width].kind) {
                    (ExprKind::Name(n), ExprKind::Int { value, .. }) if n == "vectorize" => {
                        Some(ForKind::Vectorize(u32::try_from(value).ok()?))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    pub(crate) fn compute_stmt(
        &mut self,
        indices: Option<ExprId>,
        value: ExprId,
        l: u32,
        r: u32,
    ) -> StmtId {
        let Some(list) = indices else {
            let indices = List::EMPTY;
            return self.stmt(StmtKind::Compute { indices, value }, l, r);
        };
        let Expr { kind, span } = self.ast.exprs[list];
        let mut binders = Vec::new();
        let mut good = matches!(kind, ExprKind::List(_) | ExprKind::Error);
        if let ExprKind::List(items) = kind {
            let items: Vec<ExprId> = self.ast.list(items).collect();
            for e in items {
                let Expr { kind, span } = self.ast.exprs[e];
                match kind {
                    ExprKind::Local(name) => binders.push(self.ast.binder(name, None, span)),
                    _ => good = false,
                }
            }
        }
        if !good {
            self.diagnostics.push(
                Diagnostic::error(Code(111), span, "these are no index variables")
                    .note("write `compute [%i, %j] => …`"),
            );
        }
        let indices = self.ast.make_list(binders);
        self.stmt(StmtKind::Compute { indices, value }, l, r)
    }

    pub(crate) fn clause_without_body(&mut self, pat: PatId, l: u32, r: u32) -> ClauseId {
        // An unreadable pattern is reported already.
        if !matches!(self.ast.pats[pat].kind, PatKind::Error) {
            self.diagnostics.push(Diagnostic::error(
                Code(101),
                Span::new(r, r),
                "expected `=>` and a result after this pattern",
            ));
        }
        let body = self.expr(ExprKind::Error, r, r);
        self.clause(pat, body, false, l, r)
    }
}
