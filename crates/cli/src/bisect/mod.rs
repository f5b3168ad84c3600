//! Bisection: finds the pass that breaks a program, and a reduced program that it breaks.
//!
//! [`search`] runs a pipeline, evaluates the program before it and after each pass that changed it,
//! and returns the first pass whose output computes something else or fails verification, or that
//! crashed. [`reduce`] shrinks program and pipeline while the failure persists; [`shrink`] shrinks
//! a program under any predicate.

mod inputs;
mod reduce;
mod search;
mod shapes;
mod shrink;
mod value;

pub use inputs::{Inputs, MAX_STEPS};
pub use reduce::{Reduced, reduce};
pub use search::{Crash, Finding, Kind, Question, Verdict, search, watch_panics};
pub use shrink::shrink;
pub use value::{Difference, Sort, Tolerance};
