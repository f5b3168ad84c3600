//! Operands of 8 bits with their zero points, as quads for [`quads`](super::quads).
//!
//! With data `x` and weight `w` offset to `u = x + dx` (unsigned) and `s = w + dw` (signed), and
//! zero points offset alike, a sum of `(x - zx) * (w - zw)` over `k` elements is
//! `sum(u s) - zu sum(s) - zs sum(u) + k zu zs`. The sums of the weight are computed with its
//! quads; those of the data, needed only where the weight has a zero point, are a product with
//! ones.

use std::ffi::c_void;

use super::quads::{Dots, Kernel, Product, room, with_dots};
use super::share::Operand;
use super::{Element, Scratch};
use crate::context::RxContext;
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Pool, Share};

/// An operand of bytes: the bits flipped in each to make it unsigned (data) or signed (weight), and
/// its zero point then.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    pub from: *const u8,
    pub flip: u8,
    pub zero: i32,
}

impl Bytes {
    /// Returns `None` where elements are not bytes, or the zero point is not one.
    pub(super) fn data(from: *const c_void, element: Element, zero: i32) -> Option<Bytes> {
        let (flip, zero) = match element {
            Element::U8 => (0, zero),
            Element::I8 => (0x80, zero.checked_add(128)?),
            _ => return None,
        };
        (0..=255).contains(&zero).then_some(Bytes {
            from: from.cast(),
            flip,
            zero,
        })
    }

    /// Like [`Bytes::data`], for the signed operand.
    pub(super) fn weight(from: *const c_void, element: Element, zero: i32) -> Option<Bytes> {
        let (flip, zero) = match element {
            Element::I8 => (0, zero),
            Element::U8 => (0x80, zero.checked_sub(128)?),
            _ => return None,
        };
        (-128..=127).contains(&zero).then_some(Bytes {
            from: from.cast(),
            flip,
            zero,
        })
    }

    /// The flip of a quad.
    pub(super) fn mask(&self) -> u32 {
        u32::from(self.flip) * 0x0101_0101
    }
}

/// Sums of the four signed bytes of a quad.
pub(super) fn signed_sum(quad: u32) -> i32 {
    quad.to_le_bytes().iter().map(|&b| i32::from(b as i8)).sum()
}

/// The sum of the signed bytes of `n` quads.
#[inline(always)]
unsafe fn signed_sums<S: Dots>(from: *const u32, n: usize, to: *mut i32) {
    // SAFETY: `from` has `n` quads, and `to` room for as many sums.
    unsafe {
        let (ones, mut sums, mut i) = (S::splat(0x0101_0101), S::splat(0), 0);
        while i + S::LANES <= n {
            sums = sums.dot(ones, S::load(from.add(i)));
            i += S::LANES;
        }
        *to = (i..n).fold(sums.total(), |sum, i| {
            sum.wrapping_add(signed_sum(*from.add(i)))
        });
    }
}

/// Interleaves four lines: quad `i` has element `i` of each.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The code differs all the same.
unsafe fn weave<S: Simd>(lines: [*const u8; 4], n: usize, mask: u32, to: *mut u32) {
    let [a, b, c, d] = lines;
    for i in 0..n {
        // SAFETY: each of the lines has `n` bytes, and `to` room for as many quads.
        unsafe {
            let low = u32::from(*a.add(i)) | u32::from(*b.add(i)) << 8;
            let high = u32::from(*c.add(i)) << 16 | u32::from(*d.add(i)) << 24;
            *to.add(i) = (low | high) ^ mask;
        }
    }
}

/// [`weave`] for the instruction set in use.
///
/// # Safety
/// Lines have `n` bytes, `to` room for as many quads.
pub(super) unsafe fn woven(lines: [*const u8; 4], n: usize, mask: u32, to: *mut u32) {
    // SAFETY: each of the lines has `n` bytes, and `to` room for as many quads.
    unsafe {
        dispatch!(weave(
            lines: [*const u8; 4],
            n: usize,
            mask: u32,
            to: *mut u32,
        ));
    }
}

/// Packs contiguous bytes as quads, `n` bytes to `n.div_ceil(4)` quads; zeros (as if flipped) fill
/// the last one.
///
/// # Safety
/// `from` has `n` bytes, `to` room for the quads.
pub(super) unsafe fn copied(from: *const u8, n: usize, mask: u32, to: *mut u32) {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The code differs all the same.
    unsafe fn copy<S: Simd>(from: *const u8, n: usize, mask: u32, to: *mut u32) {
        for i in 0..n {
            // SAFETY: `from` has four bytes for each quad, and `i` is below their number.
            unsafe { *to.add(i) = from.add(4 * i).cast::<u32>().read_unaligned() ^ mask };
        }
    }
    let whole = n / 4;
    // SAFETY: `from` has `n` bytes, and `to` room for as many quads as hold them.
    unsafe {
        dispatch!(copy(from: *const u8, whole: usize, mask: u32, to: *mut u32));
        if !n.is_multiple_of(4) {
            let mut last = [0u8; 4];
            for (i, byte) in last.iter_mut().enumerate().take(n % 4) {
                *byte = *from.add(4 * whole + i) ^ mask as u8;
            }
            *to.add(whole) = u32::from_le_bytes(last);
        }
    }
}

/// The maximum number of rows for which a weight with contiguous columns is read in place.
const FEW: usize = 4;

/// Columns that are computed together: their sums are added up at once.
const BESIDE: usize = 4;

/// Computes columns `columns` of a product of at most `M` rows, which `a` holds as quads, `deep`
/// each; `start` has the initial value of each row's sums.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep sums out of memory.
unsafe fn columns<S: Dots, const M: usize>(
    d: &Dense,
    (a, deep): (*const u32, usize),
    start: *const i32,
    columns: std::ops::Range<usize>,
) {
    // SAFETY: the columns are the product's, whose operands have its sizes.
    unsafe {
        // What the data's zero point adds to a sum is a product with as many of it.
        let (zero, mask) = (
            S::splat(d.a.zero as u32 * 0x0101_0101),
            S::splat(d.b.mask()),
        );
        let bytes = 4 * S::LANES;
        for first in columns.clone().step_by(BESIDE) {
            let wide = (columns.end - first).min(BESIDE);
            let (mut sums, mut own) = ([[S::splat(0); BESIDE]; M], [S::splat(0); BESIDE]);
            for p in 0..d.k.div_ceil(bytes) {
                let rest = d.k - p * bytes;
                for c in 0..BESIDE {
                    // Beyond the end the last column is computed again, and not stored.
                    let j = first + c.min(wide - 1);
                    let here = d.b.from.add(j * d.b_strides.1 + p * bytes);
                    let w = if rest >= bytes {
                        S::load(here.cast()).xor(mask)
                    } else {
                        let mut last = [0u8; 64];
                        for (i, to) in last.iter_mut().enumerate().take(rest) {
                            *to = *here.add(i) ^ d.b.flip;
                        }
                        S::load(last.as_ptr().cast())
                    };
                    own[c] = own[c].dot(zero, w);
                    for r in 0..M {
                        let row = a.add(r.min(d.m - 1) * deep + p * S::LANES);
                        sums[r][c] = sums[r][c].dot(S::load(row), w);
                    }
                }
            }
            for r in 0..M.min(d.m) {
                for c in 0..BESIDE {
                    sums[r][c] = sums[r][c].sub(own[c]);
                }
                let totals = S::totals(sums[r]);
                for (c, sum) in totals.iter().enumerate().take(wide) {
                    let to = d.c.add(r * d.ld + first + c);
                    let old = if d.accumulate { *to } else { 0 };
                    *to = old.wrapping_add(*sum).wrapping_add(*start.add(r));
                }
            }
        }
    }
}

/// [`columns`] for the number of rows.
#[inline(always)]
unsafe fn few<S: Dots>(
    d: &Dense,
    a: *const u32,
    deep: usize,
    start: *const i32,
    begin: usize,
    end: usize,
) {
    // SAFETY: the columns are the product's, whose operands have its sizes.
    unsafe {
        match d.m {
            1 => columns::<S, 1>(d, (a, deep), start, begin..end),
            2 => columns::<S, 2>(d, (a, deep), start, begin..end),
            _ => columns::<S, FEW>(d, (a, deep), start, begin..end),
        }
    }
}

/// A matrix product of bytes.
#[derive(Clone, Copy)]
pub(super) struct Dense {
    pub m: usize,
    pub n: usize,
    /// Elements of the common axis, at least one.
    pub k: usize,
    pub a: Bytes,
    pub b: Bytes,
    pub a_row: usize,
    /// Strides of B along the common axis and along columns: one of them is 1.
    pub b_strides: (usize, usize),
    pub c: *mut i32,
    pub ld: usize,
    pub accumulate: bool,
}

impl Dense {
    /// Multiplies at most [`FEW`] rows by a weight with contiguous columns: only the rows are
    /// copied.
    unsafe fn few(&self, kernel: Kernel, pool: &Pool, memory: *mut u32) {
        let deep = self.deep();
        // SAFETY: the scratch has room for the rows and what their sums start with.
        unsafe {
            let start = memory.cast::<i32>();
            let a = memory.add(FEW);
            std::ptr::write_bytes(a, 0, self.m * deep);
            for i in 0..self.m {
                let row = a.add(i * deep);
                copied(self.a.from.add(i * self.a_row), self.k, self.a.mask(), row);
                *start.add(i) = self.row_start(row, deep).wrapping_add(self.both());
            }
            let shared = Share::new((self, a, start));
            let grain = Grain::of_work(1 << 18, self.k * self.m);
            pool.each(self.n, grain, |begin, end, _| {
                let &(d, a, start) = shared.get();
                let (a, start) = (a.cast_const(), start.cast_const());
                with_dots!(
                    kernel,
                    few(
                        d: &Dense,
                        a: *const u32,
                        deep: usize,
                        start: *const i32,
                        begin: usize,
                        end: usize,
                    )
                );
            });
        }
    }

    /// Quads of a copied row, whole vectors, where there are few.
    fn deep(&self) -> usize {
        self.k.div_ceil(64) * 16
    }

    /// Returns whether the product is one of [`few`](Self::few) rows.
    fn has_few(&self) -> bool {
        self.m <= FEW && self.b_strides.0 == 1
    }

    /// Returns whether the weight's lines are quads as they are.
    fn lies_as_quads(&self) -> bool {
        self.b_strides.0 == 1
            && self.b.flip == 0
            && self.k.is_multiple_of(4)
            && self.b_strides.1.is_multiple_of(4)
            && self.b.from.cast::<u32>().is_aligned()
    }

    /// Returns the contribution of both zero points together to each sum.
    fn both(&self) -> i32 {
        (self.k as i32)
            .wrapping_mul(self.a.zero)
            .wrapping_mul(self.b.zero)
    }

    /// Returns the contribution of B's zero point to the sums of a row, to be subtracted.
    unsafe fn row_start(&self, row: *const u32, quads: usize) -> i32 {
        let mut sum = 0i32;
        if self.b.zero != 0 {
            for p in 0..quads {
                // SAFETY: `row` has `quads` quads.
                let bytes = unsafe { *row.add(p) }.to_le_bytes();
                sum = sum.wrapping_add(bytes.iter().map(|&b| i32::from(b)).sum());
            }
        }
        self.b.zero.wrapping_mul(sum).wrapping_neg()
    }

    /// Computes the product; the rows of A are contiguous.
    ///
    /// # Safety
    /// The operands are as large as sizes and strides say, and do not overlap the result.
    pub(super) unsafe fn run(&self, kernel: Kernel, context: &mut RxContext) -> Result<(), i32> {
        let scratch = Scratch::new(context, self.room(&context.pool)).ok_or(context.status)?;
        // SAFETY: the caller's contract; the scratch has the room.
        unsafe { self.within(kernel, &context.pool, scratch.memory.cast()) };
        Ok(())
    }

    /// Returns the quads of the weight.
    pub(super) fn weight(&self) -> usize {
        self.n * self.k.div_ceil(4)
    }

    /// The quads of a copy of the weight, where one is made.
    fn made(&self) -> usize {
        match self.lies_as_quads() {
            true => 0,
            false => self.weight(),
        }
    }

    /// The bytes of tables and copies, in front of what the products need.
    fn copies(&self) -> usize {
        let (m, n, quads) = (self.m, self.n, self.k.div_ceil(4));
        let tables = (m + n + 2 * quads) * size_of::<usize>();
        let words = m * quads + self.made() + n + m;
        (tables + words * size_of::<u32>()).next_multiple_of(64)
    }

    /// Returns the bytes of memory that [`within`](Self::within) needs.
    pub(super) fn room(&self, pool: &Pool) -> usize {
        match self.has_few() {
            true => (self.m * self.deep() + FEW) * size_of::<u32>(),
            false => self.copies() + room((self.m, self.n, self.k.div_ceil(4)), pool),
        }
    }

    /// Computes the product in memory of the caller's.
    ///
    /// # Safety
    /// As [`run`](Self::run), and the memory has the bytes that [`room`](Self::room) says.
    pub(super) unsafe fn within(&self, kernel: Kernel, pool: &Pool, memory: *mut u32) {
        let (m, n, k) = (self.m, self.n, self.k);
        if self.has_few() {
            // SAFETY: the caller's contract.
            return unsafe { self.few(kernel, pool, memory) };
        }
        let quads = k.div_ceil(4);
        // SAFETY: the memory has room for tables and quads, and a weight that is read where it
        // lies is aligned and only read; the operands and the result have the product's sizes.
        unsafe {
            // A weight of whole quads without flipped bits is read in place.
            let (lies, made) = (self.lies_as_quads(), self.made());
            let at_row = memory.cast::<usize>();
            let (at_column, along_a) = (at_row.add(m), at_row.add(m + n));
            let along_b = along_a.add(quads);
            let a = along_b.add(quads).cast::<u32>();
            let b = a.add(m * quads);
            let column_start = b.add(made).cast::<i32>();
            let row_start = column_start.add(n);
            let lines = self.b_strides.0 == 1;
            let (b, line) = match lies {
                true => (self.b.from.cast_mut().cast(), self.b_strides.1 / 4),
                false => (b, quads),
            };
            for i in 0..m {
                *at_row.add(i) = i * quads;
                let from = self.a.from.add(i * self.a_row);
                copied(from, k, self.a.mask(), a.add(i * quads));
            }
            for j in 0..n {
                *at_column.add(j) = if lines { j * line } else { j };
            }
            for p in 0..quads {
                *along_a.add(p) = p;
                *along_b.add(p) = if lines { p } else { p * n };
            }
            let grain = Grain::of_work(1 << 16, k);
            let shared = Share::new((self, b, column_start));
            if lines {
                pool.each(n, grain, |begin, end, _| {
                    let &(d, b, start) = shared.get();
                    for j in begin..end {
                        let to = b.add(j * line);
                        if !lies {
                            copied(d.b.from.add(j * d.b_strides.1), k, d.b.mask(), to);
                        }
                        let (from, sum) = (to.cast_const(), start.add(j));
                        with_dots!(
                            kernel,
                            signed_sums(from: *const u32, quads: usize, sum: *mut i32)
                        );
                    }
                });
            } else {
                std::ptr::write_bytes(column_start, 0, n);
                for p in 0..quads {
                    let line =
                        |i: usize| self.b.from.add((4 * p + i).min(k - 1) * self.b_strides.0);
                    let to = b.add(p * n);
                    woven([line(0), line(1), line(2), line(3)], n, self.b.mask(), to);
                    // Elements beyond the common axis contribute nothing.
                    let rest = (k - 4 * p).min(4);
                    let keep = u32::MAX >> (32 - 8 * rest);
                    for j in 0..n {
                        *to.add(j) &= keep;
                        let start = column_start.add(j);
                        *start = (*start).wrapping_add(signed_sum(*to.add(j)));
                    }
                }
            }
            for j in 0..n {
                let start = column_start.add(j);
                *start = self.both().wrapping_sub(self.a.zero.wrapping_mul(*start));
            }
            for i in 0..m {
                *row_start.add(i) = self.row_start(a.add(i * quads), quads);
            }
            let operand =
                |data: *mut u32, at: *mut usize, along: *mut usize| Operand { data, at, along };
            Product {
                m,
                n,
                k: quads,
                a: operand(a, at_row, along_a),
                b: operand(b, at_column, along_b),
                signed_rows: false,
                row_start,
                column_start,
                c: self.c,
                ld: self.ld,
                accumulate: self.accumulate,
            }
            .within(kernel, pool, memory.byte_add(self.copies()));
        }
    }
}
