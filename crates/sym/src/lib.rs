//! Symbolic dimensions: a normal form, proofs about it, and inference variables solved by
//! unification.
//!
//! A [`Dim`] is an integer-valued expression over dimension variables. The result of every
//! operation is brought to a normal form (a polynomial over variables and over `//`, `%`, `min`,
//! `max` of normal forms), so that structural equality already decides most questions; [`Facts`]
//! decides more of them with bounds and divisibility; [`solve`] isolates inference variables.
//!
//! # What the laws mean
//!
//! * Values are mathematical integers. Coefficients are `i64`; a coefficient that does not fit
//!   turns the whole dimension into [`DimError::Overflow`]. Nothing wraps.
//! * Variables and inference variables are non-negative: they denote extents. Whoever substitutes a
//!   dimension for a variable must ensure that its value is not negative.
//! * `a // b` rounds towards minus infinity and `a % b == a - a // b * b` (Python's semantics).
//!   Division by zero has no value. Two dimensions count as equal when they have the same value
//!   under every assignment that gives both of them one; a normal form may therefore have a value
//!   where the written expression has none (`n * m // m` is `n`, also for `m == 0`), never the
//!   reverse and never another value. A divisor that cannot be negative counts as positive for the
//!   same reason.
//!
//! Invariant: this crate stores no names. A module owns the names of its variables and passes a
//! naming function to [`Dim::display`].

mod dim;
mod display;
mod division;
mod eval;
mod extremum;
mod facts;
mod fold;
mod mono;
mod poly;
mod range;
mod rebuild;
mod recombine;
mod solve;

pub use dim::{Atom, Dim, DimError, DimInfer, DimVar, Overflow};
pub use display::DisplayDim;
pub use facts::{Facts, Proof};
pub use fold::{DimBuilder, DimOp};
pub use solve::{Solution, solve};
