//! Random well-typed programs with inputs, for the tests of every crate.
//!
//! [`program`] generates a text from a seed: closures, recursion, data types, tuples, references,
//! cells behind calls, dataflow blocks, shared graph nodes, symbolic dimensions, and tensors with
//! NaN, infinities and signed zeros among their elements. The same seed gives the same program on any machine, so
//! failures are reported by seed.
//!
//! The crate knows no compiler: a program is text, its inputs are tensors. It is only a
//! dev-dependency.
//!
//! Invariant: a program checks without errors and its evaluation terminates, with results that
//! consist only of tensors and tuples of tensors.

mod arrays;
mod compare;
mod data;
mod effects;
mod expr;
mod files;
mod inputs;
mod program;
mod programs;
mod rng;
mod statements;
mod tensor;
mod types;

pub use arrays::{archive, npy};
pub use compare::{agree, alike, same};
pub use files::files;
pub use program::{Features, Program, program};
pub use rng::Rng;
