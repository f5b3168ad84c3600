//! What relax-opt does beside running passes: watching them, splitting inputs, expected
//! diagnostics, reproducers.

pub mod expected;
pub mod reproducer;
pub mod split;
pub mod watch;
