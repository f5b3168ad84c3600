//! The diagnostic codes of this crate; each has a page in `docs/errors/`.

use relax_base::Code;

/// A local variable is not in scope.
pub const UNKNOWN_LOCAL: Code = Code(201);
/// A global is not defined.
pub const UNKNOWN_GLOBAL: Code = Code(202);
/// A bare name is neither an operator nor a constructor.
pub const UNKNOWN_NAME: Code = Code(203);
/// A type is not defined.
pub const UNKNOWN_TYPE: Code = Code(204);
/// A name is defined twice.
pub const DUPLICATE: Code = Code(205);
/// A graph variable is used before it is bound.
pub const UNKNOWN_GRAPH: Code = Code(206);
/// A free variable of an expression file is not declared (a warning).
pub const UNDECLARED_FREE: Code = Code(207);
/// A construct is not allowed in its position.
pub const MISPLACED: Code = Code(208);
/// A constructor pattern has the wrong number of fields, or names no constructor.
pub const PATTERN: Code = Code(210);
/// A relation is not defined, or not understood.
pub const RELATION: Code = Code(211);
/// A numeric literal does not fit its type.
pub const LITERAL: Code = Code(212);
/// The metadata section cannot be read.
pub const METADATA: Code = Code(213);
/// A reference into the metadata section finds nothing.
pub const META_REF: Code = Code(214);
/// A data type definition is contradictory.
pub const DATA_TYPE: Code = Code(215);
/// An `output` names something that is not bound in its dataflow block.
pub const OUTPUT: Code = Code(216);
/// An operator is unknown, and its call is kept as it is (a warning).
pub const UNKNOWN_OP: Code = Code(217);
/// Constants are placeholders (a note).
pub const STUBS: Code = Code(218);
/// A `grad` item says something that is no gradient.
pub const GRADIENT: Code = Code(219);
/// A kind does not match, or is unknown.
pub const KIND: Code = Code(310);
/// A type has the wrong number of arguments.
pub const TYPE_ARITY: Code = Code(311);
/// A type is malformed.
pub const TYPE_FORM: Code = Code(312);
/// A dimension variable is not bound.
pub const UNKNOWN_DIM: Code = Code(410);
/// A dimension expression has no value.
pub const DIM_FORM: Code = Code(411);
/// An operator is called with the wrong number of arguments.
pub const OP_ARITY: Code = Code(510);
/// An operator has no such attribute.
pub const UNKNOWN_ATTR: Code = Code(511);
/// An attribute's value has the wrong type.
pub const ATTR_TYPE: Code = Code(512);
/// A required attribute is missing.
pub const MISSING_ATTR: Code = Code(513);
/// Attributes in a position that takes none, or duplicates.
pub const ATTR_PLACE: Code = Code(514);
/// A name inside a tensor program is unknown.
pub const PROGRAM_NAME: Code = Code(801);
/// Element types inside a tensor program do not match.
pub const PROGRAM_TYPE: Code = Code(802);
/// A construct is not allowed in a tensor program.
pub const PROGRAM_FORM: Code = Code(803);

/// Stages are not what the kernel of their group computes.
pub const PROGRAM_KERNEL: Code = Code(804);

/// Returns whether an error of this code leaves an error node at its position, so that code that
/// does not depend on it can still be checked.
pub fn leaves_node(code: Code) -> bool {
    matches!(
        code,
        UNKNOWN_LOCAL
            | UNKNOWN_GLOBAL
            | UNKNOWN_NAME
            | UNKNOWN_TYPE
            | UNKNOWN_GRAPH
            | MISPLACED
            | PATTERN
            | LITERAL
            | META_REF
            | TYPE_ARITY
            | TYPE_FORM
            | UNKNOWN_DIM
            | DIM_FORM
            | OP_ARITY
            | UNKNOWN_ATTR
            | ATTR_TYPE
            | MISSING_ATTR
            | ATTR_PLACE
    )
}

/// Returns whether an error of this code may be the consequence of a syntax error: the missing
/// definition may be in the unparsed part.
pub fn may_follow(code: Code) -> bool {
    matches!(
        code,
        UNKNOWN_LOCAL
            | UNKNOWN_GLOBAL
            | UNKNOWN_NAME
            | UNKNOWN_TYPE
            | UNDECLARED_FREE
            | UNKNOWN_GRAPH
            | PATTERN
            | RELATION
            | META_REF
            | OUTPUT
            | UNKNOWN_DIM
            | OP_ARITY
            | MISSING_ATTR
            | PROGRAM_NAME
            | PROGRAM_FORM
            | MISPLACED
    )
}
