//! Where things stand in the text, and how messages name them.

use relax_base::Span;
use relax_ir::{Expr, ExprId};

use crate::solver::Solver;
use crate::unknown::NO_EXPR;

impl Solver<'_> {
    /// A place to show for an expression: its own, or that of the first of its parts that has one.
    pub fn place(&self, e: ExprId) -> Span {
        let mut e = e;
        // Only generated nodes have no place; looking a little way down is enough for those.
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

    /// The place of a part of an expression: the part's own where it stands inside the whole (graph
    /// variables are references to nodes that stand elsewhere), the whole's otherwise.
    pub fn place_in(&self, part: ExprId, whole: ExprId) -> Span {
        let (p, w) = (self.span(part), self.place(whole));
        if !p.is_none() && (w.is_none() || w.start <= p.start && p.end <= w.end) {
            p
        } else {
            w
        }
    }

    /// The expression that gives a value: the last one of lets and blocks.
    pub fn tail(&self, e: ExprId) -> ExprId {
        let mut e = e;
        while let Expr::Let { body, .. } | Expr::Dataflow { body, .. } = &self.m.exprs[e] {
            e = *body;
        }
        e
    }

    /// The operator's name.
    pub fn op_name(&self, op: relax_ir::OpId) -> String {
        match self.m.user_op(op) {
            Some(user) => user.name.to_string(),
            None => relax_ops::registry()
                .get(op)
                .map_or("?", |d| d.name)
                .to_string(),
        }
    }

    /// Returns what is called, for messages.
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
