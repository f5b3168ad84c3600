//! One operation on narrow floats: they are widened, computed with and narrowed again in registers,
//! or only their signs change.

use super::op::Op;
use super::{INPUTS, Plan};
use crate::kernels::halves::{Operand, Pair, pairs};
use crate::kernels::kinds::Kind;

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
}

/// Returns whether the elements of an input that a row of the result needs are side by side.
fn lies(p: &Plan<'_>, input: usize) -> bool {
    p.dense[input] || p.out.inner_step(input) == 1
}

/// The bit of a narrow float that is its sign.
const SIGN: u16 = 1 << 15;

impl Narrow {
    /// `None` where a sweep is anything else.
    pub(super) fn of(p: &Plan<'_>) -> Option<Self> {
        let [op] = p.ops else {
            return None;
        };
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
            let step = p.out.inner_step(arg);
            // Rows are processed one by one where the layout of an operand differs from the
            // result's.
            let lies = p.dense[arg] || p.unit == p.out.inner() && (0..=1).contains(&step);
            (lies && Kind::of(p.kinds[arg]) == Some(kind)).then_some(From::Input(arg))
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
            let to = p.v.out.cast::<u16>().add(first);
            let input = |k: usize| p.data[k].cast::<u16>().offset(offsets[k]);
            let (pair, operands) = match *self {
                Self::OfSign(k, [kept, changed]) => {
                    let at = input(k);
                    for i in 0..n {
                        *to.add(i) = *at.add(i) & kept ^ changed;
                    }
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
