//! Scalar expressions of tensor programs.
//!
//! Numbers without suffix and attributes take the element type of what they meet; two expressions
//! of different types are an error, and are never converted silently.

use relax_base::{Diagnostic, Span, Symbol, did_you_mean};
use relax_loops::{BinOp, Buf, Ex, ExKind, Program, UnOp, Var};
use relax_syntax::ast::{self, ExprKind, NumSuffix};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::Resolver;
use super::literal::suffix_dtype;
use super::pattern::count;
use crate::codes;

/// Functions of one number, as the text names them; whether they ask for a float.
pub const UNARY: &[(&str, UnOp, bool)] = &[
    ("abs", UnOp::Abs, false),
    ("not", UnOp::Not, false),
    ("exp", UnOp::Exp, true),
    ("log", UnOp::Log, true),
    ("log2", UnOp::Log2, true),
    ("log10", UnOp::Log10, true),
    ("sqrt", UnOp::Sqrt, true),
    ("rsqrt", UnOp::Rsqrt, true),
    ("sin", UnOp::Sin, true),
    ("cos", UnOp::Cos, true),
    ("tan", UnOp::Tan, true),
    ("asin", UnOp::Asin, true),
    ("acos", UnOp::Acos, true),
    ("atan", UnOp::Atan, true),
    ("sinh", UnOp::Sinh, true),
    ("cosh", UnOp::Cosh, true),
    ("tanh", UnOp::Tanh, true),
    ("asinh", UnOp::Asinh, true),
    ("acosh", UnOp::Acosh, true),
    ("atanh", UnOp::Atanh, true),
    ("erf", UnOp::Erf, true),
    ("sigmoid", UnOp::Sigmoid, true),
    ("floor", UnOp::Floor, true),
    ("ceil", UnOp::Ceil, true),
    ("trunc", UnOp::Trunc, true),
    ("round", UnOp::Round, true),
    ("rint", UnOp::RoundEven, true),
    ("isnan", UnOp::IsNan, true),
    ("isinf", UnOp::IsInf, true),
    ("isfinite", UnOp::IsFinite, true),
    ("popcount", UnOp::Popcount, false),
    ("clz", UnOp::Clz, false),
];

/// Functions of two numbers, as the text names them.
pub const BINARY: &[(&str, BinOp)] = &[
    ("min", BinOp::Min),
    ("max", BinOp::Max),
    ("pow", BinOp::Pow),
    ("atan2", BinOp::Atan2),
    ("rem", BinOp::Rem),
    ("bit_and", BinOp::And),
    ("bit_or", BinOp::Or),
    ("bit_xor", BinOp::Xor),
    ("shift_left", BinOp::Shl),
    ("shift_right", BinOp::Shr),
];

/// `select(c, a, b)`: `a` where `c` holds, else `b`.
pub const SELECT: &str = "select";

/// What a name stands for in a tensor program.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    /// A buffer.
    Buf(Buf),
    /// A loop variable or a named scalar.
    Var(Var),
}

/// A tensor program that is being read.
pub(crate) struct ProgramCx {
    /// The program so far.
    pub(crate) program: Program,
    /// Names with the `%` sigil.
    pub(crate) locals: FxHashMap<Symbol, Named>,
    /// What names stood for before the current blocks, innermost last.
    pub(crate) undo: Vec<(Symbol, Option<Named>)>,
    /// Dimension variables.
    pub(crate) dims: FxHashMap<Symbol, Var>,
    /// Attributes of an operator; their type gives way.
    pub(crate) attrs: FxHashMap<Symbol, Var>,
    /// In a computation over whole tensors: the index at which each tensor is read.
    pub(crate) element: Option<Vec<Ex>>,
    /// The values of reductions that an earlier stage computes.
    pub(crate) reduced: FxHashMap<ast::ExprId, Ex>,
}

impl ProgramCx {
    pub(crate) fn new(name: Symbol, span: Span) -> ProgramCx {
        let mut program = Program::new(name);
        program.span = span;
        ProgramCx {
            program,
            locals: FxHashMap::default(),
            undo: Vec::new(),
            dims: FxHashMap::default(),
            attrs: FxHashMap::default(),
            element: None,
            reduced: FxHashMap::default(),
        }
    }
    /// Gives a name a meaning, until [`ProgramCx::leave`].
    pub(crate) fn bind(&mut self, name: Symbol, what: Named) {
        let old = self.locals.insert(name, what);
        self.undo.push((name, old));
    }
    /// Forgets the names bound since the undo log had this length.
    pub(crate) fn leave(&mut self, mark: usize) {
        for (name, old) in self.undo.drain(mark..).rev() {
            match old {
                Some(old) => self.locals.insert(name, old),
                None => self.locals.remove(&name),
            };
        }
    }
    pub(crate) fn var(&self, var: Var) -> Ex {
        Ex::var(var, self.program.vars[var].dtype)
    }
}

/// A value whose type may still give way.
#[derive(Clone)]
enum Val {
    Ex(Ex),
    /// An attribute: converts to what it meets.
    Weak(Ex),
    Int(i64),
    Float(f64),
    /// An error was reported.
    Bad,
}

enum Step {
    Look(ast::ExprId),
    Finish(ast::ExprId, usize),
}

impl Resolver<'_> {
    /// A scalar expression of type `want`, or of its own type where there is none; `None` after
    /// an error.
    pub(crate) fn scalar(
        &mut self,
        cx: &ProgramCx,
        e: ast::ExprId,
        want: Option<DType>,
    ) -> Option<Ex> {
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
        let value = done.pop().expect("the walk leaves one value");
        let span = self.ast.exprs[e].span;
        match want {
            Some(want) => self.scalar_as(value, want, span),
            None => self.scalar_own(value),
        }
    }

    /// The value with the type it has where nothing decides.
    fn scalar_own(&mut self, v: Val) -> Option<Ex> {
        match v {
            Val::Ex(e) | Val::Weak(e) => Some(e),
            Val::Int(v) if i32::try_from(v).is_ok() => Some(Ex::int(DType::I32, v)),
            Val::Int(v) => Some(Ex::int(DType::I64, v)),
            Val::Float(v) => Some(Ex::float(DType::F32, v)),
            Val::Bad => None,
        }
    }

    /// The value as an expression of a type.
    fn scalar_as(&mut self, v: Val, want: DType, span: Span) -> Option<Ex> {
        let found = match v {
            Val::Ex(e) if e.dtype() == want => return Some(e),
            Val::Ex(e) => e.dtype().to_string(),
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
            Val::Float(v) if want.is_float() => return Some(Ex::float(want, v)),
            Val::Float(_) => "a number with a fraction".into(),
            Val::Bad => return None,
        };
        let message = format!("{want} is expected here, this is {found}");
        let d = Diagnostic::error(codes::PROGRAM_TYPE, span, message);
        let text = self
            .file_text(span)
            .filter(|t| t.len() < 40 && want.lanes == 1);
        let d = match text {
            Some(text) => d.suggest("convert it", span, format!("{want}({text})")),
            None => d,
        };
        self.error(d);
        None
    }

    fn program_error<T>(&mut self, span: Span, message: impl Into<String>) -> Option<T> {
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
            ExprKind::Paren(inner) => {
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

    fn scalar_local(&mut self, cx: &ProgramCx, name: Symbol, span: Span) -> Option<Val> {
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
        let near = did_you_mean(name.as_str(), cx.locals.keys().map(|n| n.as_str()));
        let d = Diagnostic::error(codes::PROGRAM_NAME, span, message);
        let d = match near {
            Some(near) => d.suggest(format!("did you mean `%{near}`?"), span, format!("%{near}")),
            None => d,
        };
        self.error(d);
    }

    fn scalar_name(&mut self, cx: &ProgramCx, name: Symbol, span: Span) -> Val {
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
                match did_you_mean(name.as_str(), names) {
                    Some(near) => d.suggest(format!("did you mean `{near}`?"), span, near),
                    None => d,
                }
            };
            self.error(d);
        }
        Val::Bad
    }

    fn scalar_finish(&mut self, cx: &ProgramCx, e: ast::ExprId, parts: Vec<Val>) -> Option<Val> {
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

    /// The buffer that an expression names.
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

    /// An index: any integer, brought to `int64`.
    fn index_value(&mut self, v: Val, span: Span) -> Option<Ex> {
        match v {
            Val::Ex(e) if e.dtype().is_integral() => Some(e.cast(DType::I64)),
            Val::Weak(e) if e.dtype().is_integral() => Some(e.cast(DType::I64)),
            Val::Int(v) => Some(Ex::idx(v)),
            Val::Bad => None,
            other => self.scalar_as(other, DType::I64, span),
        }
    }

    /// The same for an expression of the tree.
    pub(crate) fn index_expr(&mut self, cx: &ProgramCx, e: ast::ExprId) -> Option<Ex> {
        if let ExprKind::Int {
            value,
            suffix: NumSuffix::None,
        } = self.ast.exprs[e].kind
        {
            return Some(Ex::idx(value));
        }
        let ex = self.scalar(cx, e, None)?;
        self.index_value(Val::Ex(ex), self.ast.exprs[e].span)
    }

    /// Brings two values to one type.
    fn same_type(&mut self, a: Val, b: Val, spans: (Span, Span), whole: Span) -> Option<(Ex, Ex)> {
        match (a, b) {
            (Val::Ex(a), Val::Ex(b)) | (Val::Weak(a), Val::Weak(b)) if a.dtype() == b.dtype() => {
                Some((a, b))
            }
            (Val::Ex(a), Val::Ex(b)) => {
                let message = format!("{} and {} do not mix", a.dtype(), b.dtype());
                let d = Diagnostic::error(codes::PROGRAM_TYPE, whole, message)
                    .label(spans.0, a.dtype().to_string())
                    .label(spans.1, b.dtype().to_string())
                    .note(format!("convert one of them: `{}(…)`", a.dtype()));
                self.error(d);
                None
            }
            (Val::Ex(a), b) => {
                let b = self.scalar_as(b, a.dtype(), spans.1)?;
                Some((a, b))
            }
            (a, Val::Ex(b)) => {
                let a = self.scalar_as(a, b.dtype(), spans.0)?;
                Some((a, b))
            }
            (Val::Weak(a), b) => {
                let b = self.scalar_as(b, a.dtype(), spans.1)?;
                Some((a, b))
            }
            (a, Val::Weak(b)) => {
                let a = self.scalar_as(a, b.dtype(), spans.0)?;
                Some((a, b))
            }
            (Val::Int(a), Val::Int(b)) => Some((Ex::idx(a), Ex::idx(b))),
            (a, b) => {
                let a = self.scalar_as(a, DType::F64, spans.0)?;
                let b = self.scalar_as(b, DType::F64, spans.1)?;
                Some((a, b))
            }
        }
    }

    fn scalar_binary(
        &mut self,
        op: ast::BinOp,
        parts: Vec<Val>,
        spans: (Span, Span),
        whole: Span,
    ) -> Option<Val> {
        let mut parts = parts.into_iter();
        let (a, b) = (parts.next()?, parts.next()?);
        if let (Val::Int(x), Val::Int(y), ast::BinOp::Div) = (&a, &b, op)
            && x.checked_rem(*y) != Some(0)
        {
            return Some(Val::Float(*x as f64 / *y as f64));
        }
        if let (Val::Float(x), Val::Float(y)) = (&a, &b) {
            match op {
                ast::BinOp::Add => return Some(Val::Float(x + y)),
                ast::BinOp::Sub => return Some(Val::Float(x - y)),
                ast::BinOp::Mul => return Some(Val::Float(x * y)),
                ast::BinOp::Div => return Some(Val::Float(x / y)),
                _ => {}
            }
        }
        let numbers = matches!((&a, &b), (Val::Int(_), Val::Int(_)));
        let weak = matches!(
            (&a, &b),
            (Val::Weak(_), Val::Weak(_) | Val::Int(_) | Val::Float(_))
        ) || matches!((&a, &b), (Val::Int(_) | Val::Float(_), Val::Weak(_)));
        let (a, b) = self.same_type(a, b, spans, whole)?;
        let op = match op {
            ast::BinOp::Add => BinOp::Add,
            ast::BinOp::Sub => BinOp::Sub,
            ast::BinOp::Mul => BinOp::Mul,
            ast::BinOp::Div => BinOp::Div,
            ast::BinOp::FloorDiv => BinOp::FloorDiv,
            ast::BinOp::Mod => BinOp::FloorMod,
            ast::BinOp::Lt => BinOp::Lt,
            ast::BinOp::Le => BinOp::Le,
            ast::BinOp::Gt => BinOp::Gt,
            ast::BinOp::Ge => BinOp::Ge,
            ast::BinOp::Eq => BinOp::Eq,
            ast::BinOp::Ne => BinOp::Ne,
            ast::BinOp::And => BinOp::And,
            ast::BinOp::Or => BinOp::Or,
        };
        if matches!(op, BinOp::And | BinOp::Or) && !a.dtype().is_bool() {
            let message = format!(
                "`&&` and `||` combine truth values, these are {}",
                a.dtype()
            );
            self.error(Diagnostic::error(codes::PROGRAM_TYPE, whole, message));
            return None;
        }
        let arithmetic = !op.is_comparison() && !matches!(op, BinOp::And | BinOp::Or);
        if arithmetic && a.dtype().is_bool() {
            let message = "truth values are combined with `&&` and `||`";
            self.error(Diagnostic::error(codes::PROGRAM_TYPE, whole, message));
            return None;
        }
        let ex = a.binary(op, &b);
        if weak && arithmetic {
            return Some(Val::Weak(ex));
        }
        match ex.as_int() {
            Some(v) if numbers && arithmetic => Some(Val::Int(v)),
            _ => Some(Val::Ex(ex)),
        }
    }

    fn scalar_select(&mut self, parts: Vec<Val>, spans: (Span, Span), whole: Span) -> Option<Val> {
        let mut parts = parts.into_iter();
        let (cond, then, otherwise) = (parts.next()?, parts.next()?, parts.next()?);
        let cond = self.scalar_as(cond, DType::BOOL, whole)?;
        let (a, b) = match (then, otherwise) {
            (Val::Int(a), Val::Int(b)) => (Ex::int(DType::I32, a), Ex::int(DType::I32, b)),
            (a @ (Val::Int(_) | Val::Float(_)), b @ (Val::Int(_) | Val::Float(_))) => (
                self.scalar_as(a, DType::F32, spans.0)?,
                self.scalar_as(b, DType::F32, spans.1)?,
            ),
            (a, b) => self.same_type(a, b, spans, whole)?,
        };
        Some(Val::Ex(Ex::where_(&cond, &a, &b)))
    }

    fn scalar_call(
        &mut self,
        name: Symbol,
        place: Span,
        parts: Vec<Val>,
        spans: &[Span],
        whole: Span,
    ) -> Option<Val> {
        let unary = UNARY.iter().find(|u| name == u.0);
        let binary = BINARY.iter().find(|b| name == b.0);
        let cast = self.dtype(name).filter(|d| d.lanes == 1);
        let wanted = if unary.is_some() || cast.is_some() {
            1
        } else if binary.is_some() {
            2
        } else if name == SELECT {
            3
        } else {
            let names = UNARY.iter().map(|u| u.0).chain(BINARY.iter().map(|b| b.0));
            let near = Self::near(name, names.chain([SELECT]));
            let message = format!("tensor programs know no function `{name}`");
            let d = Diagnostic::error(codes::PROGRAM_NAME, place, message);
            let d = match near {
                Some(near) => d.suggest(format!("did you mean `{near}`?"), place, near),
                None => d,
            };
            self.error(d);
            return None;
        };
        if parts.len() != wanted {
            let message = format!(
                "`{name}` takes {}, {} given",
                count(wanted, "argument"),
                parts.len()
            );
            return self.program_error(whole, message);
        }
        let mut parts = parts.into_iter();
        if let Some(dtype) = cast {
            let ex = match parts.next()? {
                Val::Ex(e) | Val::Weak(e) => e.cast(dtype),
                Val::Int(v) => Ex::int(dtype, v),
                Val::Float(v) => Ex::float(dtype, v),
                Val::Bad => return None,
            };
            return Some(Val::Ex(ex));
        }
        if let Some(&(_, op, floats)) = unary {
            let arg = parts.next()?;
            let arg = match arg {
                Val::Int(v) if floats => Ex::float(DType::F32, v as f64),
                other => self.scalar_own(other)?,
            };
            if floats && !arg.dtype().is_float() {
                let message = format!("`{name}` takes a float, this is {}", arg.dtype());
                self.error(Diagnostic::error(codes::PROGRAM_TYPE, spans[0], message));
                return None;
            }
            if matches!(op, UnOp::Not | UnOp::Popcount | UnOp::Clz) && arg.dtype().is_float() {
                let message = format!("`{name}` takes an integer, this is {}", arg.dtype());
                self.error(Diagnostic::error(codes::PROGRAM_TYPE, spans[0], message));
                return None;
            }
            return Some(Val::Ex(arg.unary(op)));
        }
        if let Some(&(_, op)) = binary {
            let (a, b) =
                self.same_type(parts.next()?, parts.next()?, (spans[0], spans[1]), whole)?;
            let bits = matches!(
                op,
                BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Shl | BinOp::Shr
            );
            if bits && a.dtype().is_float() || op == BinOp::Atan2 && !a.dtype().is_float() {
                let message = format!("`{name}` does not take {}", a.dtype());
                self.error(Diagnostic::error(codes::PROGRAM_TYPE, whole, message));
                return None;
            }
            return Some(Val::Ex(a.binary(op, &b)));
        }
        let parts = parts.collect();
        self.scalar_select(parts, (spans[1], spans[2]), whole)
    }
}
