//! Leaves: names with and without sigils.

use relax_base::{Code, Diagnostic, Span, Symbol};

use super::Builder;
use crate::ast::*;

impl Builder<'_> {
    /// Returns the name after a one-character sigil.
    pub(crate) fn sigil_name(&self, l: u32, r: u32) -> Symbol {
        let text = self.slice(l, r);
        // A name whose missing sigil was reported has none to strip.
        let name = text.strip_prefix(['%', '@']).unwrap_or(text);
        let (slot, known) = self.recent(name);
        known.unwrap_or_else(|| self.intern(slot, name))
    }

    pub(crate) fn local(&mut self, l: u32, r: u32) -> ExprId {
        let name = self.sigil_name(l, r);
        self.expr(ExprKind::Local(name), l, r)
    }

    pub(crate) fn global(&mut self, l: u32, r: u32) -> ExprId {
        let name = self.sigil_name(l, r);
        self.expr(ExprKind::Global(name), l, r)
    }

    pub(crate) fn name(&mut self, l: u32, r: u32) -> ExprId {
        let name = self.name_symbol(l, r);
        self.expr(ExprKind::Name(name), l, r)
    }

    pub(crate) fn type_name(&mut self, l: u32, r: u32) -> TypeId {
        let name = self.name_symbol(l, r);
        self.ty(TypeExprKind::Name(name), l, r)
    }

    pub(crate) fn graph(&mut self, l: u32, r: u32) -> ExprId {
        let index = self.graph_number(l, r);
        self.expr(ExprKind::Graph(index), l, r)
    }

    pub(super) fn graph_number(&mut self, l: u32, r: u32) -> u32 {
        self.small_number(l + 1, r, "graph variables are numbered up to 4294967295")
    }

    pub(crate) fn proj(&mut self, tuple: ExprId, digits: u32, l: u32, r: u32) -> ExprId {
        let index = self.small_number(digits, r, "a tuple has fewer fields");
        self.expr(ExprKind::Proj { tuple, index }, l, r)
    }

    fn small_number(&mut self, l: u32, r: u32, why: &str) -> u32 {
        self.slice(l, r).parse().unwrap_or_else(|_| {
            self.diagnostics.push(
                Diagnostic::error(Code(110), Span::new(l, r), "this number is too large").note(why),
            );
            0
        })
    }

    /// Appends the piece from `l` to `r` to a variable's name that so far ends at `m`; returns the
    /// new end.
    pub(crate) fn variable(&mut self, m: u32, l: u32, r: u32) -> u32 {
        if m != l {
            let d = Diagnostic::error(Code(101), Span::new(l, r), "a name is written in one piece");
            self.diagnostics.push(d);
        }
        r
    }

    /// Builds `meta[key][index]`, or an inline object.
    pub(crate) fn meta(&mut self, l: u32, r: u32) -> ExprId {
        let text = self.slice(l, r);
        if !text.starts_with("meta") {
            let key = Symbol::new(text);
            return self.expr(
                ExprKind::Meta {
                    key,
                    index: VERBATIM,
                },
                l,
                r,
            );
        }
        let mut parts = text.split(['[', ']']).map(str::trim);
        let key = parts.nth(1).unwrap_or("");
        let index = parts.nth(1).unwrap_or("");
        let kind = match index.parse() {
            Ok(index) => ExprKind::Meta {
                key: Symbol::new(key),
                index,
            },
            Err(_) => {
                self.diagnostics.push(
                    Diagnostic::error(
                        Code(110),
                        Span::new(l, r),
                        "this metadata reference has no usable index",
                    )
                    .note("a reference looks like `meta[relay.Constant][0]`"),
                );
                ExprKind::Error
            }
        };
        self.expr(kind, l, r)
    }

    /// Reports a name without a sigil where a variable is bound.
    pub(super) fn missing_sigil(&mut self, l: u32, r: u32, what: &str) {
        let name = self.slice(l, r);
        self.diagnostics.push(
            Diagnostic::error(
                Code(108),
                Span::new(l, r),
                format!("the name of a {what} needs the sigil `%`"),
            )
            .fix(format!("write `%{name}`"), Span::new(l, l), "%"),
        );
    }
}
