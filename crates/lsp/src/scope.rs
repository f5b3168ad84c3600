//! The bindings in scope at a position, for completion: derived from the nesting of the tree, so
//! that incomplete lines in between do no harm.

use relax_base::Span;
use relax_resolve::names::Name;
use relax_syntax::ast::{ExprKind, StmtKind};

use crate::unit::Unit;

/// The scopes of a unit as seen from a position.
pub struct Scopes {
    pos: u32,
    /// Scopes that do not contain the position: bindings in them are invisible.
    closed: Vec<Span>,
    /// Values that contain the position: their own binder is not in scope yet.
    within: Vec<Span>,
    /// Outputs of dataflow blocks, with the blocks.
    outputs: Vec<(Span, Span)>,
}

impl Scopes {
    /// Computes the scopes visible from a position of a unit.
    pub fn at(unit: &Unit, pos: u32) -> Scopes {
        let ast = &unit.ast;
        let own = unit.range();
        let mut closed: Vec<Span> = Vec::new();
        let mut add = |s: Span| {
            if !(s.start <= pos && pos <= s.end) && own.start <= s.start && s.end <= own.end {
                closed.push(s);
            }
        };
        for f in ast.functions.values() {
            add(f.header.to(ast.exprs[f.body].span));
        }
        for e in ast.exprs.values() {
            if let ExprKind::Block { .. } = e.kind {
                add(e.span);
            }
        }
        for c in ast.clauses.values() {
            add(c.span);
        }
        let mut within = Vec::new();
        let mut outputs = Vec::new();
        for s in ast.stmts.values() {
            match s.kind {
                StmtKind::For { .. } | StmtKind::While { .. } => add(s.span),
                StmtKind::Dataflow(body) => {
                    let body = ast.exprs[body].span;
                    let inside = |n: &&Name| body.start <= n.span.start && n.span.end <= body.end;
                    let listed = ast.stmts.values().filter(|s| {
                        matches!(s.kind, StmtKind::Output(_)) && body.touches(s.span.start)
                    });
                    for list in listed {
                        let out = unit.names.iter().filter(inside);
                        let out = out.filter(|n| list.span.touches(n.span.start));
                        outputs.extend(out.filter_map(|n| Some((n.binding?, body))));
                    }
                }
                StmtKind::Let { value, .. } | StmtKind::Bind { value, .. }
                    if s.span.start <= pos
                        && pos < s.span.end
                        && !matches!(ast.exprs[value].kind, ExprKind::Fn(_)) =>
                {
                    within.push(Span::new(s.span.start, ast.exprs[value].span.start));
                }
                _ => {}
            }
        }
        // Items other than functions, including prim_funcs and ops.
        for i in &ast.items {
            add(i.span);
        }
        Scopes {
            pos,
            closed,
            within,
            outputs,
        }
    }

    /// Returns whether a binding is in scope.
    pub fn sees(&self, binding: Span) -> bool {
        let inside = |s: &Span| {
            s.start <= binding.start
                && binding.end <= s.end
                && !self.outputs.contains(&(binding, *s))
        };
        binding.end < self.pos && !self.closed.iter().any(inside) && !self.within.iter().any(inside)
    }
}
