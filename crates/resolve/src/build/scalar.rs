//! Resolution of scalar expressions in tensor programs.
//!
//! Numbers without a suffix and attributes adapt to the element type of the other operand; operands
//! of different types are an error, never converted implicitly.

use relax_base::{Diagnostic, Span, Symbol};
use relax_loops::{Buf, Ex, ExKind};
use relax_syntax::ast::{self, ExprKind, NumSuffix};
use relax_tensor::DType;

use super::Resolver;
use super::literal::suffix_dtype;
use super::pattern::count;
use super::program_cx::{Named, ProgramCx};
use crate::codes;

/// A value whose element type may still be adapted.
#[derive(Clone)]
pub(super) enum Val {
    Ex(Ex),
    /// An attribute: converts to the type of the other operand.
    Weak(Ex),
    Int(i64),
    Float(f64),
    /// An error that was reported.
    Bad,
}

enum Step {
    Look(ast::ExprId),
    Finish(ast::ExprId, usize),
}

impl Resolver<'_> {
    /// Resolves a scalar expression of type `want`, or of its own type if there is none; `None`
    /// after an error.
    pub(crate) fn scalar(
        &mut self,
        cx: &ProgramCx,
        e: ast::ExprId,
        want: Option<DType>,
    ) -> Option<Ex> {
        let value = self.scalar_value(cx, e);
        let span = self.ast.exprs[e].span;
        match want {
            Some(want) => self.scalar_as(value, want, span),
            None => self.scalar_own(value),
        }
    }

    /// Resolves a scalar expression whose type may still be adapted.
    fn scalar_value(&mut self, cx: &ProgramCx, e: ast::ExprId) -> Val {
        let mut steps = vec![Step::Look(e)];
        let mut done: Vec<Val> = Vec::new();
        while let Some(step) = steps.pop() {
            let value = match step {
                Step::Look(e) => match self.scalar_look(cx, e, &mut steps, done.len()) {
                    Some(value) => value,
                    None => continue,
                },
                Step::Finish(e, base) => {
                    let parts: Vec<Val> = done.drain(base..).collect();
                    if parts.iter().any(|p| matches!(p, Val::Bad)) {
                        Val::Bad
                    } else {
                        self.scalar_finish(cx, e, parts).unwrap_or(Val::Bad)
                    }
                }
            };
            done.push(value);
        }
        done.pop().expect("the walk leaves one value")
    }

    /// Gives the value its default type.
    pub(super) fn scalar_own(&mut self, v: Val) -> Option<Ex> {
        match v {
            Val::Ex(e) | Val::Weak(e) => Some(e),
            Val::Int(v) if i32::try_from(v).is_ok() => {
                Some(Ex::int(self.own_number(DType::I32), v))
            }
            Val::Int(v) => Some(Ex::int(self.own_number(DType::I64), v)),
            Val::Float(v) => Some(Ex::float(self.own_number(DType::F32), v)),
            Val::Bad => None,
        }
    }

    /// Converts the value to an expression of the given type.
    pub(super) fn scalar_as(&mut self, v: Val, want: DType, span: Span) -> Option<Ex> {
        let found = match v {
            Val::Ex(e) if e.dtype() == want => return Some(e),
            Val::Ex(e) => self.element_name(e.dtype()),
            Val::Weak(e) => return Some(e.cast(want)),
            Val::Int(v) => {
                let fits = want
                    .int_range()
                    .is_none_or(|(a, b)| (a..=b).contains(&v.into()));
                if fits && !want.is_bool() {
                    return Some(Ex::int(want, v));
                }
                format!("the number {v}")
            }
            Val::Float(v) if want.is_float() || want.as_param().is_some() => {
                return Some(Ex::float(want, v));
            }
            Val::Float(_) => "a number with a fraction".into(),
            Val::Bad => return None,
        };
        let name = self.element_name(want);
        let message = format!("{name} is expected here, this is {found}");
        let d = Diagnostic::error(codes::PROGRAM_TYPE, span, message);
        let text = self
            .file_text(span)
            .filter(|t| t.len() < 40 && want.lanes == 1);
        let d = match text {
            Some(text) => d.suggest("convert it", span, format!("{name}({text})")),
            None => d,
        };
        self.error(d);
        None
    }

    pub(super) fn program_error<T>(&mut self, span: Span, message: impl Into<String>) -> Option<T> {
        self.error(Diagnostic::error(codes::PROGRAM_FORM, span, message));
        None
    }

    fn scalar_look(
        &mut self,
        cx: &ProgramCx,
        e: ast::ExprId,
        steps: &mut Vec<Step>,
        base: usize,
    ) -> Option<Val> {
        let ast = self.ast;
        let ast::Expr { kind, span } = ast.exprs[e];
        match kind {
            ExprKind::Error => Some(Val::Bad),
            ExprKind::Paren(inner, _) => {
                steps.push(Step::Look(inner));
                None
            }
            ExprKind::Block {
                stmts,
                tail: Some(tail),
                ..
            } if stmts.is_empty() => {
                steps.push(Step::Look(tail));
                None
            }
            ExprKind::Bool(b) => Some(Val::Ex(Ex::bool(b))),
            ExprKind::Int {
                value,
                suffix: NumSuffix::None,
            } => Some(Val::Int(value)),
            ExprKind::Float {
                value,
                suffix: NumSuffix::None,
            } => Some(Val::Float(value)),
            ExprKind::Int { suffix, .. } | ExprKind::Float { suffix, .. } => {
                let Some(dtype) = suffix_dtype(suffix) else {
                    let message = format!("no element type has the suffix `{suffix}`");
                    self.error(Diagnostic::error(codes::LITERAL, span, message));
                    return Some(Val::Bad);
                };
                Some(Val::Ex(match kind {
                    ExprKind::Int { value, .. } => Ex::int(dtype, value),
                    ExprKind::Float { value, .. } => Ex::float(dtype, value),
                    _ => unreachable!("a number"),
                }))
            }
            ExprKind::Local(name) => Some(self.scalar_local(cx, name, span).unwrap_or(Val::Bad)),
            ExprKind::Name(name) => Some(self.scalar_name(cx, name, span)),
            ExprKind::Index { indices, .. } => {
                steps.push(Step::Finish(e, base));
                steps.extend(ast.list(indices).rev().map(Step::Look));
                None
            }
            ExprKind::Call { .. } if cx.reduced.contains_key(&e) => {
                Some(Val::Ex(cx.reduced[&e].clone()))
            }
            ExprKind::Call { args, .. } => {
                steps.push(Step::Finish(e, base));
                steps.extend(ast.list(args).rev().map(Step::Look));
                None
            }
            ExprKind::Binary { lhs, rhs, .. } => {
                steps.push(Step::Finish(e, base));
                steps.push(Step::Look(rhs));
                steps.push(Step::Look(lhs));
                None
            }
            ExprKind::If {
                cond,
                then,
                otherwise: Some(otherwise),
            } => {
                steps.push(Step::Finish(e, base));
                steps.push(Step::Look(otherwise));
                steps.push(Step::Look(then));
                steps.push(Step::Look(cond));
                None
            }
            _ => {
                let message = "this is no scalar expression of a tensor program";
                self.program_error::<()>(span, message);
                Some(Val::Bad)
            }
        }
    }

    pub(super) fn scalar_local(&mut self, cx: &ProgramCx, name: Symbol, span: Span) -> Option<Val> {
        match cx.locals.get(&name) {
            Some(Named::Var(v)) => Some(Val::Ex(cx.var(*v))),
            Some(Named::Buf(b)) => {
                let buffer = &cx.program.bufs[*b];
                let index = match &cx.element {
                    _ if buffer.shape.is_empty() => Vec::new(),
                    Some(index) if index.len() == buffer.shape.len() => index.clone(),
                    Some(_) => {
                        let message = format!("`%{name}` has another rank than the result");
                        return self.program_error(span, message);
                    }
                    None => {
                        let n = count(buffer.shape.len(), "axis").replace("axiss", "axes");
                        let message = format!("`%{name}` has {n}: an element is `%{name}[…]`");
                        return self.program_error(span, message);
                    }
                };
                Some(Val::Ex(Ex::new(ExKind::Load(*b, index), buffer.dtype)))
            }
            None => {
                self.unknown_program_name(cx, name, span);
                None
            }
        }
    }

    pub(crate) fn unknown_program_name(&mut self, cx: &ProgramCx, name: Symbol, span: Span) {
        if !self.first_report('%', name) {
            return;
        }
        let message = format!("there is no `%{name}` here");
        let near = self.near(name, cx.locals.keys().map(|n| n.as_str()));
        let d = Diagnostic::error(codes::PROGRAM_NAME, span, message);
        let d = match near {
            Some(near) => d.suggest(format!("did you mean `%{near}`?"), span, format!("%{near}")),
            None => d,
        };
        self.error(d);
    }

    pub(super) fn scalar_name(&mut self, cx: &ProgramCx, name: Symbol, span: Span) -> Val {
        if let Some(&var) = cx.dims.get(&name) {
            return Val::Ex(cx.var(var));
        }
        if let Some(&var) = cx.attrs.get(&name) {
            return Val::Weak(cx.var(var));
        }
        if self.first_report('n', name) {
            let message = format!("there is no dimension `{name}` here");
            let d = Diagnostic::error(codes::PROGRAM_NAME, span, message);
            let d = if cx.locals.contains_key(&name) {
                d.suggest(format!("did you mean `%{name}`?"), span, format!("%{name}"))
            } else {
                let names = cx.dims.keys().chain(cx.attrs.keys()).map(|n| n.as_str());
                match self.near(name, names) {
                    Some(near) => d.suggest(format!("did you mean `{near}`?"), span, near),
                    None => d,
                }
            };
            self.error(d);
        }
        Val::Bad
    }

    pub(super) fn scalar_finish(
        &mut self,
        cx: &ProgramCx,
        e: ast::ExprId,
        parts: Vec<Val>,
    ) -> Option<Val> {
        let ast = self.ast;
        let ast::Expr { kind, span } = ast.exprs[e];
        match kind {
            ExprKind::Index { base, indices } => {
                let (buf, dtype, rank) = self.buffer(cx, base)?;
                if rank != parts.len() {
                    let message = format!(
                        "{} for a buffer of rank {rank}",
                        count(parts.len(), "index").replace("indexs", "indices")
                    );
                    return self.program_error(span, message);
                }
                let mut index = Vec::with_capacity(rank);
                for (v, i) in parts.into_iter().zip(ast.list(indices)) {
                    index.push(self.index_value(v, ast.exprs[i].span)?);
                }
                self.access(buf, &index, span);
                Some(Val::Ex(Ex::new(ExKind::Load(buf, index), dtype)))
            }
            ExprKind::Binary { op, lhs, rhs } => {
                let spans = (ast.exprs[lhs].span, ast.exprs[rhs].span);
                self.scalar_binary(op, parts, spans, span)
            }
            ExprKind::If {
                then, otherwise, ..
            } => {
                let place = |e: ast::ExprId| ast.exprs[e].span;
                let sides = (place(then), otherwise.map_or(span, place));
                self.scalar_select(parts, sides, span)
            }
            ExprKind::Call {
                callee,
                args,
                attrs,
            } => {
                if let Some(a) = ast.nth(attrs, 0) {
                    let message = "functions of tensor programs take no attributes";
                    return self.program_error(ast.attrs[a].span, message);
                }
                let Some(name) = self.plain_name(callee) else {
                    let message = "tensor programs call functions by name: `exp(%x)`";
                    return self.program_error(ast.exprs[callee].span, message);
                };
                let spans: Vec<Span> = ast.list(args).map(|a| ast.exprs[a].span).collect();
                self.scalar_call(name, ast.exprs[callee].span, parts, &spans, span)
            }
            _ => unreachable!("only forms with parts are finished"),
        }
    }

    /// Returns the buffer that an expression names.
    pub(crate) fn buffer(&mut self, cx: &ProgramCx, e: ast::ExprId) -> Option<(Buf, DType, usize)> {
        let ast::Expr { kind, span } = self.ast.exprs[e];
        match kind {
            ExprKind::Local(name) => match cx.locals.get(&name) {
                Some(Named::Buf(b)) => {
                    let buffer = &cx.program.bufs[*b];
                    Some((*b, buffer.dtype, buffer.shape.len()))
                }
                Some(Named::Var(_)) => {
                    self.program_error(span, format!("`%{name}` is a number, not a buffer"))
                }
                None => {
                    self.unknown_program_name(cx, name, span);
                    None
                }
            },
            _ => self.program_error(span, "elements are read from buffers: `%X[%i]`"),
        }
    }

    /// Converts an index, an integer of any type, to `int64`.
    pub(super) fn index_value(&mut self, v: Val, span: Span) -> Option<Ex> {
        match v {
            Val::Ex(e) if e.dtype().is_integral() => Some(e.cast(DType::I64)),
            Val::Weak(e) if e.dtype().is_integral() => Some(e.cast(DType::I64)),
            Val::Int(v) => Some(Ex::idx(v)),
            Val::Bad => None,
            other => self.scalar_as(other, DType::I64, span),
        }
    }

    /// Resolves an index expression.
    pub(crate) fn index_expr(&mut self, cx: &ProgramCx, e: ast::ExprId) -> Option<Ex> {
        let value = self.scalar_value(cx, e);
        self.index_value(value, self.ast.exprs[e].span)
    }
}
