//! Programs of float32 and truth values, a block of elements at a time: a block is read as it lies,
//! narrow floats are widened on their way, it passes through all operations, and only the result is
//! written, narrowed where it is narrow. Nothing in between leaves the first cache, and values are
//! rounded to narrow floats in registers, where the program says so.

use super::op::{Op, RxSweepOp};
use super::{Plan, register};
use crate::kernels::halves::known;
use crate::kernels::kinds::Kind;
use crate::kernels::math::Math;
#[cfg(target_arch = "x86_64")]
use crate::kernels::narrowing::dispatch_narrowing;
use std::mem::MaybeUninit;

/// The most values that a chain of operations has, and the most operations.
pub(super) const SLOTS: usize = 32;
const STEPS: usize = 64;

/// The narrow float that a step rounds its result to.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Rounds {
    /// None: it stays float32.
    Not,
    Half,
    Brain,
}

impl Rounds {
    fn to(kind: Option<Kind>) -> Option<Self> {
        match kind? {
            Kind::F16 => Some(Self::Half),
            Kind::BF16 => Some(Self::Brain),
            _ => None,
        }
    }
}

/// A step of a chain: its arguments and its result are values by their numbers, operands first.
#[derive(Clone, Copy)]
struct Step {
    op: Op,
    /// The function, of a step that is one.
    math: Math,
    rounds: Rounds,
    /// Invariant: numbers of values are below [`SLOTS`].
    args: [u8; 4],
    to: u8,
}

/// Operations, of which the last one gives the result.
pub(super) struct Chain {
    /// Invariant: the first `count` are initialised.
    steps: [MaybeUninit<Step>; STEPS],
    count: usize,
}

/// The elements of an operand that a strip needs.
#[derive(Clone, Copy)]
pub(super) struct Source {
    /// Their type: a float of at most 32 bits, or truth values, which may be any bytes.
    pub kind: Kind,
    /// There is one for all.
    pub one: bool,
    pub at: *const u8,
}

impl Source {
    /// No elements.
    pub(super) const NONE: Self = Self {
        kind: Kind::F32,
        one: true,
        at: std::ptr::null(),
    };
}

/// Returns whether elements of a type can be operands and results of chains.
pub(super) fn takes(kind: Option<Kind>) -> bool {
    matches!(
        kind,
        Some(Kind::F16 | Kind::BF16 | Kind::F32 | Kind::Bool)
    )
}

impl Chain {
    /// No operations.
    pub(super) const fn new() -> Self {
        Self {
            steps: [const { MaybeUninit::uninit() }; STEPS],
            count: 0,
        }
    }

    /// Returns whether there are operations.
    #[inline(always)]
    pub(super) fn helps(&self) -> bool {
        self.count > 0
    }

    fn steps(&self) -> &[Step] {
        // SAFETY: the first `count` are initialised, and `MaybeUninit` has the layout of what it
        // holds.
        unsafe { std::slice::from_raw_parts(self.steps.as_ptr().cast(), self.count) }
    }

    fn steps_mut(&mut self) -> &mut [Step] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.steps.as_mut_ptr().cast(), self.count) }
    }

    /// Makes the steps of a program of several operations, or of one on narrow floats; none where
    /// one of them is on other types.
    pub(super) fn make(&mut self, p: &Plan<'_>) {
        self.count = 0;
        let kinds = || p.kinds.iter().map(|&k| Kind::of(k)).chain([Some(p.out_kind)]);
        let narrow = || kinds().any(|k| Rounds::to(k).is_some());
        let fits = p.operands() <= SLOTS && p.ops.len() <= STEPS && kinds().all(takes);
        let pays = p.ops.len() > 1 || narrow();
        if fits && pays && known() && self.made(p).is_none() {
            self.count = 0;
        }
    }

    fn made(&mut self, p: &Plan<'_>) -> Option<()> {
        let first = (p.v.inputs + p.v.constants) as usize;
        for (k, op) in p.ops.iter().enumerate() {
            let to = (first + op.dst as usize) as u8;
            if op.op() == Op::Narrow {
                let (rounds, given) = (Rounds::to(op.result())?, op.args[0]);
                // What was just computed is rounded at once, if that is all that it is for.
                if let Some(step) = self.steps_mut().last_mut()
                    && i32::from(step.to) == given
                    && step.rounds == Rounds::Not
                    && (step.to == to || !is_read(&p.ops[k + 1..], given, first))
                {
                    (step.rounds, step.to) = (rounds, to);
                    continue;
                }
                let args = [given as u8, 0, 0, 0];
                self.push(Op::Copy, Math::Exp, rounds, args, to);
                continue;
            }
            let math = math(op)?;
            // A truth value is a number already; a number holds unless it is 0.
            let code = match (op.op(), op.result()) {
                (Op::Cast, Some(to)) if to == Kind::F32 || op.argument(0) == Some(to) => Op::Copy,
                (code, _) => code,
            };
            let mut args = [0; 4];
            for (place, arg) in args.iter_mut().enumerate() {
                if op.argument(place).is_some() {
                    *arg = op.args[place] as u8;
                }
            }
            self.push(code, math, Rounds::Not, args, to);
        }
        self.round_once(match p.v.reduced {
            0 => Rounds::to(Some(p.out_kind)),
            _ => None,
        });
        Some(())
    }

    /// Adds a step; there is room.
    fn push(&mut self, op: Op, math: Math, rounds: Rounds, args: [u8; 4], to: u8) {
        assert!(
            args.iter()
                .chain([&to])
                .all(|&k| usize::from(k) < SLOTS)
        );
        self.steps[self.count].write(Step {
            op,
            math,
            rounds,
            args,
            to,
        });
        self.count += 1;
    }

    /// Leaves out roundings of numbers that are only chosen, or change their signs, before the same
    /// rounding anyway; `last` is that of the result, when it is written.
    fn round_once(&mut self, last: Option<Rounds>) {
        for k in (0..self.count.saturating_sub(1)).rev() {
            let Step { to, rounds, .. } = self.steps()[k];
            let mut needed = false;
            for (at, step) in self.steps().iter().enumerate().skip(k + 1) {
                for (place, _) in step.args.iter().enumerate().filter(|a| *a.1 == to) {
                    let passed = match step.op {
                        Op::Neg | Op::Abs | Op::Copy => place == 0,
                        Op::SelectLt | Op::SelectLe | Op::SelectEq => place > 1,
                        _ => false,
                    };
                    let after = match at + 1 == self.count && step.rounds == Rounds::Not {
                        true => last,
                        false => Some(step.rounds),
                    };
                    needed |= step.op.reads(place) && !(passed && after == Some(rounds));
                }
                if step.to == to {
                    break;
                }
            }
            if !needed {
                self.steps_mut()[k].rounds = Rounds::Not;
            }
        }
    }
}

/// Returns whether operations read a value before it is written anew.
fn is_read(ops: &[RxSweepOp], value: i32, first: usize) -> bool {
    for op in ops {
        if (0..4).any(|k| op.argument(k).is_some() && op.args[k] == value) {
            return true;
        }
        if first as i32 + op.dst == value {
            return false;
        }
    }
    false
}

/// Returns the function of an operation that a step can be, any where it is none; `None` for
/// operations on other types.
fn math(op: &RxSweepOp) -> Option<Math> {
    let held = |kind: Option<Kind>| matches!(kind, Some(Kind::F32 | Kind::Bool));
    let arguments = (0..4).all(|k| op.argument(k).is_none_or(|kind| held(Some(kind))));
    if !arguments || !held(op.result()) {
        return None;
    }
    match op.op() {
        Op::Math => Math::of(op.args[1]),
        Op::Math2 => Math::of(op.args[2]),
        Op::Rem => Some(Math::Fmod),
        Op::Shl | Op::Shr | Op::Rescale | Op::Narrow => None,
        _ => Some(Math::Exp),
    }
}

impl Plan<'_> {
    /// Runs the chain over `n` elements of operands; what it gives is written as elements of a type.
    ///
    /// # Safety
    /// Operands have `n` elements or one, and `to` has `n`, which overlap none of them.
    #[inline(always)]
    pub(super) unsafe fn run_chain(
        &self,
        n: usize,
        given: impl Fn(usize) -> Source,
        (kind, to): (Kind, *mut u8),
    ) {
        let (inputs, constants) = (self.v.inputs as usize, self.v.constants as usize);
        let mut sources = [Source::NONE; SLOTS];
        let count = (inputs + constants).min(SLOTS);
        for (k, source) in sources.iter_mut().enumerate().take(count) {
            *source = match k.checked_sub(inputs) {
                None => given(k),
                Some(c) => Source {
                    kind: self.constant_kind(k),
                    one: true,
                    // SAFETY: constants are eight bytes each.
                    at: unsafe { self.v.values.add(c).cast() },
                },
            };
        }
        let chain = &self.chain;
        let sources = &sources[..count];
        #[cfg(target_arch = "x86_64")]
        // SAFETY: operands and result have `n` elements; chains are made where the processor has
        // the instructions.
        unsafe {
            use blocks::chained;
            dispatch_narrowing!(
                chained(chain: &Chain, n: usize, sources: &[Source], kind: Kind, to: *mut u8)
            );
        }
        let _ = (chain, n, sources, kind, to);
    }

    /// The type of a constant, as operations that read it hold it.
    fn constant_kind(&self, operand: usize) -> Kind {
        let read = |op: &RxSweepOp| {
            let mut places = (0..4).filter(|&place| op.args[place] == operand as i32);
            places.find_map(|place| op.argument(place))
        };
        self.ops.iter().find_map(read).map_or(Kind::F32, register)
    }
}

/// Blocks of elements.
#[cfg(target_arch = "x86_64")]
mod blocks {
    use super::{Chain, Kind, Math, Op, Rounds, SLOTS, STEPS, Source, Step};
    use crate::kernels::functions::over_f32;
    use crate::kernels::narrowing::Narrowing;
    use std::mem::MaybeUninit;

    /// Vectors of a block that passes through all steps at once.
    const BLOCK: usize = 8;
    /// The most elements of a block, and the bytes that they have at most.
    const WIDE: usize = 16 * BLOCK;
    const BYTES: usize = 4 * WIDE;

    /// The values of a block: as elements, they lie one behind the other.
    type Slots<S> = [[S; BLOCK]; SLOTS];

    /// See [`super::Plan::run_chain`].
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // Indices keep the vectors in place.
    pub unsafe fn chained<S: Narrowing>(
        chain: &Chain,
        n: usize,
        sources: &[Source],
        kind: Kind,
        to: *mut u8,
    ) {
        let wide = S::LANES * BLOCK;
        // What a step reads was written before.
        let mut room = MaybeUninit::<Slots<S>>::uninit();
        let slots = room.as_mut_ptr();
        // Values that are one number for all elements, a bit for each.
        let mut fixed = 0u32;
        // SAFETY: an operand that is one number has one element.
        unsafe {
            for (slot, source) in sources.iter().enumerate() {
                if source.one {
                    fixed |= 1 << slot;
                    (*slots)[slot] = [S::splat(number(source)); BLOCK];
                }
            }
        }
        let steps = chain.steps();
        let last = steps.len().saturating_sub(1);
        // Those that give such a value are done for the first block only. For each step, which
        // of its operands are one.
        let (mut again, mut places) = (0u64, [0u8; STEPS]);
        for (k, step) in steps.iter().enumerate() {
            let is_fixed = |place: usize| fixed >> (step.args[place] % 32) & 1;
            let mut reads = (0..4).filter(|&place| step.op.reads(place));
            let held = reads.clone().fold(0, |some, p| some | is_fixed(p) << p);
            places[k] = held as u8;
            let once = steps.iter().filter(|s| s.to == step.to).count() == 1;
            match k < last && once && reads.all(|p| is_fixed(p) == 1) {
                true => fixed |= 1 << (step.to % 32),
                false => again |= 1 << k,
            }
        }
        // Fewer elements than a block has are copied to lines of their own.
        let mut line = [0u8; BYTES];
        let mut done = 0;
        while done < n {
            // The last block overlaps the one before.
            let i = done.min(n.saturating_sub(wide));
            let part = (n - i).min(wide);
            // SAFETY: operands have `n` elements, of which a block is whole or copied to a whole
            // line.
            unsafe {
                for (slot, source) in sources.iter().enumerate() {
                    if source.one {
                        continue;
                    }
                    let size = source.kind.size();
                    let mut from = source.at.add(i * size);
                    if part < wide {
                        let to = line.as_mut_ptr();
                        std::ptr::copy_nonoverlapping(from, to, part * size);
                        from = line.as_ptr();
                    }
                    read(source.kind, from, &mut (*slots)[slot]);
                }
                for (k, step) in steps.iter().enumerate() {
                    if done == 0 || again >> k & 1 == 1 {
                        let y = apply((step, places[k]), slots, part);
                        if k < last {
                            (*slots)[usize::from(step.to) % SLOTS] = y;
                        } else if part < wide {
                            write(kind, y, line.as_mut_ptr());
                        } else {
                            write(kind, y, to.add(i * kind.size()));
                        }
                    }
                }
                if part < wide {
                    std::ptr::copy_nonoverlapping(line.as_ptr(), to, part * kind.size());
                }
            }
            done = i + wide;
        }
    }

    /// The number of an operand that is one.
    unsafe fn number(source: &Source) -> f32 {
        // SAFETY: there is an element.
        unsafe {
            match source.kind {
                Kind::F16 => half::f16::from_bits(source.at.cast::<u16>().read_unaligned()).to_f32(),
                Kind::BF16 => {
                    half::bf16::from_bits(source.at.cast::<u16>().read_unaligned()).to_f32()
                }
                Kind::Bool => f32::from(u8::from(*source.at != 0)),
                _ => source.at.cast::<f32>().read_unaligned(),
            }
        }
    }

    /// Reads a block of elements.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn read<S: Narrowing>(kind: Kind, from: *const u8, to: &mut [S; BLOCK]) {
        macro_rules! each {
            ($t:ty, |$at:ident| $value:expr) => {
                for v in 0..BLOCK {
                    let $at = from.cast::<$t>().add(S::LANES * v);
                    to[v] = $value;
                }
            };
        }
        // SAFETY: there is a block of elements.
        unsafe {
            match kind {
                Kind::F16 => each!(u16, |at| S::widened::<false>(at)),
                Kind::BF16 => each!(u16, |at| S::widened::<true>(at)),
                Kind::Bool => each!(u8, |at| S::truths(at)),
                _ => each!(f32, |at| S::load(at)),
            }
        }
    }

    /// Writes a block of values as elements of a type.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn write<S: Narrowing>(kind: Kind, y: [S; BLOCK], to: *mut u8) {
        macro_rules! each {
            ($t:ty, |$y:ident, $at:ident| $put:expr) => {
                for v in 0..BLOCK {
                    let ($y, $at) = (y[v], to.cast::<$t>().add(S::LANES * v));
                    $put;
                }
            };
        }
        // SAFETY: there is room for a block of elements.
        unsafe {
            match kind {
                Kind::F16 => each!(u16, |y, at| y.narrow::<false>(at)),
                Kind::BF16 => each!(u16, |y, at| y.narrow::<true>(at)),
                Kind::Bool => each!(u8, |y, at| y.test::<NEQ>(S::splat(0.0), at)),
                _ => each!(f32, |y, at| y.store(at)),
            }
        }
    }

    const NEQ: i32 = std::arch::x86_64::_CMP_NEQ_UQ;

    /// A vector of an operand's block; the first one where the operand is one of those `HELD`, a
    /// bit for each.
    #[inline(always)]
    unsafe fn operand<S: Narrowing, const HELD: u8>(
        step: &Step,
        slots: *const Slots<S>,
        place: usize,
        v: usize,
    ) -> S {
        let from = usize::from(step.args[place]) % SLOTS;
        let v = if HELD >> place & 1 == 0 { v } else { 0 };
        // SAFETY: the operand's block was written.
        unsafe { (*slots)[from][v] }
    }

    /// A function of a block of values, of which `n` are elements; what is beyond is 0.
    #[inline(never)]
    unsafe fn function(math: Math, lanes: usize, n: usize, x: *const f32, y: *const f32, z: *mut f32) {
        // SAFETY: all have whole blocks of elements.
        unsafe {
            over_f32(math, n, x, y, z);
            for i in n..lanes {
                *z.add(i) = 0.0;
            }
        }
    }

    /// One step on a block of values, of which `n` are elements; of its operands those that are
    /// `fixed`, a bit for each, are read once if most steps of the kind have such ones.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn apply<S: Narrowing>(
        (step, fixed): (&Step, u8),
        slots: *mut Slots<S>,
        n: usize,
    ) -> [S; BLOCK] {
        // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
        unsafe {
            let mut y = [S::splat(0.0); BLOCK];
            macro_rules! held {
                ($held:literal: ($($x:ident = $place:literal),+ => $value:expr)) => {
                    for v in 0..BLOCK {
                        $(let $x = operand::<S, $held>(step, slots, $place, v);)+
                        y[v] = $value;
                    }
                };
            }
            macro_rules! each {
                ($($held:literal)|* : $rest:tt) => {
                    match fixed {
                        $($held => held!($held: $rest),)*
                        _ => held!(0: $rest),
                    }
                };
            }
            let (zero, one) = (S::splat(0.0), S::splat(1.0));
            let opposite = S::splat(-1.0);
            let infinity = S::splat(f32::INFINITY);
            match step.op {
                Op::Copy => each!(: (a = 0 => a)),
                Op::Add => each!(1 | 2: (a = 0, b = 1 => a.add(b))),
                Op::Sub => each!(1 | 2: (a = 0, b = 1 => a.sub(b))),
                Op::Mul => each!(1 | 2: (a = 0, b = 1 => a.mul(b))),
                Op::Div => each!(1 | 2: (a = 0, b = 1 => a.div(b))),
                Op::FloorDiv => each!(: (a = 0, b = 1 => a.div(b).floor())),
                Op::FloorMod => each!(: (a = 0, b = 1 => a.sub(a.div(b).floor().mul(b)))),
                Op::Min => each!(1 | 2: (a = 0, b = 1 => a.min(b))),
                Op::Max => each!(1 | 2: (a = 0, b = 1 => a.max(b))),
                Op::MaxMin => each!(6: (a = 0, b = 1, c = 2 => a.max(b).min(c))),
                Op::MinMax => each!(6: (a = 0, b = 1, c = 2 => a.min(b).max(c))),
                Op::Neg => each!(: (a = 0 => S::splat(-0.0).sub(a))),
                Op::Abs => each!(: (a = 0 => a.abs())),
                Op::Sqrt => each!(: (a = 0 => a.sqrt())),
                Op::Rsqrt => each!(: (a = 0 => one.div(a.sqrt()))),
                Op::Floor => each!(: (a = 0 => a.floor())),
                Op::Ceil => each!(: (a = 0 => a.mul(opposite).floor().mul(opposite))),
                Op::Trunc => each!(: (a = 0 => a.abs().floor().copysign(a))),
                Op::RoundEven => each!(: (a = 0 => a.round())),
                // The greatest number below one half: with that itself, numbers just below a half
                // would be rounded up.
                Op::Round => each!(: (a = 0 => {
                    a.abs().add(S::splat(0.5f32.next_down())).floor().copysign(a)
                })),
                Op::SelectLt => each!(2 | 5 | 14: (a = 0, b = 1, c = 2, d = 3 => {
                    S::select(a.lt(b), c, d)
                })),
                Op::SelectLe => each!(: (a = 0, b = 1, c = 2, d = 3 => {
                    S::select(a.lt(b), c, S::select(a.eq(b), c, d))
                })),
                Op::SelectEq => each!(2: (a = 0, b = 1, c = 2, d = 3 => S::select(a.eq(b), c, d))),
                Op::Select => each!(2 | 4: (a = 0, b = 1, c = 2 => S::select(a.eq(zero), c, b))),
                Op::Lt => each!(2: (a = 0, b = 1 => S::select(a.lt(b), one, zero))),
                Op::Le => each!(2: (a = 0, b = 1 => {
                    S::select(a.lt(b), one, S::select(a.eq(b), one, zero))
                })),
                Op::Eq => each!(2: (a = 0, b = 1 => S::select(a.eq(b), one, zero))),
                Op::Ne => each!(2: (a = 0, b = 1 => S::select(a.eq(b), zero, one))),
                Op::And => each!(: (a = 0, b = 1 => a.mul(b))),
                Op::Or => each!(: (a = 0, b = 1 => a.max(b))),
                Op::Xor => each!(: (a = 0, b = 1 => a.sub(b).abs())),
                Op::Not => each!(: (a = 0 => one.sub(a))),
                Op::IsNan => each!(: (a = 0 => S::select(a.eq(a), zero, one))),
                Op::IsInf => each!(: (a = 0 => S::select(a.abs().eq(infinity), one, zero))),
                Op::IsFinite => each!(: (a = 0 => S::select(a.abs().lt(infinity), one, zero))),
                // To truth values only.
                Op::Cast => each!(: (a = 0 => S::select(a.eq(zero), zero, one))),
                Op::Math | Op::Math2 | Op::Rem => {
                    let at = |k: u8| (*slots)[usize::from(k) % SLOTS].as_mut_ptr().cast::<f32>();
                    let z = at(step.to);
                    let lanes = S::LANES * BLOCK;
                    function(step.math, lanes, n, at(step.args[0]), at(step.args[1]), z);
                    y = (*slots)[usize::from(step.to) % SLOTS];
                }
                // No step has any other.
                _ => {}
            }
            match step.rounds {
                Rounds::Not => {}
                Rounds::Half => {
                    for v in 0..BLOCK {
                        y[v] = y[v].rounded::<false>();
                    }
                }
                Rounds::Brain => {
                    for v in 0..BLOCK {
                        y[v] = y[v].rounded::<true>();
                    }
                }
            }
            y
        }
    }
}
