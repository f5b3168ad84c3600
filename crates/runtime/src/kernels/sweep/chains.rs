//! Programs of float32 and truth values, a block of elements at a time: a block is read as it lies,
//! narrow floats are widened on their way, it passes through all operations, and only the result is
//! written, narrowed where it is narrow. Nothing in between leaves the first cache, and values are
//! rounded to narrow floats in registers, where the program says so.

#[cfg(target_arch = "x86_64")]
mod blocks;

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
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // Blocks read it.
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
fn takes(kind: Option<Kind>) -> bool {
    matches!(kind, Some(Kind::F16 | Kind::BF16 | Kind::F32 | Kind::Bool))
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

    /// The operations in their order.
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
        let kinds = || {
            p.kinds
                .iter()
                .map(|&k| Kind::of(k))
                .chain([Some(p.out_kind)])
        };
        let narrow = || kinds().any(|k| Rounds::to(k).is_some());
        let fits = p.operands() <= SLOTS && p.ops.len() <= STEPS && kinds().all(takes);
        let pays = match p.ops {
            [op] => narrow() && op.op() != Op::Copy,
            _ => true,
        };
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
                (Op::Cast, Some(to)) if to != Kind::Bool || op.argument(0) == Some(to) => Op::Copy,
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

    /// The steps that are done for every block, a bit for each: what only reads numbers that are one
    /// for all elements, those of the slots in `fixed` and what is made of them, is done once.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // Blocks ask for it.
    fn again(&self, mut fixed: u32) -> u64 {
        let steps = self.steps();
        let last = steps.len().saturating_sub(1);
        let mut again = 0;
        for (k, step) in steps.iter().enumerate() {
            let is_fixed = |place: usize| fixed >> (step.args[place] % 32) & 1 == 1;
            let mut reads = (0..4).filter(|&place| step.op.reads(place));
            let once = steps.iter().filter(|s| s.to == step.to).count() == 1;
            match k < last && once && reads.all(is_fixed) {
                true => fixed |= 1 << (step.to % 32),
                false => again |= 1 << k,
            }
        }
        again
    }

    /// Adds a step; there is room.
    fn push(&mut self, op: Op, math: Math, rounds: Rounds, args: [u8; 4], to: u8) {
        assert!(args.iter().chain([&to]).all(|&k| usize::from(k) < SLOTS));
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
