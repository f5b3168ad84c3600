//! The Relax virtual machine: a register machine with four instructions.
//!
//! [`translate`] compiles a lowered program to an [`Executable`], [`print()`] prints its listing
//! and [`write()`] serialises it, [`read_listing`] and [`read`] are the inverses, and a [`Machine`]
//! runs it. `docs/vm.md` describes all of this.
//!
//! Invariant: nothing here is `unsafe`; an unverified program can fail, but do nothing worse.

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
mod work;

pub use builtin::{Arity, Builtin, Plain};
pub use code::{Arg, Callee, Const, Entry, Executable, Function, Inst, Reg};
pub use engine::{Machine, Moment, Watch};
pub use fault::{Fault, MALFORMED};
pub use file::{FileError, MAGIC, fingerprint, open, read, write};
pub use kernel::Kernel;
pub use kernels::{KernelError, Kernels, Loops, charged};
pub use listing::{ListingError, print, read as read_listing};
pub use lower::{Unsupported, translate};
pub use packed::{NoPacked, Packed};
pub use value::{Node, PlaceError, Placed, Storage, Value};
pub use verify::{Breach, verify};
