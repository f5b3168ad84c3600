//! The blocks of a chain: each passes through all steps at once.

use super::{Chain, Rounds, SLOTS, Source, Step};
use crate::kernels::functions::over_f32;
use crate::kernels::kinds::Kind;
use crate::kernels::narrowing::Narrowing;
use crate::kernels::sweep::op::Op;
use std::mem::MaybeUninit;
use std::ptr::null;

/// The most elements of a block: a function of so many takes little more than its arithmetic.
const WIDE: usize = 256;
/// Vectors that are computed together: a block is a whole number of such groups.
const GROUP: usize = 8;
/// The most elements of a group.
const LINE: usize = 16 * GROUP;

/// The values of a block. What lies 4 KiB apart is taken for the same place by processors that look
/// for stores before loads: four slots are a line more.
type Slot = [f32; WIDE + 16];

/// Memory for the values of a block.
#[repr(align(64))]
struct Slots([Slot; SLOTS]);

/// Where the values of a block are: in their slots, or where they lie.
type Places = [*const f32; SLOTS];

/// See [`super::Plan::run_chain`].
#[inline(always)]
pub unsafe fn chained<S: Narrowing>(
    chain: &Chain,
    n: usize,
    sources: &[Source],
    kind: Kind,
    to: *mut u8,
) {
    let group = GROUP * S::LANES;
    // What a step reads was written before.
    let mut room = MaybeUninit::<Slots>::uninit();
    // SAFETY: only the place of the numbers is asked for.
    let slots = unsafe { &raw mut (*room.as_mut_ptr()).0 }.cast::<Slot>();
    let mut places: Places = [null(); SLOTS];
    // Values that are one number for all elements, a bit for each.
    let mut fixed = 0u32;
    let first = n.min(WIDE).next_multiple_of(group);
    // SAFETY: an operand that is one number has one element.
    unsafe {
        for (slot, place) in places.iter_mut().enumerate() {
            *place = slots.add(slot).cast();
        }
        for (slot, source) in sources.iter().enumerate().filter(|s| s.1.one) {
            fixed |= 1 << slot;
            // All of them: a mask of places takes longer than to read as many.
            let x = S::splat(number(source));
            for i in (0..first).step_by(S::LANES) {
                x.store(slots.add(slot).cast::<f32>().add(i));
            }
        }
    }
    let steps = chain.steps();
    let last = steps.len().saturating_sub(1);
    // All that is read and written is bfloat16, whose even and odd elements may lie apart: a
    // number is at the same place in all slots. Functions may choose how they compute by the numbers
    // that are in a vector together, which then are those of the reference.
    let mut lie = sources.iter().filter(|s| !s.one);
    let turns = S::TURNS
        && kind == Kind::BF16
        && lie.all(|s| s.kind == Kind::BF16)
        && !steps.iter().any(|s| is_function(s.op));
    // The first part is the longest.
    let again = chain.again(fixed);
    // Fewer elements than a group has are copied to lines of their own: the result may lie where an
    // operand does, so that none is computed twice.
    let mut line = [0u8; 4 * LINE];
    let mut from = 0;
    while from < n {
        let left = n - from;
        let count = if left < group {
            left
        } else {
            left / group * group
        }
        .min(WIDE);
        let whole = count.next_multiple_of(group);
        // SAFETY: operands have `n` elements, of which a part is whole or copied to a line, and the
        // result has room for as many.
        unsafe {
            for (slot, source) in sources.iter().enumerate().filter(|s| !s.1.one) {
                let size = source.kind.size();
                let mut lies = source.at.add(from * size);
                if count < whole {
                    let to = line.as_mut_ptr();
                    std::ptr::copy_nonoverlapping(lies, to, count * size);
                    lies = line.as_ptr();
                } else if source.kind == Kind::F32 {
                    places[slot] = lies.cast();
                    continue;
                }
                places[slot] = slots.add(slot).cast();
                read::<S>(turns, source.kind, lies, slots.add(slot).cast(), whole);
            }
            let out = to.add(from * kind.size());
            let last_to = if count < whole {
                line.as_mut_ptr()
            } else {
                out
            };
            for (k, step) in steps.iter().enumerate() {
                if from > 0 && again >> k & 1 == 0 {
                    continue;
                }
                let slot = slots.add(usize::from(step.to) % SLOTS).cast::<f32>();
                if is_function(step.op) {
                    let [a, b, ..] = step.args.map(|k| places[usize::from(k) % SLOTS]);
                    over_f32(step.math, count, a, b, slot);
                    for i in count..whole {
                        *slot.add(i) = 0.0;
                    }
                }
                let to = if k == last {
                    (kind, last_to)
                } else {
                    (Kind::F32, slot.cast())
                };
                if to.0 == Kind::F32 && step.rounds == Rounds::Not && !is_function(step.op) {
                    apply_all::<S>(step, &places, whole, to.1.cast());
                    continue;
                }
                let size = to.0.size();
                for i in (0..whole).step_by(group) {
                    let to = (to.0, to.1.add(i * size));
                    apply::<S>(turns, step, &places, i, slot.add(i), to);
                }
            }
            if count < whole {
                std::ptr::copy_nonoverlapping(line.as_ptr(), out, count * kind.size());
            }
        }
        from += count;
    }
}

/// The number of an operand that is one.
unsafe fn number(source: &Source) -> f32 {
    let bits = || {
        // SAFETY: there is an element of two bytes.
        unsafe { source.at.cast::<u16>().read_unaligned() }
    };
    match source.kind {
        Kind::F16 => half::f16::from_bits(bits()).to_f32(),
        Kind::BF16 => half::bf16::from_bits(bits()).to_f32(),
        // SAFETY: there is an element.
        Kind::Bool => f32::from(u8::from(unsafe { *source.at } != 0)),
        // SAFETY: as above.
        _ => unsafe { source.at.cast::<f32>().read_unaligned() },
    }
}

/// Something for every vector of `$n` elements, which are whole groups.
macro_rules! vectors {
    ($n:expr, |$i:ident| $body:expr) => { vectors!(@1, $n, |$i| $body) };
    (two $n:expr, |$i:ident| $body:expr) => { vectors!(@2, $n, |$i| $body) };
    (@$by:literal, $n:expr, |$i:ident| $body:expr) => {{
        let mut begin = 0;
        while begin < $n {
            // Without a branch between them.
            for v in (0..GROUP).step_by($by) {
                let $i = begin + v * S::LANES;
                $body;
            }
            begin += GROUP * S::LANES;
        }
    }};
}

/// Reads elements as numbers.
#[inline(always)]
unsafe fn read<S: Narrowing>(turns: bool, kind: Kind, from: *const u8, to: *mut f32, n: usize) {
    // SAFETY: there are whole groups of elements.
    unsafe {
        let narrow = from.cast::<u16>();
        match kind {
            Kind::F16 => vectors!(n, |i| S::widened::<false>(narrow.add(i)).store(to.add(i))),
            Kind::BF16 if turns => vectors!(two n, |i| {
                let both = S::widened_two::<true>(narrow.add(i));
                both[0].store(to.add(i));
                both[1].store(to.add(i + S::LANES));
            }),
            Kind::BF16 => vectors!(n, |i| S::widened::<true>(narrow.add(i)).store(to.add(i))),
            Kind::Bool => vectors!(n, |i| S::truths(from.add(i)).store(to.add(i))),
            _ => vectors!(n, |i| S::load(from.cast::<f32>().add(i)).store(to.add(i))),
        }
    }
}

/// Writes a group of numbers as elements of a type.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors in registers.
unsafe fn write<S: Narrowing>(turns: bool, kind: Kind, y: &[S; GROUP], to: *mut u8) {
    const NEQ: i32 = std::arch::x86_64::_CMP_NEQ_UQ;
    macro_rules! each {
        ($t:ty, |$y:ident, $at:ident| $put:expr) => {
            for v in (0..GROUP).step_by(2) {
                let ($y, $at) = ([y[v], y[v + 1]], to.cast::<$t>().add(S::LANES * v));
                $put;
            }
        };
    }
    // SAFETY: there is room for a group of elements.
    unsafe {
        match kind {
            Kind::F16 => each!(u16, |y, at| S::put_two::<false>(y, at)),
            Kind::BF16 if turns => each!(u16, |y, at| S::narrow_two::<true>(y, at)),
            Kind::BF16 => each!(u16, |y, at| S::put_two::<true>(y, at)),
            // In the order of elements, as float16 is.
            Kind::Bool => {
                each!(u8, |y, at| S::test_two::<false, NEQ>(
                    y,
                    [S::splat(0.0); 2],
                    at
                ));
            }
            // The caller writes float32.
            _ => {}
        }
    }
}

/// Returns whether an operation is a function of all elements of a block.
fn is_function(op: Op) -> bool {
    matches!(op, Op::Math | Op::Math2 | Op::Rem)
}

/// What operations do with vectors of their operands, which `$each` reads, and whose result it takes;
/// `$others` are those that are functions.
macro_rules! operations {
    ($step:expr, $each:ident, $others:expr) => {{
        let (zero, one) = (S::splat(0.0), S::splat(1.0));
        let opposite = S::splat(-1.0);
        let infinity = S::splat(f32::INFINITY);
        match $step.op {
            Op::Copy => $each!(a => a),
            Op::Add => $each!(a, b => a.add(b)),
            Op::Sub => $each!(a, b => a.sub(b)),
            Op::Mul => $each!(a, b => a.mul(b)),
            Op::Div => $each!(a, b => a.div(b)),
            Op::FloorDiv => $each!(a, b => a.div(b).floor()),
            Op::FloorMod => $each!(a, b => a.sub(a.div(b).floor().mul(b))),
            Op::Min => $each!(a, b => a.min(b)),
            Op::Max => $each!(a, b => a.max(b)),
            Op::MaxMin => $each!(a, b, c => a.max(b).min(c)),
            Op::MinMax => $each!(a, b, c => a.min(b).max(c)),
            Op::Neg => $each!(a => S::splat(-0.0).sub(a)),
            Op::Abs => $each!(a => a.abs()),
            Op::Sqrt => $each!(a => a.sqrt()),
            Op::Rsqrt => $each!(a => one.div(a.sqrt())),
            Op::Floor => $each!(a => a.floor()),
            Op::Ceil => $each!(a => a.mul(opposite).floor().mul(opposite)),
            Op::Trunc => $each!(a => a.abs().floor().copysign(a)),
            Op::RoundEven => $each!(a => a.round()),
            // The greatest number below one half: with that itself, numbers just below a half would
            // be rounded up.
            Op::Round => {
                let half = S::splat(0.5f32.next_down());
                $each!(a => a.abs().add(half).floor().copysign(a));
            }
            Op::SelectLt => $each!(a, b, c, d => S::select(a.lt(b), c, d)),
            Op::SelectLe => $each!(a, b, c, d => {
                S::select(a.lt(b), c, S::select(a.eq(b), c, d))
            }),
            Op::SelectEq => $each!(a, b, c, d => S::select(a.eq(b), c, d)),
            Op::Select => $each!(a, b, c => S::select(a.eq(zero), c, b)),
            Op::Lt => $each!(a, b => S::select(a.lt(b), one, zero)),
            Op::Le => $each!(a, b => S::select(a.lt(b), one, S::select(a.eq(b), one, zero))),
            Op::Eq => $each!(a, b => S::select(a.eq(b), one, zero)),
            Op::Ne => $each!(a, b => S::select(a.eq(b), zero, one)),
            Op::And => $each!(a, b => a.mul(b)),
            Op::Or => $each!(a, b => a.max(b)),
            Op::Xor => $each!(a, b => a.sub(b).abs()),
            Op::Not => $each!(a => one.sub(a)),
            Op::IsNan => $each!(a => S::select(a.eq(a), zero, one)),
            Op::IsInf => $each!(a => S::select(a.abs().eq(infinity), one, zero)),
            Op::IsFinite => $each!(a => S::select(a.abs().lt(infinity), one, zero)),
            // To truth values only.
            Op::Cast => $each!(a => S::select(a.eq(zero), zero, one)),
            // No step has any other but functions.
            _ => $others,
        }
    }};
}

/// One step on `n` numbers, which are whole groups: what it gives is neither rounded nor narrowed.
#[inline(always)]
unsafe fn apply_all<S: Narrowing>(step: &Step, places: &Places, n: usize, to: *mut f32) {
    let [a, b, c, d] = step.args.map(|k| places[usize::from(k) % SLOTS]);
    macro_rules! each {
        (@ $i:ident: $($x:ident of $from:ident),+ => $value:expr) => {
            vectors!(n, |$i| {
                $(let $x = S::load($from.add($i));)+
                $value.store(to.add($i));
            })
        };
        ($a:ident => $value:expr) => { each!(@ i: $a of a => $value) };
        ($a:ident, $b:ident => $value:expr) => { each!(@ i: $a of a, $b of b => $value) };
        ($a:ident, $b:ident, $c:ident => $value:expr) => {
            each!(@ i: $a of a, $b of b, $c of c => $value)
        };
        ($a:ident, $b:ident, $c:ident, $d:ident => $value:expr) => {
            each!(@ i: $a of a, $b of b, $c of c, $d of d => $value)
        };
    }
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable; operands and result
    // have `n` numbers.
    unsafe { operations!(step, each, {}) }
}

/// One step on a group of numbers from one on, which lie at their places: what it gives is written as
/// elements of a type, whose even and odd ones `turns` says to lie apart. Of a function, the numbers in
/// the step's own slot are rounded and written.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors in registers.
unsafe fn apply<S: Narrowing>(
    turns: bool,
    step: &Step,
    places: &Places,
    first: usize,
    own: *const f32,
    (kind, to): (Kind, *mut u8),
) {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable; operands and result
    // have groups of elements.
    unsafe {
        let mut y = [S::splat(0.0); GROUP];
        macro_rules! each {
            ($($x:ident of $place:literal),+ => $value:expr) => {{
                $(let $x = places[usize::from(step.args[$place]) % SLOTS].add(first);)+
                for v in 0..GROUP {
                    $(let $x = S::load($x.add(v * S::LANES));)+
                    y[v] = $value;
                }
            }};
            ($a:ident => $value:expr) => { each!($a of 0 => $value) };
            ($a:ident, $b:ident => $value:expr) => { each!($a of 0, $b of 1 => $value) };
            ($a:ident, $b:ident, $c:ident => $value:expr) => {
                each!($a of 0, $b of 1, $c of 2 => $value)
            };
            ($a:ident, $b:ident, $c:ident, $d:ident => $value:expr) => {
                each!($a of 0, $b of 1, $c of 2, $d of 3 => $value)
            };
        }
        operations!(step, each, {
            for v in 0..GROUP {
                y[v] = S::load(own.add(v * S::LANES));
            }
        });
        match step.rounds {
            Rounds::Not => {}
            Rounds::Half => {
                for v in (0..GROUP).step_by(2) {
                    [y[v], y[v + 1]] = S::rounded_two::<false>([y[v], y[v + 1]]);
                }
            }
            Rounds::Brain => {
                for v in (0..GROUP).step_by(2) {
                    [y[v], y[v + 1]] = S::rounded_two::<true>([y[v], y[v + 1]]);
                }
            }
        }
        match kind {
            Kind::F32 => {
                for v in 0..GROUP {
                    y[v].store(to.cast::<f32>().add(v * S::LANES));
                }
            }
            kind => write(turns, kind, &y, to),
        }
    }
}
