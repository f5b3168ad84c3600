//! Operators and functions of scalar expressions: operand checks, and result types.

use relax_base::{Diagnostic, Span, Symbol};
use relax_loops::{BinOp, Ex, UnOp};
use relax_syntax::ast;
use relax_tensor::DType;

use super::Resolver;
use super::pattern::count;
use super::program_cx::*;
use super::scalar::Val;
use crate::codes;

impl Resolver<'_> {
    /// Unifies the types of two values.
    pub(super) fn same_type(
        &mut self,
        a: Val,
        b: Val,
        spans: (Span, Span),
        whole: Span,
    ) -> Option<(Ex, Ex)> {
        match (a, b) {
            (Val::Ex(a), Val::Ex(b)) | (Val::Weak(a), Val::Weak(b)) if a.dtype() == b.dtype() => {
                Some((a, b))
            }
            (Val::Ex(a), Val::Ex(b)) => {
                let (x, y) = (self.element_name(a.dtype()), self.element_name(b.dtype()));
                let message = format!("{x} and {y} do not mix");
                let d = Diagnostic::error(codes::PROGRAM_TYPE, whole, message)
                    .label(spans.0, x.clone())
                    .label(spans.1, y)
                    .note(format!("convert one of them: `{x}(…)`"));
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

    pub(super) fn scalar_binary(
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
        let &(_, op) = INFIX.iter().find(|i| i.0 == op)?;
        if matches!(op, BinOp::And | BinOp::Or) && !a.dtype().is_bool() {
            let name = self.element_name(a.dtype());
            let message = format!("`&&` and `||` combine truth values, these are {name}");
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

    pub(super) fn scalar_select(
        &mut self,
        parts: Vec<Val>,
        spans: (Span, Span),
        whole: Span,
    ) -> Option<Val> {
        let mut parts = parts.into_iter();
        let (cond, then, otherwise) = (parts.next()?, parts.next()?, parts.next()?);
        let cond = self.scalar_as(cond, DType::BOOL, whole)?;
        let (a, b) = match (then, otherwise) {
            (Val::Int(a), Val::Int(b)) => {
                let dtype = self.own_number(DType::I32);
                (Ex::int(dtype, a), Ex::int(dtype, b))
            }
            (a @ (Val::Int(_) | Val::Float(_)), b @ (Val::Int(_) | Val::Float(_))) => {
                let dtype = self.own_number(DType::F32);
                let a = self.scalar_as(a, dtype, spans.0)?;
                (a, self.scalar_as(b, dtype, spans.1)?)
            }
            (a, b) => self.same_type(a, b, spans, whole)?,
        };
        Some(Val::Ex(Ex::where_(&cond, &a, &b)))
    }

    pub(super) fn scalar_call(
        &mut self,
        name: Symbol,
        place: Span,
        parts: Vec<Val>,
        spans: &[Span],
        whole: Span,
    ) -> Option<Val> {
        let unary = UnOp::named(name.as_str());
        let binary = BinOp::called(name.as_str());
        let cast = self.conversion(name);
        let bits = name.as_str().strip_prefix(REINTERPRET);
        let bits = bits.and_then(|n| self.dtype(n.into()));
        let bits = bits.filter(|d| d.lanes == 1);
        let wanted = if unary.is_some() || cast.is_some() || bits.is_some() {
            1
        } else if binary.is_some() {
            2
        } else if name == SELECT {
            3
        } else {
            let names = UnOp::ALL.iter().map(|op| op.name());
            let names = names.chain(BinOp::ALL.iter().filter_map(|op| op.call()));
            let near = self.near(name, names.chain([SELECT]));
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
        if let Some(dtype) = bits {
            let value = parts.next()?;
            let ex = self.scalar_own(value)?;
            let open = ex.dtype().as_param().is_some();
            if open || ex.dtype().bits != dtype.bits || ex.dtype().is_bool() != dtype.is_bool() {
                let message = format!("{} has no bits for {dtype}", self.element_name(ex.dtype()));
                self.error(Diagnostic::error(codes::PROGRAM_TYPE, spans[0], message));
                return None;
            }
            return Some(Val::Ex(ex.reinterpret(dtype)));
        }
        if let Some(op) = unary {
            let floats = op.asks_for_float();
            let arg = parts.next()?;
            let arg = match arg {
                Val::Int(v) if floats => Ex::float(self.own_number(DType::F32), v as f64),
                other => self.scalar_own(other)?,
            };
            // Rounding leaves integers unchanged; the other functions require floats.
            let open = arg.dtype().as_param().is_some();
            if floats && op.is_real() && !open && !arg.dtype().is_float() {
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
        if let Some(op) = binary {
            let (a, b) =
                self.same_type(parts.next()?, parts.next()?, (spans[0], spans[1]), whole)?;
            let bits = matches!(
                op,
                BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Shl | BinOp::Shr
            );
            let float = a.dtype().is_float() || a.dtype().as_param().is_some();
            if bits && a.dtype().is_float() || op == BinOp::Atan2 && !float {
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
