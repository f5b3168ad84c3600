//! Stable sorting: elements become keys, with their indices where these are requested. Keys alone
//! are sorted in vectors (`order`), where the processor has them. Long lines are sorted by the
//! upper digits of the distance from the least key, and the remaining disorder is repaired by
//! insertion; where few elements are kept, they are selected first.

use super::order::Ordered;
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
/// Elements that are compared with the last one kept at a time.
const BLOCK: usize = 64;

pub(super) unsafe fn run<T: Element>(context: &mut RxContext, lines: &RxLines) -> i32 {
    let n = lines.extent.max(0) as usize;
    if u32::try_from(n).is_err() {
        return context.fail(
            Status::Argument,
            "rx_lines: a line is too long to be sorted",
        );
    }
    let threads = context.pool.threads();
    let each = (48 * n).next_multiple_of(64);
    let Some(scratch) = Scratch::new(context, each * threads) else {
        return context.status;
    };
    // SAFETY: lines are disjoint, and each thread has its own room.
    let shared = unsafe { Share::new((lines, scratch.memory.cast::<u8>())) };
    let grain = Grain::of_work(1 << 12, n);
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

/// Sorts one line. A comparison without a total order (with NaN) gives what merge sort would, which
/// is how the operator is defined.
unsafe fn one<T: Element>(lines: &RxLines, line: usize, room: *mut u8) {
    let (n, keep) = (lines.extent.max(0) as usize, lines.keep.max(0) as usize);
    let inner = lines.inner as usize;
    let ascend = lines.flag != 0;
    // SAFETY: the line is one of the array's; `room` is 48 bytes for each element.
    unsafe {
        let mut room = room;
        let mut x = lines.x.cast::<T>().add(lines.begin(line, lines.extent));
        if inner > 1 {
            let side = room.cast::<T>();
            for i in 0..n {
                *side.add(i) = *x.add(i * inner);
            }
            (x, room) = (side.cast_const(), room.add(8 * n));
        }
        let x = std::slice::from_raw_parts(x, n);
        let mut lost = false;
        for x in x {
            lost |= x.lost();
        }
        if lost {
            let order = std::slice::from_raw_parts_mut(room.cast::<u32>(), n);
            let spare = std::slice::from_raw_parts_mut(room.cast::<u32>().add(n), n);
            merge(
                order,
                spare,
                |a, b| {
                    if ascend { x[a] < x[b] } else { x[a] > x[b] }
                },
            );
            return write::<T>(lines, line, order, x);
        }
        if lines.indices.is_null() && keep >= n / 4 {
            return if size_of::<T>() <= 4 {
                values::<T, i32>(lines, line, x, room.cast())
            } else {
                values::<T, i64>(lines, line, x, room.cast())
            };
        }
        let order = std::slice::from_raw_parts_mut(room.cast::<u32>(), n);
        let rest = room.add((4 * n).next_multiple_of(16));
        if size_of::<T>() <= 4 {
            indexed::<T, u64>(x, ascend, keep, order, rest.cast());
        } else {
            indexed::<T, (u64, u32)>(x, ascend, keep, order, rest.cast());
        }
        write::<T>(lines, line, order, x);
    }
}

/// A sorted item: a key, with its index as the less significant part, or alone.
trait Sorted: Ord + Copy {
    /// The key's bits.
    fn bits(self) -> u64;
    /// The item of a key and an index.
    fn of(key: u64, index: usize) -> Self;
    /// The index.
    fn index(self) -> u32;
}
impl Sorted for u64 {
    #[inline(always)]
    fn bits(self) -> u64 {
        self >> 32
    }
    #[inline(always)]
    fn of(key: u64, index: usize) -> Self {
        key << 32 | index as u64
    }
    #[inline(always)]
    fn index(self) -> u32 {
        self as u32
    }
}
impl Sorted for (u64, u32) {
    #[inline(always)]
    fn bits(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn of(key: u64, index: usize) -> Self {
        (key, index as u32)
    }
    #[inline(always)]
    fn index(self) -> u32 {
        self.1
    }
}

/// A key without an index, less half of its range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
struct Alone<K>(K);
macro_rules! alone {
    ($($k:ty, $bits:ty);*) => {$(
        impl Sorted for Alone<$k> {
            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn bits(self) -> u64 {
                (self.0 ^ <$k>::MIN) as $bits as u64
            }
            #[inline(always)]
            fn of(key: u64, _: usize) -> Self {
                Self(key as $k ^ <$k>::MIN)
            }
            #[inline(always)]
            fn index(self) -> u32 {
                0
            }
        }
    )*};
}
alone!(i32, u32; i64, u64);

/// The bits to flip for the order of an element's keys.
fn turned<T>(ascend: bool) -> u64 {
    match (ascend, size_of::<T>()) {
        (true, _) => 0,
        (false, 8) => u64::MAX,
        (false, size) => (1 << (8 * size)) - 1,
    }
}

/// The indices of the first elements in order; `room` is for twice as many keys.
unsafe fn indexed<T: Element, K: Sorted>(
    x: &[T],
    ascend: bool,
    keep: usize,
    order: &mut [u32],
    room: *mut K,
) {
    let n = x.len();
    // SAFETY: `room` has twice as many places as there are elements.
    let (keys, spare) = unsafe {
        (
            std::slice::from_raw_parts_mut(room, n),
            std::slice::from_raw_parts_mut(room.add(n), n),
        )
    };
    let sorted = if keep < n / 4 {
        let chosen = chosen(x, ascend, keep, keys);
        let keys = &mut keys[..chosen];
        // The selected keys are in any order: equal keys are also sorted by their indices.
        keys.sort_unstable();
        &*keys
    } else {
        let turn = turned::<T>(ascend);
        for (i, (key, x)) in keys.iter_mut().zip(x).enumerate() {
            *key = K::of(x.key() ^ turn, i);
        }
        sorted(keys, spare)
    };
    for (to, key) in order.iter_mut().zip(sorted) {
        *to = key.index();
    }
}

/// All elements in order, without their indices; `room` is for twice as many keys.
unsafe fn values<T: Element, K: Ordered>(lines: &RxLines, line: usize, x: &[T], room: *mut Alone<K>)
where
    Alone<K>: Sorted,
{
    let n = x.len();
    let turn = turned::<T>(lines.flag != 0);
    // SAFETY: `room` has twice as many places as there are elements.
    unsafe {
        let keys = std::slice::from_raw_parts_mut(room, n);
        let spare = std::slice::from_raw_parts_mut(room.add(n), n);
        let mut minus = false;
        for (i, (key, x)) in keys.iter_mut().zip(x).enumerate() {
            minus |= x.is_minus_zero();
            *key = Alone::of(x.key() ^ turn, i);
        }
        // Numbers of at most two digits are in order by them.
        let few = n >= MANY && spread(keys).1 <= 2 * digit_of(n);
        let places = |list: &mut [Alone<K>]| {
            std::slice::from_raw_parts_mut(list.as_mut_ptr().cast::<K>(), n)
        };
        let sorted = match !few && K::order(places(keys), places(spare)) {
            true => &*keys,
            false => sorted(keys, spare),
        };
        let begin = lines.begin(line, lines.keep);
        let to = |k: usize| {
            lines
                .values
                .cast::<T>()
                .add(begin + k * lines.inner as usize)
        };
        for k in 0..lines.keep.max(0) as usize {
            let value = sorted.get(k).map(|key| T::of_key(key.bits() ^ turn));
            *to(k) = value.unwrap_or_default();
        }
        if minus {
            // Zeros are equal, and keep their original order.
            let zero = T::default().key() ^ turn;
            let first = sorted.partition_point(|key| key.bits() < zero);
            let zeros = x.iter().filter(|x| x.key() ^ turn == zero);
            for (k, x) in (first..lines.keep.max(0) as usize).zip(zeros) {
                *to(k) = *x;
            }
        }
    }
}

/// Selects the keys and indices of the `keep` first elements, in any order, at the front of `keys`.
fn chosen<T: Element, K: Sorted>(x: &[T], ascend: bool, keep: usize, keys: &mut [K]) -> usize {
    if keep == 0 {
        return 0;
    }
    let turn = turned::<T>(ascend);
    let most = (4 * keep).max(2 * BLOCK).min(keys.len());
    let mut n = 0;
    // Elements that are not before this one are not kept.
    let mut last: Option<T> = None;
    for (k, block) in x.chunks(BLOCK).enumerate() {
        if let Some(last) = last {
            let mut any = false;
            for x in block {
                any |= if ascend { *x < last } else { *x > last };
            }
            if !any {
                continue;
            }
        }
        for (i, x) in block.iter().enumerate() {
            if last.is_none_or(|last| if ascend { *x < last } else { *x > last }) {
                if n == most {
                    keys[..n].select_nth_unstable(keep - 1);
                    n = keep;
                }
                keys[n] = K::of(x.key() ^ turn, k * BLOCK + i);
                n += 1;
            }
        }
        if n > keep && (last.is_none() || n > most / 2) {
            keys[..n].select_nth_unstable(keep - 1);
            n = keep;
            last = Some(x[keys[keep - 1].index() as usize]);
        }
    }
    if n > keep {
        keys[..n].select_nth_unstable(keep - 1);
    }
    n.min(keep)
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
unsafe fn write<T: Element>(lines: &RxLines, line: usize, order: &[u32], x: &[T]) {
    let inner = lines.inner as usize;
    let begin = lines.begin(line, lines.keep);
    debug_assert!(lines.index_kind == Kind::I64 as i32 || lines.index_kind == Kind::I32 as i32);
    // SAFETY: the line is one of the results', which have `keep` places in each.
    unsafe {
        for k in 0..lines.keep.max(0) as usize {
            let to = begin + k * inner;
            let from = order.get(k).map(|&i| i as usize);
            if !lines.values.is_null() {
                let value = from.map_or(T::default(), |i| x[i]);
                *lines.values.cast::<T>().add(to) = value;
            }
            if !lines.indices.is_null() {
                lines.put_index(to, from.map_or(0, |i| i as i64));
            }
        }
    }
}
