//! The operations of a sweep.

use crate::kernels::kinds::Kind;
use crate::{c_enumeration, c_structure};

c_enumeration! {
    /// What an operation does with its arguments `a`, `b`, `c`, elements of one type where nothing
    /// else is said.
    pub enum Op {
        /// `a`.
        Copy,
        /// `a + b`; integers wrap.
        Add,
        /// `a - b`.
        Sub,
        /// `a * b`.
        Mul,
        /// `a / b`; integers truncate, by zero gives 0.
        Div,
        /// Toward minus infinity.
        FloorDiv,
        /// With the sign of `b`.
        FloorMod,
        /// With the sign of `a`.
        Rem,
        /// `a < b ? a : b`.
        Min,
        /// `a > b ? a : b`.
        Max,
        /// Bit by bit.
        And,
        /// Bit by bit.
        Or,
        /// Bit by bit.
        Xor,
        /// A count outside the width gives 0.
        Shl,
        /// A count outside the width gives the sign.
        Shr,
        /// Gives truth.
        Eq,
        /// Gives truth.
        Ne,
        /// Gives truth.
        Lt,
        /// Gives truth.
        Le,
        /// `a ? b : c`, where `a` is truth.
        Select,
        /// `-a`.
        Neg,
        /// `|a|`.
        Abs,
        /// All bits turned; of truth the other one.
        Not,
        /// `a` as another type: floats saturate, NaN is 0, integers wrap.
        Cast,
        /// Float32 rounded to the narrow float that is named.
        Narrow,
        /// The next integer below.
        Floor,
        /// The next integer above.
        Ceil,
        /// The next integer toward 0.
        Trunc,
        /// To the nearest, halves away from 0.
        Round,
        /// To the nearest, halves to even.
        RoundEven,
        /// Gives truth.
        IsNan,
        /// Gives truth.
        IsInf,
        /// Gives truth.
        IsFinite,
        /// The root.
        Sqrt,
        /// One by the root.
        Rsqrt,
        /// The function whose number is the second argument.
        Math,
        /// The function of two numbers whose number is the third argument.
        Math2,
    }
}

c_structure! {
    /// As in the C header.
    pub struct RxSweepOp {
        /// An [`Op`].
        pub code: i32,
        /// The arguments' elements, a [`Kind`].
        pub kind: i32,
        /// The result's elements.
        pub to: i32,
        /// The temporary that is written, from 0.
        pub dst: i32,
        /// Operands: inputs, then constants, then temporaries; or numbers, as the operation says.
        pub args: [i32; 4],
    }
}

impl RxSweepOp {
    /// Returns what it does; a copy where its number is none.
    #[inline(always)]
    pub fn op(&self) -> Op {
        Op::of(self.code).unwrap_or(Op::Copy)
    }

    /// The type of an argument that is an operand.
    #[inline(always)]
    pub fn argument(&self, place: usize) -> Option<Kind> {
        let kind = Kind::of(self.kind);
        match (self.op(), place) {
            (Op::Select, 0) => Some(Kind::Bool),
            (Op::Select, 1 | 2) => kind,
            (Op::Select, _) => None,
            (_, 0) => kind,
            (op, 1) if op.binary() => kind,
            _ => None,
        }
    }

    /// The type of the result, where there is one.
    pub fn result(&self) -> Option<Kind> {
        Kind::of(self.to)
    }
}

impl Op {
    /// Returns whether it takes two elements of one type.
    pub fn binary(self) -> bool {
        let between = Op::Add as i32..=Op::Le as i32;
        between.contains(&(self as i32)) || self == Op::Math2
    }
}
