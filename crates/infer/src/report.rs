//! Diagnostics of type mismatches: the error, its location, the origin of each type, and
//! suggestions.

use std::ops::Deref;

use relax_base::{Code, Diagnostic, Span};
use relax_ir::{Expr, ExprId, RelRef, Type, TypeId, VarStyle};
use relax_ops::{Refusal, Subject};

use crate::codes;
use crate::flags::BAD_SHAPE;
use crate::queue::RelKind;
use crate::solver::Solver;
use crate::unknown::{Clash, Detail, Site};

mod calls;
mod open;
mod sites;

/// Creates diagnostics; changes nothing.
pub(crate) struct Reporter<'s, 'm>(&'s Solver<'m>);

impl<'m> Deref for Reporter<'_, 'm> {
    type Target = Solver<'m>;
    fn deref(&self) -> &Solver<'m> {
        self.0
    }
}

impl<'s, 'm> Reporter<'s, 'm> {
    pub fn new(solver: &'s Solver<'m>) -> Self {
        Reporter(solver)
    }

    /// Returns the origin of an expression's type: a location and a sentence.
    fn origin(&self, e: ExprId) -> Option<(Span, String)> {
        let e = self.tail(e);
        let ty = self.show_type(self.type_of(e));
        let (span, text) = match &self.m.exprs[e] {
            Expr::Var(v) => {
                let var = &self.m.vars[*v];
                let how = match (var.ty.is_some(), var.style) {
                    (true, _) => "is declared as",
                    (false, VarStyle::Param | VarStyle::Free) => "is used as",
                    (false, _) => "is bound to",
                };
                (var.span, format!("`%{}` {how} {ty}", var.name))
            }
            Expr::Const(_) => (self.span(e), format!("this constant is {ty}")),
            Expr::Call { callee, .. } => {
                let name = match &self.m.exprs[*callee] {
                    Expr::Op(op) => self.op_name(*op),
                    Expr::Global(g) => format!("@{}", self.m.globals[*g].name),
                    Expr::Ctor(c) => self.m.ctors[*c].name.to_string(),
                    Expr::Var(v) => format!("%{}", self.m.vars[*v].name),
                    Expr::Extern(name) => name.to_string(),
                    _ => "this call".into(),
                };
                (self.span(e), format!("`{name}` gives {ty} here"))
            }
            _ => (self.place(e), format!("this is {ty}")),
        };
        (!span.is_none()).then_some((span, text))
    }

    fn explain(&self, d: Diagnostic, e: ExprId) -> Diagnostic {
        match self.origin(e) {
            Some((span, text)) if span == d.span() && d.labels[0].text.is_empty() => {
                d.primary(text)
            }
            Some((span, text)) if span != d.span() => {
                // The marked expression shows its own type, unless another label already does.
                let own = self.place(self.tail(e)) == d.span() && d.labels[0].text.is_empty();
                let ty = own.then(|| self.show_type(self.type_of(e)));
                let d = match ty {
                    Some(ty) => d.primary(format!("this is {ty}")),
                    None => d,
                };
                d.label(span, text)
            }
            _ => d,
        }
    }

    /// A mismatch at the solver's current site. With `inner`, the mismatch is in components of the
    /// types.
    pub fn clash(&self, found: TypeId, expected: TypeId, clash: &Clash, inner: bool) -> Diagnostic {
        let (f, x) = (self.show_type(found), self.show_type(expected));
        let m = self.m;
        let mut d = match self.site {
            Site::Arg { call, index } => self.argument(call, index, &f, &x),
            Site::Callee(call) => Diagnostic::error(
                codes::NOT_FUNCTION,
                self.place(call),
                format!("what is called here is {f}, but the call asks for {x}"),
            ),
            Site::Bound { var, value } => {
                let v = &m.vars[var];
                let d = Diagnostic::error(
                    codes::ANNOTATION,
                    self.place(value),
                    format!("`%{}` is annotated as {x}, but its value is {f}", v.name),
                );
                let d = self.explain(d, value);
                if v.span.is_none() || v.span == d.span() {
                    d
                } else {
                    d.label(v.span, format!("annotated as {x} here"))
                }
            }
            Site::Cond(e) => {
                let cond = match &m.exprs[e] {
                    Expr::If { cond, .. } => *cond,
                    _ => e,
                };
                let d = Diagnostic::error(
                    codes::GUARD,
                    self.place_in(cond, e),
                    format!("the guard of `if` must be bool, but it is {f}"),
                );
                let d = self.explain(d, cond);
                match &self.types[found] {
                    Type::Tensor(t) if t.dtype.known().is_some_and(|d| d.is_bool()) => {
                        d.note("`if` takes one truth value: reduce the tensor with `all` or `any`")
                    }
                    _ => d,
                }
            }
            Site::Branches(e) => self.branches(e, &f, &x),
            Site::Return(func) => self.result(func, &f, &x),
            Site::Clause { of, index } => self.clause(of, index, &f, &x),
            Site::Pattern { pat, of } => self.pattern(pat, of, &f, &x),
            Site::Cell(e) => {
                let d = Diagnostic::error(
                    codes::CELL,
                    self.place(e),
                    match m.exprs[e] {
                        Expr::RefWrite(..) if !matches!(self.types[expected], Type::Ref(_)) => {
                            format!("the reference holds {x}, but {f} is written to it")
                        }
                        _ => format!("a reference is needed here, but this is {f}"),
                    },
                );
                match m.exprs[e] {
                    Expr::RefWrite(cell, value) => {
                        let d = self.explain(d, value);
                        self.explain(d, cell)
                    }
                    Expr::RefRead(cell) => self.explain(d, cell),
                    _ => d,
                }
            }
            Site::Match(e) => Diagnostic::error(
                codes::CAST,
                self.place(e),
                format!("the value is {f} and can never be {x}"),
            ),
            Site::Rel(e) => Diagnostic::error(
                codes::OPERATOR,
                self.place(e),
                format!("{f} and {x} do not agree"),
            ),
            Site::None => Diagnostic::error(codes::ARG_TYPE, Span::NONE, format!("{f} is not {x}")),
        };
        if clash.detail == Detail::Infinite {
            d.code = codes::INFINITE;
            d.message = "the type of this would have to contain itself".into();
            d = d.note(
                "no function is its own argument and no tuple its own part; only data types, \
                 defined by `type`, may refer to themselves",
            );
        } else if let Some(note) = self.clash_note(clash, inner) {
            d = d.note(note);
        }
        d
    }

    fn clash_note(&self, clash: &Clash, inner: bool) -> Option<String> {
        let parts = || {
            format!(
                "{} against {}",
                self.show_type(clash.found),
                self.show_type(clash.expected)
            )
        };
        let at = if inner {
            format!(" ({})", parts())
        } else {
            String::new()
        };
        Some(match &clash.detail {
            Detail::Form if inner => format!("the parts that differ: {}", parts()),
            Detail::Form => return None,
            Detail::Rank(a, b) => format!("the ranks differ: {a} and {b}{at}"),
            Detail::Dim(axis, a, b) => {
                let unless = self.unless_empty(a, b);
                let (a, b) = (self.show_extent(a), self.show_extent(b));
                format!("dimension {axis} differs: {a} and {b}{unless}{at}")
            }
            Detail::DType(a, b) => {
                let (a, b) = (self.show_dtype(*a), self.show_dtype(*b));
                format!("the element types differ: {a} and {b}{at}")
            }
            Detail::Count(a, b) => format!("{a} parts against {b}{at}"),
            Detail::Infinite => return None,
            Detail::Shape => format!("the shapes differ{at}"),
        })
    }

    fn explain_parameter(&self, d: Diagnostic, callee: ExprId, index: usize) -> Diagnostic {
        match &self.m.exprs[callee] {
            Expr::Global(g) => {
                let Some(f) = self.m.global_func(*g) else {
                    return d;
                };
                match self.m.funcs[f].params.get(index) {
                    Some(&p) if !self.m.vars[p].span.is_none() => {
                        let var = &self.m.vars[p];
                        d.label(
                            var.span,
                            format!("the parameter `%{}` is declared here", var.name),
                        )
                    }
                    _ => d,
                }
            }
            Expr::Ctor(c) if !self.m.ctors[*c].span.is_none() => {
                let ctor = &self.m.ctors[*c];
                d.label(ctor.span, format!("`{}` is declared here", ctor.name))
            }
            _ => d,
        }
    }

    /// A relation that does not hold of a call's arguments, with the origin of these.
    pub fn refusal(
        &self,
        kind: &RelKind,
        args: &[TypeId],
        call: ExprId,
        refusal: &Refusal,
        list: &[ExprId],
    ) -> Diagnostic {
        let by_function = !matches!(kind, RelKind::Op(..) | RelKind::Proj(_));
        let code: Code = match (kind, &refusal.subject) {
            (RelKind::Proj(_), _) => codes::FIELD,
            (RelKind::Instance(_), _) => codes::INCOMPLETE,
            _ if by_function => codes::CONSTRAINT,
            (_, Subject::Attr(_)) => codes::ATTRIBUTE,
            _ => codes::OPERATOR,
        };
        let span = match refusal.subject {
            Subject::Arg(i) if i < list.len() => self.place_in(list[i], call),
            Subject::Attr(name) => self.m.attr_span(call, name).unwrap_or(self.place(call)),
            _ => self.place(call),
        };
        let mut d = Diagnostic::error(code, span, refusal.message.clone());
        match refusal.subject {
            Subject::Arg(i) if i < list.len() => {
                d = self.explain(d, list[i]);
                // The fields of a tuple are explained too.
                if let Expr::Tuple(fields) = self.m.exprs[list[i]] {
                    for &field in self.m.list(fields).iter().take(4) {
                        d = self.explain_operand(d, field);
                    }
                }
            }
            _ => {
                // Every operand is explained, whether constant or computed.
                for &a in list.iter().take(4) {
                    d = self.explain(d, a);
                }
            }
        }
        if d.labels[0].text.is_empty()
            && let (RelKind::Op(..), Some(Expr::Call { callee, .. })) =
                (kind, self.m.exprs.get(call))
        {
            // A refused attribute has the primary label itself.
            let whole = span == self.place(call);
            let place = if whole {
                "in this"
            } else {
                "asked for in this"
            };
            d = d.primary(format!("{place} call of {}", self.callee_name(*callee)));
        }
        d = self.explain_relation(d, kind, args, call);
        d.notes.extend(refusal.notes.iter().cloned());
        d
    }

    /// Adds the origin of a variable that is part of the refused operand.
    fn explain_operand(&self, d: Diagnostic, e: ExprId) -> Diagnostic {
        match (&self.m.exprs[self.tail(e)], self.origin(e)) {
            (Expr::Var(_), Some((span, text))) if d.labels.iter().all(|l| l.span != span) => {
                d.label(span, text)
            }
            _ => d,
        }
    }

    /// Adds the signature that requires a relation, if not the operator itself does; and the
    /// constraint to write if an operator is applied to type parameters.
    fn explain_relation(
        &self,
        d: Diagnostic,
        kind: &RelKind,
        args: &[TypeId],
        call: ExprId,
    ) -> Diagnostic {
        let Some(&Expr::Call { callee, .. }) = self.m.exprs.get(call) else {
            return d;
        };
        if !matches!(kind, RelKind::Op(..) | RelKind::Proj(_)) {
            if let Expr::Global(g) = self.m.exprs[callee] {
                let (span, name) = (self.m.globals[g].span, self.m.globals[g].name);
                let text = match kind {
                    RelKind::DimEq(..) => format!("the signature of `@{name}` relates extents"),
                    _ => format!("`@{name}` asks for `{}` here", self.relation_text(kind)),
                };
                if !span.is_none() {
                    return d.label(span, text);
                }
            }
            return d;
        }
        let rigid = |t: &TypeId| matches!(self.types[self.head(*t)], Type::Param(_));
        match self.rel_ref(kind) {
            Some(RelRef::Builtin(name)) if args.iter().any(rigid) => d.note(format!(
                "of a type parameter nothing is known but what the signature says: \
                 `where {name}(…, result)`"
            )),
            _ => d,
        }
    }

    /// Types that grow too large.
    pub fn fuel(&self, e: ExprId) -> Diagnostic {
        Diagnostic::error(
            codes::TOO_LARGE,
            self.place(e),
            "the types of this program grow beyond what can be checked",
        )
        .note("annotate the parameters of functions that are used at many types")
    }

    /// Returns the reason why a resolved type contains an impossible shape.
    pub fn bad_shape_reason(&self, ty: TypeId) -> String {
        let mut stack = vec![ty];
        let mut seen = rustc_hash::FxHashSet::default();
        while let Some(t) = stack.pop() {
            if !seen.insert(t) || self.flags.known(t) & BAD_SHAPE == 0 {
                continue;
            }
            if let Type::Tensor(tensor) = &self.types[t] {
                for d in tensor.shape.dims().unwrap_or_default() {
                    if let Some(error) = d.error() {
                        return error.to_string();
                    }
                    if let Some(n) = d.as_const().filter(|&n| n < 0) {
                        return format!("the dimension {n} is negative");
                    }
                }
                return format!(
                    "{} would have more than 2^63 - 1 elements",
                    self.show_type(t)
                );
            }
            stack.extend(self.types.children(t));
        }
        "the shape is impossible".into()
    }
}
