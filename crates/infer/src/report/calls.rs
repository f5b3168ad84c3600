//! Invalid calls: of something that is not a function, or with the wrong number of arguments.

use relax_base::Diagnostic;
use relax_ir::{Expr, ExprId, GlobalId, Kind, TypeId};

use super::Reporter;
use crate::codes;

impl Reporter<'_, '_> {
    pub fn not_function(&self, e: ExprId, ty: TypeId) -> Diagnostic {
        let callee = match &self.m.exprs[e] {
            Expr::Call { callee, .. } => *callee,
            _ => e,
        };
        let ty = self.show_type(ty);
        let d = Diagnostic::error(
            codes::NOT_FUNCTION,
            self.place_in(callee, e),
            format!("only functions can be called, and this is {ty}"),
        );
        self.explain(d, callee)
    }
    pub fn prim_call(&self, e: ExprId, g: GlobalId) -> Diagnostic {
        let name = self.m.globals[g].name;
        Diagnostic::error(
            codes::PROGRAM_CALL,
            self.place(e),
            format!("`@{name}` is a tensor program, which writes to buffers that it is given"),
        )
        .primary("called like a function")
        .label(self.m.globals[g].span, "defined here")
        .note(format!(
            "call it with `call_tir(@{name}, (…,), shape(…), dtype=float32)`"
        ))
    }
    pub fn arg_count(&self, e: ExprId, want: usize, found: usize) -> Diagnostic {
        let callee = match &self.m.exprs[e] {
            Expr::Call { callee, .. } => *callee,
            _ => e,
        };
        let name = self.callee_name(callee);
        let s = if want == 1 { "" } else { "s" };
        let are = if found == 1 { "is" } else { "are" };
        let mut d = Diagnostic::error(
            codes::ARG_COUNT,
            self.place(e),
            format!("{name} takes {want} argument{s}, but {found} {are} given"),
        )
        .primary(match found < want {
            true => format!("{} missing", want - found),
            false => format!("{} too many", found - want),
        });
        let defined = match &self.m.exprs[callee] {
            Expr::Global(g) => Some((self.m.globals[*g].span, "defined here")),
            Expr::Ctor(c) => Some((self.m.ctors[*c].span, "declared here")),
            Expr::Var(v) => Some((self.m.vars[*v].span, "bound here")),
            _ => None,
        };
        if let Some((span, text)) = defined.filter(|p| !p.0.is_none()) {
            d = d.label(span, text);
        }
        d
    }
    pub fn type_arg_count(&self, e: ExprId, found: usize, want: usize) -> Diagnostic {
        let s = if found == 1 { "" } else { "s" };
        let takes = match want {
            0 => "none".to_string(),
            n => n.to_string(),
        };
        let d = Diagnostic::error(
            codes::TYPE_ARGS,
            self.place(e),
            format!("{found} type argument{s} are given, but the function takes {takes}"),
        );
        self.label_callee(d, e)
    }
    /// A type argument of another kind than its parameter.
    pub fn type_arg_kind(&self, e: ExprId, index: usize, given: TypeId, kind: Kind) -> Diagnostic {
        let wanted = match kind {
            Kind::Shape => "a shape, `(…)`",
            Kind::BaseType => "an element type",
            Kind::ShapeVar => "a dimension, `(n,)`",
            Kind::Type => "a type",
        };
        let text = self.show_type(given);
        let d = Diagnostic::error(
            codes::TYPE_ARGS,
            self.place(e),
            format!("type argument {} must be {wanted}, not {text}", index + 1),
        )
        .primary("a type argument of another kind");
        self.label_callee(d, e)
    }
    /// Labels the definition of a call's function.
    fn label_callee(&self, d: Diagnostic, call: ExprId) -> Diagnostic {
        let Some(&Expr::Call { callee, .. }) = self.m.exprs.get(call) else {
            return d;
        };
        match self.m.exprs[callee] {
            Expr::Global(g) if !self.m.globals[g].span.is_none() => {
                d.label(self.m.globals[g].span, "defined here")
            }
            _ => d,
        }
    }
}
