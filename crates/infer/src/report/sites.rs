//! Type mismatches, by the site at which they occur.

use relax_base::{Diagnostic, Severity};
use relax_ir::{Expr, ExprId, FuncId, PatId};

use super::Reporter;
use crate::codes;

impl Reporter<'_, '_> {
    /// An argument of a call.
    pub fn argument(&self, call: ExprId, index: u32, f: &str, x: &str) -> Diagnostic {
        let m = self.m;
        let (arg, callee) = match &m.exprs[call] {
            Expr::Call { args, callee, .. } => (m.list(*args)[index as usize], *callee),
            _ => (call, call),
        };
        let name = self.callee_name(callee);
        let d = Diagnostic::error(
            codes::ARG_TYPE,
            self.place_in(arg, call),
            format!(
                "argument {} of {name} must be {x}, but it is {f}",
                index + 1
            ),
        );
        let d = self.explain(d, arg);
        self.explain_parameter(d, callee, index as usize)
    }

    /// The branches of an `if`.
    pub fn branches(&self, e: ExprId, f: &str, x: &str) -> Diagnostic {
        let m = self.m;
        let (then, otherwise) = match &m.exprs[e] {
            Expr::If {
                then, otherwise, ..
            } => (*then, *otherwise),
            _ => (e, e),
        };
        let span = self.place_in(self.tail(otherwise), e);
        let d = Diagnostic::error(
            codes::BRANCHES,
            span,
            format!("the branches of `if` differ: the first gives {x}, the second {f}"),
        );
        let d = self.explain(d, otherwise);
        self.explain(d, then)
    }

    /// The result of a function.
    pub fn result(&self, func: FuncId, f: &str, x: &str) -> Diagnostic {
        let m = self.m;
        let func = &m.funcs[func];
        let body = self.tail(func.body);
        let span = self.place(body);
        // TVM does not check the value of a Relax function against its declared result type.
        let severity = match m.is_script() {
            true => Severity::Warning,
            false => Severity::Error,
        };
        let message = format!("the function's result is annotated as {x}, but its body gives {f}");
        let d = Diagnostic::new(severity, codes::RETURN, span, message);
        self.explain(d, body)
    }

    /// A clause of a match, and those before it.
    pub fn clause(&self, of: ExprId, index: u32, f: &str, x: &str) -> Diagnostic {
        let m = self.m;
        let (body, first) = match &m.exprs[of] {
            Expr::Match { clauses, .. } => (clauses[index as usize].body, clauses[0].body),
            _ => (of, of),
        };
        let d = Diagnostic::error(
            codes::CLAUSES,
            self.place_in(self.tail(body), of),
            format!("this clause gives {f}, but the clauses before it give {x}"),
        );
        let d = self.explain(d, body);
        self.explain(d, first)
    }

    /// A pattern and its scrutinee.
    pub fn pattern(&self, pat: PatId, of: ExprId, f: &str, x: &str) -> Diagnostic {
        let m = self.m;
        let span = self.pattern_place(pat, of);
        let value = match &m.exprs[of] {
            Expr::Match { value, .. } => *value,
            _ => of,
        };
        let d = Diagnostic::error(
            codes::PATTERN_TYPE,
            span,
            format!("this pattern is for {x}, but what it looks at is {f}"),
        )
        .primary(format!("a pattern for {x}"));
        self.explain(d, value)
    }
}
