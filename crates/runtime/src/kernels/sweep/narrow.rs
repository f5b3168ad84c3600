//! One operation on narrow floats: they are widened, computed with and narrowed again in registers,
//! only their signs change, or their exponents tell all.

use super::op::Op;
use super::{INPUTS, Plan};
use crate::kernels::halves::{Operand, Pair, pairs};
use crate::kernels::kinds::Kind;
use crate::kernels::simd::{Simd, dispatch};

/// The source of an operand of the operation.
#[derive(Clone, Copy)]
pub(super) enum From {
    Input(usize),
    Constant(usize),
}

/// A sweep of one such operation.
#[derive(Clone, Copy)]
pub(super) enum Narrow {
    /// A function of two numbers.
    Of2(Pair, [From; 2]),
    /// A function of the sign of an input's elements: their bits, with those of the first mask only
    /// and those of the second one changed.
    OfSign(usize, [u16; 2]),
    /// Whether an input's elements are NaN, infinite or finite, where infinity has these bits.
    OfClass(usize, Op, u16),
}

/// Returns whether the elements of an input that a strip of the result needs are side by side:
/// strips may go over several rows where these are short.
fn lies(p: &Plan<'_>, input: usize) -> bool {
    p.dense[input] || p.within_rows() && p.out.inner_step(input) == 1
}

/// The bit of a narrow float that is its sign.
const SIGN: u16 = 1 << 15;

impl Narrow {
    /// `None` where a sweep is anything else.
    pub(super) fn of(p: &Plan<'_>) -> Option<Self> {
        let [op] = p.ops else {
            return None;
        };
        if let (Op::IsNan | Op::IsInf | Op::IsFinite, Ok(k)) =
            (op.op(), usize::try_from(op.args[0]))
            && p.v.reduced == 0
            && k < p.v.inputs as usize
            && lies(p, k)
        {
            let infinite = match Kind::of(p.kinds[k]) {
                Some(Kind::F16) => 0x7c00,
                Some(Kind::BF16) => 0x7f80,
                _ => return None,
            };
            return Some(Self::OfClass(k, op.op(), infinite));
        }
        let kind = p.out_kind;
        let fits = matches!(kind, Kind::F16 | Kind::BF16)
            && p.v.reduced == 0
            && op.argument(0) == Some(Kind::F32)
            && op.result() == Some(Kind::F32);
        if !fits {
            return None;
        }
        let inputs = p.v.inputs as usize;
        let from = |arg: i32| {
            let arg = arg as usize;
            if arg >= inputs {
                return (arg < inputs + p.v.constants as usize)
                    .then_some(From::Constant(arg - inputs));
            }
            // Or one number for the whole strip.
            let one = p.within_rows() && p.out.inner_step(arg) == 0;
            ((lies(p, arg) || one) && Kind::of(p.kinds[arg]) == Some(kind))
                .then_some(From::Input(arg))
        };
        let pair = match op.op() {
            Op::Add => Pair::Add,
            Op::Sub => Pair::Sub,
            Op::Mul => Pair::Mul,
            Op::Div => Pair::Div,
            Op::Min => Pair::Min,
            Op::Max => Pair::Max,
            code @ (Op::Neg | Op::Abs) => {
                let From::Input(k) = from(op.args[0])? else {
                    return None;
                };
                let masks = match code {
                    Op::Neg => [!0, SIGN],
                    _ => [!SIGN, 0],
                };
                return lies(p, k).then_some(Self::OfSign(k, masks));
            }
            _ => return None,
        };
        Some(Self::Of2(pair, [from(op.args[0])?, from(op.args[1])?]))
    }

    /// Computes `n` elements from one on, of inputs at these offsets. Returns `false` where the
    /// processor does not support it.
    ///
    /// # Safety
    /// They lie in the inputs and in the result.
    pub(super) unsafe fn run(
        &self,
        p: &Plan<'_>,
        offsets: &[isize; INPUTS],
        (first, n): (usize, usize),
    ) -> bool {
        // SAFETY: the elements lie in the inputs and the result; constants are eight bytes each.
        unsafe {
            let to = p.v.out.cast::<u16>().wrapping_add(first);
            let input = |k: usize| p.data[k].cast::<u16>().offset(offsets[k]);
            let (pair, operands) = match *self {
                Self::OfSign(k, [kept, changed]) => {
                    let at = input(k);
                    for i in 0..n {
                        *to.add(i) = *at.add(i) & kept ^ changed;
                    }
                    return true;
                }
                Self::OfClass(k, op, infinite) => {
                    let (at, to) = (input(k), p.v.out.cast::<u8>().add(first));
                    dispatch!(classes(op: Op, infinite: u16, n: usize, at: *const u16, to: *mut u8));
                    return true;
                }
                Self::Of2(pair, operands) => (pair, operands),
            };
            let operand = |from: From| match from {
                From::Constant(k) => Operand::Number(p.v.values.add(k).cast::<f32>().read()),
                From::Input(k) if p.dense[k] || p.out.inner_step(k) == 1 => Operand::Lies(input(k)),
                From::Input(k) => Operand::One(input(k)),
            };
            let operands = operands.map(operand);
            pairs(p.out_kind == Kind::BF16, pair, n, operands, to)
        }
    }
}

/// Whether `n` narrow floats are of a class, by their bits.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn classes<S: Simd>(op: Op, infinite: u16, n: usize, from: *const u16, to: *mut u8) {
    macro_rules! each {
        (|$size:ident| $holds:expr) => {
            for i in 0..n {
                let $size = *from.add(i) & !SIGN;
                *to.add(i) = u8::from($holds);
            }
        };
    }
    // SAFETY: both have `n` elements.
    unsafe {
        match op {
            Op::IsNan => each!(|size| size > infinite),
            Op::IsInf => each!(|size| size == infinite),
            _ => each!(|size| size < infinite),
        }
    }
}
