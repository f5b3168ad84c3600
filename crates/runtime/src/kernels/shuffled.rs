//! Rows that are made of short runs of another row: repeated, reversed, spread out, with holes.
//!
//! Sixteen bytes of the row at a time are taken from sixteen bytes of the other one, in an order
//! that a table says ([`Piece`]); what is nothing of these is a number.

use std::mem::MaybeUninit;

use super::simd::{Isa, isa};

/// The bytes of a piece.
const WIDE: usize = 16;
/// In the order of a piece, a byte that is none of the other row's.
const HOLE: u8 = 0x80;

/// How sixteen bytes of a row are made.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Piece {
    /// For each byte, which of those that are read it is, or [`HOLE`].
    order: [u8; WIDE],
    /// Where sixteen bytes are read, and where they are written.
    from: i64,
    to: i64,
}

/// A table of pieces.
pub(super) struct Shuffle<'a> {
    pieces: &'a [Piece],
    holes: bool,
}

impl<'a> Shuffle<'a> {
    /// The pieces that a row of so many elements is at most.
    pub(super) fn most(elements: usize, size: usize) -> usize {
        if isa() < Isa::Avx2 {
            return 0;
        }
        (elements * size).div_ceil(WIDE)
    }

    /// The pieces of a row whose elements of `size` bytes have these offsets in another one, or
    /// negative numbers. `None` where a piece would have to read more than sixteen bytes, or there
    /// are none.
    ///
    /// Invariant: what is read lies between the least and the greatest element that has an offset,
    /// and what is written in the row.
    pub(super) fn of(
        table: &[i64],
        size: usize,
        room: &'a mut [MaybeUninit<Piece>],
    ) -> Option<Self> {
        let lanes = WIDE / size;
        let (mut least, mut most) = (i64::MAX, -1);
        for &t in table.iter().filter(|&&t| t >= 0) {
            (least, most) = (least.min(t), most.max(t));
        }
        let fits = table.len() >= lanes && room.len() >= table.len().div_ceil(lanes);
        // The last place where a piece can be read.
        let last = most + 1 - lanes as i64;
        if !fits || most < 0 || last < least {
            return None;
        }
        let mut count = 0;
        let mut holes = false;
        for (piece, i) in room.iter_mut().zip((0..table.len()).step_by(lanes)) {
            // The last piece overlaps the one before.
            let at = i.min(table.len() - lanes);
            let part = &table[at..at + lanes];
            let first = part.iter().filter(|&&t| t >= 0).min();
            let from = first.map_or(least, |&t| t.min(last));
            let mut order = [HOLE; WIDE];
            for (bytes, &t) in order.chunks_exact_mut(size).zip(part) {
                if t < 0 {
                    holes = true;
                    continue;
                }
                let far = usize::try_from(t - from).ok().filter(|&far| far < lanes)?;
                for (k, byte) in bytes.iter_mut().enumerate() {
                    *byte = (far * size + k) as u8;
                }
            }
            let (from, to) = (from * size as i64, (at * size) as i64);
            piece.write(Piece { order, from, to });
            count += 1;
        }
        // SAFETY: so many were written.
        let pieces = unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), count) };
        Some(Self { pieces, holes })
    }

    /// Makes a row of the one at `x`; holes have the bytes of `fill`, of which a number is a part.
    ///
    /// # Safety
    /// The elements that the table names lie behind `x`, and there is room for a row.
    pub(super) unsafe fn row(&self, x: *const u8, to: *mut u8, fill: u64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: pieces exist with AVX2 alone; they read and write what the invariant says.
        unsafe {
            match self.holes {
                true => pieces::<true>(self.pieces, x, to, fill),
                false => pieces::<false>(self.pieces, x, to, fill),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (self.pieces, self.holes, x, to, fill);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn pieces<const HOLES: bool>(pieces: &[Piece], x: *const u8, to: *mut u8, fill: u64) {
    use std::arch::x86_64::*;
    let fill = _mm_set1_epi64x(fill as i64);
    for piece in pieces {
        // SAFETY: as the invariant of [`Shuffle::of`] says.
        unsafe {
            let order = _mm_loadu_si128(piece.order.as_ptr().cast());
            let read = _mm_loadu_si128(x.offset(piece.from as isize).cast());
            let mut made = _mm_shuffle_epi8(read, order);
            if HOLES {
                made = _mm_blendv_epi8(made, fill, order);
            }
            _mm_storeu_si128(to.offset(piece.to as isize).cast(), made);
        }
    }
}
