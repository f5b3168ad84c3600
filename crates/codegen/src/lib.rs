//! Loops and control flow to machine code. The only room that knows Cranelift.

mod env;
mod kernel;
mod scalar;

pub use kernel::Unsupported;
