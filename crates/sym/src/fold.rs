//! Structural traversal of dimensions, for writing them in forms other than text.

use crate::dim::{Atom, Dim, DimError, Repr};
use crate::poly::{Factor, Op, OpKind, Poly, Term};

/// An operation of a dimension expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DimOp {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a // b`
    FloorDiv,
    /// `a % b`
    Mod,
    /// `min(a, b)`
    Min,
    /// `max(a, b)`
    Max,
}

impl DimOp {
    /// Returns the symbol between the operands; `None` for `min` and `max`.
    pub fn infix(self) -> Option<&'static str> {
        Some(match self {
            DimOp::Add => "+",
            DimOp::Sub => "-",
            DimOp::Mul => "*",
            DimOp::FloorDiv => "//",
            DimOp::Mod => "%",
            DimOp::Min | DimOp::Max => return None,
        })
    }
}

/// A visitor of the parts of a dimension, inner ones first.
pub trait DimBuilder {
    /// The result for a part.
    type Out;
    /// A constant.
    fn int(&mut self, value: i64) -> Self::Out;
    /// A variable or inference variable.
    fn atom(&mut self, atom: Atom) -> Self::Out;
    /// `?`
    fn any(&mut self) -> Self::Out;
    /// A dimension without a value.
    fn bad(&mut self, error: DimError) -> Self::Out;
    /// An operation.
    fn op(&mut self, op: DimOp, lhs: Self::Out, rhs: Self::Out) -> Self::Out;
    /// A parenthesised operand, in text.
    fn group(&mut self, inner: Self::Out) -> Self::Out;
}

impl Dim {
    /// Visits the parts of the dimension with `builder`, in the order and with the parentheses of
    /// [`Dim::display`]. The recursion is bounded: operations nest at most 64 deep.
    pub fn build<B: DimBuilder>(&self, builder: &mut B) -> B::Out {
        match &self.0 {
            Repr::Const(c) => builder.int(c.value),
            Repr::Atom(atom) => builder.atom(*atom),
            Repr::Any(_) => builder.any(),
            Repr::Bad(error) => builder.bad(*error),
            Repr::Poly(poly) => build_poly(poly, builder),
        }
    }
}

fn build_poly<B: DimBuilder>(poly: &Poly, b: &mut B) -> B::Out {
    let mut sum: Option<B::Out> = None;
    let mut add = |b: &mut B, op: DimOp, part: B::Out| {
        let left = sum.take();
        sum = Some(match left {
            Some(left) => b.op(op, left, part),
            None if op == DimOp::Sub => {
                let zero = b.int(0);
                b.op(DimOp::Sub, zero, part)
            }
            None => part,
        });
    };
    for term in poly.terms.iter().filter(|t| t.coef > 0) {
        let part = build_term(term, b);
        add(b, DimOp::Add, part);
    }
    if poly.constant > 0 {
        let part = b.int(poly.constant);
        add(b, DimOp::Add, part);
    }
    for term in poly.terms.iter().filter(|t| t.coef < 0) {
        let part = build_term(term, b);
        add(b, DimOp::Sub, part);
    }
    if poly.constant < 0 {
        match poly.constant.checked_neg() {
            Some(value) => {
                let part = b.int(value);
                add(b, DimOp::Sub, part);
            }
            None => {
                let part = b.int(poly.constant);
                add(b, DimOp::Add, part);
            }
        }
    }
    sum.unwrap_or_else(|| b.int(0))
}

/// Builds a term without its sign.
fn build_term<B: DimBuilder>(term: &Term, b: &mut B) -> B::Out {
    let mut product: Option<B::Out> = None;
    for (factor, power) in term.mono.factors() {
        for _ in 0..*power {
            let tight = product.is_some();
            let part = build_factor(factor, tight, b);
            product = Some(match product.take() {
                Some(left) => b.op(DimOp::Mul, left, part),
                None => part,
            });
        }
    }
    let coef = i64::try_from(term.coef.unsigned_abs()).unwrap_or(i64::MIN);
    match product {
        None => b.int(coef),
        Some(product) if coef == 1 => product,
        Some(product) => {
            let coef = b.int(coef);
            b.op(DimOp::Mul, product, coef)
        }
    }
}

fn build_factor<B: DimBuilder>(factor: &Factor, tight: bool, b: &mut B) -> B::Out {
    let op = match factor {
        Factor::Atom(atom) => return b.atom(*atom),
        Factor::Op(op) => op,
    };
    let kind = match op.kind {
        OpKind::Min => return build_call(op, DimOp::Min, b),
        OpKind::Max => return build_call(op, DimOp::Max, b),
        OpKind::FloorDiv => DimOp::FloorDiv,
        OpKind::Mod => DimOp::Mod,
    };
    let lhs = build_operand(&op.args[0], true, b);
    let rhs = build_operand(&op.args[1], false, b);
    let out = b.op(kind, lhs, rhs);
    if tight { b.group(out) } else { out }
}

fn build_call<B: DimBuilder>(op: &Op, kind: DimOp, b: &mut B) -> B::Out {
    let mut args = op.args.iter().rev();
    let last = args.next().expect("min and max have arguments");
    let mut out = last.build(b);
    for arg in args {
        let arg = arg.build(b);
        out = b.op(kind, arg, out);
    }
    out
}

/// Builds an operand of `//` or `%`. On the left, a lone product needs no parentheses.
fn build_operand<B: DimBuilder>(dim: &Dim, left: bool, b: &mut B) -> B::Out {
    let bare = match &dim.0 {
        Repr::Const(c) => c.value >= 0,
        Repr::Poly(poly) => match poly.terms.as_slice() {
            [term] if poly.constant == 0 => {
                let call = matches!(
                    term.mono.as_factor(),
                    Some(Factor::Op(op)) if matches!(op.kind, OpKind::Min | OpKind::Max)
                );
                (term.coef == 1 && call) || (left && term.coef > 0)
            }
            _ => false,
        },
        _ => true,
    };
    let out = dim.build(b);
    if bare { out } else { b.group(out) }
}
