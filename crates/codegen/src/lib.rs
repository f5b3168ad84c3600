//! Loops and control flow to machine code. The only crate that uses Cranelift.
//!
//! [`object`] returns the bytes of an object file, [`Jit`] the same code in memory.

mod alike;
mod data;
mod demote;
mod described;
mod effort;
mod env;
mod error;
mod func;
mod functions;
mod halves;
mod host;
#[cfg(all(target_arch = "x86_64", unix))]
mod image;
mod jit;
mod kernel;
mod kernels;
mod library;
mod module;
mod object;
mod outside;
mod packed_forms;
mod prepack;
mod profile;
mod scalar;
mod settle;
mod target;
#[cfg(test)]
mod testing;
mod unwind;

pub use error::Error;
pub use host::{Given, Host, KernelCost, KernelEvent, Packed, Place, View};
#[cfg(all(target_arch = "x86_64", unix))]
pub use image::{Fixup, Image, Target8, needs};
pub use jit::{Entry, Jit};
pub use kernel::Unsupported;
pub use kernels::{Failure, Kernels, Packable, Signature, Site};
pub use library::{DESCRIPTION, Library, runtime_sources};
pub use module::{Listing, Sizes, entry_symbol};
pub use object::{Object, object};
pub use prepack::WeightsFile;
pub use relax_tensor::Value;
pub use target::{NATIVE, Target, X86_64_LEAST, listing};
