//! The first few elements of lines in order, without sorting what is not kept.

use super::RxLines;
use super::keys::{Elements, Key, Sorted, Tile};
use crate::kernels::simd::{Simd, dispatch_of};

/// Elements up to which those that are kept are a list in order, into which others are inserted.
pub(super) const FEW: usize = 16;
/// Keys that are compared with the last one kept at a time.
const BLOCK: usize = 64;
/// Lines that are selected from together, adjacent ones or those one behind the other,
pub(super) const LANES: usize = 32;
/// and how many of their elements are read at a time.
const ROWS: usize = 16;

/// The first keys of a line in order, with their indices.
struct First<K> {
    keys: [K; FEW],
    indices: [u32; FEW],
    len: usize,
}

impl<K: Key> First<K> {
    fn new() -> Self {
        Self {
            keys: [K::turn(false); FEW],
            indices: [0; FEW],
            len: 0,
        }
    }

    /// Inserts a key behind those that are not greater, if it is one of the first `keep`.
    #[inline(always)]
    fn insert(&mut self, keep: usize, key: K, index: usize) {
        let keep = keep.min(FEW);
        if self.len == keep {
            if key >= self.keys[keep - 1] {
                return;
            }
        } else {
            self.len += 1;
        }
        let mut k = self.len - 1;
        while k > 0 && key < self.keys[k - 1] {
            (self.keys[k], self.indices[k]) = (self.keys[k - 1], self.indices[k - 1]);
            k -= 1;
        }
        (self.keys[k], self.indices[k]) = (key, index as u32);
    }
}

/// The indices of the first `keep` keys in order, at most [`FEW`] and fewer than there are.
pub(super) fn few<K: Key>(keys: &[K], keep: usize, order: &mut [u32]) {
    let mut first = First::new();
    let (begin, rest) = keys.split_at(keep);
    for (i, &key) in begin.iter().enumerate() {
        first.insert(keep, key, i);
    }
    for (k, block) in rest.chunks(BLOCK).enumerate() {
        let last = first.keys[keep - 1];
        if !any_before(block, last) {
            continue;
        }
        for (i, &key) in block.iter().enumerate() {
            if key < last {
                first.insert(keep, key, keep + k * BLOCK + i);
            }
        }
    }
    order[..keep].copy_from_slice(&first.indices[..keep]);
}

/// Returns whether any key is less than `last`.
#[inline]
fn any_before<K: Key>(keys: &[K], last: K) -> bool {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn all<S: Simd, K: Key>(keys: &[K], last: K) -> bool {
        let mut any = false;
        for key in keys {
            any |= *key < last;
        }
        any
    }
    // SAFETY: the instruction set is the processor's.
    unsafe { dispatch_of!(all<K: Key>(keys: &[K], last: K) -> bool) }
}

/// The first keys of [`LANES`] lines in order, with their indices: the first of each line, the second
/// of each, …
struct Firsts<K> {
    keys: [[K; LANES]; FEW],
    indices: [[u32; LANES]; FEW],
}

/// Inserts a key into each line, behind those that are not greater. Afterwards `len` of a line are in
/// order, of which the last one is new if `grows`.
#[inline]
fn insert<K: Key>(firsts: &mut Firsts<K>, row: &[K; LANES], index: u32, len: usize, grows: bool) {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn all<S: Simd, K: Key>(
        firsts: &mut Firsts<K>,
        row: &[K; LANES],
        index: u32,
        len: usize,
        grows: bool,
    ) {
        // Copies, which overlap nothing: so the loop over lines becomes vectors.
        let row = *row;
        for k in (0..len).rev() {
            let free = grows && k + 1 == len;
            let (here, number) = (firsts.keys[k], firsts.indices[k]);
            // No key is less than itself: the first place has nothing before it that could move.
            let (before, before_it) = match k {
                0 => (row, [index; LANES]),
                _ => (firsts.keys[k - 1], firsts.indices[k - 1]),
            };
            let (mut keys, mut indices) = (here, number);
            for lane in 0..LANES {
                let x = row[lane];
                let (moves, shifts) = (free | (x < here[lane]), x < before[lane]);
                let key = if shifts { before[lane] } else { x };
                let from = if shifts { before_it[lane] } else { index };
                keys[lane] = if moves { key } else { here[lane] };
                indices[lane] = if moves { from } else { number[lane] };
            }
            (firsts.keys[k], firsts.indices[k]) = (keys, indices);
        }
    }
    // SAFETY: the instruction set is the processor's.
    unsafe {
        dispatch_of!(all<K: Key>(
            firsts: &mut Firsts<K>,
            row: &[K; LANES],
            index: u32,
            len: usize,
            grows: bool,
        ));
    }
}

/// Reads `rows` keys of each of `many` lines from a row on: one line's after those of another where
/// lines are one behind the other, else one row after the other.
unsafe fn read<K: Key>(
    of: &Elements<K>,
    lines: &RxLines,
    (line, many): (usize, usize),
    (row, rows): (usize, usize),
    (turn, keys): (K, &mut [K; ROWS * LANES]),
) {
    let (n, inner) = (lines.extent.max(0) as usize, lines.inner as usize);
    let from = lines.begin(line, lines.extent) + row * inner;
    let (rows, step, wide) = match inner {
        1 => (many, n, rows),
        _ => (rows, inner, many),
    };
    // SAFETY: the rows lie in the lines, and there is room for as many keys.
    unsafe {
        let tile = Tile {
            from: lines.x.byte_add(from * of.size),
            rows,
            step,
            wide,
        };
        (of.read)(&tile, turn, keys.as_mut_ptr());
    }
}

/// The same of up to [`LANES`] lines from `line` on, whose elements are read row by row: the indices
/// of one line after those of another. Returns `false` where some elements are not ordered.
pub(super) unsafe fn few_of_lines<K: Key>(
    of: &Elements<K>,
    lines: &RxLines,
    (line, many): (usize, usize),
    turn: K,
    order: &mut [u32],
) -> bool {
    let (n, keep) = (lines.extent.max(0) as usize, lines.keep.max(0) as usize);
    let mut firsts = Firsts {
        keys: [[K::turn(false); LANES]; FEW],
        indices: [[0; LANES]; FEW],
    };
    let mut keys = [K::turn(false); ROWS * LANES];
    // A row that does not lie as it is used, or whose last lanes are no line's.
    let mut own = [K::turn(false); LANES];
    for begin in (0..n).step_by(ROWS) {
        let rows = (n - begin).min(ROWS);
        // SAFETY: the rows lie in the lines.
        unsafe { read(of, lines, (line, many), (begin, rows), (turn, &mut keys)) };
        let keys = &keys[..rows * many];
        if !ordered(keys, of.bounds, turn) {
            return false;
        }
        for k in 0..rows {
            let row = if lines.inner == 1 {
                for (key, line) in own.iter_mut().zip(keys.chunks_exact(rows)) {
                    *key = line[k];
                }
                &own
            } else if let (LANES, Some(row)) = (many, keys[k * many..].first_chunk()) {
                row
            } else {
                own[..many].copy_from_slice(&keys[k * many..(k + 1) * many]);
                &own
            };
            let index = begin + k;
            if index >= keep && !any_less(&row[..many], &firsts.keys[keep - 1][..many]) {
                continue;
            }
            insert(
                &mut firsts,
                row,
                index as u32,
                (index + 1).min(keep),
                index < keep,
            );
        }
    }
    for (lane, order) in order.chunks_exact_mut(keep).take(many).enumerate() {
        for (k, order) in order.iter_mut().enumerate() {
            *order = firsts.indices[k][lane];
        }
    }
    true
}

/// Returns whether any key is less than the one in the same place.
#[inline]
fn any_less<K: Key>(keys: &[K], lasts: &[K]) -> bool {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn all<S: Simd, K: Key>(keys: &[K], lasts: &[K]) -> bool {
        let mut any = false;
        for (key, last) in keys.iter().zip(lasts) {
            any |= key < last;
        }
        any
    }
    // SAFETY: the instruction set is the processor's.
    unsafe { dispatch_of!(all<K: Key>(keys: &[K], lasts: &[K]) -> bool) }
}

/// Returns whether all keys are those of ordered elements.
pub(super) fn ordered<K: Key>(keys: &[K], (least, greatest): (K, K), turn: K) -> bool {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn all<S: Simd, K: Key>(keys: &[K], least: K, greatest: K) -> bool {
        let mut lost = false;
        for key in keys {
            lost |= *key < least || *key > greatest;
        }
        !lost
    }
    let ends = [least.turned(turn), greatest.turned(turn)];
    let (least, greatest) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    // SAFETY: the instruction set is the processor's.
    unsafe { dispatch_of!(all<K: Key>(keys: &[K], least: K, greatest: K) -> bool) }
}

/// Selects the `keep` first items, in any order, at the front of `items`; returns how many.
pub(super) fn chosen<K: Key, I: Sorted>(keys: &[K], keep: usize, items: &mut [I]) -> usize {
    if keep == 0 {
        return 0;
    }
    let most = (4 * keep).max(2 * BLOCK).min(items.len());
    let mut n = 0;
    // Keys that are not before this one are not kept.
    let mut last: Option<K> = None;
    for (k, block) in keys.chunks(BLOCK).enumerate() {
        if last.is_some_and(|last| !any_before(block, last)) {
            continue;
        }
        for (i, &key) in block.iter().enumerate() {
            if last.is_none_or(|last| key < last) {
                if n == most {
                    items[..n].select_nth_unstable(keep - 1);
                    n = keep;
                }
                items[n] = I::of(key.bits(), k * BLOCK + i);
                n += 1;
            }
        }
        if n > keep && (last.is_none() || n > most / 2) {
            items[..n].select_nth_unstable(keep - 1);
            n = keep;
            last = Some(keys[items[keep - 1].index() as usize]);
        }
    }
    if n > keep {
        items[..n].select_nth_unstable(keep - 1);
    }
    n.min(keep)
}
