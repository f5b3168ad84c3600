//! Large blocks: regions of the allocator's memory, split where they are larger than requested.
//!
//! A program's activations differ in size, and a cache of blocks by size would hold the sum of the
//! largest of each size. Here a freed block is merged with its free neighbours, and the next one is
//! split off the smallest that fits, so that the memory held is near the peak of live memory.
//!
//! Invariant: `pieces` is sorted by address and covers every region without gaps, and of two
//! neighbours in one region at most one is free.

use std::ptr::NonNull;

/// Sizes are multiples of this.
const STEP: usize = 4096;
/// The ratio of a piece's size to the requested one from which it is not split: a later request for
/// the whole piece would have to allocate new memory.
const RATIO: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Piece {
    at: usize,
    size: usize,
    free: bool,
    /// Whether a region begins here.
    first: bool,
}

/// The regions of a heap.
#[derive(Default)]
pub(super) struct Large {
    pieces: Vec<Piece>,
}

/// Returns the size that a request of `size` bytes is rounded to.
pub(super) fn rounded(size: usize) -> usize {
    size.next_multiple_of(STEP)
}

/// The pointer to a piece of a region, whose provenance `add` exposed.
fn pointer(at: usize) -> Option<NonNull<u8>> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(at))
}

impl Large {
    /// Returns a free piece of a rounded size, if there is one.
    pub(super) fn take(&mut self, size: usize) -> Option<NonNull<u8>> {
        let fits = |p: &Piece| p.free && p.size >= size && p.size / RATIO <= size;
        let found = self.pieces.iter().enumerate().filter(|(_, p)| fits(p));
        let (k, &piece) = found.min_by_key(|(_, p)| p.size)?;
        // There is capacity for one more piece: see `reserve`.
        self.pieces[k] = Piece {
            size,
            free: false,
            ..piece
        };
        if piece.size > size {
            let rest = Piece {
                at: piece.at + size,
                size: piece.size - size,
                free: true,
                first: false,
            };
            self.pieces.insert(k + 1, rest);
        }
        pointer(piece.at)
    }

    /// Reserves capacity for the pieces of one more region: at most two for every block.
    pub(super) fn reserve(&mut self) -> bool {
        let blocks = self.pieces.len() + 1;
        self.pieces.try_reserve(blocks + 2).is_ok()
    }

    /// Records a new region, whose one block is in use.
    pub(super) fn add(&mut self, region: NonNull<u8>, size: usize) {
        let at = region.as_ptr().expose_provenance();
        let k = self.pieces.partition_point(|p| p.at < at);
        self.pieces.insert(
            k,
            Piece {
                at,
                size,
                free: false,
                first: true,
            },
        );
    }

    /// The bytes of a block.
    pub(super) fn size(&self, block: NonNull<u8>) -> usize {
        let at = block.addr().get();
        let found = self.pieces.binary_search_by_key(&at, |p| p.at);
        found.map_or(0, |k| self.pieces[k].size)
    }

    /// Frees a block and returns its size.
    pub(super) fn release(&mut self, block: NonNull<u8>) -> usize {
        let at = block.as_ptr().expose_provenance();
        let Ok(mut k) = self.pieces.binary_search_by_key(&at, |p| p.at) else {
            return 0;
        };
        let size = self.pieces[k].size;
        self.pieces[k].free = true;
        if self
            .pieces
            .get(k + 1)
            .is_some_and(|next| next.free && !next.first)
        {
            self.pieces[k].size += self.pieces.remove(k + 1).size;
        }
        if k > 0 && self.pieces[k - 1].free && !self.pieces[k].first {
            k -= 1;
            self.pieces[k].size += self.pieces.remove(k + 1).size;
        }
        size
    }

    /// Returns a region of less than `below` bytes without blocks in use, and forgets it.
    pub(super) fn unused(&mut self, below: usize) -> Option<(NonNull<u8>, usize)> {
        let whole = |k: usize| {
            let p = self.pieces[k];
            p.first
                && p.free
                && p.size < below
                && self.pieces.get(k + 1).is_none_or(|next| next.first)
        };
        let k = (0..self.pieces.len()).find(|&k| whole(k))?;
        let p = self.pieces.remove(k);
        Some((pointer(p.at)?, p.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_and_joined() {
        let mut memory = vec![0u8; 10 * STEP];
        let region = NonNull::new(memory.as_mut_ptr()).expect("a vector");
        let mut large = Large::default();
        assert!(large.reserve() && large.take(STEP).is_none());
        large.add(region, 10 * STEP);
        assert_eq!(large.release(region), 10 * STEP);
        let mut taken = Vec::new();
        for pages in [3, 2, 5] {
            taken.push(large.take(pages * STEP).expect("there is room"));
        }
        assert!(large.take(STEP).is_none() && large.unused(usize::MAX).is_none());
        // The middle one is freed, and a smaller one reuses it.
        assert_eq!(large.release(taken[1]), 2 * STEP);
        assert_eq!(large.take(STEP), Some(taken[1]));
        for (block, pages) in [(taken[2], 5), (taken[1], 1), (taken[0], 3)] {
            assert_eq!(large.release(block), pages * STEP);
        }
        assert_eq!(large.take(10 * STEP), Some(taken[0]));
        assert_eq!(large.release(taken[0]), 10 * STEP);
        assert_eq!(large.unused(10 * STEP), None);
        assert_eq!(large.unused(usize::MAX), Some((region, 10 * STEP)));
        assert!(large.pieces.is_empty());
    }
}
