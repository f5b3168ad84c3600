//! Stable sorting: elements become keys, with their indices where these are requested. Keys alone
//! are sorted in vectors (`order`), where the processor has them. Long lines are sorted by the
//! upper digits of the distance from the least key, and the remaining disorder is repaired by
//! insertion; where few elements are kept, they are selected first. Lines of several axes are read
//! a few at a time, since their elements lie in the same lines of the caches.

use super::keys::{Alone, Elements, Key, Sorted, Tile, alone};
use super::select::{FEW, LANES, chosen, few, few_of_lines, ordered};
use super::{Element, RxLines};
use crate::context::{RxContext, Status};
use crate::kernels::kinds::Kind;
use crate::kernels::scratch::Scratch;
use crate::threads::{Grain, Share};

/// Elements from which on radix sort beats comparisons.
const MANY: usize = 96;
/// The maximum number of bits of a digit,
const DIGIT: u32 = 11;
/// and the one for so few elements that counting digits would take longer than placing elements.
const SHORT: (usize, u32) = (1024, 8);
/// Elements up to which two digits leave little disorder.
const TWO: usize = 1 << 16;
/// Repair steps per element after which comparisons are faster.
const STEPS: usize = 4;
/// Adjacent lines that are read together, at most, and the bytes of their keys up to which they are.
const TOGETHER: usize = 16;
const NEAR: usize = 1 << 20;
/// Elements of a line that are read at a time.
const ROWS: usize = 16;
/// Elements of short lines one behind the other that are read together, and of a line that is short.
const ELEMENTS: usize = 1 << 11;
const TINY: usize = 32;
/// Elements of a line up to which inserting each into those that are kept beats sorting.
const LINE: usize = 64;

pub(super) unsafe fn run<T: Element>(context: &mut RxContext, lines: &RxLines) -> i32 {
    // SAFETY: the arrays have the lines' sizes.
    unsafe {
        if size_of::<T>() <= 4 {
            sort::<i32, u64>(context, lines, &Elements::of::<T>())
        } else {
            sort::<i64, (u64, u32)>(context, lines, &Elements::of::<T>())
        }
    }
}

/// What the threads share.
struct Plan<'a, K> {
    lines: &'a RxLines,
    of: &'a Elements<K>,
    turn: K,
    /// Elements of a line.
    n: usize,
    /// Elements that are kept.
    keep: usize,
    /// Lines that are read together: adjacent ones, or those one behind the other.
    many: usize,
    /// Whether few elements are kept.
    few: bool,
    /// Whether lines are selected from together.
    together: bool,
}

impl<K: Key> Plan<'_, K> {
    /// Lines that are a task.
    fn width(&self) -> usize {
        if self.together { LANES } else { self.many }
    }
    /// Bytes for the keys of lines.
    fn keys(&self) -> usize {
        (self.many * self.n * size_of::<K>()).next_multiple_of(64)
    }
    /// Bytes for the order of a line, or of as many lines as few are selected from together.
    fn order(&self) -> usize {
        (4 * self.n.max(LANES * FEW)).next_multiple_of(64)
    }
}

unsafe fn sort<K: Key, I: Sorted>(
    context: &mut RxContext,
    lines: &RxLines,
    of: &Elements<K>,
) -> i32 {
    let (n, keep) = (lines.extent.max(0) as usize, lines.keep.max(0) as usize);
    if u32::try_from(n).is_err() {
        return context.fail(
            Status::Argument,
            "rx_lines: a line is too long to be sorted",
        );
    }
    if keep == 0 {
        return 0;
    }
    let inner = lines.inner as usize;
    let most = match inner {
        1 => (ELEMENTS / n.max(1)).clamp(1, lines.outer as usize),
        _ => inner.min((NEAR / (n * size_of::<K>()).max(1)).clamp(1, TOGETHER)),
    };
    let few = keep <= FEW && keep < n / 4;
    let plan = Plan {
        lines,
        of,
        turn: K::turn(lines.flag == 0),
        n,
        keep,
        many: most,
        few,
        together: keep <= FEW.min(n) && (n <= LINE || few && inner > 1) && !all_of_tiny(lines),
    };
    let width = plan.width();
    let each = plan.keys() + plan.order() + 2 * n * size_of::<I>().max(8);
    let each = each.next_multiple_of(64);
    let Some(scratch) = Scratch::new(context, each * context.pool.threads()) else {
        return context.status;
    };
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((&plan, scratch.memory.cast::<u8>())) };
    // Tasks are parts of runs of lines, along the axes behind or along those before.
    let run = if inner > 1 {
        inner
    } else {
        lines.outer as usize
    };
    let across = run.div_ceil(width);
    let grain = Grain::of_work(1 << 12, n * width.min(run));
    let tasks = lines.count() / run * across;
    context.pool.each(tasks, grain, |begin, end, worker| {
        let &(plan, room) = shared.get();
        for task in begin..end {
            let first = task % across * width;
            let many = width.min(run - first);
            // SAFETY: lines are disjoint, each thread has its room.
            unsafe {
                adjacent::<K, I>(
                    plan,
                    (task / across * run + first, many),
                    room.add(worker * each),
                );
            }
        }
    });
    0
}

/// Returns whether short lines one behind the other are sorted whole, without indices.
fn all_of_tiny(lines: &RxLines) -> bool {
    let tiny = lines.extent <= TINY as i64 && lines.keep == lines.extent;
    tiny && lines.inner == 1 && lines.indices.is_null()
}

/// Sorts adjacent lines.
unsafe fn adjacent<K: Key, I: Sorted>(
    p: &Plan<'_, K>,
    (first, all): (usize, usize),
    room: *mut u8,
) {
    let n = p.n;
    // SAFETY: the lines are some of the array's; `room` has what the plan says.
    let (order, rest) = unsafe {
        let order = room.add(p.keys()).cast::<u32>();
        let rest = room.add(p.keys() + p.order());
        (order, rest)
    };
    // SAFETY: the lines are some of the array's; `room` has what the plan says.
    unsafe {
        if p.together {
            let order = std::slice::from_raw_parts_mut(order, all * p.keep);
            if few_of_lines(p.of, p.lines, (first, all), p.turn, order) {
                for (k, order) in order.chunks_exact(p.keep).enumerate() {
                    write(p, first + k, order);
                }
                return;
            }
        }
    }
    let keys = room.cast::<K>();
    // SAFETY: the lines are some of the array's; `room` has what the plan says.
    let order = unsafe { std::slice::from_raw_parts_mut(order, n) };
    // SAFETY: the lines are some of the array's; `room` has what the plan says.
    unsafe {
        for begin in (0..all).step_by(p.many) {
            let many = p.many.min(all - begin);
            read(p, (first + begin, many), keys);
            let keys = std::slice::from_raw_parts_mut(keys, many * n);
            let whole = ordered(keys, p.of.bounds, p.turn);
            if whole && all_of_tiny(p.lines) {
                tiny(p, first + begin, keys);
                continue;
            }
            for k in 0..many {
                let keys = &mut keys[k * n..(k + 1) * n];
                one::<K, I>(p, first + begin + k, (keys, whole), order, rest);
            }
        }
    }
}

/// Reads the keys of adjacent lines, one line after the other.
unsafe fn read<K: Key>(p: &Plan<'_, K>, (first, many): (usize, usize), keys: *mut K) {
    let (n, inner, size) = (p.n, p.lines.inner as usize, p.of.size);
    // SAFETY: the lines are some of the array's, and `keys` has room for them.
    let from = unsafe {
        p.lines
            .x
            .byte_add(p.lines.begin(first, p.lines.extent) * size)
    };
    // SAFETY: the lines are some of the array's, and `keys` has room for them.
    unsafe {
        if inner == 1 {
            let tile = Tile {
                from,
                rows: 1,
                step: 0,
                wide: many * n,
            };
            (p.of.read)(&tile, p.turn, keys);
            return;
        }
    }
    let mut square = [K::turn(false); ROWS * TOGETHER];
    for row in (0..n).step_by(ROWS) {
        let rows = ROWS.min(n - row);
        // SAFETY: the lines are some of the array's, and `keys` has room for them.
        let tile = unsafe {
            Tile {
                from: from.byte_add(row * inner * size),
                rows,
                step: inner,
                wide: many,
            }
        };
        // SAFETY: the lines are some of the array's, and `keys` has room for them.
        unsafe {
            (p.of.read)(&tile, p.turn, square.as_mut_ptr());
            for k in 0..many {
                for i in 0..rows {
                    *keys.add(k * n + row + i) = square[i * many + k];
                }
            }
        }
    }
}

/// Sorts short lines one behind the other, from one on.
unsafe fn tiny<K: Key>(p: &Plan<'_, K>, first: usize, keys: &mut [K]) {
    for line in keys.chunks_exact_mut(p.n) {
        line.sort_unstable();
    }
    // SAFETY: the lines are some of the result's.
    unsafe {
        let to = p.lines.values.byte_add(first * p.n * p.of.size);
        (p.of.write)(keys.as_ptr(), p.turn, keys.len(), to, 1);
        for (k, line) in keys.chunks_exact_mut(p.n).enumerate() {
            zeros(p, first + k, alone(line));
        }
    }
}

/// Sorts one line by its keys, which may be known to be those of ordered elements. A comparison without a total order (with NaN) gives what merge sort
/// would, which is how the operator is defined.
unsafe fn one<K: Key, I: Sorted>(
    p: &Plan<'_, K>,
    line: usize,
    (keys, whole): (&mut [K], bool),
    order: &mut [u32],
    room: *mut u8,
) {
    let n = keys.len();
    // SAFETY: the line is one of the array's; `room` has two items for each element.
    unsafe {
        if !whole && !ordered(keys, p.of.bounds, p.turn) {
            let spare = std::slice::from_raw_parts_mut(room.cast::<u32>(), n);
            let lost = |key: &K| !ordered(std::slice::from_ref(key), p.of.bounds, p.turn);
            merge(order, spare, |a, b| {
                let (a, b) = (keys[a], keys[b]);
                a < b && !lost(&a) && !lost(&b)
            });
            return write(p, line, order);
        }
        if p.few {
            few(keys, p.keep, order);
            return write(p, line, &order[..p.keep]);
        }
        if p.lines.indices.is_null() && p.keep >= n / 4 {
            return values(p, line, keys, room.cast());
        }
    }
    // SAFETY: the line is one of the array's; `room` has two items for each element.
    let (items, spare) = unsafe {
        (
            std::slice::from_raw_parts_mut(room.cast::<I>(), n),
            std::slice::from_raw_parts_mut(room.cast::<I>().add(n), n),
        )
    };
    let sorted = if p.keep < n / 4 {
        let chosen = chosen(keys, p.keep, items);
        let items = &mut items[..chosen];
        // The selected keys are in any order: equal keys are also sorted by their indices.
        items.sort_unstable();
        &*items
    } else {
        for (i, (item, key)) in items.iter_mut().zip(&*keys).enumerate() {
            *item = I::of(key.bits(), i);
        }
        sorted(items, spare)
    };
    for (to, item) in order.iter_mut().zip(sorted) {
        *to = item.index();
    }
    // SAFETY: the line is one of the array's; `room` has two items for each element.
    unsafe {
        write(p, line, order);
    }
}

/// All elements in order, without their indices; `spare` is for as many keys.
unsafe fn values<K: Key>(p: &Plan<'_, K>, line: usize, keys: &mut [K], spare: *mut K) {
    let (n, keep) = (keys.len(), p.keep);
    // SAFETY: `spare` has as many places as there are keys; the result has the places of the line.
    unsafe {
        let spare = std::slice::from_raw_parts_mut(spare, n);
        // Numbers of at most two digits are in order by them.
        let few = n >= MANY && spread(alone(keys)).1 <= 2 * digit_of(n);
        let sorted = match !few && K::order(keys, spare) {
            true => &*alone(keys),
            false => sorted(alone(keys), alone(spare)),
        };
        let (inner, size) = (p.lines.inner as usize, p.of.size);
        let to = (p.lines.values).byte_add(p.lines.begin(line, p.lines.keep) * size);
        (p.of.write)(sorted.as_ptr().cast(), p.turn, n.min(keep), to, inner);
        for k in n..keep {
            to.byte_add(k * inner * size)
                .cast::<u8>()
                .write_bytes(0, size);
        }
        zeros(p, line, sorted);
    }
}

/// Puts the zeros of a sorted line in their original order.
unsafe fn zeros<K: Key>(p: &Plan<'_, K>, line: usize, sorted: &[Alone<K>]) {
    if let Some(zeros) = p.of.zeros {
        let zero = p.of.zero.turned(p.turn);
        let first = sorted.partition_point(|key| key.0 < zero);
        if sorted.get(first).is_some_and(|key| key.0 == zero) {
            // SAFETY: the line is one of the array's, whose result is written.
            unsafe { zeros(p.lines, line, first) };
        }
    }
}

/// The maximum number of bits of a digit of so many keys.
fn digit_of(n: usize) -> u32 {
    if n < SHORT.0 { SHORT.1 } else { DIGIT }
}

/// The least key, and the number of bits of the greatest one's distance from it.
fn spread<K: Sorted>(keys: &[K]) -> (u64, u32) {
    let (mut least, mut most) = (u64::MAX, 0);
    for key in keys {
        least = least.min(key.bits());
        most = most.max(key.bits());
    }
    (least, u64::BITS - (most - least).leading_zeros())
}

/// Sorts keys that are given in the order of their indices.
fn sorted<'a, K: Sorted>(keys: &'a mut [K], spare: &'a mut [K]) -> &'a [K] {
    if keys.len() < MANY {
        keys.sort_unstable();
        return keys;
    }
    // Digits of the distance from the least key, since small numbers of opposite signs differ in
    // the topmost bit.
    let (least, top) = spread(keys);
    let digit = digit_of(keys.len());
    let digits = top
        .div_ceil(digit)
        .min(if keys.len() <= TWO { 2 } else { 3 });
    let low = top.saturating_sub(digits * digit);
    let bits = (top - low).div_ceil(digits.max(1));
    let (mut from, mut to) = (keys, spare);
    for k in 0..digits {
        let shift = low + k * bits;
        let digit = |key: K| ((key.bits() - least) >> shift) as usize & ((1 << bits) - 1);
        let mut places = [0u32; 1 << DIGIT];
        let places = &mut places[..1 << bits];
        for &key in from.iter() {
            places[digit(key)] += 1;
        }
        let mut sum = 0;
        for place in &mut *places {
            (sum, *place) = (sum + *place, sum);
        }
        for &key in from.iter() {
            let place = &mut places[digit(key)];
            to[*place as usize] = key;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    if low > 0 && !mended(from) {
        from.sort_unstable();
    }
    from
}

/// Sorts keys that are nearly in order; `false` where that takes long.
fn mended<K: Sorted>(keys: &mut [K]) -> bool {
    let mut left = STEPS * keys.len();
    for i in 1..keys.len() {
        let key = keys[i];
        let mut k = i;
        while k > 0 && key < keys[k - 1] && left > 0 {
            keys[k] = keys[k - 1];
            k -= 1;
            left -= 1;
        }
        keys[k] = key;
        if left == 0 {
            return false;
        }
    }
    true
}

/// Bottom-up stable merge sort.
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
unsafe fn write<K>(p: &Plan<'_, K>, line: usize, order: &[u32]) {
    match p.of.size {
        // SAFETY: elements have this size.
        1 => unsafe { write_as::<u8, K>(p, line, order) },
        // SAFETY: as above.
        2 => unsafe { write_as::<u16, K>(p, line, order) },
        // SAFETY: as above.
        4 => unsafe { write_as::<u32, K>(p, line, order) },
        // SAFETY: as above.
        _ => unsafe { write_as::<u64, K>(p, line, order) },
    }
}

/// The same for the bits of elements; those of 0 are 0.
unsafe fn write_as<B: Copy + Default, K>(p: &Plan<'_, K>, line: usize, order: &[u32]) {
    let lines = p.lines;
    let inner = lines.inner as usize;
    let (from, begin) = (
        lines.begin(line, lines.extent),
        lines.begin(line, lines.keep),
    );
    debug_assert!(lines.index_kind == Kind::I64 as i32 || lines.index_kind == Kind::I32 as i32);
    // SAFETY: the line is one of the array's and of the results', which have `keep` places in each.
    unsafe {
        let x = lines.x.cast::<B>().add(from);
        for k in 0..p.keep {
            let to = begin + k * inner;
            let from = order.get(k).map(|&i| i as usize);
            if !lines.values.is_null() {
                let value = from.map_or(B::default(), |i| *x.add(i * inner));
                *lines.values.cast::<B>().add(to) = value;
            }
            if !lines.indices.is_null() {
                lines.put_index(to, from.map_or(0, |i| i as i64));
            }
        }
    }
}
