//! The value type [`Dim`] and its operators.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

use crate::facts::Facts;
use crate::poly::{Factor, OpKind, Poly};
use crate::rebuild::Rebuild;
use crate::{division, extremum};

relax_base::define_id! {
    /// A named, rigid dimension variable (`n` in `Tensor[(n, 4), float32]`). The module keeps
    /// the name.
    pub struct DimVar("dim");
    /// A flexible inference variable, solved by unification. It has no name in the text.
    pub struct DimInfer("?dim");
}

/// A variable or inference variable that a dimension depends on. Both are non-negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Atom {
    /// A named, rigid variable.
    Var(DimVar),
    /// An inference variable.
    Infer(DimInfer),
}

impl From<DimVar> for Atom {
    fn from(var: DimVar) -> Self {
        Atom::Var(var)
    }
}

impl From<DimInfer> for Atom {
    fn from(infer: DimInfer) -> Self {
        Atom::Infer(infer)
    }
}

/// The reason why a dimension has no usable value. The later variant takes precedence when two meet
/// in an operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DimError {
    /// The expression exceeds the limits (4,096 terms, 32,768 nodes, 64 nested `//`, `%`, `min`,
    /// `max`). It behaves like [`Dim::ANY`]: nothing is known, so nothing wrong is claimed.
    TooLarge,
    /// A coefficient does not fit in 64 bits.
    Overflow,
    /// A division by the constant zero.
    DivisionByZero,
}

impl fmt::Display for DimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DimError::TooLarge => "the dimension expression is too large",
            DimError::Overflow => "the dimension does not fit in 64 bits",
            DimError::DivisionByZero => "the dimension divides by zero",
        })
    }
}

/// The value of a dimension, or of a part of it, does not fit in 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overflow;

/// A dimension: an integer-valued expression in normal form. Cheap to clone (16 bytes).
///
/// Equality and hash are structural on the normal form: equal values are the same dimension,
/// unequal values may still be semantically equal (see [`Facts::eq`]). Two `?` are equal as values,
/// although the extents they denote are unknown. There is no `Ord`: its `min` and `max` would be
/// taken for the symbolic ones. Sort with [`Dim::structural_cmp`].
///
/// Constants and `?` record their spelling in the text ([`Dim::is_wide`], [`Dim::mark`]): TVM
/// prints 64-bit extents as `3i64` and preserves the width through shape arithmetic. Equality, hash
/// and order ignore the spelling.
///
/// Invariant: values are in normal form; a polynomial that is a constant or a lone variable is
/// never stored as a polynomial.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Dim(pub(crate) Repr);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Repr {
    Const(Const),
    Atom(Atom),
    Poly(Arc<Poly>),
    Any(Mark),
    Bad(DimError),
}

/// A spelling annotation, which is ignored by equality and hashing.
#[derive(Clone, Copy)]
pub(crate) struct Spelling<T>(T);

impl<T> PartialEq for Spelling<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl<T> Eq for Spelling<T> {}
impl<T> PartialOrd for Spelling<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Spelling<T> {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}
impl<T> std::hash::Hash for Spelling<T> {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// A constant with its width.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Const {
    pub(crate) value: i64,
    wide: Spelling<bool>,
}

impl Const {
    const fn narrow(value: i64) -> Const {
        Const {
            value,
            wide: Spelling(false),
        }
    }
}

/// The owner's mark for the spelling of a `?`; 0 is none.
pub(crate) type Mark = Spelling<u32>;

impl Dim {
    /// TVM's `?`: an unknown extent, which is not even known to equal itself. Arithmetic with it
    /// gives `?` again, except that `0 * ?` is 0.
    pub const ANY: Dim = Dim(Repr::Any(Spelling(0)));
    /// The extent 0.
    pub const ZERO: Dim = Dim(Repr::Const(Const::narrow(0)));
    /// The extent 1.
    pub const ONE: Dim = Dim(Repr::Const(Const::narrow(1)));

    /// Creates a named variable.
    pub fn var(var: DimVar) -> Dim {
        Dim(Repr::Atom(Atom::Var(var)))
    }

    /// Creates an inference variable.
    pub fn infer(infer: DimInfer) -> Dim {
        Dim(Repr::Atom(Atom::Infer(infer)))
    }

    /// Creates a variable or inference variable.
    pub fn atom(atom: Atom) -> Dim {
        Dim(Repr::Atom(atom))
    }

    /// Creates a dimension without a value.
    pub fn bad(error: DimError) -> Dim {
        Dim(Repr::Bad(error))
    }

    /// Returns the value if it is a constant.
    pub fn as_const(&self) -> Option<i64> {
        match self.0 {
            Repr::Const(c) => Some(c.value),
            _ => None,
        }
    }

    /// Returns the variable if the dimension is just that.
    pub fn as_atom(&self) -> Option<Atom> {
        match self.0 {
            Repr::Atom(atom) => Some(atom),
            _ => None,
        }
    }

    /// A total, deterministic order on normal forms, for sorting. It is unrelated to the order of
    /// values.
    pub fn structural_cmp(&self, other: &Dim) -> Ordering {
        self.0.cmp(&other.0)
    }

    /// Returns whether this is `?`.
    pub fn is_any(&self) -> bool {
        matches!(self.0, Repr::Any(_))
    }

    /// Creates a constant that is spelled with 64 bits, `3i64`.
    pub fn wide(value: i64) -> Dim {
        Dim(Repr::Const(Const {
            value,
            wide: Spelling(true),
        }))
    }

    /// Returns whether this is a constant spelled with 64 bits: written like that in the text, or
    /// computed from one that is.
    pub fn is_wide(&self) -> bool {
        matches!(self.0, Repr::Const(c) if c.wide.0)
    }

    /// Returns the dimension with the plain spelling.
    pub fn narrow(&self) -> Dim {
        match self.0 {
            Repr::Const(c) => Dim::from(c.value),
            Repr::Any(_) => Dim::ANY,
            _ => self.clone(),
        }
    }

    /// Creates a `?` with a spelling that its owner identifies by `mark`, which is not 0.
    pub fn marked_any(mark: u32) -> Dim {
        Dim(Repr::Any(Spelling(mark)))
    }

    /// Returns the mark of a `?` created by [`Dim::marked_any`].
    pub fn mark(&self) -> Option<u32> {
        match self.0 {
            Repr::Any(Spelling(mark)) if mark != 0 => Some(mark),
            _ => None,
        }
    }

    /// Returns the dimension, spelled with 64 bits if it is a constant and one of the operands is.
    fn with_width_of(self, operands: [&Dim; 2]) -> Dim {
        match self.0 {
            Repr::Const(c) if operands.iter().any(|d| d.is_wide()) => Dim::wide(c.value),
            _ => self,
        }
    }

    /// Returns the reason if the dimension has no usable value. To be checked where a dimension
    /// enters a type.
    pub fn error(&self) -> Option<DimError> {
        match self.0 {
            Repr::Bad(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the dimension is a known expression: neither `?` nor an error.
    pub fn is_known(&self) -> bool {
        !matches!(self.0, Repr::Any(_) | Repr::Bad(_))
    }

    /// Returns `self // other`, rounded towards minus infinity.
    pub fn floordiv(&self, other: &Dim) -> Dim {
        division::floordiv(self, other, &Facts::default()).with_width_of([self, other])
    }

    /// Returns `self % other`, with the sign of `other`.
    pub fn modulo(&self, other: &Dim) -> Dim {
        division::modulo(self, other, &Facts::default()).with_width_of([self, other])
    }

    /// Returns the minimum of the two.
    pub fn min(&self, other: &Dim) -> Dim {
        extremum::extremum(OpKind::Min, self, other, &Facts::default()).with_width_of([self, other])
    }

    /// Returns the maximum of the two.
    pub fn max(&self, other: &Dim) -> Dim {
        extremum::extremum(OpKind::Max, self, other, &Facts::default()).with_width_of([self, other])
    }

    /// Returns `self / other` rounded up: `-(-self // other)`.
    pub fn ceildiv(&self, other: &Dim) -> Dim {
        -(-self).floordiv(other)
    }

    /// Returns the named variables that it depends on, in id order.
    pub fn free_vars(&self) -> Vec<DimVar> {
        self.atoms()
            .into_iter()
            .filter_map(|atom| match atom {
                Atom::Var(var) => Some(var),
                Atom::Infer(_) => None,
            })
            .collect()
    }

    /// Returns the inference variables that it depends on, in id order.
    pub fn infer_vars(&self) -> Vec<DimInfer> {
        self.atoms()
            .into_iter()
            .filter_map(|atom| match atom {
                Atom::Infer(infer) => Some(infer),
                Atom::Var(_) => None,
            })
            .collect()
    }

    /// Returns the variables and inference variables that it depends on, in order, each once.
    pub fn atoms(&self) -> Vec<Atom> {
        match &self.0 {
            Repr::Atom(atom) => vec![*atom],
            Repr::Poly(poly) => {
                let mut found = Vec::new();
                any_atom(poly, &mut |atom| {
                    found.push(atom);
                    false
                });
                found.sort_unstable();
                found.dedup();
                found
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether it depends on an inference variable that unification may still solve.
    pub fn has_infer(&self) -> bool {
        match &self.0 {
            Repr::Atom(atom) => matches!(atom, Atom::Infer(_)),
            Repr::Poly(poly) => any_atom(poly, &mut |atom| matches!(atom, Atom::Infer(_))),
            _ => false,
        }
    }

    /// Substitutes variables simultaneously: replacements are not substituted again. The result is
    /// in normal form.
    pub fn substitute(&self, replace: &dyn Fn(Atom) -> Option<Dim>) -> Dim {
        match &self.0 {
            Repr::Atom(atom) => replace(*atom).unwrap_or_else(|| self.clone()),
            Repr::Poly(poly) if any_atom(poly, &mut |atom| replace(atom).is_some()) => {
                // Most replacements are other names.
                let renamed = poly.renamed(|atom| match replace(atom) {
                    None => Some(atom),
                    Some(new) => new.as_atom(),
                });
                match renamed {
                    Some(poly) => Ok(poly).into(),
                    None => Rebuild::new(replace, &Facts::default()).dim(self),
                }
            }
            _ => self.clone(),
        }
    }

    /// Evaluates the dimension under an assignment of the named variables. Returns `Ok(None)` if it
    /// has no value: an unassigned variable, an inference variable, `?`, a division by zero, or a
    /// too large expression.
    ///
    /// # Errors
    /// An intermediate value does not fit in 64 bits.
    pub fn eval(&self, value: &dyn Fn(DimVar) -> Option<i64>) -> Result<Option<i64>, Overflow> {
        match crate::eval::eval(self, value)? {
            Some(result) => i64::try_from(result).map(Some).map_err(|_| Overflow),
            None => Ok(None),
        }
    }

    /// Returns the underlying polynomial; `None` for `?` and errors.
    pub(crate) fn poly(&self) -> Option<Cow<'_, Poly>> {
        match &self.0 {
            Repr::Const(c) => Some(Cow::Owned(Poly::constant(c.value))),
            Repr::Atom(atom) => Some(Cow::Owned(Poly::factor(Factor::Atom(*atom)))),
            Repr::Poly(poly) => Some(Cow::Borrowed(poly)),
            Repr::Any(_) | Repr::Bad(_) => None,
        }
    }

    /// Returns the result of a binary operation with an operand that is `?` or an error; `None` if
    /// neither is.
    pub(crate) fn absorb(&self, other: &Dim) -> Option<Dim> {
        let rank = |dim: &Dim| match dim.0 {
            Repr::Any(_) => 1,
            Repr::Bad(error) => 2 + error as u8,
            _ => 0,
        };
        let (left, right) = (rank(self), rank(other));
        match left.max(right) {
            0 => None,
            // The result of arithmetic on a `?` has no spelling of its own.
            1 => Some(Dim::ANY),
            worst if worst == left => Some(self.clone()),
            _ => Some(other.clone()),
        }
    }

    /// Returns whether it is unknown but denotes some value: zero times it is zero.
    fn is_opaque(&self) -> bool {
        matches!(self.0, Repr::Any(_) | Repr::Bad(DimError::TooLarge))
    }
}

/// Returns whether `f` returns true for an atom; it is called no more then. Atoms that occur several
/// times are passed to it several times.
fn any_atom(poly: &Poly, f: &mut dyn FnMut(Atom) -> bool) -> bool {
    poly.factors().any(|factor| match factor {
        Factor::Atom(atom) => f(*atom),
        Factor::Op(op) => op.args.iter().any(|arg| match &arg.0 {
            Repr::Atom(atom) => f(*atom),
            Repr::Poly(inner) => any_atom(inner, f),
            _ => false,
        }),
    })
}

impl From<i64> for Dim {
    fn from(value: i64) -> Self {
        Dim(Repr::Const(Const::narrow(value)))
    }
}

impl From<DimVar> for Dim {
    fn from(var: DimVar) -> Self {
        Dim::var(var)
    }
}

impl From<DimInfer> for Dim {
    fn from(infer: DimInfer) -> Self {
        Dim::infer(infer)
    }
}

/// Applies a checked operation to two constants.
fn checked(a: Const, b: Const, op: fn(i64, i64) -> Option<i64>) -> Dim {
    let wide = Spelling(a.wide.0 || b.wide.0);
    op(a.value, b.value).map_or(Dim::bad(DimError::Overflow), |value| {
        Dim(Repr::Const(Const { value, wide }))
    })
}

fn add(left: &Dim, right: &Dim) -> Dim {
    match (&left.0, &right.0) {
        (Repr::Const(a), Repr::Const(b)) => return checked(*a, *b, i64::checked_add),
        (Repr::Const(Const { value: 0, .. }), _) => return right.clone(),
        (_, Repr::Const(Const { value: 0, .. })) => return left.clone(),
        _ => {}
    }
    match (left.poly(), right.poly()) {
        (Some(a), Some(b)) => Poly::add(&a, &b, 1).into(),
        _ => left.absorb(right).expect("one operand has no polynomial"),
    }
}

fn sub(left: &Dim, right: &Dim) -> Dim {
    match (&left.0, &right.0) {
        (Repr::Const(a), Repr::Const(b)) => return checked(*a, *b, i64::checked_sub),
        (_, Repr::Const(Const { value: 0, .. })) => return left.clone(),
        _ => {}
    }
    match (left.poly(), right.poly()) {
        (Some(a), Some(b)) => Poly::add(&a, &b, -1).into(),
        _ => left.absorb(right).expect("one operand has no polynomial"),
    }
}

fn mul(left: &Dim, right: &Dim) -> Dim {
    match (&left.0, &right.0) {
        (Repr::Const(a), Repr::Const(b)) => return checked(*a, *b, i64::checked_mul),
        (Repr::Const(Const { value: 0, .. }), _) if right.is_opaque() => return Dim::ZERO,
        (_, Repr::Const(Const { value: 0, .. })) if left.is_opaque() => return Dim::ZERO,
        (Repr::Const(Const { value: 1, .. }), _) => return right.clone(),
        (_, Repr::Const(Const { value: 1, .. })) => return left.clone(),
        _ => {}
    }
    match (left.poly(), right.poly()) {
        (Some(a), Some(b)) => Poly::mul(&a, &b).into(),
        _ => left.absorb(right).expect("one operand has no polynomial"),
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $function:ident) => {
        impl $trait<&Dim> for &Dim {
            type Output = Dim;
            fn $method(self, other: &Dim) -> Dim {
                $function(self, other)
            }
        }
        impl $trait<Dim> for &Dim {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                $function(self, &other)
            }
        }
        impl $trait<&Dim> for Dim {
            type Output = Dim;
            fn $method(self, other: &Dim) -> Dim {
                $function(&self, other)
            }
        }
        impl $trait<Dim> for Dim {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                $function(&self, &other)
            }
        }
        impl $trait<i64> for &Dim {
            type Output = Dim;
            fn $method(self, other: i64) -> Dim {
                $function(self, &Dim::from(other))
            }
        }
        impl $trait<i64> for Dim {
            type Output = Dim;
            fn $method(self, other: i64) -> Dim {
                $function(&self, &Dim::from(other))
            }
        }
        impl $trait<&Dim> for i64 {
            type Output = Dim;
            fn $method(self, other: &Dim) -> Dim {
                $function(&Dim::from(self), other)
            }
        }
        impl $trait<Dim> for i64 {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                $function(&Dim::from(self), &other)
            }
        }
    };
}

operator!(Add, add, add);
operator!(Sub, sub, sub);
operator!(Mul, mul, mul);

impl Neg for &Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        sub(&Dim::ZERO, self)
    }
}

impl Neg for Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        -&self
    }
}

impl std::iter::Sum for Dim {
    fn sum<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        dims.fold(Dim::ZERO, |sum, dim| sum + dim)
    }
}

impl std::iter::Product for Dim {
    fn product<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        dims.fold(Dim::ONE, |product, dim| product * dim)
    }
}
