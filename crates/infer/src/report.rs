//! What is said when types do not agree: what is wrong, where, how each side came to its type, and
//! what to do.

use relax_base::{Code, Diagnostic, Severity, Span};
use relax_ir::{Expr, ExprId, RelRef, Type, TypeId, VarStyle};
use relax_ops::{Refusal, Subject};
use relax_sym::Dim;

use crate::codes;
use crate::flags::ERROR;
use crate::relations::RelKind;
use crate::solver::{NO_EXPR, Solver};
use crate::unknown::{Clash, Detail, Site};

mod calls;

impl Solver<'_> {
    /// A place to show for an expression: its own, or that of the first of its parts that has one.
    /// Where an attribute of a call stands, when the text gives it.
    fn attr_place(&self, call: ExprId, name: &str) -> Option<Span> {
        self.m.attr_span(call, name)
    }

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
    fn place_in(&self, part: ExprId, whole: ExprId) -> Span {
        let (p, w) = (self.span(part), self.place(whole));
        if !p.is_none() && (w.is_none() || w.start <= p.start && p.end <= w.end) {
            p
        } else {
            w
        }
    }

    /// The expression that gives a value: the last one of lets and blocks.
    fn tail(&self, e: ExprId) -> ExprId {
        let mut e = e;
        while let Expr::Let { body, .. } | Expr::Dataflow { body, .. } = &self.m.exprs[e] {
            e = *body;
        }
        e
    }

    /// How an expression comes to its type: a place and a sentence.
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

    fn explain(&self, d: Diagnostic, e: ExprId) -> Diagnostic {
        match self.origin(e) {
            Some((span, text)) if span == d.span() && d.labels[0].text.is_empty() => {
                d.primary(text)
            }
            Some((span, text)) if span != d.span() => {
                // What is marked as wrong says its type too, unless another part said it before.
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

    /// Reports that two types do not agree where [`Solver::site`] says.
    pub fn report_clash(&mut self, found: TypeId, expected: TypeId, clash: &Clash) {
        let (found, expected) = (self.resolve(found), self.resolve(expected));
        self.excuse(found);
        self.excuse(expected);
        if (self.flags(found) | self.flags(expected)) & ERROR != 0 {
            return;
        }
        let (f, x) = (self.show_type(found), self.show_type(expected));
        let m = self.m;
        let mut d = match self.site {
            Site::Arg { call, index } => {
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
            Site::Branches(e) => {
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
            Site::Return(func) => {
                let func = &m.funcs[func];
                let body = self.tail(func.body);
                let span = self.place(body);
                // TVM does not hold what a function of Relax gives against what it says that it gives.
                let severity = match m.is_script() {
                    true => Severity::Warning,
                    false => Severity::Error,
                };
                let message =
                    format!("the function's result is annotated as {x}, but its body gives {f}");
                let d = Diagnostic::new(severity, codes::RETURN, span, message);
                self.explain(d, body)
            }
            Site::Clause { of, index } => {
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
            Site::Pattern { pat, of } => {
                let span = self.pattern_place(pat, of);
                let value = match &m.exprs[of] {
                    Expr::Match { value, .. } => *value,
                    _ => of,
                };
                // The clauses of one match that are all for the same other type are one mistake.
                let key = (self.identities(&[value]), format!("pattern {x} {f}"));
                if !self.refusals.insert(key) {
                    return;
                }
                let d = Diagnostic::error(
                    codes::PATTERN_TYPE,
                    span,
                    format!("this pattern is for {x}, but what it looks at is {f}"),
                )
                .primary(format!("a pattern for {x}"));
                self.explain(d, value)
            }
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
        } else if let Some(note) = self.clash_note(found, expected, clash) {
            d = d.note(note);
        }
        self.report(d);
    }

    fn clash_note(&mut self, found: TypeId, expected: TypeId, clash: &Clash) -> Option<String> {
        let inner = self.resolve(clash.found) != found || self.resolve(clash.expected) != expected;
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

    /// For two dimensions that differ in all but empty tensors: where they do not.
    pub fn unless_empty(&self, a: &Dim, b: &Dim) -> String {
        if !self.only_empty(a, b) {
            return String::new();
        }
        let mut vars: Vec<_> = [a.free_vars(), b.free_vars()].concat();
        vars.sort_unstable();
        vars.dedup();
        let names: Vec<String> = vars.iter().map(|v| self.dim_name(*v)).collect();
        match &names[..] {
            [one] => format!(", unless {one} is 0"),
            several => format!(", unless one of {} is 0", several.join(", ")),
        }
    }

    /// What is called, for messages.
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
        for t in args.iter().chain([&out]) {
            let t = self.resolve(*t);
            if self.flags(t) & ERROR != 0 {
                let error = self.error;
                let _ = self.unify(out, error);
                return;
            }
        }
        let list: &[ExprId] = match self.m.exprs.get(call) {
            Some(Expr::Call { args, .. }) => self.m.list(*args),
            Some(Expr::Proj { tuple, .. }) => std::slice::from_ref(tuple),
            _ => &[],
        };
        // The same operands refused again, or the same one for the same reason, are one mistake.
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
                let error = self.error;
                let _ = self.unify(out, error);
                return;
            }
        }
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
            Subject::Attr(name) => self.attr_place(call, name).unwrap_or(self.place(call)),
            _ => self.place(call),
        };
        let mut d = Diagnostic::error(code, span, refusal.message.clone());
        match refusal.subject {
            Subject::Arg(i) if i < list.len() => {
                d = self.explain(d, list[i]);
                // Of a tuple, how its fields came to their types.
                if let Expr::Tuple(fields) = self.m.exprs[list[i]] {
                    for &field in self.m.list(fields).iter().take(4) {
                        d = self.explain_operand(d, field);
                    }
                }
            }
            _ => {
                // Constants and results alike: each operand says how it came to its type.
                for &a in list.iter().take(4) {
                    d = self.explain(d, a);
                }
            }
        }
        if d.labels[0].text.is_empty()
            && let (RelKind::Op(..), Some(Expr::Call { callee, .. })) =
                (kind, self.m.exprs.get(call))
        {
            // An attribute that is refused has the primary label itself.
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
        self.report(d);
        let error = self.error;
        let out = self.head(out);
        if let Type::Infer(_) = self.types[out] {
            let _ = self.unify(out, error);
        }
    }

    /// Where a variable that is part of what is refused comes from.
    fn explain_operand(&self, d: Diagnostic, e: ExprId) -> Diagnostic {
        match (&self.m.exprs[self.tail(e)], self.origin(e)) {
            (Expr::Var(_), Some((span, text))) if d.labels.iter().all(|l| l.span != span) => {
                d.label(span, text)
            }
            _ => d,
        }
    }

    /// Who asks for a relation, where the operator itself does not; and what to write where an
    /// operator is applied to type parameters.
    fn explain_relation(
        &mut self,
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
        let rigid = |s: &mut Self, t: TypeId| {
            let t = s.resolve(t);
            matches!(s.types[t], Type::Param(_))
        };
        match self.rel_ref(kind) {
            Some(RelRef::Builtin(name)) if args.iter().any(|&t| rigid(self, t)) => d.note(format!(
                "of a type parameter nothing is known but what the signature says: \
                 `where {name}(…, result)`"
            )),
            _ => d,
        }
    }

    /// What expressions are, whichever way they are referred to: variables by the variable.
    fn identities(&self, list: &[ExprId]) -> Vec<(bool, u32)> {
        let of = |&e: &ExprId| match self.m.exprs[e] {
            Expr::Var(v) => (true, v.0),
            _ => (false, e.0),
        };
        list.iter().map(of).collect()
    }

    /// Says once that the types of the program are too large.
    pub fn report_fuel(&mut self, e: ExprId) {
        if std::mem::replace(&mut self.exhausted, true) {
            return;
        }
        let d = Diagnostic::error(
            codes::TOO_LARGE,
            self.place(e),
            "the types of this program grow beyond what can be checked",
        )
        .note("annotate the parameters of functions that are used at many types");
        self.report(d);
    }

    /// The reason why a type holds a shape that no tensor can have.
    fn bad_shape_reason(&mut self, ty: TypeId) -> String {
        let ty = self.resolve(ty);
        let mut stack = vec![ty];
        let mut seen = rustc_hash::FxHashSet::default();
        while let Some(t) = stack.pop() {
            if !seen.insert(t) || self.flags(t) & crate::flags::BAD_SHAPE == 0 {
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

    pub fn report_bad_shape(&mut self, e: ExprId, ty: TypeId) {
        let reason = self.bad_shape_reason(ty);
        let d = Diagnostic::error(codes::BAD_SHAPE, self.place(e), reason);
        self.report(d);
    }

    pub fn report_bad_annotation(&mut self, span: Span, ty: TypeId) {
        let reason = self.bad_shape_reason(ty);
        self.report(Diagnostic::error(codes::BAD_SHAPE, span, reason));
    }
}
