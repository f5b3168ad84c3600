//! The codes of this crate's diagnostics.

use relax_base::Code;

/// The text of a pipeline is malformed.
pub const PIPELINE_SYNTAX: Code = Code(901);
/// There is no pass with this name.
pub const UNKNOWN_PASS: Code = Code(902);
/// The pass has no option with this name.
pub const UNKNOWN_OPTION: Code = Code(903);
/// The value does not fit the option.
pub const OPTION_VALUE: Code = Code(904);
/// An option names a function that does not exist.
pub const UNKNOWN_FUNCTION: Code = Code(1250);
/// The output of a pass violates an invariant.
pub const BROKEN_MODULE: Code = Code(905);
/// The output of a pass is ill-typed.
pub const ILL_TYPED: Code = Code(906);
/// A pass does not support a construct.
pub const UNSUPPORTED: Code = Code(907);

/// A call keeps its layout.
pub const LAYOUT_KEPT: Code = Code(908);
/// A declared pattern cannot be used.
pub const PATTERN: Code = Code(909);
/// A region cannot be called by `call_dps_packed`.
pub const NOT_PACKED: Code = Code(910);
/// A pass requires a form that the program is not in.
pub const FORM: Code = Code(912);
/// Unknown extents were not named.
pub const UNKNOWN_KEPT: Code = Code(911);
/// Calls of programs keep making their results.
pub const CALLS_KEPT: Code = Code(913);
