//! Sorting, stable: elements become keys with their indices, which are sorted digit by digit where there are many, and
//! selected first where few are kept.

use super::{Element, RxLines};
use crate::context::{RxContext, Status};
use crate::kernels::kinds::Kind;
use crate::kernels::scratch::Scratch;
use crate::threads::Share;

/// Elements from which on digits beat comparisons.
const MANY: usize = 512;
/// Bits of a digit.
const DIGIT: usize = 11;

pub(super) unsafe fn run<T: Element>(context: &mut RxContext, lines: &RxLines) -> i32 {
    let n = lines.extent.max(0) as usize;
    if u32::try_from(n).is_err() {
        return context.fail(
            Status::Argument,
            "rx_lines: a line is too long to be sorted",
        );
    }
    let threads = context.pool.threads();
    let each = (40 * n).next_multiple_of(64);
    let Some(scratch) = Scratch::new(context, each * threads) else {
        return context.status;
    };
    // SAFETY: lines are disjoint, and each thread has its own room.
    let shared = unsafe { Share::new((lines, scratch.memory.cast::<u8>())) };
    let grain = ((1 << 12) / n.max(1)).max(1);
    context
        .pool
        .each(lines.count(), grain, |begin, end, worker| {
            let &(lines, room) = shared.get();
            for line in begin..end {
                // SAFETY: lines are disjoint, each thread has its room.
                unsafe { one::<T>(lines, line, room.add(worker * each)) };
            }
        });
    0
}

/// One line. A comparison that knows no order (with NaN) is followed as merging would: that is what the operator says.
unsafe fn one<T: Element>(lines: &RxLines, line: usize, room: *mut u8) {
    let (n, keep) = (lines.extent.max(0) as usize, lines.keep.max(0) as usize);
    let inner = lines.inner as usize;
    let ascend = lines.flag != 0;
    // SAFETY: the caller's promise; room is 40 bytes for each element.
    unsafe {
        let x = lines.x.cast::<T>().add(lines.begin(line, lines.extent));
        let at = |i: usize| *x.add(i * inner);
        let mut lost = false;
        for i in 0..n {
            lost |= at(i).lost();
        }
        let order = std::slice::from_raw_parts_mut(room.cast::<u32>(), n);
        if lost {
            let spare = std::slice::from_raw_parts_mut(room.cast::<u32>().add(n), n);
            merge(order, spare, |a, b| {
                if ascend { at(a) < at(b) } else { at(a) > at(b) }
            });
        } else if size_of::<T>() <= 4 {
            let turn = if ascend { 0 } else { u64::from(u32::MAX) };
            let rest = room.add((4 * n).next_multiple_of(8)).cast::<u64>();
            let keys = std::slice::from_raw_parts_mut(rest, n);
            for (i, key) in keys.iter_mut().enumerate() {
                *key = (at(i).key() ^ turn) << 32 | i as u64;
            }
            let spare = std::slice::from_raw_parts_mut(rest.add(n), n);
            for (to, key) in order
                .iter_mut()
                .zip(sorted(keys, spare, keep, size_of::<T>()))
            {
                *to = *key as u32;
            }
        } else {
            let turn = if ascend { 0 } else { u64::MAX };
            let rest = room.add((4 * n).next_multiple_of(16)).cast::<(u64, u32)>();
            let keys = std::slice::from_raw_parts_mut(rest, n);
            for (i, key) in keys.iter_mut().enumerate() {
                *key = (at(i).key() ^ turn, i as u32);
            }
            let spare = std::slice::from_raw_parts_mut(rest.add(n), n);
            for (to, key) in order.iter_mut().zip(sorted(keys, spare, keep, 8)) {
                *to = key.1;
            }
        }
        write::<T>(lines, line, order, x);
    }
}

/// The `keep` least of some keys, in any order.
fn first<K: Ord>(keys: &mut [K], keep: usize) -> &mut [K] {
    if keep < keys.len() && keep > 0 {
        keys.select_nth_unstable(keep - 1);
        return &mut keys[..keep];
    }
    keys
}

/// What is sorted: a key with an index, which is the lesser digit.
trait Indexed: Ord + Copy {
    /// The key's bits.
    fn bits(self) -> u64;
}
impl Indexed for u64 {
    fn bits(self) -> u64 {
        self >> 32
    }
}
impl Indexed for (u64, u32) {
    fn bits(self) -> u64 {
        self.0
    }
}

/// Sorts keys of so many bytes, which come in the order of their indices; at least the first `keep` of the result are in
/// order.
fn sorted<'a, K: Indexed>(
    keys: &'a mut [K],
    spare: &'a mut [K],
    keep: usize,
    bytes: usize,
) -> &'a [K] {
    let few = keep < keys.len() / 4;
    let keys = if few { first(keys, keep) } else { keys };
    // What was selected lies in any order: equal keys are brought into the order of their indices, too.
    if few || keys.len() < MANY {
        keys.sort_unstable();
        return keys;
    }
    let (mut from, mut to) = (keys, spare);
    let mut shift = 0;
    while shift < 8 * bytes {
        let digit = |key: K| (key.bits() >> shift) as usize & ((1 << DIGIT) - 1);
        let mut counts = [0usize; 1 << DIGIT];
        for &key in from.iter() {
            counts[digit(key)] += 1;
        }
        if !counts.contains(&from.len()) {
            let mut sum = 0;
            for count in &mut counts {
                (sum, *count) = (sum + *count, sum);
            }
            for &key in from.iter() {
                let place = &mut counts[digit(key)];
                to[*place] = key;
                *place += 1;
            }
            std::mem::swap(&mut from, &mut to);
        }
        shift += DIGIT;
    }
    from
}

/// Stable merging from below.
fn merge(order: &mut [u32], spare: &mut [u32], before: impl Fn(usize, usize) -> bool) {
    let n = order.len();
    for (i, to) in order.iter_mut().enumerate() {
        *to = i as u32;
    }
    let mut width = 1;
    while width < n {
        let mut from = 0;
        while from < n {
            let middle = (from + width).min(n);
            let end = (middle + width).min(n);
            let (mut l, mut r) = (from, middle);
            for to in &mut spare[from..end] {
                let right = l >= middle || r < end && before(order[r] as usize, order[l] as usize);
                let place = if right { &mut r } else { &mut l };
                *to = order[*place];
                *place += 1;
            }
            from = end;
        }
        order.copy_from_slice(spare);
        width *= 2;
    }
}

/// Writes the first elements and their indices; 0 where there are no more.
unsafe fn write<T: Element>(lines: &RxLines, line: usize, order: &[u32], x: *const T) {
    let inner = lines.inner as usize;
    let begin = lines.begin(line, lines.keep);
    debug_assert!(lines.index_kind == Kind::I64 as i32 || lines.index_kind == Kind::I32 as i32);
    // SAFETY: the caller's promise.
    unsafe {
        for k in 0..lines.keep.max(0) as usize {
            let to = begin + k * inner;
            let from = order.get(k).map(|&i| i as usize);
            if !lines.values.is_null() {
                let value = from.map_or(T::default(), |i| *x.add(i * inner));
                *lines.values.cast::<T>().add(to) = value;
            }
            if !lines.indices.is_null() {
                lines.put_index(to, from.map_or(0, |i| i as i64));
            }
        }
    }
}
