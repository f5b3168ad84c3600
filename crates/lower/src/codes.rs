//! Diagnostic codes of this room.

pub use relax_passes::codes::NOT_NATIVE as UNSUPPORTED;
pub use relax_passes::codes::{NO_COMPUTATION, UNKNOWN_RANK};
