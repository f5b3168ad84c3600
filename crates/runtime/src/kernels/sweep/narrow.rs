//! Operations on narrow floats: they are widened, computed with and narrowed again in registers,
//! only their signs change, or their exponents tell all.

use super::chains::Source;
use super::op::Op;
use super::{INPUTS, Plan};
use crate::kernels::halves::{Operand, Pair, known, pairs};
use crate::kernels::kinds::Kind;
use crate::kernels::math::Math;
use crate::kernels::narrow_math;
use crate::kernels::simd::{Simd, dispatch};

/// The source of an operand of the operation.
#[derive(Clone, Copy)]
pub(super) enum From {
    Input(usize),
    Constant(usize),
}

/// A sweep of one such operation, or of several.
pub(super) enum Narrow {
    /// A function of two numbers, which are bfloat16 or not.
    Of2(bool, Pair, [From; 2]),
    /// A function of the sign of an input's elements: their bits, with those of the first mask only
    /// and those of the second one changed.
    OfSign(usize, [u16; 2]),
    /// -1, 0 or 1 by the sign of an input's elements, where infinity and 1 have these bits.
    Sign(usize, [u16; 2]),
    /// Whether an input's elements are NaN, infinite or finite, where infinity has these bits.
    OfClass(usize, Op, u16),
    /// A function of an input's elements.
    OfMath(usize, Math),
    /// The plan's chain, whose operands are read as they lie.
    Chained,
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
            return sign(p).or_else(|| chained(p));
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
        // Comparisons give truth values.
        let test = match op.op() {
            Op::Eq => Some(Pair::Eq),
            Op::Ne => Some(Pair::Ne),
            Op::Lt => Some(Pair::Lt),
            Op::Le => Some(Pair::Le),
            _ => None,
        };
        let kind = match (test, p.kinds.first()) {
            (Some(_), Some(&k)) if p.out_kind == Kind::Bool => Kind::of(k)?,
            _ => p.out_kind,
        };
        let fits = matches!(kind, Kind::F16 | Kind::BF16)
            && p.v.reduced == 0
            && op.argument(0) == Some(Kind::F32)
            && (op.result() == Some(Kind::F32) || test.is_some());
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
            read(p, kind, arg).then_some(From::Input(arg))
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
            Op::Math => {
                let (From::Input(k), Some(math)) = (from(op.args[0])?, Math::of(op.args[1])) else {
                    return None;
                };
                let known = lies(p, k) && narrow_math::knows(math);
                return known.then_some(Self::OfMath(k, math));
            }
            _ => match test {
                Some(test) => test,
                None => return chained(p),
            },
        };
        let both = [from(op.args[0])?, from(op.args[1])?];
        known().then_some(Self::Of2(kind == Kind::BF16, pair, both))
    }

    /// Computes `n` elements from one on, of inputs at these offsets.
    ///
    /// # Safety
    /// They lie in the inputs and in the result.
    pub(super) unsafe fn run(
        &self,
        p: &Plan<'_>,
        offsets: &[isize; INPUTS],
        (first, n): (usize, usize),
    ) {
        // SAFETY: the elements lie in the inputs and the result; constants are eight bytes each.
        unsafe {
            let to = p.v.out.cast::<u16>().wrapping_add(first);
            let input = |k: usize| p.data[k].cast::<u16>().offset(offsets[k]);
            let (brain, pair, operands) = match self {
                &Self::OfSign(k, [kept, changed]) => {
                    let at = input(k);
                    for i in 0..n {
                        *to.add(i) = *at.add(i) & kept ^ changed;
                    }
                    return;
                }
                &Self::Sign(k, bits) => {
                    let at = input(k);
                    dispatch!(signs(bits: [u16; 2], n: usize, at: *const u16, to: *mut u16));
                    return;
                }
                &Self::OfClass(k, op, infinite) => {
                    let (at, to) = (input(k), p.v.out.cast::<u8>().add(first));
                    dispatch!(classes(op: Op, infinite: u16, n: usize, at: *const u16, to: *mut u8));
                    return;
                }
                &Self::OfMath(k, math) => {
                    return narrow_math::run(math, p.out_kind == Kind::BF16, n, input(k), to);
                }
                Self::Chained => {
                    let given = |k: usize| {
                        let kind = Kind::of(p.kinds[k]).unwrap_or(Kind::F32);
                        let size = kind.size() as isize;
                        Source {
                            kind,
                            one: !lies(p, k),
                            at: p.data[k].cast::<u8>().offset(offsets[k] * size),
                        }
                    };
                    let out = p.v.out.cast::<u8>().add(first * p.out_kind.size());
                    return p.run_chain(n, given, (p.out_kind, out));
                }
                &Self::Of2(brain, pair, operands) => (brain, pair, operands),
            };
            let operands = operands.map(|from| operand(p, from, input));
            let to = p.v.out.cast::<u8>().add(first * p.out_kind.size());
            pairs(brain, pair, n, operands, to);
        }
    }
}

/// Returns whether an input is of a type and lies beside the result, or is one number for a whole
/// strip.
fn read(p: &Plan<'_>, kind: Kind, input: usize) -> bool {
    let one = p.within_rows() && p.out.inner_step(input) == 0;
    (lies(p, input) || one) && Kind::of(p.kinds[input]) == Some(kind)
}

/// The operand of a strip, of whose inputs `input` gives the place.
unsafe fn operand(p: &Plan<'_>, from: From, input: impl Fn(usize) -> *const u16) -> Operand {
    match from {
        // SAFETY: constants are eight bytes each.
        From::Constant(k) => Operand::Number(unsafe { p.v.values.add(k).cast::<f32>().read() }),
        From::Input(k) if p.dense[k] || p.out.inner_step(k) == 1 => Operand::Lies(input(k)),
        From::Input(k) => Operand::One(input(k)),
    }
}

/// The selections by which one input's elements are compared with 0 on both sides.
fn sign(p: &Plan<'_>) -> Option<Narrow> {
    let bits = match p.out_kind {
        Kind::F16 => [0x7c00, 0x3c00],
        Kind::BF16 => [0x7f80, 0x3f80],
        _ => return None,
    };
    let [below, above] = p.ops else {
        return None;
    };
    let (inputs, first) = (p.v.inputs, p.v.inputs + p.v.constants);
    let number = |k: i32| {
        let constant = (inputs..first).contains(&k);
        // SAFETY: constants are eight bytes each, and `k` is one of them.
        constant.then(|| unsafe { p.v.values.add((k - inputs) as usize).cast::<f32>().read() })
    };
    let selects = |op: &super::RxSweepOp| {
        op.op() == Op::SelectLt
            && op.argument(0) == Some(Kind::F32)
            && op.result() == Some(Kind::F32)
    };
    let (a, b) = (below.args, above.args);
    let matches = inputs == 1
        && p.v.reduced == 0
        && Kind::of(p.kinds[0]) == Some(p.out_kind)
        && lies(p, 0)
        && selects(below)
        && selects(above)
        && [a[0], b[1], b[3]] == [0, 0, first + below.dst]
        && [a[1], a[2], a[3], b[0], b[2]].map(number) == [0.0, -1.0, 0.0, 0.0, 1.0].map(Some);
    matches.then_some(Narrow::Sign(0, bits))
}

/// The plan's chain, where all operands of a result's row lie beside it or are one number.
fn chained(p: &Plan<'_>) -> Option<Narrow> {
    let one = |k: usize| p.within_rows() && p.out.inner_step(k) == 0;
    let fits = |k: usize| lies(p, k) || one(k);
    let all = p.chain.helps() && p.v.reduced == 0 && (0..p.v.inputs as usize).all(fits);
    all.then_some(Narrow::Chained)
}

/// Writes the signs of `n` narrow floats as such, by their bits; that of NaN is 0.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn signs<S: Simd>([infinite, one]: [u16; 2], n: usize, from: *const u16, to: *mut u16) {
    for i in 0..n {
        // SAFETY: both have `n` elements.
        unsafe {
            let x = *from.add(i);
            // What is between 0 and NaN is not 0.
            let some = (x & !SIGN).wrapping_sub(1) < infinite;
            *to.add(i) = if some { x & SIGN | one } else { 0 };
        }
    }
}

/// Writes whether `n` narrow floats are of a class, by their bits.
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
