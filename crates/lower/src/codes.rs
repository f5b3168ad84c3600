//! Diagnostic codes of this room.

use relax_base::Code;

/// A tensor whose rank or element type is unknown where code is generated.
pub const UNKNOWN_RANK: Code = Code(1001);
/// An operator without a computation for this form.
pub const NO_COMPUTATION: Code = Code(1002);
/// A construct that native code does not support.
pub const UNSUPPORTED: Code = Code(1003);
