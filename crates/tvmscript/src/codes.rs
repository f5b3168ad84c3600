//! The codes of this crate's errors, `RX1350` to `RX1399`.

use relax_base::Code;

/// A line that is not a statement of the language.
pub const SYNTAX: Code = Code(1350);
/// Indentation that matches no block, or a missing block.
pub const INDENTATION: Code = Code(1351);
/// An unmatched bracket.
pub const BRACKET: Code = Code(1352);
/// An unterminated string, or invalid characters.
pub const STRING: Code = Code(1353);
/// Python that is not part of TVMScript.
pub const PYTHON: Code = Code(1354);
/// An undefined name.
pub const UNDEFINED: Code = Code(1355);
/// An operator, or an attribute of `R`, `I`, `T`, that does not exist.
pub const UNKNOWN_OPERATOR: Code = Code(1356);
/// Arguments that an operator does not accept, or lacks.
pub const ARGUMENTS: Code = Code(1357);
/// An annotation that is not a type.
pub const ANNOTATION: Code = Code(1358);
/// A name bound twice where only one binding is allowed.
pub const BOUND_TWICE: Code = Code(1359);
/// A function that the module does not define.
pub const NO_FUNCTION: Code = Code(1360);
/// A constant that has no value.
pub const CONSTANT: Code = Code(1361);
/// A statement in a position where it has no meaning.
pub const STRUCTURE: Code = Code(1362);
/// A value of another kind than expected.
pub const KIND: Code = Code(1363);
/// A metadata section that cannot be read, or an entry that does not exist.
pub const METADATA: Code = Code(1364);
/// A construct that has no form in TVMScript.
pub const NO_FORM: Code = Code(1370);
