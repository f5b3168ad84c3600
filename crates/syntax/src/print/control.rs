//! Constructs with braces: blocks, branches, clauses and functions.

use super::emit::{Emitter, Work};
use crate::ast::*;

/// Larger expressions, in nodes, do not share a line with their braces.
const SMALL: u8 = 30;

/// A larger `if`, in nodes, is not printed on one line, so that its branches are easy to tell
/// apart.
const SHORT: u8 = 12;

impl Emitter<'_> {
    pub(super) fn small(&self, e: ExprId) -> bool {
        self.nodes(e) <= SMALL
    }

    pub(super) fn nodes(&self, e: ExprId) -> u8 {
        self.sizes.get(e.0 as usize).copied().unwrap_or(u8::MAX)
    }

    /// Returns the only expression of a block, if the block may be printed on one line.
    pub(super) fn small_tail(&self, block: ExprId) -> Option<ExprId> {
        match self.ast.exprs[block].kind {
            ExprKind::Block {
                stmts,
                tail: Some(tail),
                braces: true,
            } if stmts.is_empty() && self.small(tail) => Some(tail),
            _ => None,
        }
    }

    pub(super) fn if_(&mut self, e: ExprId) {
        let ast = self.ast;
        // An `else if` chain is one construct, however long.
        let mut arms = Vec::new();
        let mut at = e;
        let last = loop {
            match ast.exprs[at].kind {
                ExprKind::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    arms.push((cond, then));
                    match otherwise {
                        Some(next) if at != next => at = next,
                        _ => break None,
                    }
                }
                _ => break Some(at),
            }
        };
        let small = !self.tvm() && arms.len() == 1 && self.nodes(e) <= SHORT;
        if small {
            self.work.push(Work::Close);
        }
        if let Some(block) = last {
            self.branch(block, small);
            self.then(&[Work::Space, Work::tok("else"), Work::Space]);
        }
        for (i, &(cond, then)) in arms.iter().enumerate().rev() {
            self.branch(then, small);
            self.then(&[
                Work::tok("if"),
                Work::Space,
                Work::tok("("),
                Work::Expr(cond),
                Work::tok(")"),
                Work::Space,
            ]);
            if i > 0 {
                self.then(&[Work::Space, Work::tok("else"), Work::Space]);
            }
        }
        if small {
            self.work.push(Work::Open);
        }
    }

    pub(super) fn branch(&mut self, block: ExprId, small: bool) {
        match self.small_tail(block) {
            Some(tail) if small => self.then(&[
                Work::tok("{"),
                Work::Nest,
                Work::Line,
                Work::Expr(tail),
                Work::Unnest,
                Work::Line,
                Work::tok("}"),
            ]),
            _ => self.work.push(Work::Expr(block)),
        }
    }

    pub(super) fn closure(&mut self, f: FnId) {
        let function = self.ast.functions[f];
        let small = if self.tvm() {
            None
        } else {
            self.small_tail(function.body)
        };
        match small {
            Some(_) => {
                self.work.push(Work::Close);
                self.branch(function.body, true);
                self.work.push(Work::Open);
            }
            None => self.work.push(Work::Body(function.body)),
        }
        self.signature(&function);
        self.then(&[Work::tok("fn"), Work::Space]);
    }

    /// Prints the signature between name and body, with the space before the body.
    pub(super) fn signature(&mut self, f: &Function) {
        self.work.push(Work::Space);
        if !f.relations.is_empty() {
            let relations = self.ast.list(f.relations).map(Work::Type);
            self.separated(relations);
            self.then(&[Work::Space, Work::tok("where"), Work::Space]);
        }
        match f.ret {
            Some(ret) => {
                let ret = [Work::Space, Work::tok("->"), Work::Space, Work::Type(ret)];
                self.params(f.params, f.attrs, &ret);
            }
            None => self.params(f.params, f.attrs, &[]),
        }
        self.type_params(f.type_params, f.angle);
    }

    /// Prints parameters, and the work after them.
    pub(super) fn params(&mut self, params: List<BinderId>, attrs: List<AttrId>, after: &[Work]) {
        let ast = self.ast;
        let params = (ast.list(params)).map(|b| (ast.binders[b].span.start, Work::Binder(b)));
        let items = self.with_attrs(params, attrs);
        self.listed_before("(", items.into_iter(), ")", false, after);
    }

    /// Merges positional items, given with their positions, and attributes in their order in the
    /// text.
    pub(super) fn with_attrs(
        &self,
        items: impl Iterator<Item = (u32, Work)>,
        attrs: List<AttrId>,
    ) -> Vec<Work> {
        let ast = self.ast;
        let attrs = ast.list(attrs);
        let attrs = attrs.map(|a| (ast.attrs[a].span.start, Work::Attr(a)));
        let mut all: Vec<(u32, Work)> = items.chain(attrs).collect();
        if self.sink.comments.is_some() {
            all.sort_by_key(|i| i.0);
        }
        all.into_iter().map(|i| i.1).collect()
    }

    pub(super) fn separated(
        &mut self,
        items: impl DoubleEndedIterator<Item = Work> + ExactSizeIterator,
    ) {
        for (i, item) in items.enumerate().rev() {
            self.work.push(item);
            if i > 0 {
                self.then(&[Work::tok(","), Work::Space]);
            }
        }
    }

    pub(super) fn match_(&mut self, scrutinee: ExprId, clauses: List<ClauseId>, complete: bool) {
        self.work.push(Work::tok("}"));
        if clauses.is_empty() {
            self.then(&[Work::tok("{")]);
        } else {
            self.then(&[Work::Dedent, Work::Hard]);
            for (i, c) in self.ast.list(clauses).enumerate().rev() {
                self.work.push(Work::Clause(c));
                self.work
                    .push(if i > 0 { Work::Between } else { Work::Hard });
            }
            self.then(&[Work::tok("{"), Work::Indent]);
        }
        self.work.push(Work::Space);
        let paren = matches!(
            self.ast.exprs[scrutinee].kind,
            ExprKind::Paren(..) | ExprKind::Tuple(_)
        ) || self.sink.comments.is_some();
        if paren {
            self.work.push(Work::Expr(scrutinee));
        } else {
            self.then(&[Work::tok("("), Work::Expr(scrutinee), Work::tok(")")]);
        }
        if complete {
            self.then(&[Work::tok("match"), Work::Space]);
        } else if self.sink.comments.is_some() {
            self.work.push(Work::Space);
            self.sink.next_as_is();
        } else {
            self.then(&[Work::tok("match?"), Work::Space]);
        }
    }

    pub(super) fn clause(&mut self, c: ClauseId) {
        let Clause {
            pat, body, case, ..
        } = self.ast.clauses[c];
        if case {
            let small = self.small_tail(body).is_some() && !self.tvm();
            if small {
                self.work.push(Work::Close);
            }
            self.branch(body, small);
            self.then(&[Work::tok("case"), Work::Space, Work::Pat(pat), Work::Space]);
            if small {
                self.work.push(Work::Open);
            }
            return;
        }
        self.work.push(Work::tok(","));
        let bare = !matches!(
            self.ast.exprs[body].kind,
            ExprKind::Block { braces: true, .. }
        );
        if self.tvm() && bare {
            self.then(&[
                Work::tok("{"),
                Work::Indent,
                Work::Hard,
                Work::Expr(body),
                Work::Dedent,
                Work::Hard,
                Work::tok("}"),
            ]);
        } else if matches!(self.ast.exprs[body].kind,
            ExprKind::Block { stmts, braces: false, .. } if !stmts.is_empty())
        {
            self.then(&[Work::Indent, Work::Hard, Work::Expr(body), Work::Dedent]);
        } else {
            let small = self.small_tail(body).is_some() && !self.tvm();
            if small {
                self.work.push(Work::Close);
            }
            self.branch(body, small);
            if small {
                self.work.push(Work::Open);
            }
        }
        self.then(&[Work::Pat(pat), Work::Space, Work::tok("=>"), Work::Space]);
    }

    pub(super) fn pat(&mut self, p: PatId) {
        let ast = self.ast;
        let Pat { kind, span } = ast.pats[p];
        match kind {
            PatKind::Error => self.literal(span, "_"),
            PatKind::Wildcard => self.sink.tok("_"),
            PatKind::Var(b) => self.work.push(Work::Binder(b)),
            PatKind::Ctor { name, args, parens } => {
                if parens && !(self.tvm() && args.is_empty()) {
                    self.listed("(", ast.list(args).map(Work::Pat), ")", false);
                }
                self.work.push(Work::Name(name));
            }
            PatKind::Tuple { items, comma } => {
                self.listed(
                    "(",
                    ast.list(items).map(Work::Pat),
                    ")",
                    comma && !self.tvm(),
                );
            }
        }
    }

    pub(super) fn binder(&mut self, b: BinderId) {
        let Binder {
            name,
            sigil,
            ty,
            attrs,
            default,
            span,
        } = self.ast.binders[b];
        if self.types
            && let Some(t) = self.ast.binder_types[b]
        {
            self.work.push(Work::Note(t));
        }
        if let Some(d) = default {
            if ty.is_some() {
                self.then(&[Work::Space, Work::tok("="), Work::Space, Work::Expr(d)]);
            } else {
                self.then(&[Work::tok("="), Work::Expr(d)]);
            }
        }
        if let Some(ty) = ty {
            self.then(&[Work::tok(":"), Work::Space, Work::Type(ty)]);
        }
        if !attrs.is_empty() {
            let items = self.ast.list(attrs).map(Work::Attr);
            self.inline("{", items, "}", false);
            self.work.push(Work::Space);
        }
        if self.sink.comments.is_some() {
            self.sink.literal(span.end);
        } else if sigil {
            self.sigil('%', name);
        } else {
            self.sink.tok(name.as_str());
        }
    }

    /// Prints a block in braces over several lines.
    pub(super) fn body(&mut self, block: ExprId) {
        let empty = matches!(self.ast.exprs[block].kind,
            ExprKind::Block { stmts, tail: None, .. } if stmts.is_empty());
        if empty {
            self.sink.tok("{");
            if self.sink.comment_follows() {
                self.then(&[Work::Indent, Work::Hard, Work::Dedent, Work::Hard]);
                let at = self.work.len() - 4;
                self.work.insert(at, Work::tok("}"));
            } else {
                self.work.push(Work::tok("}"));
            }
            return;
        }
        self.then(&[
            Work::tok("{"),
            Work::Indent,
            Work::Hard,
            Work::Inside(block),
            Work::Dedent,
            Work::Hard,
            Work::tok("}"),
        ]);
    }

    /// Prints statements and result, each on its own line.
    pub(super) fn inside(&mut self, block: ExprId) {
        let ExprKind::Block { stmts, tail, .. } = self.ast.exprs[block].kind else {
            self.work.push(Work::Expr(block));
            return;
        };
        if let Some(tail) = tail {
            self.work.push(Work::Expr(tail));
        }
        let mut last = tail.is_none();
        // Whether an expression comes next, which the one before must not continue with.
        let mut expression = tail.is_some();
        for s in self.ast.list(stmts).rev() {
            if !last {
                self.work.push(Work::Between);
            }
            last = false;
            let bare = self.is_bare_if(s);
            if bare && expression {
                self.work.push(Work::tok(";"));
            }
            expression = !bare && matches!(self.ast.stmts[s].kind, StmtKind::Expr(_));
            self.work.push(Work::Stmt(s));
        }
    }

    /// Returns whether a statement is an `if` without `else`, which ends without a semicolon.
    pub(super) fn is_bare_if(&self, s: StmtId) -> bool {
        let StmtKind::Expr(e) = self.ast.stmts[s].kind else {
            return false;
        };
        let kind = self.ast.exprs[e].kind;
        matches!(
            kind,
            ExprKind::If {
                otherwise: None,
                ..
            }
        )
    }
}
