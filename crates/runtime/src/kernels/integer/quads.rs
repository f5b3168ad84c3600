//! Products of unsigned by signed bytes, four adjacent steps of the common axis per instruction
//! (`vpdpbusd`).
//!
//! Nothing saturates: four products of 8 bits are added to a sum of 32 bits, which wraps. Signed
//! data is offset by 128 to be unsigned, unsigned weights to be signed; the contributions of
//! offsets and zero points to each sum are its initial value ([`Product::row_start`],
//! [`Product::column_start`]), so that results are bitwise those of the plain loop.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_variables))] // Without vectors there is no kernel.
#![allow(clippy::needless_range_loop)] // Indices keep sums out of memory.

use super::share::{
    COLS, Extents, MOST, Operand, Panels, Piece, Place, ROWS, share_out, share_within,
};
use crate::context::RxContext;
use crate::kernels::simd::square::{Turning, dispatch_turning, gather};
use crate::kernels::simd::{Isa, isa};
use crate::threads::Pool;

/// A vector of 32-bit sums, or of as many quads of bytes.
///
/// # Safety
/// Methods may be called only where the implementation's instruction set is enabled; pointers must
/// be valid for all lanes.
pub(super) unsafe trait Dots: Copy {
    /// Sums in a vector.
    const LANES: usize;
    unsafe fn splat(x: u32) -> Self;
    unsafe fn load(from: *const u32) -> Self;
    unsafe fn store(self, to: *mut i32);
    unsafe fn add(self, b: Self) -> Self;
    unsafe fn sub(self, b: Self) -> Self;
    unsafe fn xor(self, b: Self) -> Self;
    /// Adds to each lane the four products of its bytes.
    unsafe fn dot(self, unsigned: Self, signed: Self) -> Self;
    /// The sums of all lanes of four vectors.
    unsafe fn totals(of: [Self; 4]) -> [i32; 4];
    /// The sum of all lanes.
    #[inline(always)]
    unsafe fn total(self) -> i32 {
        let mut lanes = [0i32; 16];
        // SAFETY: no vector is longer.
        unsafe { self.store(lanes.as_mut_ptr()) };
        lanes.iter().fold(0, |a, &b| a.wrapping_add(b))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Dots;
    use std::arch::x86_64::*;

    /// Adds up four vectors: in each quarter of 128 bits one sum of each, and these then.
    #[inline(always)]
    #[allow(unsafe_op_in_unsafe_fn)] // One intrinsic after the other, of an enabled instruction set.
    unsafe fn totals_of_512([a, b, c, d]: [__m512i; 4]) -> [i32; 4] {
        let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        let all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
        let (low, high) = (
            _mm512_castsi512_si256(all),
            _mm512_extracti64x4_epi64(all, 1),
        );
        quarters(_mm256_add_epi32(low, high))
    }

    /// See [`totals_of_512`].
    #[inline(always)]
    #[allow(unsafe_op_in_unsafe_fn)] // As above.
    unsafe fn totals_of_256([a, b, c, d]: [__m256i; 4]) -> [i32; 4] {
        let ab = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        let cd = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
        quarters(_mm256_add_epi32(
            _mm256_unpacklo_epi64(ab, cd),
            _mm256_unpackhi_epi64(ab, cd),
        ))
    }

    /// Adds both quarters.
    #[inline(always)]
    #[allow(unsafe_op_in_unsafe_fn)] // As above.
    unsafe fn quarters(x: __m256i) -> [i32; 4] {
        let (low, high) = (_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
        let mut sums = [0; 4];
        _mm_storeu_si128(sums.as_mut_ptr().cast(), _mm_add_epi32(low, high));
        sums
    }

    /// Implements [`Dots`] with the intrinsics of a width.
    macro_rules! dots {
        ($name:ident, $inner:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $sub:ident, $xor:ident, $dot:ident, $totals:ident) => {
            #[derive(Clone, Copy)]
            pub(in super::super) struct $name($inner);

            // SAFETY: every method is one intrinsic of the enabled instruction set.
            #[allow(unsafe_op_in_unsafe_fn)]
            unsafe impl Dots for $name {
                const LANES: usize = $lanes;
                #[inline(always)]
                unsafe fn splat(x: u32) -> Self {
                    $name($splat(x as i32))
                }
                #[inline(always)]
                unsafe fn load(from: *const u32) -> Self {
                    $name($load(from.cast()))
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut i32) {
                    $store(to.cast(), self.0)
                }
                #[inline(always)]
                unsafe fn add(self, b: Self) -> Self {
                    $name($add(self.0, b.0))
                }
                #[inline(always)]
                unsafe fn sub(self, b: Self) -> Self {
                    $name($sub(self.0, b.0))
                }
                #[inline(always)]
                unsafe fn xor(self, b: Self) -> Self {
                    $name($xor(self.0, b.0))
                }
                #[inline(always)]
                unsafe fn dot(self, unsigned: Self, signed: Self) -> Self {
                    $name($dot(self.0, unsigned.0, signed.0))
                }
                #[inline(always)]
                unsafe fn totals([a, b, c, d]: [Self; 4]) -> [i32; 4] {
                    $totals([a.0, b.0, c.0, d.0])
                }
            }
        };
    }
    dots!(
        Avx512,
        __m512i,
        16,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_add_epi32,
        _mm512_sub_epi32,
        _mm512_xor_si512,
        _mm512_dpbusd_epi32,
        totals_of_512
    );
    dots!(
        Avx,
        __m256i,
        8,
        _mm256_set1_epi32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_add_epi32,
        _mm256_sub_epi32,
        _mm256_xor_si256,
        _mm256_dpbusd_avx_epi32,
        totals_of_256
    );
}

/// The available instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kernel {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx,
}

impl Kernel {
    /// Returns the best instructions that the processor has and `RELAX_ISA` allows, if any; without
    /// them, 16-bit products are used.
    pub(super) fn chosen() -> Option<Kernel> {
        match isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if is_x86_feature_detected!("avx512vnni") => Some(Kernel::Avx512),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx2 if is_x86_feature_detected!("avxvnni") => Some(Kernel::Avx),
            _ => None,
        }
    }
}

/// Calls a generic function for the vectors of a [`Kernel`].
macro_rules! with_dots {
    ($kernel:expr, $name:ident($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2")]
            unsafe fn avx512($($arg: $ty),*) {
                // SAFETY: the instruction set is enabled here; the arguments are those that the
                // function asks for.
                unsafe { $name::<$crate::kernels::integer::quads::Avx512>($($arg),*) }
            }
            #[target_feature(enable = "avx2,avxvnni")]
            unsafe fn avx($($arg: $ty),*) {
                // SAFETY: as above.
                unsafe { $name::<$crate::kernels::integer::quads::Avx>($($arg),*) }
            }
            match $kernel {
                $crate::kernels::integer::quads::Kernel::Avx512 => avx512($($arg),*),
                $crate::kernels::integer::quads::Kernel::Avx => avx($($arg),*),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        match $kernel {}
    }};
}
pub(super) use with_dots;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx, Avx512};

/// A product; `c[i * ld + j] (+)= row_start[i] + column_start[j] + sum over p of a(i, p) * b(j,
/// p)`.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub m: usize,
    pub n: usize,
    /// Quads of the common axis.
    pub k: usize,
    pub a: Operand<u32>,
    pub b: Operand<u32>,
    /// Whether A's bytes are the signed ones (otherwise B's).
    pub signed_rows: bool,
    /// The initial value of each row's sums, or null.
    pub row_start: *const i32,
    /// The initial value of each column's sums, or null.
    pub column_start: *const i32,
    pub c: *mut i32,
    pub ld: usize,
    pub accumulate: bool,
}

/// Returns the bytes of memory that [`Product::within`] needs for `m` rows by `n` columns of `k`
/// quads.
pub(super) fn room((m, n, k): (usize, usize, usize), pool: &Pool) -> usize {
    let extents = Extents {
        rows: m,
        columns: n,
        words: k,
        elements: 4 * k,
    };
    super::share::room::<(Product, Kernel)>(&extents, pool)
}

/// A tile's operands and destination.
#[derive(Clone, Copy)]
struct Tile {
    a: *const u32,
    b: *const u32,
    quads: usize,
    /// The distance in quads from one panel of B to the next.
    step: usize,
    high: usize,
    wide: usize,
    c: *mut i32,
    ld: usize,
    /// Whether to add to the old contents.
    keep: bool,
    row_start: *const i32,
    column_start: *const i32,
}

/// `R` rows from row `first` of the panel, `V` vectors of columns.
#[inline(always)]
unsafe fn rows<S: Dots, const R: usize, const V: usize, const SIGNED_ROWS: bool>(
    t: &Tile,
    first: usize,
) {
    // SAFETY: the panels have the tile's rows and columns, `t.quads` long, and the result a place
    // for each.
    unsafe {
        let mut sums = [[S::splat(0); V]; R];
        for p in 0..t.quads {
            let mut line = [S::splat(0); V];
            for v in 0..V {
                let panel = v * S::LANES / COLS * t.step + v * S::LANES % COLS;
                line[v] = S::load(t.b.add(panel + p * COLS));
            }
            let quads = t.a.add(p * ROWS + first);
            for i in 0..R {
                let quad = S::splat(*quads.add(i));
                for v in 0..V {
                    sums[i][v] = if SIGNED_ROWS {
                        sums[i][v].dot(line[v], quad)
                    } else {
                        sums[i][v].dot(quad, line[v])
                    };
                }
            }
        }
        let whole = t.wide == V * S::LANES;
        for i in 0..R {
            if first + i >= t.high {
                return;
            }
            let to = t.c.add((first + i) * t.ld);
            let start = if t.row_start.is_null() {
                0
            } else {
                *t.row_start.add(first + i)
            };
            if whole {
                for v in 0..V {
                    let at = v * S::LANES;
                    let mut sum = sums[i][v].add(S::splat(start as u32));
                    if !t.column_start.is_null() {
                        sum = sum.add(S::load(t.column_start.add(at).cast()));
                    }
                    if t.keep {
                        sum = sum.add(S::load(to.add(at).cast_const().cast()));
                    }
                    sum.store(to.add(at));
                }
                continue;
            }
            let mut line = [0i32; MOST];
            for v in 0..V {
                sums[i][v].store(line.as_mut_ptr().add(v * S::LANES));
            }
            for j in 0..t.wide {
                let mut sum = line[j].wrapping_add(start);
                if !t.column_start.is_null() {
                    sum = sum.wrapping_add(*t.column_start.add(j));
                }
                if t.keep {
                    sum = sum.wrapping_add(*to.add(j));
                }
                *to.add(j) = sum;
            }
        }
    }
}

/// All rows of a panel; `V` vectors make a panel of B.
#[inline(always)]
unsafe fn panel<S: Dots, const V: usize, const TWICE: usize, const R: usize, const SIGNED: bool>(
    t: &Tile,
) {
    let mut first = 0;
    while first < t.high {
        // SAFETY: the panels have the tile's rows and columns, `t.quads` long, and the result a
        // place for each.
        unsafe {
            match (t.high - first, t.wide > COLS) {
                (1, false) => rows::<S, 1, V, SIGNED>(t, first),
                (1, true) => rows::<S, 1, TWICE, SIGNED>(t, first),
                (_, false) => rows::<S, R, V, SIGNED>(t, first),
                (_, true) => rows::<S, R, TWICE, SIGNED>(t, first),
            }
        }
        first += R;
    }
}

#[inline(always)]
unsafe fn tile<S: Dots>(t: &Tile, signed_rows: bool) {
    // SAFETY: the panels have the tile's rows and columns, `t.quads` long, and the result a place
    // for each.
    unsafe {
        match (S::LANES, signed_rows) {
            (16, true) => panel::<S, 1, 2, 8, true>(t),
            (16, false) => panel::<S, 1, 2, 8, false>(t),
            (_, true) => panel::<S, 2, 4, 2, true>(t),
            (_, false) => panel::<S, 2, 4, 2, false>(t),
        }
    }
}

impl Operand<u32> {
    /// Packs `N` rows (columns) from `first` on, those before `end`, for `count` quads from quad
    /// `from` on: quad after quad. Those beyond `end` are copies of the last one: their sums are
    /// ignored.
    unsafe fn panel<const N: usize>(
        &self,
        first: usize,
        end: usize,
        (from, count): (usize, usize),
        out: *mut u32,
    ) {
        let last = (end - first).min(N) - 1;
        let mut at = [0usize; N];
        // SAFETY: the tables have `end` and as many quads, `out` room for the panel.
        unsafe {
            for l in 0..N {
                at[l] = *self.at.add(first + l.min(last));
            }
        }
        // SAFETY: the tables have `end` and as many quads, `out` room for the panel.
        let along = unsafe { self.along.add(from) };
        let apart = at[1].wrapping_sub(at[0]);
        let even = (1..=last).all(|l| at[l].wrapping_sub(at[l - 1]) == apart);
        // SAFETY: the tables have `end` and as many quads, `out` room for the panel.
        unsafe {
            if even && apart > 1 && apart <= isize::MAX as usize / 64 && rising(along, count) {
                let (data, lines) = (self.data.add(at[0] + *along), last + 1);
                let (data, out) = (data.cast::<f32>(), out.cast::<f32>());
                let wide = N;
                dispatch_turning!(turned(
                    data: *const f32,
                    apart: usize,
                    lines: usize,
                    wide: usize,
                    count: usize,
                    out: *mut f32,
                ));
                return;
            }
        }
        let line = last + 1 == N && (1..N).all(|l| at[l] == at[0] + l);
        // SAFETY: the tables have `end` and as many quads, `out` room for the panel.
        unsafe {
            for p in 0..count {
                let data = self.data.add(*along.add(p));
                let to = out.add(p * N);
                if line {
                    std::ptr::copy_nonoverlapping(data.add(at[0]), to, N);
                } else {
                    for l in 0..N {
                        *to.add(l) = *data.add(at[l]);
                    }
                }
            }
        }
    }
}

/// Returns whether the positions along the common axis are contiguous.
unsafe fn rising(along: *const usize, count: usize) -> bool {
    // SAFETY: the table has `count` places.
    unsafe {
        let first = *along;
        (1..count).all(|p| *along.add(p) == first + p)
    }
}

/// Interleaves `count` quads of each of some lines, `apart` from each other: quad after quad, in
/// each `wide` lines. Those beyond the last one are copies of it. Quads are moved as floats, on
/// which there is no arithmetic.
#[inline(always)]
unsafe fn turned<S: Turning>(
    from: *const f32,
    apart: usize,
    lines: usize,
    wide: usize,
    count: usize,
    out: *mut f32,
) {
    for first in (0..wide).step_by(S::LANES) {
        let some = lines.saturating_sub(first).clamp(1, S::LANES);
        // SAFETY: there are lines of `count` quads, and `out` has room for `wide` of them; vectors
        // divide `wide`.
        unsafe {
            let from = from.add(first.min(lines - 1) * apart);
            gather::<S>(from, apart, some, count, |p| {
                Some(out.add(p * wide + first))
            });
        }
    }
}

// SAFETY: tables, panels and tiles are those of the product, whose maker promises the rest.
unsafe impl Panels for (Product, Kernel) {
    const PIECE: usize = 160;
    const SMALL: usize = 1 << 19;

    fn extents(&self) -> Extents {
        Extents {
            rows: self.0.m,
            columns: self.0.n,
            words: self.0.k,
            elements: 4 * self.0.k,
        }
    }

    fn tile_columns(&self) -> usize {
        MOST
    }

    unsafe fn pack_rows(&self, first: usize, piece: Piece, out: *mut u32) {
        let Product { m, a, .. } = self.0;
        // SAFETY: the rows are the operand's, and `out` has room for their panel.
        unsafe { a.panel::<ROWS>(first, m, piece, out) };
    }

    unsafe fn pack_columns(&self, first: usize, end: usize, piece: Piece, out: *mut u32) {
        // SAFETY: the columns are the operand's, and `out` has room for their panel.
        unsafe { self.0.b.panel::<COLS>(first, end, piece, out) };
    }

    unsafe fn tile(&self, place: &Place) {
        let (product, kernel) = (&self.0, self.1);
        let starts = |start: *const i32, at: usize| {
            if place.piece.0 > 0 || start.is_null() {
                std::ptr::null()
            } else {
                start.wrapping_add(at)
            }
        };
        // SAFETY: both panels are packed, and the result has the tile's places; the kernel is one
        // of this processor.
        unsafe {
            let t = &Tile {
                a: place.a,
                b: place.b,
                quads: place.piece.1,
                step: place.step,
                high: place.high,
                wide: place.wide,
                c: product.c.add(place.row * product.ld + place.column),
                ld: product.ld,
                keep: product.accumulate || place.piece.0 > 0,
                row_start: starts(product.row_start, place.row),
                column_start: starts(product.column_start, place.column),
            };
            let signed_rows = product.signed_rows;
            with_dots!(kernel, tile(t: &Tile, signed_rows: bool));
        }
    }
}

impl Product {
    /// Computes the product of at least one quad.
    ///
    /// # Safety
    /// The operands have all quads that the tables name, the starts and the result their rows and
    /// columns.
    pub(super) unsafe fn run(&self, kernel: Kernel, context: &mut RxContext) -> Result<(), i32> {
        // SAFETY: the operands and the result have the product's sizes; the kernel is one of this
        // processor.
        unsafe { share_out(context, (*self, kernel)) }
    }

    /// The same in memory of the caller's.
    ///
    /// # Safety
    /// As [`Product::run`], and the memory has the bytes that [`room`] says.
    pub(super) unsafe fn within(&self, kernel: Kernel, pool: &Pool, memory: *mut u32) {
        // SAFETY: as above.
        unsafe { share_within(pool, (*self, kernel), memory) }
    }
}
