//! Scalar expressions.
//!
//! Every expression knows its element type. Constructors fold constants and drop neutral
//! elements where that is exact (never `x - x` or `x * 0` on floats).

use std::sync::Arc;

use crate::Children;
use relax_tensor::DType;

use crate::{BinOp, Buf, UnOp};

mod operand;

pub use operand::Operand;

relax_base::define_id! {
    /// A scalar variable of one [`Program`](crate::Program): a loop index, a dimension, a `let`.
    pub struct Var("v");
}

/// What an expression is made of.
#[derive(Clone, PartialEq, Debug)]
pub enum ExKind {
    /// An integer or `bool` constant, already wrapped to its type (`uint64` by bit pattern); of a
    /// [`DType::param`], as it is written.
    Int(i64),
    /// A float constant, already rounded to its type; of a [`DType::param`], as it is written.
    Float(f64),
    /// A scalar variable.
    Var(Var),
    /// An element of a buffer; indices are `int64`.
    Load(Buf, Vec<Ex>),
    /// A unary function.
    Unary(UnOp, Ex),
    /// A binary function.
    Binary(BinOp, Ex, Ex),
    /// `Select(c, a, b)`: `a` where `c`, else `b`; only the chosen side's loads take place.
    Select(Ex, Ex, Ex),
    /// Conversion to the node's type: floats to integers truncate and saturate, NaN to 0; integers
    /// wrap; anything to `bool` is `!= 0`.
    Cast(Ex),
    /// The same bits as another type of the same width.
    Reinterpret(Ex),
}

#[derive(Debug)]
struct Node {
    kind: ExKind,
    dtype: DType,
}

/// A scalar expression; cloning shares it.
///
/// Invariant: comparing and dropping run in bounded stack, however deep the expression.
#[derive(Clone)]
pub struct Ex(Arc<Node>);

impl PartialEq for Ex {
    /// Same structure and constants (floats by their bits; all NaN are one). Shared parts are
    /// compared once.
    fn eq(&self, other: &Ex) -> bool {
        let mut work = vec![(self, other)];
        let mut seen = rustc_hash::FxHashSet::default();
        while let Some((a, b)) = work.pop() {
            if Arc::ptr_eq(&a.0, &b.0) {
                continue;
            }
            let same = a.dtype() == b.dtype()
                && match (a.kind(), b.kind()) {
                    (ExKind::Int(x), ExKind::Int(y)) => x == y,
                    (ExKind::Float(x), ExKind::Float(y)) => {
                        x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
                    }
                    (ExKind::Var(x), ExKind::Var(y)) => x == y,
                    (ExKind::Load(x, i), ExKind::Load(y, j)) => x == y && i.len() == j.len(),
                    (ExKind::Unary(x, _), ExKind::Unary(y, _)) => x == y,
                    (ExKind::Binary(x, ..), ExKind::Binary(y, ..)) => x == y,
                    (ExKind::Select(..), ExKind::Select(..))
                    | (ExKind::Cast(_), ExKind::Cast(_))
                    | (ExKind::Reinterpret(_), ExKind::Reinterpret(_)) => true,
                    _ => false,
                };
            if !same {
                return false;
            }
            let children = a.children();
            if !children.is_empty() && seen.insert((a.addr(), b.addr())) {
                work.extend(children.into_iter().zip(b.children()));
            }
        }
        true
    }
}

impl Drop for Ex {
    fn drop(&mut self) {
        fn take(e: &mut Ex, work: &mut Vec<Ex>) {
            if matches!(e.0.kind, ExKind::Int(_) | ExKind::Float(_) | ExKind::Var(_)) {
                return;
            }
            // Only the last owner takes the node apart; its children go to the work list instead
            // of the stack.
            if let Some(node) = Arc::get_mut(&mut e.0) {
                match std::mem::replace(&mut node.kind, ExKind::Int(0)) {
                    ExKind::Int(_) | ExKind::Float(_) | ExKind::Var(_) => {}
                    ExKind::Load(_, index) => work.extend(index),
                    ExKind::Unary(_, a) | ExKind::Cast(a) | ExKind::Reinterpret(a) => work.push(a),
                    ExKind::Binary(_, a, b) => work.extend([a, b]),
                    ExKind::Select(c, a, b) => work.extend([c, a, b]),
                }
            }
        }
        let mut work = Vec::new();
        take(self, &mut work);
        while let Some(mut e) = work.pop() {
            take(&mut e, &mut work);
        }
    }
}

impl std::fmt::Debug for Ex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0.kind)
    }
}

impl Ex {
    /// An expression as it stands, without folding. Prefer the named constructors.
    pub fn new(kind: ExKind, dtype: DType) -> Ex {
        Ex(Arc::new(Node { kind, dtype }))
    }
    /// Returns the kind of the node.
    pub fn kind(&self) -> &ExKind {
        &self.0.kind
    }
    /// Its element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }
    /// The identity of the shared node, for memo tables; valid while the node lives.
    pub fn addr(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
    /// A constant of any type from an integer, wrapped (or converted to float).
    pub fn int(dtype: DType, value: i64) -> Ex {
        if dtype.is_float() {
            return Ex::float(dtype, value as f64);
        }
        Ex::new(ExKind::Int(wrap(dtype, value)), dtype)
    }
    /// A constant of any type from a float, rounded (or truncated to an integer).
    pub fn float(dtype: DType, value: f64) -> Ex {
        if dtype.as_param().is_some() {
            return Ex::new(ExKind::Float(value), dtype);
        }
        if !dtype.is_float() {
            return Ex::int(dtype, value as i64);
        }
        Ex::new(
            ExKind::Float(relax_tensor::Tensor::scalar_f64(dtype, value).get_f64(0)),
            dtype,
        )
    }
    /// An index constant (`int64`).
    pub fn idx(value: i64) -> Ex {
        Ex::new(ExKind::Int(value), DType::I64)
    }
    /// A `bool` constant.
    pub fn bool(value: bool) -> Ex {
        Ex::new(ExKind::Int(value.into()), DType::BOOL)
    }
    /// A variable of the given type.
    pub fn var(var: Var, dtype: DType) -> Ex {
        Ex::new(ExKind::Var(var), dtype)
    }
    /// The value of an integer or `bool` constant.
    pub fn as_int(&self) -> Option<i64> {
        if let ExKind::Int(v) = self.0.kind {
            Some(v)
        } else {
            None
        }
    }
    /// The value of any constant, as a float.
    pub fn as_float(&self) -> Option<f64> {
        match self.0.kind {
            ExKind::Int(v) => Some(v as f64),
            ExKind::Float(v) => Some(v),
            _ => None,
        }
    }

    /// A unary function of this expression. A function of real numbers takes an integer as
    /// `float64`, and its result is truncated toward zero.
    pub fn unary(&self, op: UnOp) -> Ex {
        if op.is_real() && (self.dtype().is_integral() || self.dtype().is_bool()) {
            return self.cast(DType::F64).unary(op).cast(self.dtype());
        }
        let dtype = match op {
            UnOp::IsNan | UnOp::IsInf | UnOp::IsFinite => DType::BOOL,
            _ => self.dtype(),
        };
        Ex::new(ExKind::Unary(op, self.clone()), dtype)
    }

    /// A binary function of this expression and `other`.
    ///
    /// # Panics
    /// Element types differ: the operators' relations guarantee that they are equal.
    pub fn binary(&self, op: BinOp, other: &Ex) -> Ex {
        assert_eq!(
            self.dtype(),
            other.dtype(),
            "operands of {op:?} differ in type"
        );
        let dtype = if op.is_comparison() {
            DType::BOOL
        } else {
            self.dtype()
        };
        if let (Some(a), Some(b)) = (self.as_int(), other.as_int())
            && let Some(v) = fold_int(op, self.dtype(), a, b)
        {
            return Ex::int(dtype, v);
        }
        if self.dtype() == DType::I64 {
            match (op, self.as_int(), other.as_int()) {
                (BinOp::Add, Some(0), _) | (BinOp::Mul, Some(1), _) => return other.clone(),
                (BinOp::Add | BinOp::Sub, _, Some(0)) => return self.clone(),
                (BinOp::Mul | BinOp::Div | BinOp::FloorDiv, _, Some(1)) => return self.clone(),
                (BinOp::Mul, Some(0), _) | (BinOp::Mul, _, Some(0)) => return Ex::idx(0),
                (BinOp::FloorMod | BinOp::Rem, _, Some(1)) => return Ex::idx(0),
                _ => {}
            }
        }
        Ex::new(ExKind::Binary(op, self.clone(), other.clone()), dtype)
    }

    /// `then` where `cond`, else `otherwise`.
    ///
    /// # Panics
    /// The two sides differ in type.
    pub fn where_(cond: &Ex, then: &Ex, otherwise: &Ex) -> Ex {
        assert_eq!(
            then.dtype(),
            otherwise.dtype(),
            "sides of a select differ in type"
        );
        match cond.as_int() {
            Some(0) => otherwise.clone(),
            Some(_) => then.clone(),
            None => Ex::new(
                ExKind::Select(cond.clone(), then.clone(), otherwise.clone()),
                then.dtype(),
            ),
        }
    }

    /// Conversion to `dtype`; the expression itself when it has that type.
    pub fn cast(&self, dtype: DType) -> Ex {
        if self.dtype() == dtype {
            return self.clone();
        }
        if self.dtype().as_param().or(dtype.as_param()).is_some() {
            return Ex::new(ExKind::Cast(self.clone()), dtype);
        }
        match self.0.kind {
            ExKind::Int(v) if dtype.is_bool() => Ex::bool(v != 0),
            ExKind::Int(v) if self.dtype() != DType::U64 || !dtype.is_float() => Ex::int(dtype, v),
            ExKind::Float(v) if dtype.is_float() => Ex::float(dtype, v),
            _ => Ex::new(ExKind::Cast(self.clone()), dtype),
        }
    }
    /// The same bits as another type of the same width.
    pub fn reinterpret(&self, dtype: DType) -> Ex {
        Ex::new(ExKind::Reinterpret(self.clone()), dtype)
    }

    /// A constant of this expression's own type.
    pub fn same(&self, value: f64) -> Ex {
        Ex::float(self.dtype(), value)
    }
    /// Direct sub-expressions, in order.
    pub fn children(&self) -> Children<'_> {
        match &self.0.kind {
            ExKind::Int(_) | ExKind::Float(_) | ExKind::Var(_) => Children::of(&[], [self; 3], 0),
            ExKind::Load(_, ix) => Children::of(ix, [self; 3], ix.len()),
            ExKind::Unary(_, a) | ExKind::Cast(a) | ExKind::Reinterpret(a) => {
                Children::of(&[], [a; 3], 1)
            }
            ExKind::Binary(_, a, b) => Children::of(&[], [a, b, b], 2),
            ExKind::Select(c, a, b) => Children::of(&[], [c, a, b], 3),
        }
    }
    /// Returns whether the node has other owners. One with a single owner is reached once, from its
    /// parent.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
    /// The same node over other sub-expressions (as many as [`Ex::children`] returns), with
    /// constants folded again.
    pub fn with_children(&self, mut new: Vec<Ex>) -> Ex {
        match &self.0.kind {
            ExKind::Int(_) | ExKind::Float(_) | ExKind::Var(_) => self.clone(),
            ExKind::Load(b, _) => Ex::new(ExKind::Load(*b, new), self.dtype()),
            ExKind::Unary(op, _) => new[0].unary(*op),
            ExKind::Cast(_) => new[0].cast(self.dtype()),
            ExKind::Reinterpret(_) => new[0].reinterpret(self.dtype()),
            ExKind::Binary(op, ..) => new[0].binary(*op, &new[1]),
            ExKind::Select(..) => {
                let (b, a, c) = (new.pop(), new.pop(), new.pop());
                match (c, a, b) {
                    (Some(c), Some(a), Some(b)) => Ex::where_(&c, &a, &b),
                    _ => unreachable!("a select has three children"),
                }
            }
        }
    }
}

/// `v` wrapped to an integer type's width.
pub(crate) fn wrap(dtype: DType, v: i64) -> i64 {
    if dtype.is_bool() {
        return i64::from(v != 0);
    }
    if dtype.as_param().is_some() {
        return v;
    }
    let bits = u32::from(dtype.bits.clamp(1, 64));
    if dtype.is_int() {
        (v << (64 - bits)) >> (64 - bits)
    } else if bits == 64 {
        v
    } else {
        v & ((1 << bits) - 1)
    }
}

/// The value of an integer operation, before wrapping; `None` where it is not folded.
fn fold_int(op: BinOp, dtype: DType, a: i64, b: i64) -> Option<i64> {
    if dtype == DType::U64 || dtype.as_param().is_some() {
        return None;
    }
    Some(match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div if b != 0 => a.wrapping_div(b),
        BinOp::FloorDiv if b != 0 => {
            let q = a.wrapping_div(b);
            if a % b != 0 && (a < 0) != (b < 0) {
                q - 1
            } else {
                q
            }
        }
        BinOp::FloorMod if b != 0 && b != -1 => (a % b + b) % b,
        BinOp::Rem if b != 0 && b != -1 => a % b,
        BinOp::Min => a.min(b),
        BinOp::Max => a.max(b),
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Eq => i64::from(a == b),
        BinOp::Ne => i64::from(a != b),
        BinOp::Lt => i64::from(a < b),
        BinOp::Le => i64::from(a <= b),
        BinOp::Gt => i64::from(a > b),
        BinOp::Ge => i64::from(a >= b),
        _ => return None,
    })
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        impl std::ops::$trait<&Ex> for &Ex {
            type Output = Ex;
            fn $method(self, other: &Ex) -> Ex { self.binary(BinOp::$op, other) }
        }
        impl std::ops::$trait<Ex> for Ex {
            type Output = Ex;
            fn $method(self, other: Ex) -> Ex { self.binary(BinOp::$op, &other) }
        }
        impl std::ops::$trait<&Ex> for Ex {
            type Output = Ex;
            fn $method(self, other: &Ex) -> Ex { self.binary(BinOp::$op, other) }
        }
        impl std::ops::$trait<Ex> for &Ex {
            type Output = Ex;
            fn $method(self, other: Ex) -> Ex { self.binary(BinOp::$op, &other) }
        }
        impl std::ops::$trait<i64> for &Ex {
            type Output = Ex;
            fn $method(self, other: i64) -> Ex {
                self.binary(BinOp::$op, &Ex::int(self.dtype(), other))
            }
        }
        impl std::ops::$trait<i64> for Ex {
            type Output = Ex;
            fn $method(self, other: i64) -> Ex { std::ops::$trait::$method(&self, other) }
        }
    )*};
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, BitAnd bitand And, BitOr bitor Or,
           BitXor bitxor Xor);

macro_rules! named {
    ($($(#[$m:meta])* $method:ident = $op:ident;)*) => {
        impl Ex {$(
            $(#[$m])*
            pub fn $method(&self, other: impl Into<Operand>) -> Ex {
                self.binary(BinOp::$op, &other.into().of(self.dtype()))
            }
        )*}
    };
}
named! {
    /// See [`BinOp::FloorDiv`].
    floor_div = FloorDiv;
    /// See [`BinOp::FloorMod`].
    floor_mod = FloorMod;
    /// See [`BinOp::Rem`].
    rem = Rem;
    /// See [`BinOp::Min`].
    min = Min;
    /// See [`BinOp::Max`].
    max = Max;
    /// See [`BinOp::Pow`].
    pow = Pow;
    /// See [`BinOp::Shl`].
    shl = Shl;
    /// See [`BinOp::Shr`].
    shr = Shr;
    /// See [`BinOp::Eq`].
    eq = Eq;
    /// See [`BinOp::Ne`].
    ne = Ne;
    /// See [`BinOp::Lt`].
    lt = Lt;
    /// See [`BinOp::Le`].
    le = Le;
    /// See [`BinOp::Gt`].
    gt = Gt;
    /// See [`BinOp::Ge`].
    ge = Ge;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_arithmetic_folds() {
        let i = Ex::var(Var(0), DType::I64);
        assert_eq!(&i * 1 + 0, i);
        assert_eq!((Ex::idx(7) * 3).as_int(), Some(21));
        assert_eq!(Ex::idx(-7).floor_div(2).as_int(), Some(-4));
        assert_eq!(Ex::idx(-7).floor_mod(2).as_int(), Some(1));
        assert_eq!(
            (Ex::int(DType::I8, 100) + Ex::int(DType::I8, 100)).as_int(),
            Some(-56)
        );
    }

    #[test]
    fn floats_are_left_alone() {
        let x = Ex::var(Var(0), DType::F32);
        assert!(matches!(
            (&x * x.same(0.0)).kind(),
            ExKind::Binary(BinOp::Mul, ..)
        ));
        assert_eq!(
            Ex::float(DType::F32, 0.1).as_float(),
            Some(f64::from(0.1f32))
        );
    }
}
