//! Dimensions as the text format writes them.

use std::fmt::{self, Write};

use crate::dim::{Atom, Dim, DimError, DimVar, Repr};
use crate::poly::{Factor, Op, OpKind, Poly, Term};

/// Shows a dimension in the text format's syntax. Made by [`Dim::display`].
pub struct DisplayDim<'a> {
    dim: &'a Dim,
    name: &'a dyn Fn(DimVar) -> String,
}

impl Dim {
    /// In the text format's syntax (`n * 4 + m // 2`, `min(n, m)`, `?`), with as few parentheses
    /// as reading it back needs. `name` gives the variables' names. An unknown shows as
    /// `?dim3`, which no program can write: it is for messages.
    pub fn display<'a>(&'a self, name: &'a dyn Fn(DimVar) -> String) -> DisplayDim<'a> {
        DisplayDim { dim: self, name }
    }
}

impl fmt::Display for DisplayDim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Writer {
            out: f,
            name: self.name,
        }
        .dim(self.dim)
    }
}

/// Variables show as `dim3`: for debugging and messages of this room only.
impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Writer {
            out: f,
            name: &|var| format!("{var:?}"),
        }
        .dim(self)
    }
}

struct Writer<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    name: &'a dyn Fn(DimVar) -> String,
}

impl Writer<'_, '_> {
    fn dim(&mut self, dim: &Dim) -> fmt::Result {
        match &dim.0 {
            Repr::Const(value) => write!(self.out, "{value}"),
            Repr::Atom(atom) => self.atom(*atom),
            Repr::Any => self.out.write_char('?'),
            Repr::Bad(error) => self.out.write_str(match error {
                DimError::TooLarge => "<too large>",
                DimError::Overflow => "<overflow>",
                DimError::DivisionByZero => "<division by zero>",
            }),
            Repr::Poly(poly) => self.poly(poly),
        }
    }

    fn atom(&mut self, atom: Atom) -> fmt::Result {
        match atom {
            Atom::Var(var) => self.out.write_str(&(self.name)(var)),
            Atom::Infer(infer) => write!(self.out, "{infer:?}"),
        }
    }

    /// Positive terms come first, so that `m - n` does not start with a sign.
    fn poly(&mut self, poly: &Poly) -> fmt::Result {
        let positive = poly.terms.iter().filter(|term| term.coef > 0);
        let negative = poly.terms.iter().filter(|term| term.coef < 0);
        let mut first = true;
        for term in positive {
            if !first {
                self.out.write_str(" + ")?;
            }
            first = false;
            self.term(term, false)?;
        }
        if poly.constant > 0 {
            let sign = if first { "" } else { " + " };
            write!(self.out, "{sign}{}", poly.constant)?;
            first = false;
        }
        for term in negative {
            self.out.write_str(if first { "-" } else { " - " })?;
            // `-(a // b)` is not `-a // b`, however tight the minus.
            self.term(term, first)?;
            first = false;
        }
        if poly.constant < 0 {
            write!(self.out, " - {}", poly.constant.unsigned_abs())?;
        }
        Ok(())
    }

    /// The term without its sign. `tight`: something that binds stronger stands before it.
    fn term(&mut self, term: &Term, tight: bool) -> fmt::Result {
        let mut first = true;
        for (factor, power) in term.mono.factors() {
            for _ in 0..*power {
                if !first {
                    self.out.write_str(" * ")?;
                }
                // `a * (b // c)` is not `a * b // c`: the first factor needs no parentheses.
                self.factor(factor, tight || !first)?;
                first = false;
            }
        }
        match term.coef.unsigned_abs() {
            1 => Ok(()),
            coef => write!(self.out, " * {coef}"),
        }
    }

    fn factor(&mut self, factor: &Factor, tight: bool) -> fmt::Result {
        let op = match factor {
            Factor::Atom(atom) => return self.atom(*atom),
            Factor::Op(op) => op,
        };
        match op.kind {
            OpKind::Min | OpKind::Max => self.call(op),
            OpKind::FloorDiv | OpKind::Mod => {
                if tight {
                    self.out.write_char('(')?;
                }
                self.operand(&op.args[0], true)?;
                self.out.write_str(if op.kind == OpKind::Mod {
                    " % "
                } else {
                    " // "
                })?;
                self.operand(&op.args[1], false)?;
                if tight {
                    self.out.write_char(')')?;
                }
                Ok(())
            }
        }
    }

    fn call(&mut self, op: &Op) -> fmt::Result {
        // The text format's min and max take two arguments.
        let name = if op.kind == OpKind::Min {
            "min("
        } else {
            "max("
        };
        let (last, front) = op.args.split_last().expect("min and max have arguments");
        for arg in front {
            self.out.write_str(name)?;
            self.dim(arg)?;
            self.out.write_str(", ")?;
        }
        self.dim(last)?;
        for _ in front {
            self.out.write_char(')')?;
        }
        Ok(())
    }

    /// An operand of `//` or `%`. On the left, a lone product needs no parentheses.
    fn operand(&mut self, dim: &Dim, left: bool) -> fmt::Result {
        let bare = match &dim.0 {
            Repr::Const(value) => *value >= 0,
            Repr::Poly(poly) => match poly.terms.as_slice() {
                [term] if poly.constant == 0 => {
                    let call = matches!(
                        term.mono.as_factor(),
                        Some(Factor::Op(op)) if matches!(op.kind, OpKind::Min | OpKind::Max)
                    );
                    (term.coef == 1 && call) || (left && term.coef > 0)
                }
                _ => false,
            },
            _ => true,
        };
        if bare {
            return self.dim(dim);
        }
        self.out.write_char('(')?;
        self.dim(dim)?;
        self.out.write_char(')')
    }
}
