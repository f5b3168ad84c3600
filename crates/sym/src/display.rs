//! Dimensions as the text format writes them.

use std::fmt;

use crate::dim::{Atom, Dim, DimError, DimVar};
use crate::fold::{DimBuilder, DimOp};

/// Shows a dimension in the text format's syntax. Made by [`Dim::display`].
pub struct DisplayDim<'a> {
    dim: &'a Dim,
    name: &'a dyn Fn(DimVar) -> String,
}

impl Dim {
    /// In the text format's syntax (`n * 4 + m // 2`, `min(n, m)`, `?`), with as few parentheses
    /// as reading it back needs. `name` gives the variables' names. An unknown shows as
    /// `?dim3`, which no program can write: it is for messages. The order and the parentheses
    /// are those of [`Dim::build`].
    pub fn display<'a>(&'a self, name: &'a dyn Fn(DimVar) -> String) -> DisplayDim<'a> {
        DisplayDim { dim: self, name }
    }
}

impl fmt::Display for DisplayDim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.dim.build(&mut Text { name: self.name }))
    }
}

/// Variables show as `dim3`: for debugging and messages of this room only.
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
        let between = match op {
            DimOp::Add => " + ",
            DimOp::Sub => " - ",
            DimOp::Mul => " * ",
            DimOp::FloorDiv => " // ",
            DimOp::Mod => " % ",
            DimOp::Min => return format!("min({lhs}, {rhs})"),
            DimOp::Max => return format!("max({lhs}, {rhs})"),
        };
        lhs.push_str(between);
        lhs.push_str(&rhs);
        lhs
    }

    fn group(&mut self, inner: String) -> String {
        format!("({inner})")
    }
}
