//! Random well-typed programs with inputs, for the tests of every room.
//!
//! [`program`] makes a text from a number: closures, recursion, data types, tuples, references,
//! dataflow blocks, shared graph nodes, symbolic dimensions, and tensors with NaN, infinities and
//! signed zeros among their elements. The same number gives the same program on any machine, so
//! a failure is reported by its seed.
//!
//! The room knows no compiler: a program is text, its inputs are tensors. It is a dependency of
//! tests only.
//!
//! Invariant: a program checks without errors and its evaluation ends, with results only of
//! tensors and tuples of tensors.

mod arrays;
mod compare;
mod data;
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
