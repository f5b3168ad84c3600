//! Codes of this crate's diagnostics.

use relax_base::Code;

/// A tensor whose rank or element type is unknown where a tensor program is built.
pub const UNKNOWN_RANK: Code = Code(1001);
/// An operator without a computation for this form.
pub const NO_COMPUTATION: Code = Code(1002);
/// A construct that native code does not support.
pub const NOT_NATIVE: Code = Code(1003);
