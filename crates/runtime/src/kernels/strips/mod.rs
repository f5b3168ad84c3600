//! Element-wise expressions over float32, a strip at a time.
//!
//! Generated code passes a stage's computation as a list of vector operations. They run over strips
//! that stay in the first-level cache, each operation with the widest vectors of the processor;
//! contiguous operands are read in place. Rows are distributed among threads.

mod bytes;
mod chain;
mod flat;
mod op;
mod reduce;
mod registers;
mod short;
mod space;
mod uniform;

use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::kernels::combiner::Combiner;
use crate::kernels::kinds::Kind;
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::square::dispatch_turning;
use crate::kernels::simd::{Simd, dispatch};
use crate::slices::slice;
use crate::threads::{Grain, Share};
use flat::plain as rows_together;
pub(crate) use op::apply;
pub use op::{Op, RxStripOp};
use reduce::{columns, rows};
use short::short as short_rows;
use space::{Offsets, Space};

/// Elements of a strip: a dozen such operands fit in the first-level cache.
const STRIP: usize = 512;
/// Elements of a strip that needs no memory.
const BARE: usize = 1 << 13;
/// The maximum number of axes, before and after merging.
pub const AXES: usize = 12;
/// The maximum number of inputs.
pub const INPUTS: usize = 16;
/// The maximum number of operations in registers; generated code has no more.
pub const OPS: usize = 64;
/// The maximum number of inputs, constants and temporaries together.
const OPERANDS: usize = 96;
/// The bytes for each thread from which a result is written with non-temporal stores.
const STREAM: usize = 16 << 20;
/// Operations on elements below which no thread is woken:
/// `cargo run --release -p relax-runtime --example bench_threads` shows where sharing starts to
/// pay.
const SMALL: usize = 1 << 16;

/// Returns whether a result of so many bytes is written with non-temporal stores: little of it
/// would still be cached when it is read. To memory, several threads write no more than one does;
/// to the last cache they do.
pub(crate) fn streams(bytes: usize, threads: usize) -> bool {
    bytes >= STREAM.saturating_mul(threads)
}

c_structure! {
    /// As in the C header.
    pub struct RxStrips {
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
        /// A [`Combiner`]: sum, product, maximum or minimum.
        pub combiner: i32,
        /// 0.
        pub reserved: i32,
        /// The extents of all axes.
        pub extents: *const i64,
        /// The inputs' first elements.
        pub data: *const *const f32,
        /// The types of all inputs and of the result, each a [`Kind`]; null where all are float32.
        /// Inputs may have up to 32 bits, a result of bytes holds all numbers. Nothing is reduced
        /// then.
        pub kinds: *const i32,
        /// For each input, the step along every axis, in elements.
        pub strides: *const i64,
        /// The constants.
        pub values: *const f32,
        /// The operations.
        pub program: *const RxStripOp,
        /// The result, contiguous.
        pub out: *mut f32,
    }
}

/// The types of inputs and of the result.
type Kinds = ([Kind; INPUTS], Kind);

/// What the threads share.
struct Plan<'a> {
    v: &'a RxStrips,
    combiner: Combiner,
    /// The operations executed once per row, and those executed per element.
    lead: &'a [RxStripOp],
    ops: &'a [RxStripOp],
    data: &'a [*const f32],
    /// Where not all are float32.
    kinds: Option<Kinds>,
    out: Space,
    over: Space,
    /// Elements of a strip of a row.
    piece: usize,
    /// Whether strips run along the last reduced axis (else along the last axis of the result).
    along_reduced: bool,
    /// Whether strips are many short rows.
    flat: bool,
    /// Whether short rows are reduced in parallel lanes.
    short: bool,
    /// Whether the result is written with non-temporal stores.
    stream: bool,
    /// The operations in registers, where that helps.
    chain: chain::Chain,
}

/// The operands of one strip, and the memory of temporaries and copies.
struct Strip {
    operands: [*const f32; OPERANDS],
    /// Memory for gathered inputs, constants and temporaries, a strip each.
    room: *mut f32,
}

impl<'a> Plan<'a> {
    /// Strips of room that a thread needs: inputs, constants, temporaries, and the sums.
    fn room(&self) -> usize {
        let operands = self.v.inputs + self.v.constants + self.v.temps;
        (operands as usize + self.lead.len() + 2) * STRIP
    }

    /// Decides how strips lie in the axes, and what is done once for each row. `split`: room for
    /// the operations in two parts.
    #[inline]
    fn choose(&mut self, split: &'a mut uniform::Split, threads: usize) {
        let v = self.v;
        let (reduced, inputs) = (v.reduced as usize, v.inputs as usize);
        let operands = (v.inputs + v.constants + v.temps) as usize;
        let ops = self.ops;
        let (out, over) = (&self.out, &self.over);
        let easy = |steps: Offsets| steps.iter().all(|s| (0..=1).contains(s));
        self.along_reduced =
            reduced > 0 && (out.inner() < 8 || (over.inner() >= 16 && easy(over.inner_steps())));
        // Small integers become floats in memory.
        let floats = self.kinds.is_none();
        self.flat = reduced == 0 && flat::pays(out, floats);
        let aligned = (v.out as usize).is_multiple_of(64)
            && (out.rows() == 1 || out.inner().is_multiple_of(16));
        let large = streams(out.count() * 4, threads);
        self.stream = reduced == 0 && floats && !self.flat && aligned && large;
        if reduced == 0 && (self.flat || out.inner() >= 64) {
            let (steps, rows) = (out.inner_steps(), !self.flat);
            let first = inputs + v.constants as usize;
            let number = |k: usize| {
                let constant = (inputs..first).contains(&k);
                constant || k >= operands || (rows && k < inputs && steps[k] == 0)
            };
            let temps = v.temps as usize;
            // Making steps takes longer than they save of few elements.
            let few = out.count() <= STRIP;
            if rows
                && (0..inputs).any(|k| steps[k] == 0)
                && let Some((lead, rest)) = split.make(ops, (first, temps), &number)
            {
                (self.lead, self.ops) = (lead, rest);
            }
            if !few {
                self.chain.make(self.ops, first, &number);
            }
            if floats && self.bare(&steps) {
                self.piece = BARE;
            }
        } else if self.along_reduced && over.inner() >= 64 {
            let (steps, first) = (over.inner_steps(), inputs + v.constants as usize);
            let number = |k: usize| k >= inputs && k < first || k < inputs && steps[k] == 0;
            self.chain.make(self.ops, first, &number);
        }
        self.short = reduced > 0 && short::pays(self);
    }

    /// Returns whether a strip needs no memory: elements are read where they lie, and only the
    /// result is written.
    fn bare(&self, steps: &Offsets) -> bool {
        let read = &steps[..self.v.inputs as usize];
        let once = self.ops.len() == 1 && self.v.constants == 0 && read.iter().all(|&s| s == 1);
        let chained = self.chain.bare() && read.iter().all(|s| (0..=1).contains(s));
        !self.flat && !self.stream && (chained || once && self.lead.is_empty())
    }

    /// `fill`: the elements of a constant's strip that are read.
    unsafe fn strip(&self, room: *mut f32, fill: usize) -> Strip {
        let (inputs, constants) = (self.v.inputs as usize, self.v.constants as usize);
        let n = inputs + constants + self.v.temps as usize + self.lead.len();
        // SAFETY: `room` has as many strips.
        unsafe {
            for k in 0..constants {
                let value = *self.v.values.add(k);
                let at = room.add((inputs + k) * STRIP);
                for i in 0..fill {
                    *at.add(i) = value;
                }
            }
            let mut operands = [std::ptr::null(); OPERANDS];
            for (k, at) in operands.iter_mut().enumerate().take(n) {
                *at = room.add(k * STRIP).cast_const();
            }
            Strip { operands, room }
        }
    }

    /// The input that a result is no more than a conversion of, whose numbers are made where they
    /// belong; elements of rows are side by side.
    #[inline(always)]
    fn converted(&self, at: &Offsets, steps: &Offsets) -> Option<bytes::Input> {
        let (kinds, Kind::F32) = self.kinds.as_ref()? else {
            return None;
        };
        let [op] = self.ops else { return None };
        let k = usize::try_from(op.args[0]).ok()?;
        let alone = op.op() == op::Op::Copy && self.lead.is_empty() && !self.stream;
        let fits = alone && k < self.v.inputs as usize && kinds[k] != Kind::F32 && steps[k] == 1;
        fits.then(|| bytes::Input {
            data: self.data[k].cast(),
            kind: kinds[k],
            at: at[k],
            step: 1,
        })
    }

    /// Sets the operands to `n` elements of every input from an offset on; with `one`, an input
    /// that is a single number for all of them is not expanded.
    #[inline(always)]
    unsafe fn read<S: Simd>(
        &self,
        s: &mut Strip,
        at: &Offsets,
        steps: &Offsets,
        n: usize,
        one: bool,
    ) {
        for k in 0..self.v.inputs as usize {
            // SAFETY: the offsets lie in the inputs, and a strip has room for `n` elements up to
            // whole vectors.
            unsafe {
                if let Some((kinds, _)) = &self.kinds
                    && kinds[k] != Kind::F32
                {
                    let input = bytes::Input {
                        data: self.data[k].cast(),
                        kind: kinds[k],
                        at: at[k],
                        step: steps[k],
                    };
                    bytes::read(s, k, input, n, one);
                    continue;
                }
            }
            // SAFETY: the offsets lie in the inputs, and a strip has room for `n` elements up to
            // whole vectors.
            let (from, to) = unsafe { (self.data[k].offset(at[k]), s.room.add(k * STRIP)) };
            // SAFETY: the offsets lie in the inputs, and a strip has room for `n` elements up to
            // whole vectors.
            unsafe {
                s.operands[k] = match steps[k] {
                    1 => from,
                    0 if one => from,
                    0 => {
                        // A strip is whole vectors: elements beyond its end are never read.
                        let x = S::splat(*from);
                        for i in (0..n).step_by(S::LANES) {
                            x.store(to.add(i));
                        }
                        to
                    }
                    step => {
                        for i in 0..n {
                            *to.add(i) = *from.offset(i as isize * step);
                        }
                        to
                    }
                };
            }
        }
    }

    /// Like [`Plan::run`], in registers where possible; with `stream`, `out` is aligned and written
    /// with non-temporal stores.
    #[inline(always)]
    unsafe fn run_whole<S: Simd>(&self, s: &mut Strip, n: usize, out: *mut f32) {
        let first = (self.v.inputs + self.v.constants) as usize;
        // SAFETY: the operands have `n` elements, and `out` has room for as many.
        unsafe {
            if self.chain.helps() {
                let steps = self.chain.steps();
                let (operands, stream) = (&s.operands[..], self.stream);
                return registers::run(steps, self.ops, operands, (first, n), out, stream);
            }
            if self.stream {
                let result = s.room.add(self.room() - STRIP);
                self.run(s, n, result);
                stream::<S>(result, out, n);
            } else {
                self.run(s, n, out);
            }
        }
    }

    /// Runs the operations over `n` elements; the last one writes to `out`.
    unsafe fn run(&self, s: &mut Strip, n: usize, out: *mut f32) {
        let first = (self.v.inputs + self.v.constants) as usize;
        for (k, op) in self.ops.iter().enumerate() {
            // SAFETY: operands and temporaries are strips of room or inputs of `n` elements.
            unsafe {
                let dst = if k + 1 == self.ops.len() {
                    out
                } else {
                    s.room.add((first + op.dst as usize) * STRIP)
                };
                let arg = |i: usize| s.operands[op.args[i] as usize];
                apply(op.op(), [arg(0), arg(1), arg(2), arg(3)], dst, n);
            }
        }
    }
}

/// Rows `begin..end` of a plan without reduction.
#[inline(always)]
unsafe fn plain<S: Simd>(p: &Plan<'_>, begin: usize, end: usize, room: *mut f32) {
    let n = p.out.inner();
    let alone = p.chain.alone();
    // Strips are whole vectors, of the longest of which a line of the caches has one.
    let most = n.next_multiple_of(16).min(STRIP);
    // SAFETY: tasks are strips of the result, and `room` has what the plan says.
    let mut s = unsafe { p.strip(room, if alone { 1 } else { most }) };
    let strips = n.div_ceil(p.piece).max(1);
    let steps = p.out.inner_steps();
    let zero: Offsets = [0; INPUTS];
    let mut at = zero;
    let mut known = usize::MAX;
    let mut here = zero;
    for task in begin..end {
        let (row, first) = (task / strips, task % strips * p.piece);
        if row != known {
            p.out.row(row, &zero, &mut at);
            known = row;
        }
        for ((h, a), s) in here.iter_mut().zip(&at).zip(&steps) {
            *h = a + first as isize * s;
        }
        let len = (n - first).min(p.piece);
        let place = row * n + first;
        if let Some(input) = p.converted(&here, &steps) {
            // SAFETY: as below; elements side by side are as many numbers.
            unsafe { bytes::rows(input, 0, (1, len), p.v.out.add(place)) };
            continue;
        }
        // SAFETY: tasks are strips of the result, and `room` has what the plan says.
        unsafe {
            p.read::<S>(&mut s, &here, &steps, len, alone);
            if !p.lead.is_empty() {
                uniform::once(p, &mut s, if alone { 1 } else { len });
            }
            if p.stream {
                // Prefetches the next strip while this one is computed.
                for k in (0..p.v.inputs as usize).filter(|&k| steps[k] == 1) {
                    let next = p.data[k].wrapping_offset(here[k]).wrapping_add(len);
                    for line in (0..STRIP).step_by(16) {
                        S::prefetch(next.wrapping_add(line));
                    }
                }
            }
            match p.kinds {
                Some((_, kind)) if kind != Kind::F32 => {
                    // The last strip of room is for results.
                    let result = room.add(p.room() - STRIP);
                    p.run_whole::<S>(&mut s, len, result);
                    bytes::write(result, len, p.v.out.cast::<u8>().add(place));
                }
                _ => p.run_whole::<S>(&mut s, len, p.v.out.add(place)),
            }
        }
    }
    // SAFETY: tasks are strips of the result, and `room` has what the plan says.
    unsafe {
        if p.stream {
            S::fence();
        }
    }
}

/// Copies `n` floats with non-temporal stores; `to` is aligned to the vectors of every instruction
/// set.
#[inline(always)]
unsafe fn stream<S: Simd>(from: *const f32, to: *mut f32, n: usize) {
    // SAFETY: `from` and `to` have `n` floats.
    unsafe {
        let mut i = 0;
        while i + S::LANES <= n {
            S::load(from.add(i)).stream(to.add(i));
            i += S::LANES;
        }
        if i < n {
            S::load_part(from.add(i), n - i).store_part(to.add(i), n - i);
        }
    }
}

/// Returns the types of inputs and result where not all are float32; `None` for those that are not
/// supported.
unsafe fn kinds(v: &RxStrips) -> Option<Option<Kinds>> {
    if v.kinds.is_null() {
        return Some(None);
    }
    let inputs = v.inputs as usize;
    let mut all = [Kind::F32; INPUTS];
    // SAFETY: there is a type for each input and for the result.
    let (result, of_inputs) = unsafe { slice(v.kinds, inputs + 1) }.split_last()?;
    for (to, &kind) in all.iter_mut().zip(of_inputs) {
        *to = Kind::of(kind).filter(|&k| bytes::is_operand(k))?;
    }
    let result = Kind::of(*result).filter(|&k| bytes::is_result(k))?;
    (v.reduced == 0).then_some(Some((all, result)))
}

/// An element-wise expression, perhaps reduced.
///
/// # Safety
/// Every element that extents and steps name is in its input, the result has the extents of its
/// axes and overlaps no input, and operations name operands that exist.
#[inline(always)] // Into its entry: few elements take little longer than a call.
pub unsafe fn evaluate(context: &mut RxContext, v: &RxStrips) -> i32 {
    // SAFETY: lists are as long as the descriptor says, and arrays have the elements that extents
    // and steps name.
    if v.kinds.is_null() && unsafe { super::small::run(v) } {
        return 0;
    }
    let (axes, reduced, inputs) = (v.axes as usize, v.reduced as usize, v.inputs as usize);
    let operands = (v.inputs + v.constants + v.temps) as usize;
    if axes > AXES || reduced > AXES || inputs > INPUTS || operands > OPERANDS || v.ops < 1 {
        return context.fail(Status::Argument, "rx_strips_f32: too large");
    }
    let Some(combiner) = Combiner::of(v.combiner) else {
        return context.fail(Status::Argument, "rx_strips_f32: no such combiner");
    };
    // SAFETY: types, where there are some, are as many as inputs and one for the result.
    let Some(kinds) = (unsafe { kinds(v) }) else {
        let text = "rx_strips_f32: types that it does not take";
        return context.fail(Status::Argument, text);
    };
    let all = axes + reduced;
    // SAFETY: each input has a step along each axis, and there are `ops` operations.
    let (extents, strides, data, ops) = unsafe {
        let strides = slice(v.strides, inputs * all);
        let (data, ops) = (slice(v.data, inputs), slice(v.program, v.ops));
        (slice(v.extents, all), strides, data, ops)
    };
    // Created in place: it is as large as a short array's result.
    let mut split = uniform::Split::new();
    let mut plan = Plan {
        v,
        combiner,
        lead: &[],
        ops,
        data,
        kinds,
        out: Space::new(),
        over: Space::new(),
        piece: STRIP,
        along_reduced: false,
        flat: false,
        short: false,
        stream: false,
        chain: chain::Chain::new(),
    };
    plan.out.set(&extents[..axes], strides, all, 0);
    if reduced > 0 {
        plan.over.set(&extents[axes..], strides, all, axes);
    }
    if plan.out.count() == 0 {
        return 0;
    }
    plan.choose(&mut split, context.pool.threads());
    // SAFETY: inputs and result have the elements that the plan's spaces name.
    unsafe { run(context, &plan) }
}

/// Runs a plan on as many threads as pay.
///
/// # Safety
/// Inputs and result have the elements that the plan's spaces name, and do not overlap.
unsafe fn run(context: &mut RxContext, plan: &Plan<'_>) -> i32 {
    let (out, over) = (&plan.out, &plan.over);
    let room = plan.room() * context.pool.threads() * 4;
    let Some(scratch) = Scratch::new(context, room) else {
        return context.status;
    };
    let (tasks, each) = if plan.along_reduced || plan.short {
        (out.count(), 1)
    } else if plan.flat {
        let strips = flat::strips(out);
        (strips, out.count() / strips)
    } else {
        let tasks = out.rows() * out.inner().div_ceil(plan.piece);
        (tasks, out.inner().min(plan.piece))
    };
    let work = each * over.count().max(1) * plan.ops.len();
    let grain = Grain::of_work(SMALL, work);
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((plan, scratch.memory.cast::<f32>())) };
    context.pool.each(tasks, grain, |begin, end, worker| {
        let &(plan, room) = shared.get();
        // SAFETY: inputs and result have the elements that the plan's spaces name, and of the memory
        // each worker has `Plan::room`.
        unsafe {
            let room = room.add(worker * plan.room());
            if plan.short {
                dispatch_turning!(short_rows(plan: &Plan<'_>, begin: usize, end: usize));
            } else if plan.along_reduced {
                dispatch!(rows(plan: &Plan<'_>, begin: usize, end: usize, room: *mut f32));
            } else if plan.v.reduced > 0 {
                dispatch!(columns(plan: &Plan<'_>, begin: usize, end: usize, room: *mut f32));
            } else if plan.flat {
                dispatch!(rows_together(plan: &Plan<'_>, begin: usize, end: usize, room: *mut f32));
            } else {
                dispatch!(plain(plan: &Plan<'_>, begin: usize, end: usize, room: *mut f32));
            }
        }
    });
    0
}
