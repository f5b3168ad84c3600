//! The operations of a sweep.

use crate::kernels::kinds::Kind;
use crate::{c_enumeration, c_structure};

c_enumeration! {
    /// The operation on the arguments `a`, `b`, `c`, `d`, which have one type unless stated otherwise.
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
        /// Rounds toward minus infinity.
        FloorDiv,
        /// The remainder with the sign of `b`.
        FloorMod,
        /// The remainder with the sign of `a`.
        Rem,
        /// `a < b ? a : b`.
        Min,
        /// `a > b ? a : b`.
        Max,
        /// Bitwise.
        And,
        /// Bitwise.
        Or,
        /// Bitwise.
        Xor,
        /// A count outside the width gives 0.
        Shl,
        /// A count outside the width gives the sign.
        Shr,
        /// Yields a boolean.
        Eq,
        /// Yields a boolean.
        Ne,
        /// Yields a boolean.
        Lt,
        /// Yields a boolean.
        Le,
        /// `a ? b : c`, where `a` is a boolean.
        Select,
        /// `-a`.
        Neg,
        /// `|a|`.
        Abs,
        /// Bitwise complement; logical not for booleans.
        Not,
        /// `a` as another type: floats saturate, NaN is 0, integers wrap.
        Cast,
        /// Float32 rounded to the given narrow float.
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
        /// Yields a boolean.
        IsNan,
        /// Yields a boolean.
        IsInf,
        /// Yields a boolean.
        IsFinite,
        /// The square root.
        Sqrt,
        /// The reciprocal square root.
        Rsqrt,
        /// The function with the number given by the second argument.
        Math,
        /// The function of two numbers with the number given by the third argument.
        Math2,
        /// `a < b ? c : d`.
        SelectLt,
        /// `a <= b ? c : d`.
        SelectLe,
        /// `a == b ? c : d`.
        SelectEq,
        /// The minimum of `c` and the maximum of `a` and `b`, as [`Op::Min`] and [`Op::Max`].
        MaxMin,
        /// The maximum of `c` and the minimum of `a` and `b`.
        MinMax,
        /// The low 32 bits of `(a * b + c) >> d`, where `a` has 32 bits, or is a byte, and the others
        /// have 64; a count is one of [`Op::Shr`].
        Rescale,
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
        /// Operands: inputs, then constants, then temporaries; or numbers, depending on the
        /// operation.
        pub args: [i32; 4],
    }
}

impl RxSweepOp {
    /// Returns the operation; a copy for an unknown number.
    #[inline(always)]
    pub fn op(&self) -> Op {
        Op::of(self.code).unwrap_or(Op::Copy)
    }

    /// The type of an argument that is an operand.
    #[inline(always)]
    pub fn argument(&self, place: usize) -> Option<Kind> {
        match (self.op(), place) {
            (op, place) if !op.reads(place) => None,
            (Op::Select, 0) => Some(Kind::Bool),
            (Op::Rescale, 1..) => Some(Kind::I64),
            _ => Kind::of(self.kind),
        }
    }

    /// Returns whether an argument may be any byte where it is a truth value.
    pub fn any_byte(&self, place: usize) -> bool {
        match self.op() {
            Op::Select => place == 0,
            Op::And | Op::Or | Op::Xor | Op::Not | Op::Eq | Op::Ne => {
                Kind::of(self.kind) == Some(Kind::Bool)
            }
            _ => false,
        }
    }

    /// Returns whether an argument may be a line of one number, which is read again and again.
    pub fn repeats(&self, place: usize) -> bool {
        let float = matches!(Kind::of(self.kind), Some(Kind::F32 | Kind::F64));
        match self.op() {
            Op::Rem if float => false,
            Op::Div | Op::FloorDiv | Op::FloorMod | Op::Rem => float || place == 1,
            Op::Math2 => false,
            Op::Select | Op::SelectLt | Op::SelectLe | Op::SelectEq => true,
            Op::MaxMin | Op::MinMax => true,
            Op::Rescale => place > 0,
            op => op.binary(),
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

    /// Returns whether the argument at a place, from 0 on, is an operand.
    pub fn reads(self, place: usize) -> bool {
        match self {
            Self::SelectLt | Self::SelectLe | Self::SelectEq | Self::Rescale => true,
            Self::Select | Self::MaxMin | Self::MinMax => place < 3,
            op if op.binary() => place < 2,
            _ => place == 0,
        }
    }
}
