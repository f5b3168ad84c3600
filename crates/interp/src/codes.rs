//! Codes of run-time errors.

use relax_base::Code;

/// Dimensions that must be equal are not.
pub const DIMENSION: Code = Code(1101);
/// No clause of a match applies.
pub const NO_MATCH: Code = Code(1102);
/// A value has an unexpected type.
pub const TYPE: Code = Code(1103);
/// An entry function is called with wrong arguments.
pub const ARGUMENTS: Code = Code(1104);
/// An operator cannot be evaluated.
pub const NO_COMPUTATION: Code = Code(1105);
/// A packed function is missing or failed.
pub const PACKED: Code = Code(1106);
/// A dimension has no value.
pub const UNBOUND: Code = Code(1107);
/// The recursion is deeper than memory allows.
pub const DEPTH: Code = Code(1108);
/// The program has an error that was already reported.
pub const BROKEN: Code = Code(1109);
/// A tensor is read after its memory was reused.
pub const MEMORY: Code = Code(1110);
/// The step limit was exceeded.
pub const STEPS: Code = Code(1111);
