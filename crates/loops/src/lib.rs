//! Tensor programs: scalar expressions over loop variables and buffer elements, loop nests,
//! and the builder by which operators state their computations.
//!
//! A [`Program`] reads its input buffers and writes its output buffers. It is a list of
//! [`Stage`]s: a stage is either a *computation over indices* (one scalar expression gives every
//! element of a buffer, perhaps by a reduction), which fusion and scheduling understand, or an
//! explicit loop nest. Extents are scalar expressions too: constants, dimension variables bound
//! by the inputs' shapes, or numbers that an earlier stage computed.
//!
//! This crate knows neither Relay types nor operators.

mod accesses;
mod accumulation;
pub mod attention;
mod bounds;
mod build;
mod children;
pub mod compose;
mod continued;
mod digits;
mod elements;
pub mod epilogue;
mod exec;
mod expr;
pub mod extents;
pub mod fits;
mod functions;
pub mod fused_bytes;
mod hint;
mod inline;
pub mod kernels;
mod lower;
mod outside;
pub mod pooled;
mod program;
pub mod quantised;
mod raise;
mod reduction_init;
mod rewrite;
mod round_trip;
pub mod schedule;
pub mod select;
mod stages;
mod structural_equality;
mod verify;
mod walk;
mod whole;

pub(crate) use accesses::{move_accesses, visit_accesses};
pub use bounds::{Interval, interval};
pub use build::{Builder, Nest, TensorRef};
pub use children::Children;
pub use continued::in_extents;
pub use digits::Digits;
pub use elements::{Unfit, roundings, wide};
pub use exec::{ExecError, ExecFault, STEP, execute, execute_for, execute_within, scalar};
pub use expr::{Ex, ExKind, Operand, Var};
pub use functions::{BinOp, Libm, UnOp};
pub use hint::{Hint, Lines, Seen};
pub use inline::settle;
pub use kernels::{Kernel, KernelKind};
pub use lower::{
    NoInline, Readers, drop_unused, inline_compute, inline_compute_into, lower_stage, reads_buffer,
    used_temps,
};
pub use program::{
    Access, Buf, Buffer, Combiner, Compute, MOST_EXTENT, Mark, Program, Reduce, Role, Stage, Stmt,
    TensorInfo, VarInfo,
};
pub use raise::raise_nest;
pub use reduction_init::with_starts;
pub(crate) use rewrite::has_loads;
pub use rewrite::{axes_of, fold_expr, map_expr, map_stmts, simplify, substitute, visit_expr};
pub use round_trip::{as_byte, shorten_round_trips};
pub use select::separate::{has_marks, separate};
pub use structural_equality::{same_program, same_stages};
pub use verify::{Problem, Unproven, Verdict, verify};
pub use walk::{Statements, statements};
pub use whole::unwritten;
