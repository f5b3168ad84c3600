//! The blocks of a chain: each passes through all steps at once, a group of vectors after the other,
//! in registers where a step reads what the one before it gave.

use super::{Chain, Flow, Rounds, SLOTS, STEPS, Source, Upper};
use crate::kernels::functions::over_f32;
use crate::kernels::kinds::Kind;
use crate::kernels::math::Math;
use crate::kernels::narrowing::Narrowing;
use crate::kernels::sweep::op::Op;
use std::mem::MaybeUninit;

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
    let functions = chain.steps().iter().any(|s| is_function(s.op));
    let wide = if functions { WIDE } else { group };
    // What a step reads was written before.
    let mut room = MaybeUninit::<Slots>::uninit();
    // SAFETY: only the place of the numbers is asked for.
    let slots = unsafe { &raw mut (*room.as_mut_ptr()).0 }.cast::<Slot>();
    // Values that are one number for all elements, a bit for each.
    let mut fixed = 0u32;
    let first = n.min(wide).next_multiple_of(group);
    for (slot, source) in sources.iter().enumerate().filter(|s| s.1.one) {
        fixed |= 1 << slot;
        // SAFETY: an operand that is one number has one element, and a slot room for a block.
        unsafe {
            // All of them: a mask of places takes longer than to read as many.
            let x = S::splat(number(source));
            for i in (0..first).step_by(S::LANES) {
                x.store(slots.add(slot).cast::<f32>().add(i));
            }
        }
    }
    // All that is read and written is bfloat16, whose even and odd elements may lie apart: a
    // number is at the same place in all slots. Functions may choose how they compute by the numbers
    // that are in a vector together, which then are those of the reference.
    let lies = || sources.iter().enumerate().filter(|s| !s.1.one);
    let turns =
        S::TURNS && kind == Kind::BF16 && lies().all(|s| s.1.kind == Kind::BF16) && !functions;
    let blocks = Blocks {
        chain,
        flow: chain.flow(fixed),
        slots,
        functions,
        turns,
        kind,
    };
    let whole = n / group * group;
    if whole > 0 {
        let wanted = |s: &(usize, &Source)| s.1.kind == Kind::F32;
        let moving = lies().filter(wanted).fold(0, |all, s| all | 1u32 << s.0);
        let mut steps = [const { MaybeUninit::uninit() }; STEPS];
        let mut all = blocks.steps(&mut steps, u64::MAX, (sources, moving), to);
        let mut from = 0;
        while from < whole {
            let count = (whole - from).min(wide);
            for (slot, source) in lies().filter(|s| s.1.kind != Kind::F32) {
                // SAFETY: operands have `n` elements, and a slot room for a block.
                unsafe {
                    let lies = source.at.add(from * source.kind.size());
                    read::<S>(turns, source.kind, lies, slots.add(slot).cast(), count);
                }
            }
            // SAFETY: operands and result have these elements, and slots room for a block.
            unsafe { blocks.run::<S>(all, from, (count, count)) };
            from += count;
            // The first part is the longest.
            if from == count && from < whole && all.len() > blocks.flow.again.count_ones() as usize
            {
                all = blocks.steps(&mut steps, blocks.flow.again, (sources, moving), to);
            }
        }
    }
    let count = n - whole;
    if count == 0 {
        return;
    }
    // Fewer elements than a group has are copied to lines of their own: the result may lie where an
    // operand does, so that none is computed twice.
    let mut line = [0u8; 4 * LINE];
    for (slot, source) in lies() {
        let size = source.kind.size();
        // SAFETY: operands have `n` elements, of which less than a group are copied to the line.
        unsafe {
            let from = source.at.add(whole * size);
            std::ptr::copy_nonoverlapping(from, line.as_mut_ptr(), count * size);
            let to = slots.add(slot).cast();
            read::<S>(turns, source.kind, line.as_ptr(), to, group);
        }
    }
    let done = if whole > 0 {
        blocks.flow.again
    } else {
        u64::MAX
    };
    let mut steps = [const { MaybeUninit::uninit() }; STEPS];
    let all = blocks.steps(&mut steps, done, (sources, 0), line.as_mut_ptr());
    // SAFETY: slots have a group of numbers, and the result has room for what is copied.
    unsafe {
        blocks.run::<S>(all, 0, (count, group));
        let size = kind.size();
        std::ptr::copy_nonoverlapping(line.as_ptr(), to.add(whole * size), count * size);
    }
}

/// How a chain passes over blocks.
struct Blocks<'a> {
    chain: &'a Chain,
    flow: Flow,
    slots: *mut Slot,
    /// Some steps are functions.
    functions: bool,
    /// Even and odd elements lie apart.
    turns: bool,
    /// The elements of the result.
    kind: Kind,
}

impl Blocks<'_> {
    /// Writes the steps in `done`, a bit for each, with the places of their numbers: those of sources
    /// in `moving`, a bit for each, where they lie, others in slots; the result's first element is at
    /// `to`.
    #[inline(always)]
    fn steps<'s>(
        &self,
        room: &'s mut [MaybeUninit<Ready>; STEPS],
        done: u64,
        (sources, moving): (&[Source], u32),
        to: *mut u8,
    ) -> &'s [Ready] {
        let steps = self.chain.steps();
        let last = steps.len().saturating_sub(1);
        // A number of a value is below [`SLOTS`].
        let slot = |k: u8| {
            self.slots
                .wrapping_add(usize::from(k) % SLOTS)
                .cast::<f32>()
        };
        let mut count = 0;
        for (k, step) in steps.iter().enumerate().filter(|s| done >> s.0 & 1 == 1) {
            let mut moves = [false; 4];
            let mut args = step.args.map(|k| slot(k).cast_const());
            for (place, &value) in step.args.iter().enumerate() {
                if moving >> (value % 32) & 1 == 1 {
                    moves[place] = true;
                    args[place] = sources[usize::from(value)].at.cast();
                }
            }
            let number = k != last || self.kind == Kind::F32;
            room[count].write(Ready {
                op: step.op,
                math: step.math,
                rounds: step.rounds,
                upper: match self.flow.upper >> k & 1 {
                    1 => step.upper,
                    _ => Upper::None,
                },
                put: match (number, k == last || self.flow.stored >> k & 1 == 1) {
                    (true, true) => Put::Number,
                    (true, false) => Put::Nothing,
                    (false, _) => Put::Element,
                },
                function: self.functions && is_function(step.op),
                moves,
                ends: k == last,
                args,
                own: slot(step.to),
                to: if k == last { to } else { slot(step.to).cast() },
            });
            count += 1;
        }
        // SAFETY: so many were written, and `MaybeUninit` has the layout of what it holds.
        unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), count) }
    }

    /// Steps over a block from an element on, of whose `whole` numbers, which are whole groups, `count`
    /// are wanted.
    ///
    /// # Safety
    /// Operands and result have these elements.
    #[inline(always)]
    unsafe fn run<S: Narrowing>(
        &self,
        mut steps: &[Ready],
        from: usize,
        (count, whole): (usize, usize),
    ) {
        let group = GROUP * S::LANES;
        // SAFETY: as the caller promises.
        unsafe {
            if !self.functions {
                return through::<S>(steps, (from, 0), self.turns, self.kind);
            }
            // A function is of all elements of a block, so that steps before it are done first.
            while let Some((here, rest)) = steps.split_first() {
                if here.function {
                    let [a, b, ..] = here.places((from, 0));
                    over_f32(here.math, count, a, b, here.own);
                    for i in count..whole {
                        *here.own.add(i) = 0.0;
                    }
                }
                let others = rest.iter().take_while(|step| !step.function).count();
                let (now, later) = steps.split_at(1 + others);
                for i in (0..whole).step_by(group) {
                    through::<S>(now, (from + i, i), self.turns, self.kind);
                }
                steps = later;
            }
        }
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

/// What becomes of a step's result.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Put {
    /// The next step takes it out of registers.
    Nothing,
    Number,
    /// It is written as an element of the chain's result.
    Element,
}

/// A step of a block, with the places of its numbers.
#[derive(Clone, Copy)]
struct Ready {
    op: Op,
    math: Math,
    rounds: Rounds,
    upper: Upper,
    put: Put,
    function: bool,
    /// Which arguments are read where they lie, not in a slot.
    moves: [bool; 4],
    /// It gives the chain's result.
    ends: bool,
    args: [*const f32; 4],
    /// Its slot, where a function leaves its numbers.
    own: *mut f32,
    /// Where the first number or element is put.
    to: *mut u8,
}

impl Ready {
    /// Where an argument's numbers are of a group that is `at` elements from the chain's first, and
    /// `first` from its block's.
    #[inline(always)]
    fn place(&self, k: usize, (at, first): (usize, usize)) -> *const f32 {
        self.args[k].wrapping_add(if self.moves[k] { at } else { first })
    }

    /// The same of all arguments.
    #[inline(always)]
    fn places(&self, at: (usize, usize)) -> [*const f32; 4] {
        [0, 1, 2, 3].map(|k| self.place(k, at))
    }
}

/// Steps, none of which is a function but the first, on a group that is `at.0` elements from the chain's
/// first and `at.1` from its block's; the result's even and odd elements are apart in registers where
/// `turns` says so.
///
/// # Safety
/// Operands and result have groups of numbers and elements there.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors in registers.
unsafe fn through<S: Narrowing>(steps: &[Ready], at: (usize, usize), turns: bool, kind: Kind) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut y = [S::splat(0.0); GROUP];
        for step in steps {
            match step.upper {
                Upper::None => apply(step, at, &mut y),
                _ => go_on(step, at, &mut y),
            }
            round(step.rounds, &mut y);
            let place = if step.ends { at.0 } else { at.1 };
            match step.put {
                Put::Nothing => {}
                Put::Number => {
                    let to = step.to.cast::<f32>().add(place);
                    for v in 0..GROUP {
                        y[v].store(to.add(v * S::LANES));
                    }
                }
                Put::Element => write(turns, kind, &y, step.to.add(place * kind.size())),
            }
        }
    }
}

/// Rounds numbers to a narrow float.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors in registers.
unsafe fn round<S: Narrowing>(rounds: Rounds, y: &mut [S; GROUP]) {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        match rounds {
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
    }
}

/// A step that takes what the one before it gave, `y`, out of registers, as [`Step::takes`] says.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors in registers.
unsafe fn go_on<S: Narrowing>(step: &Ready, at: (usize, usize), y: &mut [S; GROUP]) {
    macro_rules! at {
        ($place:literal) => {
            step.place($place, at)
        };
    }
    macro_rules! two {
        ($op:ident) => {
            match step.upper {
                Upper::Second => {
                    let a = at!(0);
                    for v in 0..GROUP {
                        y[v] = S::load(a.add(v * S::LANES)).$op(y[v]);
                    }
                }
                Upper::Both => {
                    for v in 0..GROUP {
                        y[v] = y[v].$op(y[v]);
                    }
                }
                _ => {
                    let b = at!(1);
                    for v in 0..GROUP {
                        y[v] = y[v].$op(S::load(b.add(v * S::LANES)));
                    }
                }
            }
        };
    }
    macro_rules! three {
        ($one:ident, $other:ident) => {{
            let (b, c) = (at!(1), at!(2));
            for v in 0..GROUP {
                let (b, c) = (S::load(b.add(v * S::LANES)), S::load(c.add(v * S::LANES)));
                y[v] = y[v].$one(b).$other(c);
            }
        }};
    }
    macro_rules! one {
        ($x:ident => $value:expr) => {
            for v in 0..GROUP {
                let $x = y[v];
                y[v] = $value;
            }
        };
    }
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable; operands have groups of
    // elements.
    unsafe {
        match step.op {
            Op::Add => two!(add),
            Op::Sub => two!(sub),
            Op::Mul => two!(mul),
            Op::Div => two!(div),
            Op::Min => two!(min),
            Op::Max => two!(max),
            Op::MaxMin => three!(max, min),
            Op::MinMax => three!(min, max),
            Op::Neg => one!(x => S::splat(-0.0).sub(x)),
            Op::Abs => one!(x => x.abs()),
            Op::Sqrt => one!(x => x.sqrt()),
            Op::Floor => one!(x => x.floor()),
            // A copy.
            _ => {}
        }
    }
}

/// One step on a group of numbers from one on, which lie at their places, neither rounded nor
/// narrowed; of a function, the numbers in the step's own slot.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors in registers.
unsafe fn apply<S: Narrowing>(step: &Ready, at: (usize, usize), y: &mut [S; GROUP]) {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable; operands and result
    // have groups of elements.
    unsafe {
        macro_rules! each {
            ($($x:ident of $place:literal),+ => $value:expr) => {{
                $(let $x = step.place($place, at);)+
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
                y[v] = S::load(step.own.add(at.1 + v * S::LANES));
            }
        });
    }
}
