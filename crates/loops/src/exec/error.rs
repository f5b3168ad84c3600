//! The errors of executing a tensor program.

use std::fmt;

use relax_base::{Code, Diagnostic, Span, Symbol};
use relax_tensor::DType;

use crate::{Buf, Program, Var};

/// A failure by ids; [`ExecError`] has the names.
#[derive(Debug)]
pub(super) enum Fault {
    Bounds {
        buf: Buf,
        axis: usize,
        index: i64,
        extent: i64,
        /// Its number among the program's accesses.
        place: Option<u32>,
    },
    /// Number of a message, and what it shows.
    Assert(u32, Vec<i64>),
    /// An assertion's message, and the part of the program that it belongs to.
    Message(String, u32),
    Size(Buf, Vec<i64>),
    /// The limit on iterations does not suffice.
    Endless,
    Unsupported(String),
    Unbound(Var),
    Early(Buf),
    Inputs(usize, usize),
    Outputs(usize, usize),
    Input(Buf, DType, Vec<i64>),
    Output(Buf, Vec<i64>),
    Extent {
        buf: Buf,
        axis: usize,
        wanted: i64,
        found: i64,
    },
}

/// Why execution of a tensor program failed.
#[derive(Clone, PartialEq, Debug)]
pub enum ExecFault {
    /// An element outside its buffer.
    OutOfBounds {
        /// The buffer.
        buffer: Symbol,
        /// The axis, from 0.
        axis: usize,
        /// The index.
        index: i64,
        /// The axis's extent.
        extent: i64,
    },
    /// An assertion of the program.
    Assertion(String),
    /// Extents that are negative, or require more memory than there is.
    Size {
        /// The buffer.
        buffer: Symbol,
        /// Its extents.
        shape: Vec<i64>,
    },
    /// A wrong number of inputs or output shapes: what, expected, given.
    Count(&'static str, usize, usize),
    /// A tensor of the wrong type or rank: the buffer, and what was expected and given.
    Argument {
        /// The buffer.
        buffer: Symbol,
        /// Type and rank that the program declares.
        wanted: String,
        /// The actual argument.
        found: String,
    },
    /// An extent that does not fit the others.
    Extent {
        /// The buffer.
        buffer: Symbol,
        /// The axis, from 0.
        axis: usize,
        /// The value that the program computes for it.
        wanted: i64,
        /// The actual value.
        found: i64,
    },
    /// The limit on iterations does not suffice.
    Endless,
    /// The program breaks a rule of tensor programs (the verifier would have reported it) or needs
    /// something that reference execution does not support.
    Refused(String),
}

/// A tensor program stopped.
#[derive(Clone, PartialEq, Debug)]
pub struct ExecError {
    /// The program's name.
    pub program: Symbol,
    /// Its location in text, if it has one.
    pub span: Span,
    /// The location of the failing part itself (an assertion, an operator of a fused group), where
    /// it is known.
    pub own: Span,
    /// Why.
    pub fault: ExecFault,
}

impl ExecError {
    pub(super) fn new(program: &Program, fault: Fault) -> ExecError {
        let name = |b: Buf| program.bufs[b].name;
        let argument = |b: Buf, found: String| ExecFault::Argument {
            buffer: name(b),
            wanted: format!(
                "{:?} of rank {}",
                program.bufs[b].dtype,
                program.bufs[b].shape.len()
            ),
            found,
        };
        let mut own = None;
        let fault = match fault {
            Fault::Bounds {
                buf,
                axis,
                index,
                extent,
                place,
            } => {
                own = place.and_then(|k| Some(program.accesses.get(k as usize)?.span));
                ExecFault::OutOfBounds {
                    buffer: name(buf),
                    axis,
                    index,
                    extent,
                }
            }
            Fault::Assert(n, _) => ExecFault::Assertion(format!("assertion {n}")),
            Fault::Message(m, part) => {
                own = program.parts.get(part as usize).copied();
                ExecFault::Assertion(m)
            }
            Fault::Size(b, shape) => ExecFault::Size {
                buffer: name(b),
                shape,
            },
            Fault::Endless => ExecFault::Endless,
            Fault::Unsupported(what) => ExecFault::Refused(what),
            Fault::Unbound(v) => {
                ExecFault::Refused(format!("`{}`, which nothing defines", program.vars[v].name))
            }
            Fault::Early(b) => {
                ExecFault::Refused(format!("a use of `{}` before it is written", name(b)))
            }
            Fault::Inputs(wanted, found) => ExecFault::Count("inputs", wanted, found),
            Fault::Outputs(wanted, found) => ExecFault::Count("output shapes", wanted, found),
            Fault::Input(b, dtype, shape) => argument(b, format!("{dtype:?} of shape {shape:?}")),
            Fault::Output(b, shape) => argument(b, format!("shape {shape:?}")),
            Fault::Extent {
                buf,
                axis,
                wanted,
                found,
            } => ExecFault::Extent {
                buffer: name(buf),
                axis,
                wanted,
                found,
            },
        };
        ExecError {
            program: program.name,
            span: program.span,
            own: own.unwrap_or(Span::NONE),
            fault,
        }
    }

    /// Returns the error as a diagnostic at `span` (the call, or the program's own location).
    pub fn diagnostic(&self, span: Span) -> Diagnostic {
        let code = match &self.fault {
            ExecFault::OutOfBounds { .. } => Code(850),
            ExecFault::Assertion(_) => Code(851),
            ExecFault::Size { .. } => Code(852),
            ExecFault::Count(..) | ExecFault::Argument { .. } => Code(853),
            ExecFault::Extent { .. } => Code(854),
            ExecFault::Refused(_) => Code(855),
            ExecFault::Endless => Code(1111),
        };
        let text = self.to_string();
        if !self.own.is_none() {
            let d = Diagnostic::error(code, self.own, text);
            return if span.is_none() || span == self.own {
                d
            } else {
                d.label(span, "called here")
            };
        }
        let d = Diagnostic::error(code, span, text);
        if self.span == Span::NONE || self.span == span {
            d
        } else {
            d.label(self.span, "the tensor program")
        }
    }
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An error about an operator's operands names the operator.
        if !(self.span.is_none() && matches!(self.fault, ExecFault::Assertion(_))) {
            write!(f, "tensor program `{}`: ", self.program)?;
        }
        match &self.fault {
            ExecFault::OutOfBounds {
                buffer,
                axis,
                index,
                extent,
            } => {
                write!(
                    f,
                    "index {index} of axis {axis} is outside `{buffer}`, whose extent there is {extent}"
                )
            }
            ExecFault::Assertion(message) => f.write_str(message),
            ExecFault::Size { buffer, shape } => {
                write!(f, "`{buffer}` cannot be made with extents {shape:?}")
            }
            ExecFault::Count(what, wanted, found) => {
                write!(f, "takes {wanted} {what}, got {found}")
            }
            ExecFault::Argument {
                buffer,
                wanted,
                found,
            } => {
                write!(f, "`{buffer}` is {wanted}, got {found}")
            }
            ExecFault::Extent {
                buffer,
                axis,
                wanted,
                found,
            } => write!(
                f,
                "axis {axis} of `{buffer}` has extent {found} where the program needs {wanted}"
            ),
            ExecFault::Refused(what) => write!(f, "cannot run {what}"),
            ExecFault::Endless => {
                f.write_str("has not ended after as many iterations as it may make")
            }
        }
    }
}

impl std::error::Error for ExecError {}
