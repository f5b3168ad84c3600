//! The bytecode of expressions and statements, and the machine that runs it.
//!
//! A register holds one lane (*uniform*) or as many as the current strip has (*wide*), which is
//! decided at compile time. Loop nests run on uniform registers only.

use super::error::Fault;
use super::memory::{Bufs, Dst, Lanes, Memory, Src};
use super::num::{self, Class, Num};
use super::span::{AxisIndex, Reg, STRIP, Span, Strip};
use crate::{BinOp, Buf, UnOp};

#[derive(Clone, Debug)]
pub(super) enum Ins {
    Const(Reg, u64),
    Unary(UnOp, Num, Reg, Reg),
    Binary(BinOp, Num, Reg, Reg, Reg),
    /// Destination, condition, then, otherwise.
    Select(Num, Reg, Reg, Reg, Reg),
    /// From, to.
    Cast(Num, Num, Reg, Reg),
    /// From, to.
    Reinterpret(Num, Num, Reg, Reg),
    Copy(Num, Reg, Reg),
    /// Prepares the wide parts of a load's index.
    Span(u32, Box<[AxisIndex]>),
    /// The same where they are the lanes' own coordinates and consecutive lanes read consecutive
    /// elements: the greatest wide part of each axis.
    Along(u32, Box<[i64]>),
    /// Destination, buffer, span, mask.
    Load(Reg, Buf, u32, Box<[AxisIndex]>, Option<Reg>),
    /// A uniform load, and its number among the accesses with source locations.
    Fetch(Reg, Buf, Box<[Reg]>, Option<u32>),
    /// Uniform store, likewise.
    Store(Buf, Box<[Reg]>, Reg, Option<u32>),
    Jump(usize),
    /// Back to the condition of a loop.
    Again(usize),
    JumpUnless(Reg, usize),
    /// Leaves the loop unless index < extent.
    ForTest(Reg, Reg, usize),
    ForNext(Reg, usize),
    Alloc(Buf, Box<[Reg]>),
    /// Condition, message number, what the message shows.
    Assert(Reg, u32, Box<[Reg]>),
}

impl Ins {
    /// Visits every register, the destination first where there is one (`true`).
    pub(super) fn regs(&mut self, f: &mut dyn FnMut(&mut Reg, bool)) {
        let axes = |axes: &mut [AxisIndex], f: &mut dyn FnMut(&mut Reg, bool)| {
            for a in axes {
                a.wide
                    .iter_mut()
                    .chain(&mut a.uniform)
                    .for_each(|r| f(r, false));
            }
        };
        match self {
            Ins::Const(d, _) => f(d, true),
            Ins::Unary(_, _, d, a)
            | Ins::Cast(_, _, d, a)
            | Ins::Reinterpret(_, _, d, a)
            | Ins::Copy(_, d, a) => {
                f(d, true);
                f(a, false);
            }
            Ins::Binary(_, _, d, a, b) => {
                f(d, true);
                f(a, false);
                f(b, false);
            }
            Ins::Select(_, d, c, a, b) => {
                f(d, true);
                [c, a, b].into_iter().for_each(|r| f(r, false));
            }
            Ins::Span(_, ix) => axes(ix, f),
            Ins::Along(..) => {}
            Ins::Load(d, _, _, ix, mask) => {
                f(d, true);
                axes(ix, f);
                mask.iter_mut().for_each(|r| f(r, false));
            }
            Ins::Fetch(d, _, ix, _) => {
                f(d, true);
                ix.iter_mut().for_each(|r| f(r, false));
            }
            Ins::Store(_, ix, v, _) => {
                ix.iter_mut().for_each(|r| f(r, false));
                f(v, false);
            }
            Ins::Jump(_) | Ins::Again(_) => {}
            Ins::JumpUnless(r, _) | Ins::ForNext(r, _) => f(r, false),
            Ins::Assert(r, _, shown) => {
                f(r, false);
                shown.iter_mut().for_each(|r| f(r, false));
            }
            Ins::ForTest(i, n, _) => {
                f(i, false);
                f(n, false);
            }
            Ins::Alloc(_, ix) => ix.iter_mut().for_each(|r| f(r, false)),
        }
    }
}

/// Registers and spans.
pub(super) struct Machine {
    words: Vec<u64>,
    spans: Vec<Span>,
    /// The lanes of the current strip.
    pub(super) lanes: usize,
    pub(super) strip: Strip,
}

macro_rules! lanes {
    ($m:ident, $r:expr, $t:ty) => {
        // SAFETY: registers are disjoint ranges of words inside the file (the allocator's
        // promise, and a destination is never an operand); a wide one has STRIP words, a
        // uniform one has one.
        unsafe { std::slice::from_raw_parts($m.place($r) as *const $t, $m.width($r)) }
    };
    ($m:ident, mut $r:expr, $t:ty) => {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut($m.place($r) as *mut $t, $m.width($r)) }
    };
}

impl Machine {
    pub(super) fn new(words: usize, spans: usize) -> Machine {
        Machine {
            words: vec![0; words],
            spans: (0..spans).map(|_| Span::default()).collect(),
            lanes: 1,
            strip: Strip::default(),
        }
    }
    #[inline(always)]
    fn width(&self, r: Reg) -> usize {
        if r.wide { self.lanes } else { 1 }
    }
    #[inline(always)]
    fn place(&mut self, r: Reg) -> *mut u64 {
        let len = if r.wide { STRIP } else { 1 };
        debug_assert!(r.at as usize + len <= self.words.len());
        // SAFETY: the allocator keeps registers inside the file.
        unsafe { self.words.as_mut_ptr().add(r.at as usize) }
    }
    #[inline]
    pub(super) fn int(&mut self, r: Reg) -> i64 {
        self.words[r.at as usize] as i64
    }
    #[inline]
    pub(super) fn set_int(&mut self, r: Reg, v: i64) {
        self.words[r.at as usize] = v as u64;
    }
    /// Stores a register's lanes to consecutive elements.
    pub(super) fn store_lanes(&mut self, memory: &mut Memory, at: usize, n: usize, r: Reg) {
        let s = match memory.num.class() {
            Class::Int => Src::Int(lanes!(self, r, i64)),
            Class::Single => Src::Single(lanes!(self, r, f32)),
            Class::Double => Src::Double(lanes!(self, r, f64)),
        };
        // SAFETY: a computation writes exactly its output's elements, in its element type.
        unsafe { memory.store(at, n, s) }
    }
    /// `acc[l] = op(acc[l], value[l])`.
    pub(super) fn accumulate(&mut self, op: BinOp, num: Num, acc: Reg, value: Reg, spare: Reg) {
        self.binary(op, num, spare, acc, value);
        self.copy(num, acc, spare);
    }
    /// Reduces the first `n` lanes of `acc` into its first lane, pairwise (the more accurate order
    /// for sums).
    pub(super) fn fold(&mut self, op: BinOp, num: Num, acc: Reg, mut n: usize, spare: Reg) {
        while n > 1 {
            let half = n.div_ceil(2);
            let k = n - half;
            self.lanes = n;
            macro_rules! halve {
                ($t:ty, $f:path) => {{
                    let all = lanes!(self, mut acc, $t);
                    let out = &mut lanes!(self, mut spare, $t)[..k];
                    let (lower, upper) = all.split_at_mut(half);
                    $f(op, num, out, &lower[..k], upper);
                    lower[..k].copy_from_slice(out);
                }};
            }
            match num.class() {
                Class::Int => halve!(i64, num::int_binary),
                Class::Single => halve!(f32, single),
                Class::Double => halve!(f64, double),
            }
            n = half;
        }
    }
    pub(super) fn copy(&mut self, num: Num, d: Reg, a: Reg) {
        match num.class() {
            Class::Int => num::copy(lanes!(self, mut d, i64), lanes!(self, a, i64)),
            Class::Single => num::copy(lanes!(self, mut d, f32), lanes!(self, a, f32)),
            Class::Double => num::copy(lanes!(self, mut d, f64), lanes!(self, a, f64)),
        }
    }
    #[inline]
    fn binary(&mut self, op: BinOp, num: Num, d: Reg, a: Reg, b: Reg) {
        match num.class() {
            Class::Int => {
                let (a, b) = (lanes!(self, a, i64), lanes!(self, b, i64));
                num::int_binary(op, num, lanes!(self, mut d, i64), a, b);
            }
            Class::Single if op.is_comparison() => {
                let (a, b) = (lanes!(self, a, f32), lanes!(self, b, f32));
                num::single_compare(op, lanes!(self, mut d, i64), a, b);
            }
            Class::Single => {
                let (a, b) = (lanes!(self, a, f32), lanes!(self, b, f32));
                single(op, num, lanes!(self, mut d, f32), a, b);
            }
            Class::Double if op.is_comparison() => {
                let (a, b) = (lanes!(self, a, f64), lanes!(self, b, f64));
                num::double_compare(op, lanes!(self, mut d, i64), a, b);
            }
            Class::Double => {
                let (a, b) = (lanes!(self, a, f64), lanes!(self, b, f64));
                double(op, num, lanes!(self, mut d, f64), a, b);
            }
        }
    }
    fn unary(&mut self, op: UnOp, num: Num, d: Reg, a: Reg) {
        let test = matches!(op, UnOp::IsNan | UnOp::IsInf | UnOp::IsFinite);
        match num.class() {
            Class::Int => {
                let a = lanes!(self, a, i64);
                num::int_unary(op, num, lanes!(self, mut d, i64), a);
            }
            Class::Single if test => {
                let a = lanes!(self, a, f32);
                num::float_test(op, lanes!(self, mut d, i64), a);
            }
            Class::Single => {
                let a = lanes!(self, a, f32);
                let d = lanes!(self, mut d, f32);
                num::single_unary(op, d, a);
                num::round(num, d);
            }
            Class::Double if test => {
                let a = lanes!(self, a, f64);
                num::float_test(op, lanes!(self, mut d, i64), a);
            }
            Class::Double => {
                let a = lanes!(self, a, f64);
                num::double_unary(op, lanes!(self, mut d, f64), a);
            }
        }
    }
    fn cast(&mut self, from: Num, to: Num, d: Reg, a: Reg) {
        match (from.class(), to.class()) {
            (Class::Int, Class::Int) => {
                num::cast_int_int(to, lanes!(self, mut d, i64), lanes!(self, a, i64));
            }
            (Class::Int, Class::Single) => {
                num::cast_int_single(from, to, lanes!(self, mut d, f32), lanes!(self, a, i64));
            }
            (Class::Int, Class::Double) => {
                num::cast_int_double(from, lanes!(self, mut d, f64), lanes!(self, a, i64));
            }
            (Class::Single, Class::Int) => {
                num::cast_float_int(to, lanes!(self, mut d, i64), lanes!(self, a, f32));
            }
            (Class::Double, Class::Int) => {
                num::cast_float_int(to, lanes!(self, mut d, i64), lanes!(self, a, f64));
            }
            (Class::Single, Class::Single) => {
                num::cast_single_single(to, lanes!(self, mut d, f32), lanes!(self, a, f32));
            }
            (Class::Double, Class::Single) => {
                num::cast_double_single(to, lanes!(self, mut d, f32), lanes!(self, a, f64));
            }
            (Class::Single, Class::Double) => {
                num::cast_single_double(lanes!(self, mut d, f64), lanes!(self, a, f32));
            }
            (Class::Double, Class::Double) => self.copy(to, d, a),
        }
    }
    fn reinterpret(&mut self, from: Num, to: Num, d: Reg, a: Reg) {
        for l in 0..self.width(d) {
            let s = if a.wide { l } else { 0 };
            let bits = match from.class() {
                Class::Int => lanes!(self, a, i64)[s] as u64,
                Class::Single => num::single_bits(from, lanes!(self, a, f32)[s]),
                Class::Double => lanes!(self, a, f64)[s].to_bits(),
            };
            match to.class() {
                Class::Int => lanes!(self, mut d, i64)[l] = to.wrap(bits as i64),
                Class::Single => lanes!(self, mut d, f32)[l] = num::single_from_bits(to, bits),
                Class::Double => lanes!(self, mut d, f64)[l] = f64::from_bits(bits),
            }
        }
    }
    fn select(&mut self, num: Num, d: Reg, c: Reg, a: Reg, b: Reg) {
        let c = lanes!(self, c, i64);
        macro_rules! pick {
            ($t:ty) => {{
                let (a, b) = (lanes!(self, a, $t), lanes!(self, b, $t));
                num::select(lanes!(self, mut d, $t), c, a, b);
            }};
        }
        match num.class() {
            Class::Int => pick!(i64),
            Class::Single => pick!(f32),
            Class::Double => pick!(f64),
        }
    }

    /// Runs code from its start until it falls off its end.
    pub(super) fn run(&mut self, code: &[Ins], bufs: &mut Bufs) -> Result<(), Fault> {
        let mut pc = 0;
        while let Some(ins) = code.get(pc) {
            pc += 1;
            match ins {
                Ins::Const(d, bits) => self.words[d.at as usize] = *bits,
                Ins::Unary(op, num, d, a) => self.unary(*op, *num, *d, *a),
                Ins::Binary(op, num, d, a, b) => self.binary(*op, *num, *d, *a, *b),
                Ins::Select(num, d, c, a, b) => self.select(*num, *d, *c, *a, *b),
                Ins::Cast(from, to, d, a) => self.cast(*from, *to, *d, *a),
                Ins::Reinterpret(from, to, d, a) => self.reinterpret(*from, *to, *d, *a),
                Ins::Copy(num, d, a) => self.copy(*num, *d, *a),
                Ins::Span(span, axes) => {
                    self.spans[*span as usize].set(axes, self.lanes, &self.words);
                }
                Ins::Along(span, greatest) => {
                    self.spans[*span as usize].set_along(greatest, self.strip.from);
                }
                Ins::Load(d, buf, span, axes, mask) => {
                    self.load(*d, bufs.at(*buf), *span, axes, *mask)
                        .map_err(|at| bufs.outside(*buf, at, None))?;
                }
                Ins::Fetch(d, buf, index, place) => {
                    let memory = bufs.at(*buf);
                    let words = &self.words;
                    let at = memory
                        .offset(index.iter().map(|r| words[r.at as usize] as i64))
                        .map_err(|at| bufs.outside(*buf, at, *place))?;
                    let dst = self.dst(memory.num, *d);
                    // SAFETY: `offset` checked the index.
                    unsafe { memory.load(&Lanes::Step(at, 1), dst) }
                }
                Ins::Store(buf, index, value, place) => {
                    let words = &self.words;
                    let at = bufs
                        .at(*buf)
                        .offset(index.iter().map(|r| words[r.at as usize] as i64))
                        .map_err(|at| bufs.outside(*buf, at, *place))?;
                    self.store_lanes(bufs.at_mut(*buf), at, 1, *value);
                }
                Ins::Jump(to) => pc = *to,
                Ins::Again(to) => {
                    bufs.iterate()?;
                    pc = *to;
                }
                Ins::JumpUnless(c, to) => {
                    if self.words[c.at as usize] == 0 {
                        pc = *to;
                    }
                }
                Ins::ForTest(i, n, exit) => {
                    if self.words[i.at as usize] as i64 >= self.words[n.at as usize] as i64 {
                        pc = *exit;
                    }
                }
                Ins::ForNext(i, back) => {
                    bufs.iterate()?;
                    self.words[i.at as usize] += 1;
                    pc = *back;
                }
                Ins::Alloc(buf, extents) => {
                    let shape: Vec<i64> = extents
                        .iter()
                        .map(|r| self.words[r.at as usize] as i64)
                        .collect();
                    // Its elements are set, a strip's worth at a time.
                    let all = shape.iter().map(|d| d.unsigned_abs());
                    let elements = all.fold(1u64, u64::saturating_mul);
                    bufs.count(elements / STRIP as u64)?;
                    bufs.local(*buf, shape)?;
                }
                Ins::Assert(c, message, shown) => {
                    if self.words[c.at as usize] == 0 {
                        let shown = shown.iter().map(|r| self.words[r.at as usize] as i64);
                        return Err(Fault::Assert(*message, shown.collect()));
                    }
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn dst(&mut self, num: Num, d: Reg) -> Dst<'_> {
        match num.class() {
            Class::Int => Dst::Int(lanes!(self, mut d, i64)),
            Class::Single => Dst::Single(lanes!(self, mut d, f32)),
            Class::Double => Dst::Double(lanes!(self, mut d, f64)),
        }
    }

    /// Writes the coordinates of the strip's lanes to their registers.
    pub(super) fn coordinates(&mut self) {
        self.strip.coordinates(self.lanes, &mut self.words);
    }

    fn load(
        &mut self,
        d: Reg,
        memory: &Memory,
        number: u32,
        axes: &[AxisIndex],
        mask: Option<Reg>,
    ) -> Result<(), (usize, i64)> {
        if let Some(m) = mask
            && lanes!(self, m, i64).iter().all(|&v| v == 0)
        {
            match self.dst(memory.num, d) {
                Dst::Int(d) => d.fill(0),
                Dst::Single(d) => d.fill(0.0),
                Dst::Double(d) => d.fill(0.0),
            }
            return Ok(());
        }
        let mut span = std::mem::take(&mut self.spans[number as usize]);
        let (mut base, mut inside) = span.reach(axes, &self.words);
        if !inside && span.along {
            // Perhaps the lanes of this strip are.
            self.coordinates();
            span.set(axes, self.lanes, &self.words);
            (base, inside) = span.reach(axes, &self.words);
        }
        let result = if inside {
            let lanes = span.lanes(base);
            // SAFETY: every axis's least and greatest index lie inside.
            unsafe { memory.load(&lanes, self.dst(memory.num, d)) };
            Ok(())
        } else {
            self.load_some(d, memory, &span, base, axes, mask)
        };
        self.spans[number as usize] = span;
        result
    }

    /// Executes a load some of whose lanes may be out of bounds: those must be masked.
    #[cold]
    fn load_some(
        &mut self,
        d: Reg,
        memory: &Memory,
        span: &Span,
        base: i64,
        axes: &[AxisIndex],
        mask: Option<Reg>,
    ) -> Result<(), (usize, i64)> {
        const ALL: [i64; STRIP] = [1; STRIP];
        let n = self.width(d);
        // A uniform mask that reaches this point is true.
        let active = match mask {
            Some(m) if m.wide => lanes!(self, m, i64),
            _ => &ALL[..n],
        };
        for ((number, axis), (lo, hi)) in axes.iter().enumerate().zip(&span.range) {
            let u = axis.uniform.map_or(0, |r| self.words[r.at as usize] as i64);
            let within = |v: &i64| v.checked_add(u).is_some_and(|i| i >= 0 && i < axis.extent);
            if within(lo) && within(hi) {
                continue;
            }
            let outside = |i: i64| i < 0 || i >= axis.extent;
            let Some(r) = axis.wide else {
                // The index is the same in every lane, and some lane is active.
                return Err((number, u));
            };
            let wide = lanes!(self, r, i64);
            // Without an early exit, so that the compiler can vectorise it.
            let mut bad = false;
            for (w, a) in wide.iter().zip(active) {
                bad |= (*a != 0) & outside(w.wrapping_add(u));
            }
            if bad {
                let found = (wide.iter().zip(active))
                    .map(|(w, a)| (w.wrapping_add(u), *a))
                    .find(|(i, a)| *a != 0 && outside(*i));
                return Err((number, found.map_or(u, |f| f.0)));
            }
        }
        let lanes = Lanes::Some(base, &span.flat[..n], active);
        // SAFETY: the active lanes were checked, of which there is at least one, so that the
        // buffer has a first element.
        unsafe { memory.load(&lanes, self.dst(memory.num, d)) };
        Ok(())
    }
}

fn single(op: BinOp, num: Num, d: &mut [f32], a: &[f32], b: &[f32]) {
    num::single_binary(op, d, a, b);
    num::round(num, d);
}

fn double(op: BinOp, _: Num, d: &mut [f64], a: &[f64], b: &[f64]) {
    num::double_binary(op, d, a, b);
}
