//! Finding the pass that breaks a program, and a smaller program that it breaks.
//!
//! [`search`] runs a pipeline, evaluates the program before it and after each pass that changed it,
//! and says which pass was the first whose output computes something else, fails verification, or
//! that crashed. [`reduce`] shrinks program and pipeline while that stays so; [`shrink`] a program
//! of which anything is wrong.

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
