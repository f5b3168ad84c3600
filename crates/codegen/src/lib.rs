//! Loops and control flow to machine code. The only room that knows Cranelift.
//!
//! [`object`] gives the bytes of an object file, [`Jit`] the same code in memory.

mod env;
mod func;
mod host;
#[cfg(all(target_arch = "x86_64", unix))]
mod image;
mod jit;
mod kernel;
mod kernels;
mod module;
mod prepack;
mod profile;
mod scalar;
mod target;
mod unwind;

pub use host::{Host, KernelCost, KernelEvent};
#[cfg(all(target_arch = "x86_64", unix))]
pub use image::{Fixup, Image, Target8, needs};
pub use jit::{Entry, Jit};
pub use kernel::Unsupported;
pub use kernels::{Failure, Kernels, Site};
pub use module::{Listing, Sizes, entry_symbol};
pub use relax_tensor::Value;
pub use target::{NATIVE, Object, Target, TargetError, X86_64_LEAST, listing, object};
