//! Products of 16-bit numbers, two adjacent steps of the common axis per instruction (`pmaddwd`,
//! with AVX-512 VNNI `vpdpwssd`).

use super::share::{COLS, Extents, Operand, Panels, Piece, Place, ROWS, share_out};
use super::tile::{Kernel, Tile};
use crate::context::RxContext;

/// A product; `c[i * ld + j] (+)= sum over p of a(i, p) * b(j, p)`.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub m: usize,
    pub n: usize,
    /// Elements of the common axis.
    pub k: usize,
    pub a: Operand<i16>,
    pub b: Operand<i16>,
    pub c: *mut i32,
    pub ld: usize,
    pub accumulate: bool,
}

// SAFETY: tables, panels and tiles are those of the product, whose maker promises the rest.
unsafe impl Panels for (Product, Kernel) {
    const PIECE: usize = 256;
    /// With pairs in vectors, these take at most as long as 2^16 element operations
    /// (`--example bench_threads`).
    const SMALL: usize = 1 << 18;

    fn extents(&self) -> Extents {
        Extents {
            rows: self.0.m,
            columns: self.0.n,
            words: self.0.k.div_ceil(2),
            elements: self.0.k,
        }
    }

    fn tile_columns(&self) -> usize {
        self.1.panels() * COLS
    }

    unsafe fn pack_rows(&self, first: usize, piece: Piece, out: *mut u32) {
        let (Product { m, k, a, .. }, out) = (self.0, out.cast());
        // SAFETY: the rows are the operand's, and `out` has room for their panel.
        unsafe { a.panel::<ROWS>(first, m, piece, k, out) };
    }

    unsafe fn pack_columns(&self, first: usize, end: usize, piece: Piece, out: *mut u32) {
        let (Product { k, b, .. }, out) = (self.0, out.cast());
        // SAFETY: the columns are the operand's, and `out` has room for their panel.
        unsafe { b.panel::<COLS>(first, end, piece, k, out) };
    }

    unsafe fn tile(&self, place: &Place) {
        let (product, kernel) = self;
        // SAFETY: both panels are packed, and the result has the tile's places; the kernel is one
        // of this processor.
        unsafe {
            kernel.run(&Tile {
                a: place.a.cast(),
                b: place.b.cast(),
                pairs: place.piece.1,
                step: 2 * place.step,
                high: place.high,
                wide: place.wide,
                c: product.c.add(place.row * product.ld + place.column),
                ld: product.ld,
                keep: product.accumulate || place.piece.0 > 0,
            });
        }
    }
}

impl Product {
    /// Computes the product.
    ///
    /// # Safety
    /// The operands have all elements that the tables name, and the result its rows and columns.
    pub(super) unsafe fn run(&self, context: &mut RxContext) -> Result<(), i32> {
        // SAFETY: the operands and the result have the product's sizes.
        unsafe {
            if self.k == 0 {
                self.clear();
                return Ok(());
            }
            share_out(context, (*self, Kernel::chosen()))
        }
    }

    /// Stores empty sums.
    unsafe fn clear(&self) {
        if self.accumulate {
            return;
        }
        for i in 0..self.m {
            // SAFETY: the result has a row `i` of `n` places.
            unsafe { std::ptr::write_bytes(self.c.add(i * self.ld), 0, self.n) };
        }
    }
}

impl Operand<i16> {
    /// Packs `N` rows (columns) from `first` on, those before `end`, for pairs
    /// `[pairs.0, pairs.0 + pairs.1)` of a common axis of `k`: pair after pair, a row's two
    /// elements adjacent; zeros beyond the operand.
    unsafe fn panel<const N: usize>(
        &self,
        first: usize,
        end: usize,
        pairs: (usize, usize),
        k: usize,
        out: *mut i16,
    ) {
        let valid = (end - first).min(N);
        let mut at = [0usize; N];
        // SAFETY: the tables have `end` and `k` entries, `out` room for the panel.
        unsafe {
            for (l, at) in at.iter_mut().enumerate() {
                *at = *self.at.add(first + l.min(valid - 1));
            }
        }
        let line = valid == N && (1..N).all(|l| at[l] == at[0] + l);
        for p in 0..pairs.1 {
            let at_k = 2 * (pairs.0 + p);
            // SAFETY: the tables have `end` and `k` entries, `out` room for the panel.
            let (to, x) = unsafe { (out.add(p * 2 * N), self.data.add(*self.along.add(at_k))) };
            let last = at_k + 1 == k;
            // SAFETY: the tables have `end` and `k` entries, `out` room for the panel.
            let y = unsafe {
                if last {
                    x
                } else {
                    self.data.add(*self.along.add(at_k + 1))
                }
            };
            let keep = if last { 0 } else { -1i16 };
            // SAFETY: the tables have `end` and `k` entries, `out` room for the panel.
            unsafe {
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
