//! relax-opt's features besides running passes: observers, documentation, split inputs, expected
//! diagnostics, reproducers.

pub mod around;
pub mod emit;
pub mod expected;
pub mod manual;
pub mod reproducer;
pub mod split;
pub mod watch;
