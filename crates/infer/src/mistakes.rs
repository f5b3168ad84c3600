//! Error reporting without cascades: an error is reported once, and what depends on it is not
//! checked.

use relax_base::{Diagnostic, Span};
use relax_ir::{Expr, ExprId, Type, TypeId};
use relax_ops::{Refusal, Subject};

use crate::codes;
use crate::flags::ERROR;
use crate::queue::RelKind;
use crate::report::Reporter;
use crate::solver::Solver;
use crate::unknown::{Clash, Site};

impl<'m> Solver<'m> {
    /// Reports a diagnostic of the reporter.
    pub fn say(&mut self, what: impl FnOnce(Reporter<'_, 'm>) -> Diagnostic) {
        let d = what(Reporter::new(self));
        self.report(d);
    }

    /// Reports a type mismatch at [`crate::unifier::Unifier::site`].
    pub fn report_clash(&mut self, found: TypeId, expected: TypeId, clash: &Clash) {
        let (found, expected) = (self.resolve(found), self.resolve(expected));
        self.excuse(found);
        self.excuse(expected);
        if (self.flags(found) | self.flags(expected)) & ERROR != 0 {
            return;
        }
        if let Site::Pattern { of, .. } = self.site {
            let value = match &self.m.exprs[of] {
                Expr::Match { value, .. } => *value,
                _ => of,
            };
            // Clauses of one match that all expect the same wrong type are one error.
            let (f, x) = (self.show_type(found), self.show_type(expected));
            let key = (self.identities(&[value]), format!("pattern {x} {f}"));
            if !self.refusals.insert(key) {
                return;
            }
        }
        let inner = self.resolve(clash.found) != found || self.resolve(clash.expected) != expected;
        self.say(|r| r.clash(found, expected, clash, inner));
    }

    /// Reports that a relation cannot hold, and poisons its result.
    pub fn refused(
        &mut self,
        kind: &RelKind,
        args: &[TypeId],
        out: TypeId,
        call: ExprId,
        refusal: &Refusal,
    ) {
        for t in args.iter().chain([&out]) {
            self.excuse(*t);
        }
        let error = self.error;
        for t in args.iter().chain([&out]) {
            let t = self.resolve(*t);
            if self.flags(t) & ERROR != 0 {
                let _ = self.unify(out, error);
                return;
            }
        }
        let m = self.m;
        let list: &[ExprId] = match m.exprs.get(call) {
            Some(Expr::Call { args, .. }) => m.list(*args),
            Some(Expr::Proj { tuple, .. }) => std::slice::from_ref(tuple),
            _ => &[],
        };
        // Repeated refusals of the same operands, or of one operand for the same reason, are one
        // error.
        let blamed = match refusal.subject {
            Subject::Arg(i) if i < list.len() => &list[i..=i],
            _ => list,
        };
        let reason = match refusal.subject {
            Subject::Arg(_) => refusal.message.clone(),
            _ => String::new(),
        };
        if !blamed.is_empty() && !matches!(refusal.subject, Subject::Attr(_)) {
            let key = (self.identities(blamed), reason);
            if !self.refusals.insert(key) {
                let _ = self.unify(out, error);
                return;
            }
        }
        self.say(|r| r.refusal(kind, args, call, refusal, list));
        let out = self.head(out);
        if let Type::Infer(_) = self.types[out] {
            let _ = self.unify(out, error);
        }
    }

    /// Returns the identities of expressions: a variable is identified by itself, not by the
    /// reference.
    fn identities(&self, list: &[ExprId]) -> Vec<(bool, u32)> {
        let of = |&e: &ExprId| match self.m.exprs[e] {
            Expr::Var(v) => (true, v.0),
            _ => (false, e.0),
        };
        list.iter().map(of).collect()
    }

    /// Reports, once, that the types of the program are too large.
    pub fn report_fuel(&mut self, e: ExprId) {
        if !std::mem::replace(&mut self.exhausted, true) {
            self.say(|r| r.fuel(e));
        }
    }

    /// Reports that an expression has an impossible shape.
    pub fn report_bad_shape(&mut self, e: ExprId, ty: TypeId) {
        let place = self.place(e);
        self.report_bad_annotation(place, ty);
    }

    /// Reports an annotation with an impossible shape.
    pub fn report_bad_annotation(&mut self, span: Span, ty: TypeId) {
        let ty = self.resolve(ty);
        // The flags of its components are computed with its own.
        self.flags(ty);
        self.say(|r| Diagnostic::error(codes::BAD_SHAPE, span, r.bad_shape_reason(ty)));
    }
}
