//! Element-wise expressions over float32, a strip at a time.
//!
//! Generated code passes a stage's computation as a list of vector operations. They run over strips
//! that stay in the first-level cache, each operation with the widest vectors of the processor;
//! contiguous operands are read in place. Rows are distributed among threads.

mod chain;
mod flat;
mod short;
mod uniform;

use crate::context::{RxContext, Status, guard};
use crate::kernels::kinds::Combiner;
use crate::kernels::simd::square::dispatch_turning;
use crate::kernels::simd::{Simd, dispatch};
use crate::kernels::vmath;
use crate::threads::Share;
use crate::values::{rx_scratch_alloc, rx_scratch_free};
use crate::{c_enumeration, c_structure};
use flat::plain as rows_together;
use short::short as short_rows;

/// Elements of a strip: a dozen such operands fit in the first-level cache.
const STRIP: usize = 512;
/// The maximum number of axes, before and after merging.
pub const AXES: usize = 12;
/// The maximum number of inputs.
pub const INPUTS: usize = 16;
/// The maximum number of operations in registers; generated code has no more.
pub const OPS: usize = 64;
/// The maximum number of inputs, constants and temporaries together.
const OPERANDS: usize = 96;
/// The size in bytes from which a result is written with non-temporal stores: little of it would
/// still be cached when it is read.
pub(crate) const STREAM: usize = 16 << 20;
/// Operations on elements below which no thread is woken:
/// `cargo run --release -p relax-runtime --example bench_threads` shows where sharing starts to
/// pay.
const SMALL: usize = 1 << 16;

c_enumeration! {
    /// The operation on the arguments `a`, `b`, `c`, `d`.
    pub enum Op {
        /// `a`.
        Copy,
        /// `a + b`.
        Add,
        /// `a - b`.
        Sub,
        /// `a * b`.
        Mul,
        /// `a / b`.
        Div,
        /// `a < b ? a : b`.
        Min,
        /// `a > b ? a : b`.
        Max,
        /// `a < b ? c : d`.
        SelectLt,
        /// `a <= b ? c : d`.
        SelectLe,
        /// `a == b ? c : d`.
        SelectEq,
        /// `-a`.
        Neg,
        /// `|a|`.
        Abs,
        /// The square root of `a`.
        Sqrt,
        /// The reciprocal square root of `a`.
        Rsqrt,
        /// To the nearest integer, ties to even.
        RoundEven,
        /// The next integer below.
        Floor,
        /// The next integer above.
        Ceil,
        /// The next integer toward 0.
        Trunc,
        /// As `rx_vexp_f32`.
        Exp,
        /// As `rx_vlog_f32`.
        Log,
        /// As `rx_vtanh_f32`.
        Tanh,
        /// As `rx_verf_f32`.
        Erf,
        /// As `rx_vsigmoid_f32`.
        Sigmoid,
        /// As `rx_vsin_f32`.
        Sin,
        /// As `rx_vcos_f32`.
        Cos,
        /// As `rx_vpow_f32`.
        Pow,
        /// `a * b + c`, rounded as the processor does it.
        MulAdd,
    }
}

c_structure! {
    /// As in the C header.
    pub struct RxStripOp {
        /// An [`Op`].
        pub code: i32,
        /// The temporary that is written, from 0.
        pub dst: i32,
        /// Operands: inputs, then constants, then temporaries.
        pub args: [i32; 4],
    }
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

impl RxStripOp {
    /// Returns the operation; a copy for an unknown number.
    #[inline(always)]
    pub(crate) fn op(&self) -> Op {
        Op::of(self.code).unwrap_or(Op::Copy)
    }
}

/// Axes with the steps of all inputs, adjacent ones merged where possible.
struct Space {
    rank: usize,
    extent: [usize; AXES],
    steps: Steps,
}

/// The inputs' steps along the axes of a space.
type Steps = [[isize; AXES]; INPUTS];
/// An offset for every input.
type Offsets = [isize; INPUTS];

impl Space {
    /// No axes.
    const fn new() -> Self {
        Self {
            rank: 0,
            extent: [1; AXES],
            steps: [[0; AXES]; INPUTS],
        }
    }

    /// Sets the axes from `skip` on; `strides` has, for each input, a step for every one of `axes`
    /// axes.
    fn set(&mut self, extents: &[i64], strides: &[i64], axes: usize, skip: usize) {
        let inputs = strides.len() / axes.max(1);
        for (k, &n) in extents.iter().enumerate() {
            let n = n.max(0) as usize;
            if n == 1 {
                continue;
            }
            let last = self.rank.wrapping_sub(1);
            let alike = self.rank > 0
                && (0..inputs).all(|i| {
                    let step = strides[i * axes + skip + k] as isize;
                    self.steps[i][last] == step * n as isize
                });
            let at = if alike {
                self.extent[last] *= n;
                last
            } else {
                self.extent[self.rank] = n;
                self.rank += 1;
                self.rank - 1
            };
            for (i, to) in self.steps.iter_mut().enumerate().take(inputs) {
                to[at] = strides[i * axes + skip + k] as isize;
            }
        }
    }

    /// The extent of the last axis.
    fn inner(&self) -> usize {
        if self.rank == 0 {
            1
        } else {
            self.extent[self.rank - 1]
        }
    }
    /// The number of elements.
    fn count(&self) -> usize {
        self.extent[..self.rank].iter().product()
    }
    /// The number of rows along the last axis.
    fn rows(&self) -> usize {
        self.extent[..self.rank.saturating_sub(1)].iter().product()
    }
    /// Computes the offsets at which the inputs' elements of a row begin.
    fn row(&self, mut row: usize, base: &Offsets, out: &mut Offsets) {
        *out = *base;
        for k in (0..self.rank.saturating_sub(1)).rev() {
            let i = (row % self.extent[k]) as isize;
            row /= self.extent[k];
            for (o, s) in out.iter_mut().zip(&self.steps) {
                *o += i * s[k];
            }
        }
    }
    /// The inputs' steps along the last axis.
    fn inner_steps(&self) -> Offsets {
        let mut inner = [0; INPUTS];
        if self.rank > 0 {
            for (to, steps) in inner.iter_mut().zip(&self.steps) {
                *to = steps[self.rank - 1];
            }
        }
        inner
    }
}

/// The data that the threads share.
struct Plan<'a> {
    v: &'a RxStrips,
    combiner: Combiner,
    /// The operations executed once per row, and those executed per element.
    lead: &'a [RxStripOp],
    ops: &'a [RxStripOp],
    data: &'a [*const f32],
    out: Space,
    over: Space,
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

impl Plan<'_> {
    /// The number of strips of memory that a thread needs: inputs, constants, temporaries, and the
    /// sums.
    fn room(&self) -> usize {
        let operands = self.v.inputs + self.v.constants + self.v.temps;
        (operands as usize + self.lead.len() + 2) * STRIP
    }

    /// `fill`: the number of elements of a constant's strip that are read.
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
            // SAFETY: the elements lie in the input, by the caller's promise.
            unsafe {
                let from = self.data[k].offset(at[k]);
                let to = s.room.add(k * STRIP);
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
        // SAFETY: the caller's promise.
        unsafe {
            if self.chain.helps() {
                let chain = &self.chain;
                let (operands, stream) = (&s.operands[..], self.stream);
                return if S::LANES == 16 {
                    chain::run::<S, 8, 4>(chain, self.ops, operands, first, n, out, stream)
                } else {
                    chain::run::<S, 4, 2>(chain, self.ops, operands, first, n, out, stream)
                };
            }
            if self.stream {
                let result = s.room.add(self.room() - STRIP);
                self.run::<S>(s, n, result);
                stream::<S>(result, out, n);
            } else {
                self.run::<S>(s, n, out);
            }
        }
    }

    /// Runs the operations over `n` elements; the last one writes to `out`.
    #[inline(always)]
    unsafe fn run<S: Simd>(&self, s: &mut Strip, n: usize, out: *mut f32) {
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
                apply::<S>(op.op(), [arg(0), arg(1), arg(2), arg(3)], dst, n);
            }
        }
    }
}

/// One operation over `n` elements.
#[inline(always)]
pub(crate) unsafe fn apply<S: Simd>(op: Op, [a, b, c, d]: [*const f32; 4], to: *mut f32, n: usize) {
    macro_rules! each {
        ($load:ident, $i:ident => $value:expr) => {{
            let mut $i = 0;
            while $i + S::LANES <= n {
                let $load = |p: *const f32| S::load(p.add($i));
                $value.store(to.add($i));
                $i += S::LANES;
            }
            if $i < n {
                let left = n - $i;
                let $load = |p: *const f32| S::load_part(p.add($i), left);
                $value.store_part(to.add($i), left);
            }
        }};
    }
    // SAFETY: the callers' promise.
    unsafe {
        match op {
            Op::Copy => each!(l, i => l(a)),
            Op::Add => each!(l, i => l(a).add(l(b))),
            Op::Sub => each!(l, i => l(a).sub(l(b))),
            Op::Mul => each!(l, i => l(a).mul(l(b))),
            Op::Div => each!(l, i => l(a).div(l(b))),
            Op::Min => each!(l, i => l(a).min(l(b))),
            Op::Max => each!(l, i => l(a).max(l(b))),
            Op::MulAdd => each!(l, i => l(a).fma(l(b), l(c))),
            Op::SelectLt => {
                each!(l, i => S::select(l(a).lt(l(b)), l(c), l(d)))
            }
            Op::SelectEq => {
                each!(l, i => S::select(l(a).eq(l(b)), l(c), l(d)))
            }
            Op::SelectLe => each!(l, i => {
                let (x, y, yes) = (l(a), l(b), l(c));
                S::select(x.lt(y), yes, S::select(x.eq(y), yes, l(d)))
            }),
            Op::Neg => each!(l, i => S::splat(-0.0).sub(l(a))),
            Op::Abs => each!(l, i => l(a).abs()),
            Op::Sqrt => each!(l, i => l(a).sqrt()),
            Op::Rsqrt => each!(l, i => S::splat(1.0).div(l(a).sqrt())),
            Op::RoundEven => each!(l, i => whole(l(a))),
            Op::Floor => each!(l, i => floor(l(a))),
            Op::Ceil => each!(l, i => {
                S::splat(-0.0).sub(floor(S::splat(-0.0).sub(l(a))))
            }),
            Op::Trunc => each!(l, i => {
                let x = l(a);
                floor(x.abs()).copysign(x)
            }),
            Op::Exp => each!(l, i => vmath::exp(l(a))),
            Op::Log => each!(l, i => vmath::log(l(a))),
            Op::Tanh => each!(l, i => vmath::tanh(l(a))),
            Op::Erf => each!(l, i => vmath::erf(l(a))),
            Op::Sigmoid => each!(l, i => vmath::sigmoid(l(a))),
            Op::Sin => vmath::rx_vsin_f32(n as i64, a, to),
            Op::Cos => vmath::rx_vcos_f32(n as i64, a, to),
            Op::Pow => vmath::rx_vpow_f32(n as i64, a, b, to),
        }
    }
}

/// Rounds to the nearest integer; numbers from 2^23 on are integers already.
#[inline(always)]
unsafe fn whole<S: Simd>(x: S) -> S {
    // SAFETY: the callers' promise.
    unsafe { S::select(x.abs().lt(S::splat(8_388_608.0)), x.round().copysign(x), x) }
}

#[inline(always)]
unsafe fn floor<S: Simd>(x: S) -> S {
    // SAFETY: the callers' promise.
    unsafe {
        let r = whole(x);
        S::select(x.lt(r), r.sub(S::splat(1.0)), r)
    }
}

/// Rows `begin..end` of a plan without reduction.
#[inline(always)]
unsafe fn plain<S: Simd>(p: &Plan<'_>, begin: usize, end: usize, room: *mut f32) {
    // SAFETY: the callers' promise.
    unsafe {
        let n = p.out.inner();
        let alone = p.chain.alone();
        let mut s = p.strip(room, if alone { 1 } else { STRIP });
        let strips = n.div_ceil(STRIP).max(1);
        let steps = p.out.inner_steps();
        let zero: Offsets = [0; INPUTS];
        let mut at = zero;
        let mut known = usize::MAX;
        let mut here = zero;
        for task in begin..end {
            let (row, first) = (task / strips, task % strips * STRIP);
            if row != known {
                p.out.row(row, &zero, &mut at);
                known = row;
            }
            for ((h, a), s) in here.iter_mut().zip(&at).zip(&steps) {
                *h = a + first as isize * s;
            }
            let len = (n - first).min(STRIP);
            let out = p.v.out.add(row * n + first);
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
            p.run_whole::<S>(&mut s, len, out);
        }
        if p.stream {
            S::fence();
        }
    }
}

/// Copies `n` floats with non-temporal stores; `to` is aligned to the vectors of every instruction
/// set.
#[inline(always)]
unsafe fn stream<S: Simd>(from: *const f32, to: *mut f32, n: usize) {
    // SAFETY: the callers' promise.
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

/// One step of a reduction, lane by lane.
#[inline(always)]
unsafe fn combine<S: Simd>(combiner: Combiner, acc: S, x: S) -> S {
    // SAFETY: the callers' promise.
    unsafe {
        match combiner {
            Combiner::Sum => acc.add(x),
            Combiner::Product => acc.mul(x),
            Combiner::Max => acc.max(x),
            _ => acc.min(x),
        }
    }
}

fn neutral(combiner: Combiner) -> f32 {
    match combiner {
        Combiner::Sum => 0.0,
        Combiner::Product => 1.0,
        Combiner::Max => f32::MIN,
        _ => f32::MAX,
    }
}

fn combine_f64(combiner: Combiner, a: f64, b: f64) -> f64 {
    match combiner {
        Combiner::Sum => a + b,
        Combiner::Product => a * b,
        Combiner::Max if a > b => a,
        Combiner::Min if a < b => a,
        _ => b,
    }
}

/// Elements `begin..end` of a result, each from strips along the last reduced axis. Strips are
/// reduced in eight chains of vectors, their results in float64.
#[inline(always)]
unsafe fn rows<S: Simd>(p: &Plan<'_>, begin: usize, end: usize, room: *mut f32) {
    // SAFETY: the callers' promise.
    unsafe {
        let mut s = p.strip(room, STRIP);
        let result = room.add(p.room() - STRIP);
        let start = neutral(p.combiner);
        let steps = p.over.inner_steps();
        let (n, outer) = (p.over.inner(), p.over.rows());
        let inner = p.out.inner();
        let out_steps = p.out.inner_steps();
        let zero: Offsets = [0; INPUTS];
        let (mut base, mut at) = (zero, zero);
        for element in begin..end {
            p.out.row(element / inner, &zero, &mut base);
            for (b, s) in base.iter_mut().zip(&out_steps) {
                *b += (element % inner) as isize * s;
            }
            let mut total = f64::from(start);
            for row in 0..outer {
                p.over.row(row, &base, &mut at);
                let mut first = 0;
                while first < n {
                    let len = (n - first).min(STRIP);
                    p.read::<S>(&mut s, &at, &steps, len, false);
                    // Elements that are reduced without computation need no copy.
                    let result = match p.ops {
                        [op] if op.op() == Op::Copy => s.operands[op.args[0] as usize],
                        _ => {
                            p.run::<S>(&mut s, len, result);
                            result.cast_const()
                        }
                    };
                    let mut acc = [S::splat(start); 4];
                    let mut i = 0;
                    while i + 4 * S::LANES <= len {
                        for (k, acc) in acc.iter_mut().enumerate() {
                            let x = S::load(result.add(i + k * S::LANES));
                            *acc = combine(p.combiner, *acc, x);
                        }
                        i += 4 * S::LANES;
                    }
                    while i + S::LANES <= len {
                        acc[0] = combine(p.combiner, acc[0], S::load(result.add(i)));
                        i += S::LANES;
                    }
                    let all = combine(
                        p.combiner,
                        combine(p.combiner, acc[0], acc[1]),
                        combine(p.combiner, acc[2], acc[3]),
                    );
                    let mut lanes = [0.0f32; 16];
                    all.store(lanes.as_mut_ptr());
                    for &x in &lanes[..S::LANES] {
                        total = combine_f64(p.combiner, total, f64::from(x));
                    }
                    while i < len {
                        total = combine_f64(p.combiner, total, f64::from(*result.add(i)));
                        i += 1;
                    }
                    for (a, s) in at.iter_mut().zip(&steps) {
                        *a += len as isize * s;
                    }
                    first += len;
                }
            }
            *p.v.out.add(element) = total as f32;
        }
    }
}

/// Strips `begin..end` of a result, each accumulated over all reduced axes.
#[inline(always)]
unsafe fn columns<S: Simd>(p: &Plan<'_>, begin: usize, end: usize, room: *mut f32) {
    // SAFETY: the callers' promise.
    unsafe {
        let mut s = p.strip(room, STRIP);
        let result = room.add(p.room() - STRIP);
        let start = neutral(p.combiner);
        let n = p.out.inner();
        let strips = n.div_ceil(STRIP).max(1);
        let steps = p.out.inner_steps();
        let over_steps = p.over.inner_steps();
        let zero: Offsets = [0; INPUTS];
        let (mut base, mut at) = (zero, zero);
        for task in begin..end {
            let (row, first) = (task / strips, task % strips * STRIP);
            p.out.row(row, &zero, &mut base);
            for (b, s) in base.iter_mut().zip(&steps) {
                *b += first as isize * s;
            }
            let len = (n - first).min(STRIP);
            let out = p.v.out.add(row * n + first);
            for i in 0..len {
                *out.add(i) = start;
            }
            for outer in 0..p.over.rows() {
                p.over.row(outer, &base, &mut at);
                for _ in 0..p.over.inner() {
                    p.read::<S>(&mut s, &at, &steps, len, false);
                    p.run::<S>(&mut s, len, result);
                    let mut i = 0;
                    while i < len {
                        let part = (len - i).min(S::LANES);
                        let x = S::load_part(result.add(i), part);
                        let acc = S::load_part(out.add(i), part);
                        combine(p.combiner, acc, x).store_part(out.add(i), part);
                        i += part;
                    }
                    for (a, s) in at.iter_mut().zip(&over_steps) {
                        *a += s;
                    }
                }
            }
        }
    }
}

/// An element-wise expression, perhaps reduced.
///
/// # Safety
/// Every element that extents and steps name is in its input, the result has the extents of its
/// axes and overlaps no input, and operations name operands that exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_strips_f32(ctx: *mut RxContext, strips: *const RxStrips) -> i32 {
    guard(ctx, |context| {
        // SAFETY: the caller's promise.
        unsafe {
            let v = &*strips;
            if super::small::run(v) {
                return 0;
            }
            let (axes, reduced, inputs) = (v.axes as usize, v.reduced as usize, v.inputs as usize);
            let operands = (v.inputs + v.constants + v.temps) as usize;
            if axes > AXES || reduced > AXES || inputs > INPUTS || operands > OPERANDS || v.ops < 1
            {
                return context.fail(Status::Argument, "rx_strips_f32: too large");
            }
            let Some(combiner) = Combiner::of(v.combiner) else {
                return context.fail(Status::Argument, "rx_strips_f32: no such combiner");
            };
            let slice = |at: *const i64, n: usize| -> &[i64] {
                if n == 0 {
                    &[]
                } else {
                    std::slice::from_raw_parts(at, n)
                }
            };
            let extents = slice(v.extents, axes + reduced);
            let all = axes + reduced;
            let strides = slice(v.strides, inputs * all);
            let data = if inputs == 0 {
                &[][..]
            } else {
                std::slice::from_raw_parts(v.data, inputs)
            };
            let ops = std::slice::from_raw_parts(v.program, v.ops as usize);
            // Created in place: it is as large as a short array's result.
            let mut split = uniform::Split::new();
            let mut plan = Plan {
                v,
                combiner,
                lead: &[],
                ops,
                data,
                out: Space::new(),
                over: Space::new(),
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
            let (out, over) = (&plan.out, &plan.over);
            if out.count() == 0 {
                return 0;
            }
            let easy = |steps: Offsets| steps.iter().all(|s| (0..=1).contains(s));
            plan.along_reduced = reduced > 0
                && (out.inner() < 8 || (over.inner() >= 16 && easy(over.inner_steps())));
            plan.flat = reduced == 0 && flat::pays(out);
            let aligned = (v.out as usize).is_multiple_of(64)
                && (out.rows() == 1 || out.inner().is_multiple_of(16));
            plan.stream = reduced == 0 && !plan.flat && aligned && out.count() * 4 >= STREAM;
            if reduced == 0 && (plan.flat || out.inner() >= 64) {
                let (steps, rows) = (out.inner_steps(), !plan.flat);
                let first = inputs + v.constants as usize;
                let number = |k: usize| {
                    let constant = (inputs..first).contains(&k);
                    constant || k >= operands || (rows && k < inputs && steps[k] == 0)
                };
                let temps = v.temps as usize;
                if rows
                    && (0..inputs).any(|k| steps[k] == 0)
                    && let Some((lead, rest)) = split.make(ops, (first, temps), &number)
                {
                    (plan.lead, plan.ops) = (lead, rest);
                }
                plan.chain.make(plan.ops, first, &number);
            }
            plan.short = reduced > 0 && short::pays(&plan);
            let plan = &plan;
            let (out, over) = (&plan.out, &plan.over);
            let threads = context.pool.threads();
            let room = rx_scratch_alloc(context, (plan.room() * threads * 4) as u64).cast::<f32>();
            if room.is_null() {
                return context.status;
            }
            let each = if plan.along_reduced || plan.short {
                1
            } else if plan.flat {
                out.count() / flat::strips(out)
            } else {
                out.inner().min(STRIP)
            };
            let tasks = if plan.along_reduced || plan.short {
                out.count()
            } else if plan.flat {
                flat::strips(out)
            } else {
                out.rows() * out.inner().div_ceil(STRIP)
            };
            let work = each * over.count().max(1) * plan.ops.len();
            let grain = (SMALL / work.max(1)).max(1);
            let shared = Share::new((plan, room));
            context.pool.each(tasks, grain, |begin, end, worker| {
                let &(plan, room) = shared.get();
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
            });
            rx_scratch_free(context, room.cast());
            0
        }
    })
}
