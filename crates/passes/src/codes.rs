//! The codes of this room's diagnostics.

use relax_base::Code;

/// The text of a pipeline cannot be read.
pub const PIPELINE_SYNTAX: Code = Code(901);
/// There is no pass of that name.
pub const UNKNOWN_PASS: Code = Code(902);
/// The pass has no option of that name.
pub const UNKNOWN_OPTION: Code = Code(903);
/// The value does not fit the option.
pub const OPTION_VALUE: Code = Code(904);
/// An option names a function that the module does not have.
pub const UNKNOWN_FUNCTION: Code = Code(1250);
/// A pass left a module that breaks an invariant.
pub const BROKEN_MODULE: Code = Code(905);
/// A pass left a module whose types do not fit.
pub const ILL_TYPED: Code = Code(906);
/// A pass cannot treat a construct.
pub const UNSUPPORTED: Code = Code(907);

/// A call stays in its layout.
pub const LAYOUT_KEPT: Code = Code(908);
/// A declared pattern cannot be used.
pub const PATTERN: Code = Code(909);
/// A region cannot be called by `call_dps_packed`.
pub const NOT_PACKED: Code = Code(910);
/// A pass needs a form that the program is not in.
pub const FORM: Code = Code(912);
/// Unknown extents got no names.
pub const UNKNOWN_KEPT: Code = Code(911);
