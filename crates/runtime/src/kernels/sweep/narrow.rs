//! One operation on narrow floats: they are widened, computed with and narrowed again in registers.

use super::op::Op;
use super::{INPUTS, Plan};
use crate::kernels::halves::{Operand, Pair, pairs};
use crate::kernels::kinds::Kind;

/// The source of an operand of the operation.
#[derive(Clone, Copy)]
enum From {
    Input(usize),
    Constant(usize),
}

/// A sweep of one such operation.
#[derive(Clone, Copy)]
pub(super) struct Narrow {
    pair: Pair,
    operands: [From; 2],
}

impl Narrow {
    /// `None` where a sweep is anything else.
    pub(super) fn of(p: &Plan<'_>) -> Option<Self> {
        let [op] = p.ops else {
            return None;
        };
        let kind = p.out_kind;
        let pair = match op.op() {
            Op::Add => Pair::Add,
            Op::Sub => Pair::Sub,
            Op::Mul => Pair::Mul,
            Op::Div => Pair::Div,
            Op::Min => Pair::Min,
            Op::Max => Pair::Max,
            _ => return None,
        };
        let fits = matches!(kind, Kind::F16 | Kind::BF16)
            && p.v.reduced == 0
            && op.argument(0) == Some(Kind::F32)
            && op.result() == Some(Kind::F32);
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
        let operands = [from(op.args[0])?, from(op.args[1])?];
        fits.then_some(Self { pair, operands })
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
            let operand = |from: From| match from {
                From::Constant(k) => Operand::Number(p.v.values.add(k).cast::<f32>().read()),
                From::Input(k) => {
                    let at = p.data[k].cast::<u16>().offset(offsets[k]);
                    let lies = p.dense[k] || p.out.inner_step(k) == 1;
                    if lies {
                        Operand::Lies(at)
                    } else {
                        Operand::One(at)
                    }
                }
            };
            let operands = self.operands.map(operand);
            let to = p.v.out.cast::<u16>().add(first);
            pairs(p.out_kind == Kind::BF16, self.pair, n, operands, to)
        }
    }
}
