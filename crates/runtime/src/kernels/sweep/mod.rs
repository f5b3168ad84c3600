//! Expressions over elements of any type, a strip at a time.
//!
//! Generated code passes a stage's computation as a list of vector operations, each on one element
//! type: what `rx_strips_f32` is for float32, this is for all other types, including booleans, and
//! for conversions. A strip is a piece of the flattened result, however short its last axis is:
//! operands are gathered row by row, and every operation runs over a whole strip. Narrow floats are
//! held as float32 in strips and rounded where the expression says so.

#[macro_use]
mod types;

pub mod apply;
mod beside;
mod chains;
mod choice;
pub(crate) mod combine;
mod divide;
mod divisor;
mod folds;
mod narrow;
pub mod op;
mod pairs;
mod pitched;
mod read;
mod space;
pub(crate) mod taps;
mod together;
mod uniform;
mod windows;

use std::ffi::c_void;

use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::kernels::combiner::Combiner;
use crate::kernels::halves;
use crate::kernels::kinds::{Kind, Sum};
use crate::kernels::scratch::Scratch;
use crate::slices::slice;
use crate::threads::{Grain, Share};
use apply::{Args, Given, apply};
pub use op::{Op, RxSweepOp};
use read::Strip;
use space::Space;
use uniform::Uniform;
use windows::Windows;

/// The maximum number of axes of a result, and of reduced axes.
pub const AXES: usize = 12;
/// The maximum number of inputs.
pub const INPUTS: usize = 32;
/// The maximum number of inputs, constants and temporaries together.
pub const OPERANDS: usize = 128;
/// The size of a strip in bytes.
const STRIP: usize = 8192;
/// The maximum number of operands whose strips fit in the first-level cache together; with more,
/// strips are half as long.
const FEW: usize = 5;
/// Elements of a line of one number.
const LINE: usize = 512;
/// The row length, in elements and in bytes, from which strips end where rows do.
const ROW: usize = 256;
const ROW_BYTES: usize = 1024;
/// The length of rows in bytes from which on they are reduced where they lie.
const SHORT_BYTES: usize = 64;
/// Elements of a strip that needs no memory.
const BARE: usize = 1 << 14;
/// The longest step from the elements of one result to those of the next for which short reductions
/// run in parallel lanes.
pub const WINDOW_STEP: i64 = 8;
/// Combiners as const parameters of functions.
const SUM: i32 = Combiner::Sum as i32;
const MAX: i32 = Combiner::Max as i32;
const MIN: i32 = Combiner::Min as i32;
const PRODUCT: i32 = Combiner::Product as i32;
/// The kind of an input that is an index, whose data pointer is the number itself.
pub const INDEX: i32 = -1;
/// Operations on elements below which no thread is woken.
const SMALL: usize = 1 << 15;

c_structure! {
    /// As in the C header.
    pub struct RxSweep {
        /// Axes of the result.
        pub axes: i32,
        /// Axes that are reduced; they follow those of the result.
        pub reduced: i32,
        /// Number of inputs.
        pub inputs: i32,
        /// Number of constants.
        pub constants: i32,
        /// Number of operations; the last one gives the result.
        pub ops: i32,
        /// Number of temporaries.
        pub temps: i32,
        /// A [`Combiner`].
        pub combiner: i32,
        /// The result's elements, a [`Kind`].
        pub out_type: i32,
        /// The extents of all axes.
        pub extents: *const i64,
        /// The inputs' first elements; for an index, the number.
        pub data: *const *const c_void,
        /// The inputs' elements, [`INDEX`] for indices.
        pub kinds: *const i32,
        /// For each input, the step along every axis, in elements.
        pub strides: *const i64,
        /// The constants, eight bytes each, of which an element uses the first ones.
        pub values: *const u64,
        /// The operations.
        pub program: *const RxSweepOp,
        /// The result, contiguous.
        pub out: *mut c_void,
    }
}

/// The data that the threads share.
struct Plan<'a> {
    v: &'a RxSweep,
    ops: &'a [RxSweepOp],
    data: &'a [*const c_void],
    kinds: &'a [i32],
    out_kind: Kind,
    combiner: Combiner,
    out: Space,
    over: Space,
    /// Elements of a strip.
    strip: usize,
    /// The number of elements whose boundaries strips do not cross: a row, or all.
    unit: usize,
    /// Inputs that are read in place, whatever rows a strip has.
    dense: [bool; INPUTS],
    /// Inputs whose truth values may be any bytes.
    raw: [bool; INPUTS],
    /// The program bounds its input by two constants, which are read once.
    bounds: bool,
    /// Operations that give one number for a whole row of the result.
    uniform: Uniform,
    /// Operands, a bit for each, that are one number for a strip and of which a line is enough.
    lines: u128,
    /// Whether strips run along the reduced axes (else along those of the result).
    along_reduced: bool,
    /// The operations a block of elements at a time, where they are those of a chain.
    chain: chains::Chain,
    /// How results are computed of what lies beside them, where that needs no strips.
    narrow: Option<narrow::Narrow>,
}

/// The type in which elements of a type are held in strips.
pub fn register(kind: Kind) -> Kind {
    match kind {
        Kind::F16 | Kind::BF16 => Kind::F32,
        kind => kind,
    }
}

impl Plan<'_> {
    fn operands(&self) -> usize {
        (self.v.inputs + self.v.constants + self.v.temps) as usize
    }
    /// The bytes of memory that a thread needs: all operands, sums and a strip for conversions.
    fn room(&self) -> usize {
        (self.operands() + 2) * STRIP
    }

    /// The values of `n` elements: an operand, where nothing is computed, or what is written to
    /// `out`.
    unsafe fn value(&self, s: &mut Strip, n: usize, out: *mut u8) -> *const u8 {
        match self.ops {
            [op] if op.op() == Op::Copy => s.operands[op.args[0] as usize],
            _ => {
                // SAFETY: the operands have `n` elements, and `out` has room for as many.
                unsafe { self.run(s, n, (register(self.out_kind), out)) };
                out
            }
        }
    }

    /// Runs the operations over `n` elements; the last one writes to `out`, elements of the result
    /// as strips hold them, or of a chain those of any type.
    unsafe fn run(&self, s: &mut Strip, n: usize, (kind, out): (Kind, *mut u8)) {
        if self.chain.helps() {
            // SAFETY: the operands have `n` elements, and `out` has room for as many.
            unsafe { self.run_chain(n, |k| s.source(self, k), (kind, out)) };
            return;
        }
        let first = (self.v.inputs + self.v.constants) as usize;
        let last = self.ops.len() - 1;
        for (k, op) in self.ops.iter().enumerate() {
            let uniform = self.uniform.is(k);
            if self.uniform.kept(k) && n <= s.computed {
                continue;
            }
            // SAFETY: operands and temporaries are strips of room or inputs of `n` elements.
            unsafe {
                let to = if k == last {
                    out
                } else {
                    s.room.add((first + op.dst as usize) * STRIP)
                };
                let at = |place: usize| {
                    let k = op.argument(place).map(|_| op.args[place] as usize);
                    Given {
                        at: k.map_or(std::ptr::null(), |k| s.operands[k]),
                        line: k.is_some_and(|k| self.is_line(k)),
                    }
                };
                let args = Args {
                    a: at(0),
                    b: at(1),
                    c: at(2),
                    d: at(3),
                    bounds: self.bounds,
                };
                apply(op, &args, to, if uniform { 1 } else { n });
                if self.uniform.spread(k) {
                    let size = op.result().map_or(8, |kind| register(kind).size());
                    read::fill(size, to, to, n);
                }
            }
        }
        s.computed = n;
    }

    /// Writes `n` elements of a strip to the result.
    #[inline(always)]
    unsafe fn finish(&self, from: *const u8, first: usize, n: usize) {
        // SAFETY: `from` has `n` elements, and the result as many from `first` on.
        unsafe {
            let to = self.v.out.cast::<u8>().add(first * self.out_kind.size());
            match self.out_kind {
                kind @ (Kind::F16 | Kind::BF16) => f32::narrow(kind, n, from.cast(), to),
                kind => std::ptr::copy_nonoverlapping(from, to, n * kind.size()),
            }
        }
    }

    /// Returns whether a strip stays within a row of the result.
    fn within_rows(&self) -> bool {
        self.unit == self.out.inner()
    }

    /// The number of strips of the result.
    fn strips(&self) -> usize {
        self.out.count() / self.unit.max(1) * self.unit.div_ceil(self.strip)
    }

    /// Returns the start and the length of a strip.
    fn strip_at(&self, task: usize) -> (usize, usize) {
        let pieces = self.unit.div_ceil(self.strip);
        let (row, inside) = (task / pieces, task % pieces * self.strip);
        (
            row * self.unit + inside,
            (self.unit - inside).min(self.strip),
        )
    }

    fn direct(&self) -> bool {
        register(self.out_kind) == self.out_kind
    }
}

/// Strips `begin..end` of a result that is not reduced.
unsafe fn plain(p: &Plan<'_>, begin: usize, end: usize, room: *mut u8) {
    // SAFETY: tasks are strips of the result, and `room` has what the plan says.
    let (mut s, result) = unsafe { (p.begin(room), room.add(p.room() - STRIP)) };
    let mut cursor = p.out.cursor(p.strip_at(begin).0, None);
    let rows = p.within_rows() && p.unit <= p.strip;
    let mut before = 0;
    for task in begin..end {
        let (first, n) = p.strip_at(task);
        if !s.moved(p.v.inputs as usize, before, n) {
            if task > begin {
                // Moving from row to row is cheaper than computing a position.
                if rows {
                    p.out.next_row(&mut cursor);
                } else {
                    cursor = p.out.cursor(first, None);
                }
            }
            // SAFETY: tasks are strips of the result, and `room` has what the plan says.
            unsafe {
                if let Some(narrow) = &p.narrow {
                    narrow.run(p, &cursor.offset, (first, n));
                    continue;
                }
                p.read(&mut s, &cursor, &p.out, n);
            }
        }
        before = n;
        // SAFETY: tasks are strips of the result, and `room` has what the plan says.
        unsafe {
            if p.direct() || p.chain.helps() {
                let to = p.v.out.cast::<u8>().add(first * p.out_kind.size());
                p.run(&mut s, n, (p.out_kind, to));
            } else {
                p.run(&mut s, n, (p.out_kind, result));
                p.finish(result, first, n);
            }
        }
    }
}

/// Strips `begin..end` of a result, each accumulated over all reduced axes.
unsafe fn columns(p: &Plan<'_>, begin: usize, end: usize, room: *mut u8) {
    // SAFETY: tasks are strips of the result, inputs have what the axes name, and `room` has what
    // the plan says.
    unsafe {
        let mut s = p.begin(room);
        let (kind, inputs, count) = (register(p.out_kind), p.v.inputs as usize, p.over.count());
        let (sums, result) = (room.add(p.room() - 2 * STRIP), room.add(p.room() - STRIP));
        let halves = p.narrow_as_they_lie(&p.out);
        for task in begin..end {
            let (first, n) = p.strip_at(task);
            combine::neutral(p.combiner, p.out_kind, sums, n);
            let mut cursor = p.out.cursor(first, None);
            // Over nothing there is no place, and no first one.
            let mut over = (count > 0).then(|| p.over.cursor(0, Some(&cursor.offset)));
            for place in 0..count {
                let Some(over) = &mut over else { break };
                if place > 0 {
                    p.over.next(over);
                }
                cursor.offset[..inputs].copy_from_slice(&over.offset[..inputs]);
                if let Some(brain) = halves {
                    cursor.rows(&p.out, 0, n, |at, done, len| {
                        let (x, sums) = (p.data[0].cast::<u16>(), sums.cast::<f32>());
                        halves::combined(
                            brain,
                            false,
                            p.combiner,
                            len,
                            x.offset(at),
                            sums.add(done),
                        );
                    });
                    continue;
                }
                p.read(&mut s, &cursor, &p.out, n);
                let values = p.value(&mut s, n, result);
                combine::combine::<false>(p.combiner, kind, sums, values, n);
            }
            p.finish(sums, first, n);
        }
    }
}

/// Elements `begin..end` of a result, each from strips along the reduced axes.
unsafe fn rows(p: &Plan<'_>, begin: usize, end: usize, room: *mut u8) {
    // SAFETY: elements are those of the result, inputs have what the axes name, and `room` has what
    // the plan says.
    unsafe {
        let count = p.over.count();
        let kind = register(p.out_kind);
        if p.as_they_lie() {
            // Nothing is computed or gathered.
            let (from, sums) = (p.data[0].cast::<u8>(), room);
            let (given, halves) = (p.out_kind.size(), p.narrow_as_they_lie(&p.over));
            let inner = p.over.inner();
            let mut over = p.over.cursor(0, None);
            for element in begin..end {
                let first = p.out.offset(element, 0);
                let row = |at: isize| from.offset((first + at) * given as isize);
                if kind == Kind::Bool {
                    let or = p.combiner == Combiner::Or;
                    *p.v.out.cast::<u8>().add(element) = combine::decided(or, row(0), count);
                    continue;
                }
                combine::neutral(p.combiner, p.out_kind, sums, combine::FOLDED / kind.size());
                for _ in 0..count / inner.max(1) {
                    let row = row(over.offset[0]);
                    match halves {
                        Some(brain) => {
                            let (row, sums) = (row.cast(), sums.cast());
                            halves::combined(brain, true, p.combiner, inner, row, sums);
                        }
                        None => combine::combine::<true>(p.combiner, kind, sums, row, inner),
                    }
                    // After the last row, the first one.
                    p.over.next_row(&mut over);
                }
                combine::together(p.combiner, kind, sums);
                p.finish(sums, element, 1);
            }
            return;
        }
        let mut s = p.begin(room);
        let lanes = combine::FOLDED / kind.size();
        let (sums, result) = (room.add(p.room() - 2 * STRIP), room.add(p.room() - STRIP));
        let halves = p.narrow_as_they_lie(&p.over);
        for element in begin..end {
            let base = p.out.cursor(element, None);
            combine::neutral(p.combiner, p.out_kind, sums, lanes);
            let mut first = 0;
            while first < count {
                let n = (count - first).min(p.strip);
                let cursor = p.over.cursor(first, Some(&base.offset));
                first += n;
                if let Some(brain) = halves {
                    cursor.rows(&p.over, 0, n, |at, _, len| {
                        let (x, sums) = (p.data[0].cast::<u16>(), sums.cast::<f32>());
                        halves::combined(brain, true, p.combiner, len, x.offset(at), sums);
                    });
                    continue;
                }
                p.read(&mut s, &cursor, &p.over, n);
                let values = p.value(&mut s, n, result);
                combine::combine::<true>(p.combiner, kind, sums, values, n);
            }
            combine::together(p.combiner, kind, sums);
            p.finish(sums, element, 1);
        }
    }
}

/// An expression over elements of any type, perhaps reduced.
///
/// # Safety
/// Every element that extents and steps name is in its input, the result has the extents of its
/// axes and overlaps no input, and operations name operands that exist.
pub unsafe fn evaluate(context: &mut RxContext, v: &RxSweep) -> i32 {
    let (axes, reduced, inputs) = (v.axes as usize, v.reduced as usize, v.inputs as usize);
    let operands = (v.inputs + v.constants + v.temps) as usize;
    let known = Kind::of(v.out_type).zip(Combiner::of(v.combiner));
    let fits = axes <= AXES && reduced <= AXES && inputs <= INPUTS && operands <= OPERANDS;
    let (Some((out_kind, combiner)), true, true) = (known, fits, v.ops > 0) else {
        return context.fail(Status::Argument, "rx_sweep: too large");
    };
    let all = axes + reduced;
    // SAFETY: the lists of extents, steps and operations are as long as the descriptor says.
    let (extents, strides, program) = unsafe {
        (
            slice(v.extents, all),
            slice(v.strides, inputs * all),
            slice(v.program, v.ops),
        )
    };
    // SAFETY: there are an array and its element type for each input.
    let (data, kinds) = unsafe { (slice(v.data, inputs), slice(v.kinds, inputs)) };
    let mut plan = Plan {
        v,
        ops: rounded_when_written(v, program, out_kind),
        data,
        kinds,
        out_kind,
        combiner,
        out: Space::new(&extents[..axes], strides, all, 0),
        over: Space::new(&extents[axes..], strides, all, axes),
        strip: STRIP / 8,
        unit: 0,
        dense: [false; INPUTS],
        raw: [false; INPUTS],
        bounds: false,
        uniform: Uniform::default(),
        lines: 0,
        along_reduced: false,
        chain: chains::Chain::new(),
        narrow: None,
    };
    let (count, over) = (plan.out.count(), plan.over.count());
    if count == 0 {
        return 0;
    }
    plan.choose();
    let threads = context.pool.threads();
    if !plan.along_reduced
        && let Some(w) = Windows::of(&plan, threads)
    {
        // SAFETY: every element that the windows' taps name lies in its input.
        return unsafe { windows::run(context, &plan, &w) };
    }
    let room = plan.room();
    let Some(scratch) = Scratch::new(context, room * threads) else {
        return context.status;
    };
    let (tasks, each) = match (plan.along_reduced, reduced > 0) {
        (true, _) => (count, over),
        (_, true) => (plan.strips(), plan.strip.min(plan.unit) * over),
        _ => (plan.strips(), plan.strip.min(plan.unit)),
    };
    let grain = Grain::of_work(SMALL, each * plan.ops.len());
    let plan = &plan;
    if let Some(line) = plan.beside() {
        // SAFETY: every element of the line lies in its input, and the scratch is a thread's at
        // least.
        unsafe { beside::run(plan, &line, scratch.memory.cast()) };
        return 0;
    }
    let together = plan.together();
    let together = together.as_ref();
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((plan, together, scratch.memory.cast::<u8>())) };
    context.pool.each(tasks, grain, |begin, end, worker| {
        let &(plan, together, room) = shared.get();
        // SAFETY: tasks are those of the result, every element that extents and steps name lies in
        // its input, and the scratch has room for each thread.
        unsafe {
            let room = room.add(worker * plan.room());
            if let Some(line) = together {
                together::run(plan, line, (begin, end), room);
            } else if plan.along_reduced {
                rows(plan, begin, end, room);
            } else if plan.v.reduced > 0 {
                columns(plan, begin, end, room);
            } else {
                plain(plan, begin, end, room);
            }
        }
    });
    0
}

/// The operations without a final rounding to the element type of the result, which writing does.
fn rounded_when_written<'a>(v: &RxSweep, ops: &'a [RxSweepOp], out: Kind) -> &'a [RxSweepOp] {
    match ops {
        [rest @ .., before, last]
            if v.reduced == 0
                && last.op() == Op::Narrow
                && last.result() == Some(out)
                && last.args[0] == v.inputs + v.constants + before.dst =>
        {
            &ops[..=rest.len()]
        }
        _ => ops,
    }
}
