//! relax-opt: the tool, and what it does beside running passes: watching them, saying what they are, splitting inputs,
//! expected diagnostics, reproducers.

pub mod around;
pub mod emit;
pub mod expected;
pub mod manual;
pub mod reproducer;
pub mod split;
mod tool;
pub mod watch;

pub use tool::main;
