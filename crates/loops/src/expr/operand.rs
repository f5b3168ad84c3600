//! Right-hand operands: expressions and numbers of any kind.

use relax_tensor::DType;

use super::{Ex, UnOp};

/// The right-hand side of a named binary method: an expression, or a number converted to the
/// left-hand side's type.
pub enum Operand {
    /// An expression.
    Ex(Ex),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
}

impl Operand {
    pub(super) fn of(self, dtype: DType) -> Ex {
        match self {
            Operand::Ex(e) => e,
            Operand::Int(v) => Ex::int(dtype, v),
            Operand::Float(v) => Ex::float(dtype, v),
        }
    }
}

impl From<Ex> for Operand {
    fn from(e: Ex) -> Self {
        Operand::Ex(e)
    }
}

impl From<&Ex> for Operand {
    fn from(e: &Ex) -> Self {
        Operand::Ex(e.clone())
    }
}

impl From<i64> for Operand {
    fn from(v: i64) -> Self {
        Operand::Int(v)
    }
}

impl From<f64> for Operand {
    fn from(v: f64) -> Self {
        Operand::Float(v)
    }
}

impl std::ops::Neg for &Ex {
    type Output = Ex;
    fn neg(self) -> Ex {
        self.unary(UnOp::Neg)
    }
}

impl std::ops::Neg for Ex {
    type Output = Ex;
    fn neg(self) -> Ex {
        self.unary(UnOp::Neg)
    }
}

impl std::ops::Not for &Ex {
    type Output = Ex;
    fn not(self) -> Ex {
        self.unary(UnOp::Not)
    }
}

impl std::ops::Not for Ex {
    type Output = Ex;
    fn not(self) -> Ex {
        self.unary(UnOp::Not)
    }
}

impl From<i64> for Ex {
    fn from(v: i64) -> Ex {
        Ex::idx(v)
    }
}
