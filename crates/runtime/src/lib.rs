//! The runtime of compiled Relay programs: a C interface, no compiler inside.
//!
//! Generated objects call these functions, and programs in C, Rust or Python link them. The
//! headers in `include/` are the interface; `docs/values.md` explains the layouts.
//!
//! Invariant: this crate depends on no compiler room, no panic crosses the C interface, and a
//! failed allocation is an error of the context.

pub mod context;
pub mod dlpack;
pub mod heap;
pub mod kernels;
pub mod object;
pub mod packed;
pub mod profile;
pub mod release;
pub mod scalar;
pub mod stack;
mod symbols;
pub mod tensor;
pub mod threads;
pub mod values;
pub mod weights;

pub use symbols::symbols;
