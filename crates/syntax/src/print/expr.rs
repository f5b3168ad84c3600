//! Expressions, patterns, statements.

use super::emit::{Emitter, Work};
use super::number;
use crate::ast::*;

/// Expressions of more nodes than this do not share a line with their braces.
const SMALL: u8 = 30;

/// An `if` of more nodes than this is not on one line: its branches are read one by one.
const SHORT: u8 = 12;

impl Emitter<'_> {
    pub(super) fn expr(&mut self, e: ExprId) {
        let ast = self.ast;
        if self.types
            && let Some(t) = ast.expr_types[e]
        {
            self.work.push(Work::Note(t));
        }
        let Expr { kind, span } = ast.exprs[e];
        match kind {
            ExprKind::Error => self.literal(span, "<error>"),
            ExprKind::Local(n) => self.sigil('%', n),
            ExprKind::Graph(n) => self.literal(span, &format!("%{n}")),
            ExprKind::Global(n) => self.sigil('@', n),
            ExprKind::Name(n) => self.literal(span, n.as_str()),
            ExprKind::Int { value, suffix } => self.literal(span, &format!("{value}{suffix}")),
            ExprKind::Float { value, suffix } => {
                let text = self.float(value, suffix);
                self.literal(span, &text);
            }
            ExprKind::Bool(b) => self.sink.tok(if b { "True" } else { "False" }),
            ExprKind::Str(s) => {
                let text = number::quote(s.as_str(), !self.tvm());
                self.literal(span, &text);
            }
            ExprKind::Meta { key, index } => self.literal(span, &format!("meta[{key}][{index}]")),
            ExprKind::Tuple(items) => {
                self.listed("(", ast.list(items).map(Work::Expr), ")", true);
            }
            ExprKind::List(items) => {
                self.listed("[", ast.list(items).map(Work::Expr), "]", false);
            }
            ExprKind::Map(attrs) => {
                self.listed("{", ast.list(attrs).map(Work::Attr), "}", false);
            }
            ExprKind::Paren(inner) => self.paren(inner),
            ExprKind::Proj { tuple, index } => {
                self.operand_then(tuple, |this| this.proj(span, index));
            }
            ExprKind::Call {
                callee,
                args,
                attrs,
            } => self.call(callee, args, attrs),
            ExprKind::TypeApply { callee, args } => {
                self.listed("<", ast.list(args).map(Work::Type), ">", false);
                self.operand(callee);
            }
            ExprKind::Fn(f) => self.closure(f),
            ExprKind::If { .. } => self.if_(e),
            ExprKind::Match {
                scrutinee,
                clauses,
                complete,
            } => self.match_(scrutinee, clauses, complete),
            ExprKind::Block { braces, .. } => {
                self.work.push(if braces {
                    Work::Body(e)
                } else {
                    Work::Inside(e)
                });
            }
            ExprKind::RefNew(v) => {
                self.then(&[
                    Work::Tok("ref"),
                    Work::Tok("("),
                    Work::Expr(v),
                    Work::Tok(")"),
                ]);
            }
            ExprKind::RefRead(v) => {
                self.then(&[
                    Work::Tok("ref_read"),
                    Work::Tok("("),
                    Work::Expr(v),
                    Work::Tok(")"),
                ]);
            }
            ExprKind::RefWrite { target, value } => {
                let items = [Work::Expr(target), Work::Expr(value)];
                self.listed("(", items.into_iter(), ")", false);
                self.work.push(Work::Tok("ref_write"));
            }
            ExprKind::Binary { .. } => self.binary(e),
            ExprKind::Index { base, indices } => {
                self.listed("[", ast.list(indices).map(Work::Expr), "]", false);
                self.operand(base);
            }
            ExprKind::Shape(dims) => {
                self.listed("(", ast.list(dims).map(Work::Type), ")", false);
                self.work.push(Work::Tok("shape"));
            }
            ExprKind::MatchShape { value, dims } => {
                self.then(&[
                    Work::Tok("match_shape"),
                    Work::Tok("("),
                    Work::Expr(value),
                    Work::Tok(","),
                    Work::Space,
                ]);
                let at = self.work.len() - 5;
                let rest = self.work.split_off(at);
                self.work.push(Work::Tok(")"));
                let one = dims.len() == 1;
                self.inline("(", ast.list(dims).map(Work::Type), ")", one);
                self.work.extend(rest);
            }
            ExprKind::MatchCast { value, ty } => {
                let items = [Work::Expr(value), Work::Type(ty)];
                self.listed("(", items.into_iter(), ")", false);
                self.work.push(Work::Tok("match_cast"));
            }
        }
    }

    fn float(&self, value: f64, suffix: NumSuffix) -> String {
        let mut text = if self.tvm() {
            number::six_digits(value)
        } else {
            number::shortest(value, suffix)
        };
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        if suffix == NumSuffix::None && plain {
            // Without a suffix only the point says that it is no integer.
            text.push_str(".0");
        }
        format!("{text}{suffix}")
    }

    /// An operand of a postfix form.
    fn operand(&mut self, e: ExprId) {
        if matches!(self.ast.exprs[e].kind, ExprKind::Binary { .. }) {
            self.then(&[Work::Tok("("), Work::Expr(e), Work::Tok(")")]);
        } else {
            self.work.push(Work::Expr(e));
        }
    }

    fn operand_then(&mut self, e: ExprId, after: impl FnOnce(&mut Self)) {
        after(self);
        self.operand(e);
    }

    fn proj(&mut self, span: relax_base::Span, index: u32) {
        if let Some(text) = self.sink.projection(span.end) {
            // `.0` is one token, `. 0` two.
            self.work.extend(text.into_iter().rev().map(Work::Name));
        } else {
            self.work
                .push(Work::Name(relax_base::Symbol::new(&format!(".{index}"))));
        }
    }

    fn call(&mut self, callee: ExprId, args: List<ExprId>, attrs: List<AttrId>) {
        let ast = self.ast;
        let hug = args.len() == 1
            && attrs.is_empty()
            && !self.tvm()
            && ast.nth(args, 0).is_some_and(|a| {
                matches!(
                    ast.exprs[a].kind,
                    ExprKind::Fn(_) | ExprKind::Match { .. } | ExprKind::Block { .. }
                )
            });
        // Positional arguments and attributes are printed in the order they were written.
        let mut items: Vec<(u32, Work)> = Vec::with_capacity(args.len() + attrs.len());
        items.extend(
            ast.list(args)
                .map(|a| (ast.exprs[a].span.start, Work::Expr(a))),
        );
        items.extend(
            ast.list(attrs)
                .map(|a| (ast.attrs[a].span.start, Work::Attr(a))),
        );
        if self.sink.weave.is_some() {
            items.sort_by_key(|i| i.0);
        }
        let items = items.into_iter().map(|i| i.1);
        if hug {
            self.inline("(", items, ")", false);
        } else {
            self.listed("(", items, ")", false);
        }
        self.operand(callee);
    }

    pub(super) fn attr(&mut self, a: AttrId) {
        let Attr { key, value, .. } = self.ast.attrs[a];
        self.then(&[Work::Name(key), Work::Tok("="), Work::Expr(value)]);
    }

    /// `a + b + c`: the whole left spine as one group.
    fn binary(&mut self, e: ExprId) {
        let mut parts = Vec::new();
        let mut at = e;
        let mut first = true;
        let ExprKind::Binary { op: outer, .. } = self.ast.exprs[e].kind else {
            return;
        };
        loop {
            let noted = !first && self.types && self.ast.expr_types[at].is_some();
            match self.ast.exprs[at].kind {
                ExprKind::Binary { op, lhs, rhs }
                    if op.precedence() == outer.precedence() && !noted =>
                {
                    parts.push((Some(op), rhs));
                    at = lhs;
                    first = false;
                }
                _ => {
                    parts.push((None, at));
                    break;
                }
            }
        }
        self.then(&[Work::UnnestHere, Work::Close]);
        // `//` at the end of a line would begin a comment.
        let breaks = !parts.iter().any(|p| p.0 == Some(BinOp::FloorDiv)) && !self.divides(e);
        let gap = if breaks { Work::Line } else { Work::Space };
        for (op, part) in parts {
            let least = outer.precedence() + u8::from(op.is_some());
            let loose = matches!(self.ast.exprs[part].kind,
                ExprKind::Binary { op, .. } if op.precedence() < least);
            if loose {
                self.then(&[Work::Tok("("), Work::Expr(part), Work::Tok(")")]);
            } else {
                self.work.push(Work::Expr(part));
            }
            if let Some(op) = op {
                self.then(&[gap, Work::Tok(op.as_str()), Work::Space]);
            }
        }
        self.then(&[Work::Open, Work::Nest]);
    }

    /// Whether the expression ends in a floor division, as far as a short look shows.
    fn divides(&self, mut e: ExprId) -> bool {
        for _ in 0..8 {
            match self.ast.exprs[e].kind {
                ExprKind::Binary {
                    op: BinOp::FloorDiv,
                    ..
                } => return true,
                ExprKind::Binary { lhs, rhs, .. } => {
                    if matches!(self.ast.exprs[rhs].kind, ExprKind::Binary { .. }) {
                        e = rhs;
                    } else {
                        e = lhs;
                    }
                }
                _ => return false,
            }
        }
        false
    }

    /// Parentheses around an expression, or around statements on lines of their own.
    fn paren(&mut self, inner: ExprId) {
        let statements = matches!(self.ast.exprs[inner].kind,
            ExprKind::Block { stmts, braces: false, .. } if !stmts.is_empty());
        if statements {
            self.then(&[
                Work::Tok("("),
                Work::Indent,
                Work::Hard,
                Work::Expr(inner),
                Work::Dedent,
                Work::Hard,
                Work::Tok(")"),
            ]);
        } else if self.divides(inner) || matches!(self.ast.exprs[inner].kind, ExprKind::Paren(_)) {
            self.then(&[Work::Tok("("), Work::Expr(inner), Work::Tok(")")]);
        } else {
            self.then(&[
                Work::Open,
                Work::Tok("("),
                Work::Nest,
                Work::Soft,
                Work::Expr(inner),
                Work::Unnest,
                Work::Soft,
                Work::Tok(")"),
                Work::Close,
            ]);
        }
    }

    fn small(&self, e: ExprId) -> bool {
        self.nodes(e) <= SMALL
    }

    fn nodes(&self, e: ExprId) -> u8 {
        self.sizes.get(e.0 as usize).copied().unwrap_or(u8::MAX)
    }

    /// The only thing in a block, if the block may stand on one line.
    fn small_tail(&self, block: ExprId) -> Option<ExprId> {
        match self.ast.exprs[block].kind {
            ExprKind::Block {
                stmts,
                tail: Some(tail),
                braces: true,
            } if stmts.is_empty() && self.small(tail) => Some(tail),
            _ => None,
        }
    }

    fn if_(&mut self, e: ExprId) {
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
            self.then(&[Work::Space, Work::Tok("else"), Work::Space]);
        }
        for (i, &(cond, then)) in arms.iter().enumerate().rev() {
            self.branch(then, small);
            self.then(&[
                Work::Tok("if"),
                Work::Space,
                Work::Tok("("),
                Work::Expr(cond),
                Work::Tok(")"),
                Work::Space,
            ]);
            if i > 0 {
                self.then(&[Work::Space, Work::Tok("else"), Work::Space]);
            }
        }
        if small {
            self.work.push(Work::Open);
        }
    }

    fn branch(&mut self, block: ExprId, small: bool) {
        match self.small_tail(block) {
            Some(tail) if small => self.then(&[
                Work::Tok("{"),
                Work::Nest,
                Work::Line,
                Work::Expr(tail),
                Work::Unnest,
                Work::Line,
                Work::Tok("}"),
            ]),
            _ => self.work.push(Work::Expr(block)),
        }
    }

    fn closure(&mut self, f: FnId) {
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
        self.then(&[Work::Tok("fn"), Work::Space]);
    }

    /// Everything between the name and the body, with the space before the body.
    pub(super) fn signature(&mut self, f: &Function) {
        self.work.push(Work::Space);
        if !f.relations.is_empty() {
            let relations = self.ast.list(f.relations).map(Work::Type);
            self.separated(relations);
            self.then(&[Work::Space, Work::Tok("where"), Work::Space]);
        }
        match f.ret {
            Some(ret) => {
                let ret = [Work::Space, Work::Tok("->"), Work::Space, Work::Type(ret)];
                self.params(f.params, f.attrs, &ret);
            }
            None => self.params(f.params, f.attrs, &[]),
        }
        self.type_params(f.type_params, f.angle);
    }

    /// Parameters, and what follows them.
    pub(super) fn params(
        &mut self,
        params: List<BinderId>,
        attrs: List<AttrId>,
        after: &[Work],
    ) {
        let ast = self.ast;
        let mut items: Vec<(u32, Work)> = Vec::with_capacity(params.len() + attrs.len());
        items.extend(
            ast.list(params)
                .map(|b| (ast.binders[b].span.start, Work::Binder(b))),
        );
        items.extend(
            ast.list(attrs)
                .map(|a| (ast.attrs[a].span.start, Work::Attr(a))),
        );
        if self.sink.weave.is_some() {
            items.sort_by_key(|i| i.0);
        }
        let items = items.into_iter().map(|i| i.1);
        self.listed_before("(", items, ")", false, after);
    }

    pub(super) fn separated(
        &mut self,
        items: impl DoubleEndedIterator<Item = Work> + ExactSizeIterator,
    ) {
        for (i, item) in items.enumerate().rev() {
            self.work.push(item);
            if i > 0 {
                self.then(&[Work::Tok(","), Work::Space]);
            }
        }
    }

    fn match_(&mut self, scrutinee: ExprId, clauses: List<ClauseId>, complete: bool) {
        self.work.push(Work::Tok("}"));
        if clauses.is_empty() {
            self.then(&[Work::Tok("{")]);
        } else {
            self.then(&[Work::Dedent, Work::Hard]);
            for (i, c) in self.ast.list(clauses).enumerate().rev() {
                self.work.push(Work::Clause(c));
                self.work
                    .push(if i > 0 { Work::Between } else { Work::Hard });
            }
            self.then(&[Work::Tok("{"), Work::Indent]);
        }
        self.work.push(Work::Space);
        let paren = matches!(
            self.ast.exprs[scrutinee].kind,
            ExprKind::Paren(_) | ExprKind::Tuple(_)
        ) || self.sink.weave.is_some();
        if paren {
            self.work.push(Work::Expr(scrutinee));
        } else {
            self.then(&[Work::Tok("("), Work::Expr(scrutinee), Work::Tok(")")]);
        }
        if complete {
            self.then(&[Work::Tok("match"), Work::Space]);
        } else if self.sink.weave.is_some() {
            self.work.push(Work::Space);
            self.sink.next_as_is();
        } else {
            self.then(&[Work::Tok("match?"), Work::Space]);
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
            self.then(&[Work::Tok("case"), Work::Space, Work::Pat(pat), Work::Space]);
            if small {
                self.work.push(Work::Open);
            }
            return;
        }
        self.work.push(Work::Tok(","));
        let bare = !matches!(
            self.ast.exprs[body].kind,
            ExprKind::Block { braces: true, .. }
        );
        if self.tvm() && bare {
            self.then(&[
                Work::Tok("{"),
                Work::Indent,
                Work::Hard,
                Work::Expr(body),
                Work::Dedent,
                Work::Hard,
                Work::Tok("}"),
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
        self.then(&[Work::Pat(pat), Work::Space, Work::Tok("=>"), Work::Space]);
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
                self.then(&[Work::Space, Work::Tok("="), Work::Space, Work::Expr(d)]);
            } else {
                self.then(&[Work::Tok("="), Work::Expr(d)]);
            }
        }
        if let Some(ty) = ty {
            self.then(&[Work::Tok(":"), Work::Space, Work::Type(ty)]);
        }
        if !attrs.is_empty() {
            let items = self.ast.list(attrs).map(Work::Attr);
            self.inline("{", items, "}", false);
            self.work.push(Work::Space);
        }
        if self.sink.weave.is_some() {
            self.sink.literal(span.end);
        } else if sigil {
            self.sigil('%', name);
        } else {
            self.sink.tok(name.as_str());
        }
    }

    /// A block in braces on several lines.
    pub(super) fn body(&mut self, block: ExprId) {
        let empty = matches!(self.ast.exprs[block].kind,
            ExprKind::Block { stmts, tail: None, .. } if stmts.is_empty());
        if empty {
            self.sink.tok("{");
            if self.sink.comment_follows() {
                self.then(&[Work::Indent, Work::Hard, Work::Dedent, Work::Hard]);
                let at = self.work.len() - 4;
                self.work.insert(at, Work::Tok("}"));
            } else {
                self.work.push(Work::Tok("}"));
            }
            return;
        }
        self.then(&[
            Work::Tok("{"),
            Work::Indent,
            Work::Hard,
            Work::Inside(block),
            Work::Dedent,
            Work::Hard,
            Work::Tok("}"),
        ]);
    }

    /// Statements and result, each on its line.
    pub(super) fn inside(&mut self, block: ExprId) {
        let ExprKind::Block { stmts, tail, .. } = self.ast.exprs[block].kind else {
            self.work.push(Work::Expr(block));
            return;
        };
        if let Some(tail) = tail {
            self.work.push(Work::Expr(tail));
        }
        let mut last = tail.is_none();
        for s in self.ast.list(stmts).rev() {
            if !last {
                self.work.push(Work::Between);
            }
            last = false;
            self.work.push(Work::Stmt(s));
        }
    }

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

    fn for_(&mut self, kind: ForKind, loops: List<LoopId>, body: ExprId) {
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
