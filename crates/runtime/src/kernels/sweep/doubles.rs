//! The blocks of a chain of float64: each passes through all steps at once.

use super::chains::{Chain, SLOTS, Source, Step};
use super::op::Op;
use crate::kernels::functions::over_f64;
use crate::kernels::kinds::Kind;
use crate::kernels::simd::Simd;
use std::mem::MaybeUninit;
use std::ptr::null;

/// The most elements of a block.
const WIDE: usize = 128;

/// Memory for the values of a block.
#[repr(align(64))]
struct Slots([[f64; WIDE]; SLOTS]);

/// See [`super::Plan::run_chain`].
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
pub(super) unsafe fn chained<S: Simd>(
    chain: &Chain,
    n: usize,
    sources: &[Source],
    kind: Kind,
    to: *mut u8,
) {
    // What a step reads was written before.
    let mut room = MaybeUninit::<Slots>::uninit();
    // SAFETY: only the place of the numbers is asked for.
    let slots = unsafe { &raw mut (*room.as_mut_ptr()).0 }.cast::<[f64; WIDE]>();
    let slot = |k: usize| slots.wrapping_add(k % SLOTS).cast::<f64>();
    // Where the values of a block are: in their slots, or where they lie.
    let mut places = [null::<f64>(); SLOTS];
    for (k, place) in places.iter_mut().enumerate() {
        *place = slot(k);
    }
    // Values that are one number for all elements, a bit for each.
    let (mut fixed, first) = (0u32, n.min(WIDE));
    for (k, source) in sources.iter().enumerate().filter(|s| s.1.one) {
        fixed |= 1 << k;
        // SAFETY: there is an element, and room for a block.
        unsafe {
            let x = match source.kind {
                Kind::Bool => f64::from(u8::from(*source.at != 0)),
                _ => source.at.cast::<f64>().read_unaligned(),
            };
            for i in 0..first {
                *slot(k).add(i) = x;
            }
        }
    }
    let again = chain.again(fixed);
    let steps = chain.steps();
    let last = steps.len().saturating_sub(1);
    for from in (0..n).step_by(WIDE) {
        let count = (n - from).min(WIDE);
        // SAFETY: operands and the result have `n` elements.
        unsafe {
            for (k, source) in sources.iter().enumerate().filter(|s| !s.1.one) {
                if source.kind != Kind::Bool {
                    places[k] = source.at.cast::<f64>().add(from);
                    continue;
                }
                for i in 0..count {
                    *slot(k).add(i) = f64::from(u8::from(*source.at.add(from + i) != 0));
                }
            }
            for (k, step) in steps.iter().enumerate() {
                if from > 0 && again >> k & 1 == 0 {
                    continue;
                }
                // The last step's numbers are the result's, if it has such.
                let own = slot(usize::from(step.to));
                let direct = k == last && kind != Kind::Bool;
                let y = if direct {
                    to.cast::<f64>().add(from)
                } else {
                    own
                };
                apply(step, &places, count, y);
                if k == last && !direct {
                    for i in 0..count {
                        *to.add(from + i) = u8::from(*own.add(i) != 0.0);
                    }
                }
            }
        }
    }
}

/// One step on `n` numbers that lie at their places.
#[inline(always)]
unsafe fn apply(step: &Step, places: &[*const f64; SLOTS], n: usize, to: *mut f64) {
    let [a, b, c, d] = step.args.map(|k| places[usize::from(k) % SLOTS]);
    macro_rules! each {
        ($($x:ident),+ => $value:expr) => {
            for i in 0..n {
                $(let $x = *$x.add(i);)+
                *to.add(i) = $value;
            }
        };
    }
    macro_rules! test {
        ($($x:ident),+ => $holds:expr) => {
            each!($($x),+ => if $holds { 1.0 } else { 0.0 })
        };
    }
    let infinity = f64::INFINITY;
    // SAFETY: operands and result have `n` numbers.
    unsafe {
        #[allow(clippy::eq_op)] // Only a NaN is not itself.
        match step.op {
            Op::Copy => each!(a => a),
            Op::Add => each!(a, b => a + b),
            Op::Sub => each!(a, b => a - b),
            Op::Mul => each!(a, b => a * b),
            Op::Div => each!(a, b => a / b),
            Op::FloorDiv => each!(a, b => (a / b).floor()),
            Op::FloorMod => each!(a, b => a - (a / b).floor() * b),
            Op::Min => each!(a, b => if a < b { a } else { b }),
            Op::Max => each!(a, b => if a > b { a } else { b }),
            Op::MaxMin => each!(a, b, c => {
                let x = if a > b { a } else { b };
                if x < c { x } else { c }
            }),
            Op::MinMax => each!(a, b, c => {
                let x = if a < b { a } else { b };
                if x > c { x } else { c }
            }),
            Op::Neg => each!(a => -a),
            Op::Abs => each!(a => a.abs()),
            Op::Sqrt => each!(a => a.sqrt()),
            Op::Rsqrt => each!(a => 1.0 / a.sqrt()),
            Op::Floor => each!(a => a.floor()),
            Op::Ceil => each!(a => a.ceil()),
            Op::Trunc => each!(a => a.trunc()),
            // The greatest number below a half, so that it does not round up to one.
            Op::Round => each!(a => (a.abs() + 0.5f64.next_down()).trunc().copysign(a)),
            Op::RoundEven => each!(a => a.round_ties_even()),
            Op::SelectLt => each!(a, b, c, d => if a < b { c } else { d }),
            Op::SelectLe => each!(a, b, c, d => if a <= b { c } else { d }),
            Op::SelectEq => each!(a, b, c, d => if a == b { c } else { d }),
            Op::Select => each!(a, b, c => if a == 0.0 { c } else { b }),
            Op::Lt => test!(a, b => a < b),
            Op::Le => test!(a, b => a <= b),
            Op::Eq => test!(a, b => a == b),
            Op::Ne | Op::Xor => test!(a, b => a != b),
            Op::And => each!(a, b => a * b),
            Op::Or => each!(a, b => if a > b { a } else { b }),
            Op::Not => each!(a => 1.0 - a),
            Op::IsNan => test!(a => a != a),
            Op::IsInf => test!(a => a.abs() == infinity),
            Op::IsFinite => test!(a => a.abs() < infinity),
            // To truth values only.
            Op::Cast => test!(a => a != 0.0),
            Op::Math | Op::Math2 | Op::Rem => over_f64(step.math, n, a, b, to),
            // No step has any other.
            _ => {}
        }
    }
}
