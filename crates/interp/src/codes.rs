//! Codes of run-time errors.

use relax_base::Code;

/// Dimensions that must be equal are not.
pub const DIMENSION: Code = Code(1101);
/// No clause of a match fits.
pub const NO_MATCH: Code = Code(1102);
/// A value has another type than expected.
pub const TYPE: Code = Code(1103);
/// An entry function is called with other arguments than it takes.
pub const ARGUMENTS: Code = Code(1104);
/// An operator cannot be evaluated.
pub const NO_COMPUTATION: Code = Code(1105);
/// A packed function is missing or failed.
pub const PACKED: Code = Code(1106);
/// A dimension has no value here.
pub const UNBOUND: Code = Code(1107);
/// The recursion is deeper than memory allows.
pub const DEPTH: Code = Code(1108);
/// The program has an error that was reported before.
pub const BROKEN: Code = Code(1109);
/// A tensor is read after its memory was given away.
pub const MEMORY: Code = Code(1110);
/// The program takes more steps than it may.
pub const STEPS: Code = Code(1111);
