//! Operators as tensor programs, for all users.
//!
//! [`Request`] is a call from the view of an operator's computation: the evaluator creates one from
//! values. [`Call`] is a call in a typed module: passes and the lowering query its program, and the
//! key by which equal calls share it. [`group::program`] builds the program of a fused group,
//! [`value`] computes a call on constants.
//!
//! Invariant: the evaluator and native code get an operator's program from [`Request::program`],
//! which alone runs computations.

mod call;
pub mod codes;
pub mod group;
mod request;
mod tensors;
mod value;

pub use call::{Call, Operator};
pub use relax_ops::{Made, NoProgram, Request};
pub use request::{CONST_LIMIT, item_program};
pub use tensors::{dims, flatten, flatten_with, known_extents};
pub use value::value;
