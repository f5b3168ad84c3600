//! The codes of the diagnostics of this crate; each has a page in `docs/errors/`.

use relax_base::Code;

/// An argument does not have the type that the function takes.
pub const ARG_TYPE: Code = Code(301);
/// A value does not have the type that its variable is annotated with.
pub const ANNOTATION: Code = Code(302);
/// The branches of an `if` have different types.
pub const BRANCHES: Code = Code(303);
/// The guard of an `if` is not a `bool` scalar.
pub const GUARD: Code = Code(304);
/// A function's body does not have the annotated result type.
pub const RETURN: Code = Code(305);
/// A call has too few or too many arguments.
pub const ARG_COUNT: Code = Code(306);
/// The callee of a call is not a function.
pub const NOT_FUNCTION: Code = Code(307);
/// A tuple has no such field, or the value is not a tuple.
pub const FIELD: Code = Code(308);
/// The clauses of a match have different types.
pub const CLAUSES: Code = Code(309);
/// A pattern does not fit the type of the value.
pub const PATTERN_TYPE: Code = Code(313);
/// A reference cell is used incorrectly.
pub const CELL: Code = Code(314);
/// A type is not determined.
pub const INCOMPLETE: Code = Code(315);
/// A type would contain itself.
pub const INFINITE: Code = Code(316);
/// A call has too many type arguments.
pub const TYPE_ARGS: Code = Code(317);
/// The types of a program grow without bound.
pub const TOO_LARGE: Code = Code(318);
/// An operator does not accept arguments of these types.
pub const OPERATOR: Code = Code(319);
/// An attribute's value does not fit the operator's arguments.
pub const ATTRIBUTE: Code = Code(320);
/// A relation of a `where` clause does not hold.
pub const CONSTRAINT: Code = Code(321);
/// A tensor program is called like a function.
pub const PROGRAM_CALL: Code = Code(322);
/// `match_cast` to a type that the value cannot have.
pub const CAST: Code = Code(323);
/// `match_shape` against dimensions that the value cannot have.
pub const MATCH_SHAPE: Code = Code(401);
/// Two dimensions are neither proven equal nor different.
pub const UNDECIDED: Code = Code(402);
/// A dimension of a function's result is determined by no argument.
pub const FREE_RESULT: Code = Code(325);
/// A shape that no tensor can have.
pub const BAD_SHAPE: Code = Code(403);
/// A dimension variable of a called function is not determined by the arguments.
pub const UNSOLVED_DIM: Code = Code(404);
/// A match does not handle every case.
pub const MISSING: Code = Code(601);
/// Whether a match handles every case is too expensive to decide.
pub const COVERAGE: Code = Code(412);
/// A clause of a match is never reached.
pub const UNREACHABLE: Code = Code(602);
/// An effect inside a dataflow block.
pub const EFFECT: Code = Code(701);
/// Control flow inside a dataflow block.
pub const CONTROL_FLOW: Code = Code(702);
/// A literal does not fit the element type that its context requires.
pub const LITERAL: Code = Code(324);
