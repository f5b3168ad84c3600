//! What relax-opt does beside running passes: watching them, saying what they are, splitting
//! inputs, expected diagnostics, reproducers.

pub mod around;
pub mod emit;
pub mod expected;
pub mod manual;
pub mod reproducer;
pub mod split;
pub mod watch;
