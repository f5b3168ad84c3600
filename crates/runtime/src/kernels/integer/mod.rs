//! Products of small integers with 32-bit sums: matrix products and convolutions of quantised
//! tensors.
//!
//! Bytes are multiplied as quads where the processor has instructions for that (`quads`).
//! Elsewhere, and for wider elements, they are converted to 16 bits and multiplied as pairs
//! (`pairs`); `share` divides the work of both. Both wrap like 32-bit sums, so results are bitwise
//! those of the plain loop. 32-bit operands (zero points subtracted) are scanned first; where an
//! element does not fit 16 bits, the plain loop computes the product.
//!
//! An operand is an array and two tables of offsets, one along its own axis and one along the
//! common axis: a matrix with any strides and the unfolded image of a convolution are the same to
//! the kernel.

mod bytes;
pub mod conv;
mod conv_bytes;
pub mod fused;
mod fused_compute;
mod fused_copy;
mod fused_depthwise;
mod fused_finish;
mod fused_rows;
mod fused_scales;
mod fused_tile;
mod fused_vectors;
mod fused_walk;
mod pairs;
mod quads;
mod share;
mod tables;
mod tile;

use std::ffi::c_void;

use crate::context::RxContext;
use crate::kernels::kinds::Kind;
use crate::kernels::scratch::Scratch;
use crate::threads::{Grain, Pool, Share};
use pairs::Product;
use share::Operand;

/// Element types of operands.
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
    /// The type with a number of the C header.
    pub fn of(code: i32) -> Option<Element> {
        match Kind::of(code)? {
            Kind::I8 => Some(Element::I8),
            Kind::U8 => Some(Element::U8),
            Kind::I16 => Some(Element::I16),
            Kind::I32 => Some(Element::I32),
            _ => None,
        }
    }

    /// Converts `n` elements minus a zero point to 16 bits; `false` where one does not fit.
    ///
    /// # Safety
    /// `from` has `n` elements, `to` room for them.
    unsafe fn narrow(self, from: *const c_void, n: usize, zero: i32, to: *mut i16) -> bool {
        // SAFETY: `from` has `n` elements, and `to` room for as many.
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
    pub(crate) fn size(self) -> usize {
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
        // SAFETY: `from` has an element `at`.
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

/// Elements minus a number in 16 bits; `false` where one does not fit.
fn less<T: Copy + Into<i32>>(from: &[T], zero: i32, to: &mut [i16]) -> bool {
    let mut lost = 0;
    for (to, &x) in to.iter_mut().zip(from) {
        let x = x.into().wrapping_sub(zero);
        *to = x as i16;
        lost |= i32::from(*to) ^ x;
    }
    lost == 0
}

/// A matrix product with any strides.
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
    /// The zero points subtracted from every element of A and of B.
    pub zeros: (i32, i32),
}

impl Matrices {
    /// The operands as bytes with their kernel, if they are bytes.
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

    /// Computes the product, if the operands fit 16 bits: `Ok(false)` where they do not and nothing
    /// was written.
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
            // SAFETY: the operands and the result have the product's sizes.
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
        let table = scratch.memory.cast::<usize>();
        // SAFETY: the scratch has room for the tables, and the copies behind them.
        let [columns, along_a, along_b, copies] =
            [m, m + n, m + n + k, m + n + 2 * k].map(|at| unsafe { table.add(at) });
        let rows = table;
        let copies = copies.cast::<i16>();
        let fill = |to: *mut usize, count: usize, step: usize| {
            // SAFETY: each table has room for as many numbers.
            (0..count).for_each(|i| unsafe { *to.add(i) = i * step });
        };
        fill(rows, m, self.a_strides.0);
        fill(along_a, k, self.a_strides.1);
        fill(columns, n, self.b_strides.1);
        fill(along_b, k, self.b_strides.0);
        // SAFETY: the operands are as long as computed, and so is the room for their copies.
        let (fits, others) = unsafe {
            let others = copies.add(lengths.0);
            let fits = a.narrow(self.a, lengths.0, self.zeros.0, copies)
                && b.narrow(self.b, lengths.1, self.zeros.1, others);
            (fits, others)
        };
        if !fits {
            return Ok(false);
        }
        let operand =
            |data: *const i16, at: *const usize, along: *const usize| Operand { data, at, along };
        let product = Product {
            m,
            n,
            k,
            a: operand(copies, rows, along_a),
            b: operand(others, columns, along_b),
            c: self.c,
            ld: self.ld,
            accumulate: self.accumulate,
        };
        // SAFETY: the tables name elements of the copies, and the result has the product's size.
        unsafe { product.run(context).map(|()| true) }
    }
}

/// Products that threads take whole: below this number of multiplications each.
const WHOLE: usize = 1 << 24;

/// The bytes from the operands of one product to those of the next, and the elements from its
/// result to the next one's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    pub a: usize,
    pub b: usize,
    pub c: usize,
}

impl Matrices {
    /// The product so many steps further.
    ///
    /// # Safety
    /// The operands and the result have it.
    pub(crate) unsafe fn further(&self, i: usize, steps: Steps) -> Matrices {
        // SAFETY: the caller's contract.
        unsafe {
            Matrices {
                a: self.a.byte_add(i * steps.a),
                b: self.b.byte_add(i * steps.b),
                c: self.c.add(i * steps.c),
                ..*self
            }
        }
    }

    /// Computes several products of bytes: each by one thread, where there are enough small ones.
    /// Returns `Ok(false)` where operands are no bytes, or the processor has no instructions for
    /// them, and nothing was written.
    ///
    /// # Safety
    /// The operands of all products are as large as sizes and strides say, and do not overlap the
    /// results, which are disjoint.
    pub(crate) unsafe fn run_all(
        &self,
        context: &mut RxContext,
        (a, b): (Element, Element),
        (count, steps): (usize, Steps),
    ) -> Result<bool, i32> {
        if self.m == 0 || self.n == 0 {
            return Ok(true);
        }
        let Some((kernel, first)) = self.bytes(a, b) else {
            return Ok(false);
        };
        let threads = context.pool.threads();
        // The weights of further products may lie where they have to be copied.
        let room = first.room(&context.pool) + first.weight() * size_of::<u32>();
        let room = room.next_multiple_of(64);
        let work = (self.m * self.n).saturating_mul(self.k);
        let rooms = if work < WHOLE { threads } else { 1 };
        let scratch = Scratch::new(context, rooms * room).ok_or(context.status)?;
        let one = |i: usize, pool: &Pool, memory: *mut u32| {
            // SAFETY: the caller's contract; the memory has the product's room.
            unsafe {
                if let Some((_, dense)) = self.further(i, steps).bytes(a, b) {
                    dense.within(kernel, pool, memory);
                }
            }
        };
        let memory = scratch.memory.cast::<u32>();
        if rooms == 1 {
            (0..count).for_each(|i| one(i, &context.pool, memory));
            return Ok(true);
        }
        // SAFETY: threads take tasks of their own, which write disjoint places.
        let shared = unsafe { Share::new((&one, memory)) };
        let pool = &context.pool;
        pool.each(
            count,
            Grain::of_work(1 << 18, work),
            |begin, end, worker| {
                let &(one, memory) = shared.get();
                (begin..end).for_each(|i| one(i, pool, memory.wrapping_byte_add(worker * room)));
            },
        );
        Ok(true)
    }

    /// Computes the sums one by one, for elements beyond 16 bits.
    ///
    /// # Safety
    /// As [`Matrices::run`].
    pub(crate) unsafe fn plain(&self, a: Element, b: Element) {
        for (i, j) in (0..self.m).flat_map(|i| (0..self.n).map(move |j| (i, j))) {
            // SAFETY: the operands and the result have the product's sizes.
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

/// Swaps strides.
trait Reversed {
    fn reversed(self) -> Self;
}

impl Reversed for (usize, usize) {
    fn reversed(self) -> Self {
        (self.1, self.0)
    }
}
