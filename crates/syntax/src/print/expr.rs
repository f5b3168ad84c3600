//! Expressions, patterns, statements.

use super::emit::{Emitter, Word, Work};
use super::number;
use crate::ast::*;

impl Emitter<'_> {
    pub(super) fn expr(&mut self, e: ExprId) {
        let ast = self.ast;
        // Without the option for types, only expressions that cannot be read back without their
        // type have one.
        if let Some(t) = ast.expr_types[e] {
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
            ExprKind::Meta {
                key,
                index: VERBATIM,
            } => self.literal(span, key.as_str()),
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
            ExprKind::Paren(inner, pairs) => self.paren(inner, pairs),
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
                    Work::tok("ref"),
                    Work::tok("("),
                    Work::Expr(v),
                    Work::tok(")"),
                ]);
            }
            ExprKind::RefRead(v) => {
                self.then(&[
                    Work::tok("ref_read"),
                    Work::tok("("),
                    Work::Expr(v),
                    Work::tok(")"),
                ]);
            }
            ExprKind::RefWrite { target, value } => {
                let items = [Work::Expr(target), Work::Expr(value)];
                self.listed("(", items.into_iter(), ")", false);
                self.work.push(Work::tok("ref_write"));
            }
            ExprKind::Binary { .. } => self.binary(e),
            ExprKind::Index { base, indices } => {
                self.listed("[", ast.list(indices).map(Work::Expr), "]", false);
                self.operand(base);
            }
            ExprKind::Shape(dims) => {
                self.listed("(", ast.list(dims).map(Work::Type), ")", false);
                self.work.push(Work::tok("shape"));
            }
            ExprKind::MatchShape { value, dims } => {
                self.then(&[
                    Work::tok("match_shape"),
                    Work::tok("("),
                    Work::Expr(value),
                    Work::tok(","),
                    Work::Space,
                ]);
                let at = self.work.len() - 5;
                let rest = self.work.split_off(at);
                self.work.push(Work::tok(")"));
                let one = dims.len() == 1;
                self.inline("(", ast.list(dims).map(Work::Type), ")", one);
                self.work.extend(rest);
            }
            ExprKind::MatchCast { value, ty } => {
                let items = [Work::Expr(value), Work::Type(ty)];
                self.listed("(", items.into_iter(), ")", false);
                self.work.push(Work::tok("match_cast"));
            }
        }
    }

    pub(super) fn float(&self, value: f64, suffix: NumSuffix) -> String {
        let mut text = if self.tvm() {
            number::six_digits(value)
        } else {
            number::shortest(value, suffix)
        };
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        if suffix == NumSuffix::None && plain {
            // Without a suffix, only the point distinguishes it from an integer.
            text.push_str(".0");
        }
        format!("{text}{suffix}")
    }

    /// Prints an operand of a postfix form.
    pub(super) fn operand(&mut self, e: ExprId) {
        if matches!(self.ast.exprs[e].kind, ExprKind::Binary { .. }) {
            self.then(&[Work::tok("("), Work::Expr(e), Work::tok(")")]);
        } else {
            self.work.push(Work::Expr(e));
        }
    }

    pub(super) fn operand_then(&mut self, e: ExprId, after: impl FnOnce(&mut Self)) {
        after(self);
        self.operand(e);
    }

    pub(super) fn proj(&mut self, span: relax_base::Span, index: u32) {
        if let Some(text) = self.sink.projection(span.end) {
            // `.0` is one token, `. 0` two.
            self.work.extend(text.into_iter().rev().map(Work::Name));
        } else {
            self.work
                .push(Work::Name(relax_base::Symbol::new(&format!(".{index}"))));
        }
    }

    pub(super) fn call(&mut self, callee: ExprId, args: List<ExprId>, attrs: List<AttrId>) {
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
        let args = (ast.list(args)).map(|a| (ast.exprs[a].span.start, Work::Expr(a)));
        let items = self.with_attrs(args, attrs).into_iter();
        if hug {
            self.inline("(", items, ")", false);
        } else {
            self.listed("(", items, ")", false);
        }
        self.operand(callee);
    }

    pub(super) fn attr(&mut self, a: AttrId) {
        let Attr { key, value, .. } = self.ast.attrs[a];
        self.then(&[Work::Name(key), Work::tok("="), Work::Expr(value)]);
    }

    /// Prints `a + b + c`: the whole left spine as one group.
    pub(super) fn binary(&mut self, e: ExprId) {
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
        // `//` at the end of a line would start a comment.
        let divided =
            |p: &(Option<BinOp>, ExprId)| p.0 == Some(BinOp::FloorDiv) || self.divides(p.1);
        let breaks = !parts.iter().any(divided);
        let gap = if breaks { Work::Line } else { Work::Space };
        for (op, part) in parts {
            let least = outer.precedence() + u8::from(op.is_some());
            let loose = matches!(self.ast.exprs[part].kind,
                ExprKind::Binary { op, .. } if op.precedence() < least);
            if loose {
                self.then(&[Work::tok("("), Work::Expr(part), Work::tok(")")]);
            } else {
                self.work.push(Work::Expr(part));
            }
            if let Some(op) = op {
                self.then(&[gap, Work::tok(op.as_str()), Work::Space]);
            }
        }
        self.then(&[Work::Open, Work::Nest]);
    }

    /// Returns whether the expression ends in a floor division, as far as a bounded look shows.
    pub(super) fn divides(&self, mut e: ExprId) -> bool {
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

    /// Prints parentheses around an expression, or around statements on separate lines.
    pub(super) fn paren(&mut self, inner: ExprId, pairs: u32) {
        if pairs > 1 {
            self.work.push(Work::Times(Word::new(")"), pairs - 1));
        }
        self.innermost_paren(inner);
        if pairs > 1 {
            self.work.push(Work::Times(Word::new("("), pairs - 1));
        }
    }

    fn innermost_paren(&mut self, inner: ExprId) {
        let statements = matches!(self.ast.exprs[inner].kind,
            ExprKind::Block { stmts, braces: false, .. } if !stmts.is_empty());
        if statements {
            self.then(&[
                Work::tok("("),
                Work::Indent,
                Work::Hard,
                Work::Expr(inner),
                Work::Dedent,
                Work::Hard,
                Work::tok(")"),
            ]);
        } else if self.divides(inner) {
            self.then(&[Work::tok("("), Work::Expr(inner), Work::tok(")")]);
        } else {
            self.then(&[
                Work::Open,
                Work::tok("("),
                Work::Nest,
                Work::Soft,
                Work::Expr(inner),
                Work::Unnest,
                Work::Soft,
                Work::tok(")"),
                Work::Close,
            ]);
        }
    }
}
