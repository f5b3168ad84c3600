//! How a product reads its operands, and the memory that this takes.

use super::RxGemmF32;
use super::tile::{COLS, ROWS};
use crate::kernels::simd::{Isa, isa};

/// The longest piece of the common axis: a panel of A of this length takes a third of the
/// first-level cache.
pub(super) const KC: usize = 512;
/// The fewest columns of a block of B, which should stay in the second-level cache.
const NC: usize = 480;
/// Floats of a block of B with more columns: the rows of the result are written in long runs, for
/// which the processor fetches lines ahead.
const BLOCK: usize = 32 << 10;
/// Rows of a block of A.
pub(super) const MC: usize = 2048;
/// Rows of A up to which rows of B that do not collide are read in place, block by block.
const IN_PLACE: usize = 768;
/// Columns of a strip of B, and those of them that all rows of A are multiplied by before the next
/// ones: a tile of vectors with 8 lanes.
pub(super) const STRIP: usize = 2 * NEAR;
pub(super) const NEAR: usize = 24;
/// The longest piece of the common axis of strips: a tile's columns take three quarters of the
/// first-level cache.
pub(super) const STRIP_KC: usize = 256;
/// Rows of A, and of B, from which on copying a strip pays.
const STRIP_ROWS: usize = 48;
/// Floats of a B that the second-level cache holds beside what is multiplied by it.
const STAYS: usize = 80 << 10;
/// Bytes after which lines fall into the same set of the first-level cache, and the lines of a set.
const NEAR_SETS: usize = 4 << 10;
const NEAR_WAYS: usize = 8;
/// Bytes after which lines fall into the same set of the second-level cache, of all processors, and
/// lines of a set that are sure to stay while the others of a block are read.
const SETS: usize = 64 << 10;
const WAYS: usize = 4;
/// Rows of A up to which a B that is not packed is read in place, and whole rows of it.
pub(super) const NARROW: usize = 16;
/// The maximum number of rows for which a B that is not packed is read in place.
pub(crate) const FEW_ROWS: usize = 4;

/// The access to the operands; decided for the whole product, so that the number of threads does
/// not matter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Few rows, columns of B contiguous: sums of products along them.
    Dots,
    /// Few rows, or small: B is read in place, row by row.
    Direct,
    /// B is packed, here or by the caller.
    Packed,
    /// B is packed here, some columns at a time.
    Strips,
}

impl RxGemmF32 {
    /// Returns how this product reads its operands.
    pub(crate) fn way(&self) -> Way {
        if !self.b_packed.is_null() {
            return Way::Packed;
        }
        let few = self.m as usize <= FEW_ROWS;
        match (self.b_rs, self.b_cs) {
            (_, 1) if few || self.m as usize <= NARROW => Way::Direct,
            (1, _) if few && self.a_packed.is_null() && self.a_cs == 1 => Way::Dots,
            (_, 1) if self.in_place() => match self.in_strips() {
                true => Way::Strips,
                false => Way::Direct,
            },
            _ => Way::Packed,
        }
    }

    /// Returns a product of a matrix and one column as that of the column, as a row, and the matrix's
    /// rows, as columns: sums of products along them, where tiles would compute columns that nobody
    /// asks for.
    pub(crate) fn turned(&self) -> Option<RxGemmF32> {
        let one = self.n == 1 && self.m > 1 && self.c_ld == 1 && self.epilogue.none();
        let lie = self.a_packed.is_null() && self.b_packed.is_null();
        let rows = self.a_cs == 1 && self.b_rs == 1;
        (one && lie && rows).then_some(RxGemmF32 {
            m: 1,
            n: self.m,
            a: self.b,
            a_rs: self.k,
            a_cs: 1,
            b: self.a,
            b_rs: 1,
            b_cs: self.a_rs,
            c_ld: self.m,
            ..*self
        })
    }

    /// Returns whether tiles read the rows of a B that is not packed as they lie: where there are too
    /// few rows of A to pay for packing it, and the rows of B do not all fall into the same few sets
    /// of the caches.
    fn in_place(&self) -> bool {
        self.m as usize <= IN_PLACE && (self.k as usize).min(KC) <= WAYS * self.places(SETS)
    }

    /// Returns whether a B whose rows could be read in place is copied strip by strip, each of which
    /// is multiplied by all rows of A: without the 32 registers of AVX-512, tiles of few rows read
    /// columns more often than the second-level cache can give them from all over.
    fn in_strips(&self) -> bool {
        let (m, n, k) = (self.m as usize, self.n as usize, self.k as usize);
        if isa() == Isa::Avx512 || m < STRIP_ROWS {
            return false;
        }
        let collide = k.min(STRIP_KC) > NEAR_WAYS * self.places(NEAR_SETS);
        k >= STRIP_ROWS && (k * n > STAYS || collide)
    }

    /// Returns how many rows of B in turn begin at different places of a cache whose sets lines fall
    /// into again after so many bytes.
    fn places(&self, again: usize) -> usize {
        again / gcd(self.b_rs as usize * size_of::<f32>(), again)
    }

    /// Returns whether blocks of a packed B are copied to contiguous memory. A packed B of which
    /// only a piece of the common axis is read at a time maps to few sets of the second-level
    /// cache; with many rows, copying each block pays.
    pub(super) fn gathers(&self) -> bool {
        !self.b_packed.is_null() && self.k as usize > KC && self.m >= 128
    }

    /// Floats of scratch memory for the packed blocks of A and B.
    ///
    /// Invariant: a part of the product, by the way that the part goes by itself, takes no more.
    pub(crate) fn scratch(&self, way: Way) -> (usize, usize) {
        let (m, n, k) = (self.m as usize, self.n as usize, self.k as usize);
        let kc = k.min(KC);
        let a = if self.a_packed.is_null() {
            m.min(MC).next_multiple_of(ROWS) * kc
        } else {
            0
        };
        let b = match way {
            Way::Packed if self.b_packed.is_null() || self.gathers() => {
                n.min(columns(k)).next_multiple_of(COLS) * kc
            }
            Way::Strips => {
                let strip = n.min(STRIP).next_multiple_of(COLS) * kc.min(STRIP_KC);
                strip.max(COLS * kc)
            }
            Way::Direct => COLS * kc,
            _ => 0,
        };
        (a.next_multiple_of(16), b.next_multiple_of(16))
    }
}

/// The greatest common divisor; of 0 and a number, the number.
fn gcd(a: usize, b: usize) -> usize {
    if a == 0 { b } else { gcd(b % a, a) }
}

/// Returns the number of columns of a block of B with `k` rows.
pub(super) fn columns(k: usize) -> usize {
    NC.max(BLOCK / k.max(1) / NC * NC)
}
