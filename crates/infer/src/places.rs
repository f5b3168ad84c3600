//! Source locations, and names of expressions in messages.

use relax_base::Span;
use relax_ir::{Expr, ExprId};

use crate::solver::Solver;
use crate::unknown::NO_EXPR;

impl Solver<'_> {
    /// Returns a location for an expression: its own, or that of its first child that has one.
    pub fn place(&self, e: ExprId) -> Span {
        let mut e = e;
        // Only generated nodes have no location; a bounded descent is enough for those.
        for _ in 0..64 {
            let span = self.span(e);
            if !span.is_none() || e == NO_EXPR {
                return span;
            }
            e = match &self.m.exprs[e] {
                Expr::Let { body, .. } | Expr::Dataflow { body, .. } => *body,
                Expr::Call { args, .. } => match self.m.list(*args).first() {
                    Some(&a) => a,
                    None => return span,
                },
                Expr::Proj { tuple, .. } => *tuple,
                Expr::Func(f) => return self.m.funcs[*f].span,
                Expr::Var(v) => return self.m.vars[*v].span,
                _ => return span,
            };
        }
        Span::NONE
    }

    /// Returns the location of a part of an expression: the part's own if it lies inside the whole,
    /// otherwise the whole's. (Graph variables are references to nodes located elsewhere.)
    pub fn place_in(&self, part: ExprId, whole: ExprId) -> Span {
        let (p, w) = (self.span(part), self.place(whole));
        if !p.is_none() && (w.is_none() || w.start <= p.start && p.end <= w.end) {
            p
        } else {
            w
        }
    }

    /// Returns the expression that yields a value: the body of the innermost let or block.
    pub fn tail(&self, e: ExprId) -> ExprId {
        let mut e = e;
        while let Expr::Let { body, .. } | Expr::Dataflow { body, .. } = &self.m.exprs[e] {
            e = *body;
        }
        e
    }

    /// Returns the operator's name.
    pub fn op_name(&self, op: relax_ir::OpId) -> String {
        match self.m.user_op(op) {
            Some(user) => user.name.to_string(),
            None => relax_ops::registry()
                .get(op)
                .map_or("?", |d| d.name)
                .to_string(),
        }
    }

    /// Returns a description of the callee, for messages.
    pub fn callee_name(&self, callee: ExprId) -> String {
        match &self.m.exprs[callee] {
            Expr::Global(g) => format!("`@{}`", self.m.globals[*g].name),
            Expr::Var(v) => format!("`%{}`", self.m.vars[*v].name),
            Expr::Ctor(c) => format!("`{}`", self.m.ctors[*c].name),
            Expr::Op(op) => format!("`{}`", self.op_name(*op)),
            Expr::Extern(name) => format!("`{name}`"),
            _ => "the function".into(),
        }
    }
}
