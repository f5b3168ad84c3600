//! Loops and control flow to machine code. The only room that knows Cranelift.
//!
//! [`object`] gives the bytes of an object file, [`Jit`] the same code in memory.

mod described;
mod env;
mod func;
mod host;
mod jit;
mod kernel;
mod large;
mod module;
mod prepack;
mod profile;
mod scalar;
mod target;
mod unwind;

pub use host::{Host, KernelCost, KernelEvent};
pub use jit::{Entry, Jit};
pub use kernel::Unsupported;
pub use module::{Listing, Sizes, entry_symbol};
pub use relax_tensor::Value;
pub use target::{NATIVE, Object, Target, TargetError, X86_64_LEAST, listing, object};
