//! The Relax virtual machine: a register machine of four instructions that calls functions.
//!
//! [`translate`] makes an [`Executable`] of a lowered program, [`print()`] its listing and
//! [`write()`] its file, [`read_listing`] and [`read`] take these back, and a [`Machine`] runs it.
//! `docs/vm.md` describes all of it.
//!
//! Invariant: nothing here is `unsafe`; a program that nobody has verified can fail, and nothing
//! worse.

mod builtin;
mod builtins;
mod code;
mod engine;
mod fault;
mod file;
mod kernel;
mod kernels;
mod listing;
mod lower;
mod packed;
mod programs;
mod value;
mod verify;

pub use builtin::{Arity, Builtin, Plain};
pub use code::{Arg, Callee, Const, Entry, Executable, Function, Inst, Reg};
pub use engine::{Machine, Moment, Watch};
pub use fault::{Fault, MALFORMED};
pub use file::{FileError, MAGIC, fingerprint, open, read, write};
pub use kernel::Kernel;
pub use kernels::{KernelError, Kernels, Loops};
pub use listing::{ListingError, print, read as read_listing};
pub use lower::{Unsupported, translate};
pub use packed::{NoPacked, Packed};
pub use value::{Node, PlaceError, Placed, Storage, Value};
pub use verify::{Breach, verify};
