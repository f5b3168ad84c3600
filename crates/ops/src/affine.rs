//! What operators do with integers that stand for numbers: the interface of
//! `fake-quantization-to-integer`.

use relax_ir::ExprId;
use relax_tensor::DType;

use crate::{Build, Site};

/// What the integers of a tensor stand for: `scale * (integer - zero point)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Affine {
    /// The scale, `float32`: a scalar, or one for each index of the axis.
    pub scale: ExprId,
    /// The zero point, `int32`: likewise.
    pub zero: ExprId,
    /// The type of the integers.
    pub dtype: DType,
    /// The axis along which scales run; `None` where there is one for the whole tensor.
    pub axis: Option<usize>,
    /// Whether what becomes such integers is rounded to them with halves to even, in floats.
    pub even: bool,
}

/// An operand, or a field of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Number {
    /// It is not integers.
    Plain(ExprId),
    /// Integers, and what they stand for.
    Affine(ExprId, Affine),
    /// The fields of a tuple.
    Tuple(Vec<Number>),
}

impl Number {
    /// Returns the integers, if it is a tensor of them.
    pub fn affine(&self) -> Option<(ExprId, Affine)> {
        match self {
            Number::Affine(e, a) => Some((*e, *a)),
            _ => None,
        }
    }
}

/// A call whose operands are known as integers.
#[derive(Clone, Debug)]
pub struct AffineSite {
    /// The call, with operands that are no integers.
    pub site: Site,
    /// Its operands; at least one has integers.
    pub operands: Vec<Number>,
    /// What its result becomes next, if that alone uses it.
    pub wanted: Option<Affine>,
}

impl AffineSite {
    /// Returns the integers of an operand.
    pub fn affine(&self, i: usize) -> Option<(ExprId, Affine)> {
        self.operands.get(i)?.affine()
    }
}

/// Computes a call on integers: returns the integers of its result, and what they stand for (those
/// of all fields of a tuple alike). `None` where this call cannot be computed so.
pub type AffineFn = fn(&mut dyn Build, &AffineSite) -> Option<(ExprId, Affine)>;

/// The part of an operator in computing with integers that stand for numbers.
#[derive(Clone, Copy, Debug)]
pub enum AffineRole {
    /// It turns integers into the numbers that they stand for: operands are integers, scale, zero
    /// point.
    Leave,
    /// It turns numbers into integers: operands are numbers, scale, zero point.
    Enter,
    /// It can be computed with integers.
    Rule(AffineFn),
    /// The same, and its result is rounded as its operand would be: what is wanted of the one may
    /// be done to the other.
    Ordered(AffineFn),
    /// It can be computed with integers, in sums of 32 bits, and is that worth also where no
    /// integers follow.
    Product(AffineFn),
}
