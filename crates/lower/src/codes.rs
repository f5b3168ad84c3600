//! Diagnostic codes of this crate.

pub use relax_programs::codes::NOT_NATIVE as UNSUPPORTED;
pub use relax_programs::codes::{NO_COMPUTATION, UNKNOWN_RANK};
