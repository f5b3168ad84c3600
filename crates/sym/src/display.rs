//! Printing of dimensions in the text format.

use std::fmt;

use crate::dim::{Atom, Dim, DimError, DimVar};
use crate::fold::{DimBuilder, DimOp};

/// Prints a dimension in the text format's syntax. Created by [`Dim::display`].
pub struct DisplayDim<'a> {
    dim: &'a Dim,
    name: &'a dyn Fn(DimVar) -> String,
}

impl Dim {
    /// Prints the dimension in the text format's syntax (`n * 4 + m // 2`, `min(n, m)`, `?`), with
    /// the minimal parentheses needed to parse it back. `name` gives the variables' names. An
    /// inference variable prints as `?dim3`, which is not valid syntax: it is for messages only.
    /// The order and the parentheses are those of [`Dim::build`].
    pub fn display<'a>(&'a self, name: &'a dyn Fn(DimVar) -> String) -> DisplayDim<'a> {
        DisplayDim { dim: self, name }
    }
}

impl fmt::Display for DisplayDim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.dim.build(&mut Text { name: self.name }))
    }
}

/// Variables print as `dim3`: only for debugging and for this crate's own messages.
impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.display(&|var| format!("{var:?}")), f)
    }
}

struct Text<'a> {
    name: &'a dyn Fn(DimVar) -> String,
}

impl DimBuilder for Text<'_> {
    type Out = String;

    fn int(&mut self, value: i64) -> String {
        value.to_string()
    }

    fn atom(&mut self, atom: Atom) -> String {
        match atom {
            Atom::Var(var) => (self.name)(var),
            Atom::Infer(infer) => format!("{infer:?}"),
        }
    }

    fn any(&mut self) -> String {
        "?".to_string()
    }

    fn bad(&mut self, error: DimError) -> String {
        match error {
            DimError::TooLarge => "<too large>",
            DimError::Overflow => "<overflow>",
            DimError::DivisionByZero => "<division by zero>",
        }
        .to_string()
    }

    /// Appends to the left operand, so that a long sum costs linear time.
    fn op(&mut self, op: DimOp, mut lhs: String, rhs: String) -> String {
        let Some(infix) = op.infix() else {
            let name = if op == DimOp::Min { "min" } else { "max" };
            return format!("{name}({lhs}, {rhs})");
        };
        for part in [" ", infix, " ", &rhs] {
            lhs.push_str(part);
        }
        lhs
    }

    fn group(&mut self, inner: String) -> String {
        format!("({inner})")
    }
}
