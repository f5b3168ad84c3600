//! What remains undetermined at the end: waiting relations, dimensions, types.

use relax_base::Diagnostic;
use relax_ir::{Expr, ExprId, TypeId, VarId};
use relax_sym::{Dim, DimVar};

use super::Reporter;
use crate::codes;
use crate::queue::{Rel, RelKind};
use crate::unifier::OpenCheck;

impl Reporter<'_, '_> {
    /// A relation that can never run, because of the argument at `culprit` if there is one to
    /// blame.
    pub fn waiting(&self, rel: &Rel, culprit: Option<usize>) -> Diagnostic {
        if let RelKind::DimEq(a, b) = &rel.kind {
            let (a, b) = (self.show_extent(a), self.show_extent(b));
            return Diagnostic::error(
                codes::UNSOLVED_DIM,
                self.place(rel.call),
                format!("the call does not determine the dimensions: {a} must be {b}"),
            );
        }
        let name = self.relation_text(&rel.kind);
        let args: &[ExprId] = match self.m.exprs.get(rel.call) {
            Some(Expr::Call { args, .. }) => self.m.list(*args),
            Some(Expr::Proj { tuple, .. }) => std::slice::from_ref(tuple),
            _ => &[],
        };
        let mut d = Diagnostic::error(
            codes::INCOMPLETE,
            self.place(rel.call),
            format!("the type of `{name}` is not determined here"),
        );
        if let Some(i) = culprit {
            let text = self.show_type(rel.args[i]);
            d = match args.get(i).map(|&a| (&self.m.exprs[a], a)) {
                Some((Expr::Var(v), _)) => {
                    let var = &self.m.vars[*v];
                    d.label(
                        var.span,
                        format!("all that is known of `%{}` is {text}", var.name),
                    )
                    .suggest(
                        format!("annotate `%{}`", var.name),
                        var.span.at_end(),
                        ": Tensor[(…), float32]",
                    )
                }
                Some((_, a)) if !self.place(a).is_none() => d.label(
                    self.place(a),
                    format!("all that is known of this is {text}"),
                ),
                _ => d.note(format!("all that is known of argument {} is {text}", i + 1)),
            };
        }
        d
    }

    /// A dimension of a result that only the body determines; `None` if the text does not name it.
    pub fn free_result(&self, c: &OpenCheck, v: DimVar, is: &Dim) -> Option<Diagnostic> {
        let info = self.m.dims.get(v).filter(|i| !i.span.is_none())?;
        let (name, is) = (info.name, self.show_extent(is));
        let message = format!("no argument determines `{name}`, a dimension of the result");
        let severity = match self.opts.strict_shapes {
            true => relax_base::Severity::Error,
            false => relax_base::Severity::Warning,
        };
        let d = Diagnostic::new(severity, codes::FREE_RESULT, info.span, message)
            .primary("callers know nothing about it")
            .label(self.place(c.at), format!("here it is {is}"))
            .note(format!(
                "it is whatever the body gives, and nothing is checked: write {is}, or `?` where only a run tells"
            ));
        Some(d)
    }

    /// An equality that is neither proven nor refuted.
    pub fn undecided(&self, c: &OpenCheck, a: &Dim, b: &Dim) -> Diagnostic {
        let (x, y) = (self.show_extent(a), self.show_extent(b));
        let message = if c.or_one {
            format!("{x} and {y} must be equal, or one of them 1, which is not known here")
        } else {
            format!("{x} and {y} must be equal, which is not known here")
        };
        let span = self.place(c.at);
        let mut d = if self.opts.strict_shapes {
            Diagnostic::error(codes::UNDECIDED, span, message)
        } else {
            Diagnostic::warning(codes::UNDECIDED, span, message)
                .note("the compiled program checks it each time it comes here")
        };
        if !c.rule.is_empty() && !c.or_one {
            d = d.note(c.rule.clone());
        }
        let mut shown = None;
        for dim in [a, b] {
            for v in dim.free_vars() {
                if shown.replace(v) == Some(v) {
                    continue;
                }
                if let Some(info) = self.m.dims.get(v).filter(|i| !i.span.is_none()) {
                    d = d.label(info.span, format!("`{}` is bound here", info.name));
                }
            }
        }
        d
    }

    /// A variable whose type is not fully determined.
    pub fn open_variable(&self, v: VarId, t: TypeId) -> Diagnostic {
        let var = &self.m.vars[v];
        let text = self.show_type(t);
        Diagnostic::error(
            codes::INCOMPLETE,
            var.span,
            format!("the type of `%{}` is not determined", var.name),
        )
        .primary(format!("all that is known of it is {text}"))
        .suggest(
            format!("annotate `%{}`", var.name),
            var.span.at_end(),
            ": Tensor[(…), float32]",
        )
    }

    /// An expression whose type is not fully determined.
    pub fn open_expression(&self, e: ExprId, t: TypeId) -> Diagnostic {
        let text = self.show_type(t);
        Diagnostic::error(
            codes::INCOMPLETE,
            self.place(e),
            format!("the type of this is not determined: all that is known is {text}"),
        )
        .note("bind it to an annotated variable: `let %x: T = …;`")
    }
}
