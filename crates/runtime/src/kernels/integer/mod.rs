//! Products of small integers with sums of 32 bits: matrix products and convolutions of quantised tensors.
//!
//! Bytes are multiplied as quads where the processor has instructions for that ([`quads`]). Elsewhere, and for wider
//! elements, they are brought to 16 bits, which products of two neighbours along the common axis are summed from in one
//! instruction (`pmaddwd`, with AVX-512 VNNI `vpdpwssd`). Both wrap as sums of 32 bits do, so results are those
//! of the plain loop to the bit. Operands of 32 bits (zero points taken off) are looked through first; where one does
//! not fit 16 bits the plain loop computes the product.
//!
//! An operand is an array and two tables of offsets, one along its own axis and one along the common axis:
//! a matrix with any strides and the unfolded image of a convolution are the same to the kernel.

mod bytes;
pub mod conv;
mod conv_bytes;
mod quads;
mod tile;

use std::ffi::c_void;

use crate::context::RxContext;
use crate::threads::Share;
use crate::values::{rx_scratch_alloc, rx_scratch_free};
use tile::{COLS, Kernel, ROWS};

/// Pairs of the common axis that are multiplied in one go: two panels of B of this length stay in the first cache.
const PAIRS: usize = 256;
/// Columns that are packed together, at most: with [`PAIRS`] they take a quarter of the second cache.
const WIDE: usize = 128;
/// Below this many multiplications a product stays on one thread: with pairs in vectors, the time of 2^16 operations on
/// elements at most (`--example bench_threads`).
const SMALL: usize = 1 << 18;

/// Element types of operands, by their numbers in the C header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// int8
    I8,
    /// uint8
    U8,
    /// int16
    I16,
    /// int32
    I32,
}

impl Element {
    /// The type of a number of the C header.
    pub fn of(code: i32) -> Option<Element> {
        Some(match code {
            0 => Element::I8,
            1 => Element::U8,
            2 => Element::I16,
            3 => Element::I32,
            _ => return None,
        })
    }

    /// Brings `n` elements, less a zero point, to 16 bits; `false` where one does not fit.
    ///
    /// # Safety
    /// `from` has `n` elements, `to` room for them.
    unsafe fn narrow(self, from: *const c_void, n: usize, zero: i32, to: *mut i16) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let to = std::slice::from_raw_parts_mut(to, n);
            macro_rules! less {
                ($t:ty) => {
                    less(std::slice::from_raw_parts(from.cast::<$t>(), n), zero, to)
                };
            }
            match self {
                Element::I8 => less!(i8),
                Element::U8 => less!(u8),
                Element::I16 => less!(i16),
                Element::I32 => less!(i32),
            }
        }
    }

    /// Bytes of an element.
    fn size(self) -> usize {
        match self {
            Element::I8 | Element::U8 => 1,
            Element::I16 => 2,
            Element::I32 => 4,
        }
    }

    /// The element at an index.
    ///
    /// # Safety
    /// The array has it.
    #[inline(always)]
    unsafe fn read(self, from: *const c_void, at: usize) -> i32 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Element::I8 => (*from.cast::<i8>().add(at)).into(),
                Element::U8 => (*from.cast::<u8>().add(at)).into(),
                Element::I16 => (*from.cast::<i16>().add(at)).into(),
                Element::I32 => *from.cast::<i32>().add(at),
            }
        }
    }
}

/// Elements less a number in 16 bits; `false` where one does not fit.
fn less<T: Copy + Into<i32>>(from: &[T], zero: i32, to: &mut [i16]) -> bool {
    let mut lost = 0;
    for (to, &x) in to.iter_mut().zip(from) {
        let x = x.into().wrapping_sub(zero);
        *to = x as i16;
        lost |= i32::from(*to) ^ x;
    }
    lost == 0
}

/// An operand: row (or column) `i` has element `p` of the common axis at `data[at[i] + along[p]]`.
#[derive(Clone, Copy)]
struct Operand {
    data: *const i16,
    at: *const usize,
    along: *const usize,
}

/// A product; `c[i * ld + j] (+)= sum over p of a(i, p) * b(j, p)`.
#[derive(Clone, Copy)]
struct Product {
    m: usize,
    n: usize,
    k: usize,
    a: Operand,
    b: Operand,
    c: *mut i32,
    ld: usize,
    accumulate: bool,
}

/// Scratch memory of a context that goes back when this does.
struct Scratch {
    context: *mut RxContext,
    memory: *mut c_void,
}

impl Scratch {
    /// `None` without memory, which the context has recorded.
    fn new(context: &mut RxContext, bytes: usize) -> Option<Scratch> {
        // SAFETY: the context lives.
        let memory = unsafe { rx_scratch_alloc(context, bytes.max(1) as u64) };
        (!memory.is_null()).then_some(Scratch { context, memory })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` from the same context.
        unsafe { rx_scratch_free(self.context, self.memory) };
    }
}

impl Product {
    /// Packs panels `[from, to)` of [`ROWS`] rows of A, for all of the common axis: piece after piece, panel after
    /// panel, pair after pair, a row's two elements side by side.
    unsafe fn pack_a(&self, out: *mut i16, from: usize, to: usize) {
        let panels = self.m.div_ceil(ROWS);
        let mut first = 0;
        let pairs = self.k.div_ceil(2);
        while first < pairs {
            let length = (pairs - first).min(PAIRS);
            for panel in from..to {
                // SAFETY: `out` has room for all panels of all pieces.
                unsafe {
                    let out = out.add((first * panels + panel * length) * 2 * ROWS);
                    self.a
                        .panel::<ROWS>(panel * ROWS, self.m, (first, length), self.k, out);
                }
            }
            first += length;
        }
    }

    /// Rows `rows` (panels of A) and columns `[from, to)`. `room` holds [`WIDE`] columns of a piece.
    unsafe fn block(
        &self,
        kernel: Kernel,
        packed: *const i16,
        rows: (usize, usize),
        (from, to): (usize, usize),
        room: *mut i16,
    ) {
        let (panels, pairs) = (self.m.div_ceil(ROWS), self.k.div_ceil(2));
        let mut first = 0;
        while first < pairs {
            let length = (pairs - first).min(PAIRS);
            let step = length * 2 * COLS;
            let columns = (to - from).div_ceil(COLS);
            // SAFETY: the caller's promise; offsets stay in the operands, the packed blocks and the result.
            unsafe {
                for j in 0..columns {
                    let out = room.add(j * step);
                    self.b
                        .panel::<COLS>(from + j * COLS, to, (first, length), self.k, out);
                }
                for panel in rows.0..rows.1 {
                    let a = packed.add((first * panels + panel * length) * 2 * ROWS);
                    let high = (self.m - panel * ROWS).min(ROWS);
                    let mut j = 0;
                    while j < columns {
                        let together = (columns - j).min(kernel.panels());
                        let column = from + j * COLS;
                        let wide = (to - column).min(together * COLS);
                        let c = self.c.add(panel * ROWS * self.ld + column);
                        let keep = self.accumulate || first > 0;
                        let b = room.add(j * step);
                        kernel.run(a, b, length, step, (high, wide), c, self.ld, keep);
                        j += together;
                    }
                }
            }
            first += length;
        }
    }

    /// Computes the product, with A packed already or packed here.
    ///
    /// # Safety
    /// The operands have all elements that the tables name, and the result its rows and columns.
    unsafe fn run(&self, context: &mut RxContext) -> i32 {
        if self.m == 0 || self.n == 0 {
            return 0;
        }
        let (panels, pairs) = (self.m.div_ceil(ROWS), self.k.div_ceil(2));
        if pairs == 0 {
            // SAFETY: the caller's promise.
            unsafe { self.clear() };
            return 0;
        }
        let work = (self.m * self.n).saturating_mul(self.k);
        let threads = if work < SMALL {
            1
        } else {
            context.pool.threads()
        };
        // Blocks of columns, at least two for each thread where there are as many; else rows are shared out too.
        let wide = (self.n.div_ceil(2 * threads))
            .next_multiple_of(2 * COLS)
            .clamp(2 * COLS, WIDE);
        let blocks = self.n.div_ceil(wide);
        let parts = if blocks >= 2 * threads {
            1
        } else {
            threads.min(panels)
        };
        let each = panels.div_ceil(parts);
        let Some(packed) = Scratch::new(context, panels * ROWS * pairs * 4) else {
            return context.status;
        };
        let room = wide * PAIRS.min(pairs) * 2;
        let Some(rooms) = Scratch::new(context, context.pool.threads() * room * 2) else {
            return context.status;
        };
        let kernel = Kernel::chosen();
        // SAFETY: blocks of the result are disjoint, and every worker packs B into its own room.
        unsafe {
            let shared = Share::new((
                *self,
                packed.memory.cast::<i16>(),
                rooms.memory.cast::<i16>(),
            ));
            let grain = if threads == 1 {
                panels
            } else {
                ((1 << 15) / pairs).max(1)
            };
            context.pool.each(panels, grain, |begin, end, _| {
                let &(product, packed, _) = shared.get();
                product.pack_a(packed, begin, end);
            });
            let tasks = blocks * parts;
            let grain = if threads == 1 { tasks } else { 1 };
            context.pool.each(tasks, grain, |begin, end, worker| {
                let &(product, packed, rooms) = shared.get();
                for task in begin..end {
                    let (part, block) = (task % parts, task / parts);
                    let rows = (part * each, ((part + 1) * each).min(panels));
                    let columns = (block * wide, ((block + 1) * wide).min(product.n));
                    if rows.0 < rows.1 {
                        product.block(kernel, packed, rows, columns, rooms.add(worker * room));
                    }
                }
            });
        }
        0
    }

    /// Sums of nothing.
    unsafe fn clear(&self) {
        if self.accumulate {
            return;
        }
        for i in 0..self.m {
            // SAFETY: the callers' promise.
            unsafe { std::ptr::write_bytes(self.c.add(i * self.ld), 0, self.n) };
        }
    }
}

impl Operand {
    /// Packs `N` rows (columns) from `first` on, those before `end`, for pairs `[pairs.0, pairs.0 + pairs.1)` of a
    /// common axis of `k`: pair after pair, a row's two elements side by side; zeros where there is nothing.
    unsafe fn panel<const N: usize>(
        &self,
        first: usize,
        end: usize,
        pairs: (usize, usize),
        k: usize,
        out: *mut i16,
    ) {
        // SAFETY: the callers' promise: the tables have `end` and `k` entries, `out` room for the panel.
        unsafe {
            let valid = (end - first).min(N);
            let mut at = [0usize; N];
            for (l, at) in at.iter_mut().enumerate() {
                *at = *self.at.add(first + l.min(valid - 1));
            }
            let line = valid == N && (1..N).all(|l| at[l] == at[0] + l);
            for p in 0..pairs.1 {
                let at_k = 2 * (pairs.0 + p);
                let to = out.add(p * 2 * N);
                let x = self.data.add(*self.along.add(at_k));
                let last = at_k + 1 == k;
                let y = if last {
                    x
                } else {
                    self.data.add(*self.along.add(at_k + 1))
                };
                let keep = if last { 0 } else { -1i16 };
                if line {
                    let (x, y) = (x.add(at[0]), y.add(at[0]));
                    for l in 0..N {
                        *to.add(2 * l) = *x.add(l);
                        *to.add(2 * l + 1) = *y.add(l) & keep;
                    }
                } else {
                    for (l, &at) in at.iter().enumerate() {
                        let here = if l < valid { -1i16 } else { 0 };
                        *to.add(2 * l) = *x.add(at) & here;
                        *to.add(2 * l + 1) = *y.add(at) & here & keep;
                    }
                }
            }
        }
    }
}

/// A matrix product of any strides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrices {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: *const c_void,
    pub a_strides: (usize, usize),
    pub b: *const c_void,
    pub b_strides: (usize, usize),
    pub c: *mut i32,
    pub ld: usize,
    pub accumulate: bool,
    /// What is taken off every element of A and of B.
    pub zeros: (i32, i32),
}

impl Matrices {
    /// As bytes, with the kernel for them, where the operands are.
    fn bytes(&self, a: Element, b: Element) -> Option<(quads::Kernel, bytes::Dense)> {
        let lines = self.a_strides.1 == 1 && (self.b_strides.0 == 1 || self.b_strides.1 == 1);
        if !lines || self.k == 0 {
            return None;
        }
        let dense = bytes::Dense {
            m: self.m,
            n: self.n,
            k: self.k,
            a: bytes::Bytes::data(self.a, a, self.zeros.0)?,
            b: bytes::Bytes::weight(self.b, b, self.zeros.1)?,
            a_row: self.a_strides.0,
            b_strides: self.b_strides,
            c: self.c,
            ld: self.ld,
            accumulate: self.accumulate,
        };
        Some((quads::Kernel::chosen()?, dense))
    }

    /// Computes the product, if the operands fit 16 bits: `Ok(false)` where they do not and nothing was written.
    ///
    /// # Safety
    /// The operands are as large as sizes and strides say, and do not overlap the result.
    pub(crate) unsafe fn run(
        &self,
        context: &mut RxContext,
        a: Element,
        b: Element,
    ) -> Result<bool, i32> {
        let (m, n, k) = (self.m, self.n, self.k);
        if m == 0 || n == 0 {
            return Ok(true);
        }
        if let Some((kernel, dense)) = self.bytes(a, b) {
            // SAFETY: the caller's promise.
            return unsafe { dense.run(kernel, context) }.map(|()| true);
        }
        let length = |extent: usize, (one, along): (usize, usize)| {
            if k == 0 {
                0
            } else {
                (extent - 1) * one + (k - 1) * along + 1
            }
        };
        let lengths = (
            length(m, self.a_strides),
            length(n, self.b_strides.reversed()),
        );
        let bytes = (lengths.0 + lengths.1) * 2;
        let tables = (m + n + 2 * k) * size_of::<usize>();
        let Some(scratch) = Scratch::new(context, tables + bytes) else {
            return Err(context.status);
        };
        // SAFETY: the scratch has room for tables and copies; the operands are as long as computed.
        unsafe {
            let table = scratch.memory.cast::<usize>();
            let (rows, columns) = (table, table.add(m));
            let (along_a, along_b) = (table.add(m + n), table.add(m + n + k));
            let fill = |to: *mut usize, count: usize, step: usize| {
                (0..count).for_each(|i| *to.add(i) = i * step);
            };
            fill(rows, m, self.a_strides.0);
            fill(along_a, k, self.a_strides.1);
            fill(columns, n, self.b_strides.1);
            fill(along_b, k, self.b_strides.0);
            let copies = table.add(m + n + 2 * k).cast::<i16>();
            let fits = a.narrow(self.a, lengths.0, self.zeros.0, copies)
                && b.narrow(self.b, lengths.1, self.zeros.1, copies.add(lengths.0));
            if !fits {
                return Ok(false);
            }
            let operand = |data: *const i16, at: *const usize, along: *const usize| Operand {
                data,
                at,
                along,
            };
            let product = Product {
                m,
                n,
                k,
                a: operand(copies, rows, along_a),
                b: operand(copies.add(lengths.0), columns, along_b),
                c: self.c,
                ld: self.ld,
                accumulate: self.accumulate,
            };
            match product.run(context) {
                0 => Ok(true),
                status => Err(status),
            }
        }
    }
}

impl Matrices {
    /// The sums one by one, for elements beyond 16 bits.
    ///
    /// # Safety
    /// As [`Matrices::run`].
    pub(crate) unsafe fn plain(&self, a: Element, b: Element) {
        for (i, j) in (0..self.m).flat_map(|i| (0..self.n).map(move |j| (i, j))) {
            // SAFETY: the caller's promise.
            unsafe {
                let to = self.c.add(i * self.ld + j);
                let mut sum = if self.accumulate { *to } else { 0 };
                for p in 0..self.k {
                    let x = a.read(self.a, i * self.a_strides.0 + p * self.a_strides.1);
                    let y = b.read(self.b, p * self.b_strides.0 + j * self.b_strides.1);
                    let (x, y) = (x.wrapping_sub(self.zeros.0), y.wrapping_sub(self.zeros.1));
                    sum = sum.wrapping_add(x.wrapping_mul(y));
                }
                *to = sum;
            }
        }
    }
}

/// Strides the other way round.
trait Reversed {
    fn reversed(self) -> Self;
}

impl Reversed for (usize, usize) {
    fn reversed(self) -> Self {
        (self.1, self.0)
    }
}
