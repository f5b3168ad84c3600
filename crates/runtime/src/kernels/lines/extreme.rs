//! The index of the greatest or the least element of each line.
//!
//! Elements are compared in the four types that every instruction set has vectors for. Each best
//! element so far has its index beside it, as a number of the same type.

use super::{RxLines, Work};
use crate::context::RxContext;
use crate::kernels::contract::{Everywhere, Sums};
use crate::kernels::kinds::{Kind, Sum};
use crate::kernels::simd::dispatch_of;
use crate::kernels::simd::wide::{Vector, Wide};
use crate::threads::{Grain, Share};
use std::mem::MaybeUninit;

/// Adjacent lines that are scanned together.
const STRIP: usize = 256;
/// Elements of adjacent lines that are compared before the best ones so far leave registers.
const ROWS: usize = 8;
/// Elements of a line that are scanned before their best is compared with the best so far.
const PIECE: usize = 1024;
/// Elements of a line up to which they are looked through one after the other.
const SHORT: usize = 24;
/// Elements below which nobody is woken.
const SMALL: usize = 1 << 15;

/// A type that elements are compared in.
pub(super) trait Compared: Sum + PartialOrd {
    /// Whether there are unordered numbers (NaN).
    const FLOAT: bool;
    /// The number of indices that are exactly representable.
    const INDICES: usize;
    /// An index.
    fn of(index: usize) -> Self;
    /// The index that a number represents.
    fn index(self) -> i64;
    /// The number that is ordered like the unsigned one with the same bits.
    fn unsigned(self) -> Self;
}

/// A compared type with vectors.
pub(super) trait Ordered: Everywhere + Compared {}

macro_rules! ordered {
    ($($t:ty: $float:literal, $indices:expr, |$x:ident| $unsigned:expr;)*) => {$(
        impl Compared for $t {
            const FLOAT: bool = $float;
            const INDICES: usize = $indices;
            #[inline(always)]
            fn of(index: usize) -> Self {
                index as $t
            }
            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn index(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn unsigned(self) -> Self {
                let $x = self;
                $unsigned
            }
        }
        impl Ordered for $t {}
    )*};
}
ordered! {
    f32: true, 1 << f32::MANTISSA_DIGITS, |x| x;
    f64: true, 1 << f64::MANTISSA_DIGITS, |x| x;
    i32: false, i32::MAX as usize, |x| x ^ i32::MIN;
    i64: false, i64::MAX as usize, |x| x ^ i64::MIN;
}

/// # Safety
/// Like `rx_lines`, for elements of a kind that are compared as `T`.
pub(super) unsafe fn run<T: Ordered>(context: &mut RxContext, lines: &RxLines, kind: Kind) -> i32 {
    let (n, inner) = (lines.extent.max(0) as usize, lines.inner as usize);
    let strips = inner.div_ceil(STRIP);
    let tasks = lines.outer as usize * strips;
    let each = n.max(1) * inner.min(STRIP);
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((lines, kind)) };
    context
        .pool
        .each(tasks, Grain::of_work(SMALL, each), |begin, end, _| {
            let &(lines, kind) = shared.get();
            // SAFETY: the arrays have the lines' sizes; tasks write their own places.
            unsafe {
                dispatch_of!(tasks_of<T: Ordered>(lines: &RxLines, kind: Kind, begin: usize, end: usize));
            };
        });
    0
}

#[inline(always)]
unsafe fn tasks_of<S: Wide, T: Sums<S> + Compared>(
    lines: &RxLines,
    kind: Kind,
    begin: usize,
    end: usize,
) {
    let (n, inner) = (lines.extent.max(0) as usize, lines.inner as usize);
    let strips = inner.div_ceil(STRIP);
    let (greatest, last) = (lines.work == Work::Greatest as i32, lines.flag != 0);
    let size = kind.size();
    // SAFETY: tasks are those of the lines, whose arrays have their sizes.
    unsafe {
        if inner == 1 && n > 0 && n <= SHORT {
            return match greatest {
                true => short::<S, T, true>(lines, kind, begin, end, last),
                false => short::<S, T, false>(lines, kind, begin, end, last),
            };
        }
    }
    for task in begin..end {
        let (outer, first) = (task / strips, task % strips * STRIP);
        // SAFETY: tasks are those of the lines, whose arrays have their sizes.
        let x = unsafe { lines.x.cast::<u8>().add((outer * n * inner + first) * size) };
        let line = Line { x, kind, n };
        let to = outer * inner + first;
        // SAFETY: tasks are those of the lines, whose arrays have their sizes.
        unsafe {
            if inner == 1 {
                let place = match greatest {
                    true => alone::<S, T, true>(line, last),
                    false => alone::<S, T, false>(line, last),
                };
                lines.put_index(to, place);
                continue;
            }
        }
        let wide = (inner - first).min(STRIP);
        // SAFETY: tasks are those of the lines, whose arrays have their sizes.
        unsafe {
            match (greatest, n < T::INDICES) {
                (true, true) => beside::<S, T, true>(lines, line, (inner, wide), to, last),
                (false, true) => beside::<S, T, false>(lines, line, (inner, wide), to, last),
                (_, false) => {
                    for j in 0..wide {
                        let x = x.add(j * size);
                        let place = in_order::<T>(Line { x, ..line }, inner, greatest, last);
                        lines.put_index(to + j, place);
                    }
                }
            }
        }
    }
}

/// Elements of a kind.
#[derive(Clone, Copy)]
struct Line {
    x: *const u8,
    kind: Kind,
    n: usize,
}

impl Line {
    /// Returns `n` elements from `first` on as elements of `T`, in place or in `room`, which nobody
    /// has to clear.
    #[inline(always)]
    unsafe fn read<T: Compared>(&self, first: usize, n: usize, room: *mut T) -> *const T {
        // SAFETY: the line has `n` elements from `first` on, and so has `room`.
        unsafe {
            let from = self.x.add(first * self.kind.size());
            if self.kind == T::KIND {
                return from.cast();
            }
            T::widen(self.kind, n, from, room);
            if self.kind == Kind::U64 {
                for i in 0..n {
                    *room.add(i) = (*room.add(i)).unsigned();
                }
            }
        }
        room.cast_const()
    }
}

/// Returns whether the best element so far is kept.
#[inline(always)]
fn keeps<T: PartialOrd>(best: T, x: T, greatest: bool, last: bool) -> bool {
    match (greatest, last) {
        (true, true) => best > x,
        (true, false) => best >= x,
        (false, true) => best < x,
        (false, false) => best <= x,
    }
}

/// Lines of few elements: as many as there is room for are brought to the type that they are
/// compared in at a time, and turned so that they are adjacent.
#[inline(always)]
unsafe fn short<S: Wide, T: Sums<S> + Compared, const GREATEST: bool>(
    lines: &RxLines,
    kind: Kind,
    begin: usize,
    end: usize,
    last: bool,
) {
    let n = lines.extent as usize;
    let whole = (PIECE / n).min(STRIP);
    let (mut room, mut turned) = ([T::default(); PIECE], [T::default(); PIECE]);
    // SAFETY: lines `begin..end` have `n` elements each; `whole` lines fit `PIECE`.
    unsafe {
        for first in (begin..end).step_by(whole) {
            let some = (end - first).min(whole);
            let x = lines.x.cast::<u8>().add(first * n * kind.size());
            let x = Line { x, kind, n }.read::<T>(0, some * n, room.as_mut_ptr());
            for (i, row) in turned.chunks_exact_mut(some).enumerate().take(n) {
                for (k, at) in row.iter_mut().enumerate() {
                    *at = *x.add(k * n + i);
                }
            }
            let (x, kind) = (turned.as_ptr().cast(), T::KIND);
            beside::<S, T, GREATEST>(lines, Line { x, kind, n }, (some, some), first, last);
        }
    }
}

/// Returns the first or the last place of a number. Blocks are asked as a whole, which vectors do.
#[inline(always)]
fn place_of<T: Copy + PartialEq>(piece: &[T], wanted: T, last: bool) -> Option<usize> {
    const BLOCK: usize = 64;
    let holds = |block: &[T]| block.iter().fold(false, |any, &v| any | (v == wanted));
    let blocks = piece.len().div_ceil(BLOCK);
    let block = |k: usize| &piece[k * BLOCK..piece.len().min((k + 1) * BLOCK)];
    let k = match last {
        true => (0..blocks).rev().find(|&k| holds(block(k)))?,
        false => (0..blocks).find(|&k| holds(block(k)))?,
    };
    let place = match last {
        true => block(k).iter().rposition(|&v| v == wanted),
        false => block(k).iter().position(|&v| v == wanted),
    };
    place.map(|i| k * BLOCK + i)
}

/// Like [`alone`], for integers that are narrower than those with vectors here: whole vectors of
/// their own type are compared.
#[inline(always)]
unsafe fn narrow<T: Copy + Ord, const GREATEST: bool>(x: *const T, n: usize, last: bool) -> i64 {
    // SAFETY: there are `n` elements.
    let line = unsafe { std::slice::from_raw_parts(x, n) };
    let Some(&first) = line.first() else {
        return -1;
    };
    let better = |a: T, b: T| if GREATEST { a.max(b) } else { a.min(b) };
    let mut found = (first, 0);
    for (k, piece) in line.chunks(PIECE).enumerate() {
        let best = piece.iter().fold(piece[0], |a, &b| better(a, b));
        if !keeps(found.0, best, GREATEST, last) {
            found = (best, k * PIECE);
        }
    }
    let (best, from) = found;
    let piece = &line[from..n.min(from + PIECE)];
    place_of(piece, best, last).map_or(-1, |i| (from + i) as i64)
}

/// Writes the keys of `n` narrow floats, one at least; returns the bits of the greatest magnitude, and
/// the best key.
#[inline(always)]
unsafe fn keys_of<const GREATEST: bool>(x: *const u16, n: usize, keys: *mut i16) -> (i16, i16) {
    // SAFETY: there are `n` elements, and room for as many keys.
    unsafe {
        let (mut most, mut best) = (0, if GREATEST { i16::MIN } else { i16::MAX });
        for i in 0..n {
            let bits = *x.add(i);
            let size = (bits & 0x7fff) as i16;
            let key = if bits as i16 >= 0 { size } else { -size };
            *keys.add(i) = key;
            most = size.max(most);
            best = if GREATEST {
                key.max(best)
            } else {
                key.min(best)
            };
        }
        (most, best)
    }
}

/// Like [`alone`], for narrow floats, infinity among which has the given bits: their bits, with the
/// signs of numbers and not beside them, are integers in the same order, zeros of both signs the same.
/// `None` where one is unordered.
#[inline(always)]
unsafe fn by_bits<const GREATEST: bool>(
    x: *const u16,
    n: usize,
    infinite: i16,
    last: bool,
) -> Option<i64> {
    let mut held = MaybeUninit::<[i16; PIECE]>::uninit();
    let keys = held.as_mut_ptr().cast::<i16>();
    let mut found: Option<(i16, usize)> = None;
    for first in (0..n).step_by(PIECE) {
        let count = (n - first).min(PIECE);
        // SAFETY: there are `n` elements, and the keys are those of a piece.
        let (most, best) = unsafe { keys_of::<GREATEST>(x.add(first), count, keys) };
        if most > infinite {
            return None;
        }
        if found.is_some_and(|f| keeps(f.0, best, GREATEST, last)) {
            continue;
        }
        // SAFETY: so many keys were written.
        let piece = unsafe { std::slice::from_raw_parts(keys.cast_const(), count) };
        let place = place_of(piece, best, last);
        found = Some((best, first + place.unwrap_or(0)));
    }
    Some(found.map_or(-1, |f| f.1 as i64))
}

/// A line whose elements lie side by side; -1 of nothing. The best of each piece is found first,
/// then its place in the piece that has the best of all.
#[inline(always)]
unsafe fn alone<S: Wide, T: Sums<S> + Compared, const GREATEST: bool>(
    line: Line,
    last: bool,
) -> i64 {
    // SAFETY: the line has `n` elements of its kind.
    unsafe {
        let infinite = match line.kind {
            Kind::F16 => Some(0x7c00),
            Kind::BF16 => Some(0x7f80),
            _ => None,
        };
        if let Some(infinite) = infinite {
            let found = by_bits::<GREATEST>(line.x.cast(), line.n, infinite, last);
            return found.unwrap_or_else(|| in_order::<T>(line, 1, GREATEST, last));
        }
        // Others are not compared as these.
        match line.kind {
            _ if T::KIND != Kind::I32 => {}
            Kind::I8 => return narrow::<i8, GREATEST>(line.x.cast(), line.n, last),
            Kind::U8 => return narrow::<u8, GREATEST>(line.x, line.n, last),
            Kind::I16 => return narrow::<i16, GREATEST>(line.x.cast(), line.n, last),
            Kind::U16 => return narrow::<u16, GREATEST>(line.x.cast(), line.n, last),
            _ => {}
        }
    }
    let mut held = MaybeUninit::<[T; PIECE]>::uninit();
    let room = held.as_mut_ptr().cast::<T>();
    let mut found: Option<(T, usize)> = None;
    // SAFETY: the line has `n` elements, and `room` a piece of them.
    unsafe {
        for first in (0..line.n).step_by(PIECE) {
            let n = (line.n - first).min(PIECE);
            let x = line.read::<T>(first, n, room);
            let Some(best) = best::<S, T, GREATEST>(x, n) else {
                return in_order::<T>(line, 1, GREATEST, last);
            };
            if found.is_none_or(|f| !keeps(f.0, best, GREATEST, last)) {
                found = Some((best, first));
            }
        }
        let Some((best, first)) = found else {
            return -1;
        };
        let n = (line.n - first).min(PIECE);
        let x = line.read::<T>(first, n, room);
        let place = place::<S, T>(x, n, best, last);
        place.map_or(-1, |i| (first + i) as i64)
    }
}

/// Returns the best of some elements; `None` where one is unordered.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
unsafe fn best<S: Wide, T: Sums<S> + Compared, const GREATEST: bool>(
    x: *const T,
    n: usize,
) -> Option<T> {
    let lanes = <T as Sums<S>>::V::LANES;
    // SAFETY: `x` has `n` elements, at least one.
    unsafe {
        let mut best = *x;
        let mut lost = false;
        let mut i = 0;
        if n >= lanes {
            let zero = <T as Sums<S>>::V::splat(T::of(0));
            let mut most = [<T as Sums<S>>::V::splat(best); 4];
            // Sums are NaN where an element is, or infinities of both signs are, and no comparison
            // has to tell.
            let mut sums = [zero; 4];
            macro_rules! compare {
                ($k:expr, $at:expr) => {
                    let v = <T as Sums<S>>::V::load(x.add($at));
                    most[$k] = if GREATEST {
                        v.greater(most[$k])
                    } else {
                        v.lesser(most[$k])
                    };
                    if T::FLOAT {
                        sums[$k] = sums[$k].add(v);
                    }
                };
            }
            while i + 4 * lanes <= n {
                for k in 0..4 {
                    compare!(k, i + k * lanes);
                }
                i += 4 * lanes;
            }
            while i + lanes <= n {
                compare!(0, i);
                i += lanes;
            }
            if i < n {
                // The last vector overlaps the one before.
                compare!(1, n - lanes);
                i = n;
            }
            let one = <T as Sums<S>>::V::splat(T::of(1));
            for k in 0..4 {
                sums[k] = <T as Sums<S>>::V::pick(sums[k].same(sums[k]), zero, one);
            }
            let all = sums[0].greater(sums[1]);
            let all = all.greater(sums[2].greater(sums[3]));
            lost |= <T as Sums<S>>::V::any(all.above(zero));
            for k in [2, 1] {
                for i in 0..k {
                    most[i] = if GREATEST {
                        most[i].greater(most[i + k])
                    } else {
                        most[i].lesser(most[i + k])
                    };
                }
            }
            let mut line = [T::default(); 16];
            most[0].store(line.as_mut_ptr());
            let mut half = lanes / 2;
            while half > 0 {
                for k in 0..half {
                    let (a, b) = (line[k], line[k + half]);
                    let better = if GREATEST { a > b } else { a < b };
                    line[k] = if better { a } else { b };
                }
                half /= 2;
            }
            best = line[0];
        }
        #[allow(clippy::eq_op)] // Only a NaN is not itself.
        while i < n {
            let v = *x.add(i);
            lost |= v != v;
            best = if keeps(best, v, GREATEST, false) {
                best
            } else {
                v
            };
            i += 1;
        }
        #[allow(clippy::eq_op)]
        let first = *x != *x;
        (!lost && !first).then_some(best)
    }
}

/// Returns the index of the first or the last of some elements that equals one.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
unsafe fn place<S: Wide, T: Sums<S> + Compared>(
    x: *const T,
    n: usize,
    wanted: T,
    last: bool,
) -> Option<usize> {
    let lanes = <T as Sums<S>>::V::LANES;
    let mut found = None;
    // SAFETY: the instruction set of `S` is enabled here.
    let all = unsafe { <T as Sums<S>>::V::splat(wanted) };
    let mut i = 0;
    // Several vectors at a time, up to the first with a match.
    // SAFETY: the instruction set of `S` is enabled here.
    let (zero, one) = unsafe {
        (
            <T as Sums<S>>::V::splat(T::of(0)),
            <T as Sums<S>>::V::splat(T::of(1)),
        )
    };
    // SAFETY: `x` has `n` elements.
    unsafe {
        while !last && i + 4 * lanes <= n {
            let mut some = [zero; 4];
            for k in 0..4 {
                let v = <T as Sums<S>>::V::load(x.add(i + k * lanes));
                some[k] = <T as Sums<S>>::V::pick(v.same(all), one, zero);
            }
            let some = some[0].greater(some[1]).greater(some[2].greater(some[3]));
            if <T as Sums<S>>::V::any(some.above(zero)) {
                break;
            }
            i += 4 * lanes;
        }
    }
    // SAFETY: `x` has `n` elements.
    unsafe {
        while i < n {
            let part = (n - i).min(lanes);
            if part < lanes || <T as Sums<S>>::V::any(<T as Sums<S>>::V::load(x.add(i)).same(all)) {
                for j in i..i + part {
                    if *x.add(j) == wanted {
                        found = Some(j);
                        if !last {
                            return found;
                        }
                    }
                }
            }
            i += part;
        }
    }
    found
}

/// Scans elements `step` apart in order, as comparisons with NaN require.
unsafe fn in_order<T: Compared>(line: Line, step: usize, greatest: bool, last: bool) -> i64 {
    let (mut best, mut place) = (T::default(), -1);
    let mut room = [T::default(); 1];
    for i in 0..line.n {
        // SAFETY: the line has an element at each step.
        let v = unsafe { *line.read::<T>(i * step, 1, room.as_mut_ptr()) };
        if place < 0 || !keeps(best, v, greatest, last) {
            (best, place) = (v, i as i64);
        }
    }
    place
}

/// Scans adjacent lines together, element by element: `wide` of them, whose elements are `inner`
/// apart.
#[inline(always)]
unsafe fn beside<S: Wide, T: Sums<S> + Compared, const GREATEST: bool>(
    lines: &RxLines,
    line: Line,
    (inner, wide): (usize, usize),
    to: usize,
    last: bool,
) {
    let lanes = <T as Sums<S>>::V::LANES;
    let mut held = MaybeUninit::<[T; ROWS * STRIP]>::uninit();
    let room = held.as_mut_ptr().cast::<T>();
    let (mut best, mut place) = ([T::default(); STRIP], [T::default(); STRIP]);
    // SAFETY: there are `line.n` rows of `wide` elements, at most `STRIP`, and room for `ROWS` of
    // them.
    unsafe {
        if line.n > 0 {
            let row = line.read::<T>(0, wide, room);
            std::ptr::copy_nonoverlapping(row, best.as_mut_ptr(), wide);
        }
        for first in (1..line.n).step_by(ROWS) {
            let some = (line.n - first).min(ROWS);
            let mut rows = [std::ptr::null(); ROWS];
            for (k, row) in rows.iter_mut().enumerate().take(some) {
                *row = line.read::<T>((first + k) * inner, wide, room.add(k * STRIP));
            }
            let mut j = 0;
            while j + lanes <= wide {
                let (b, p) = (best.as_mut_ptr().add(j), place.as_mut_ptr().add(j));
                let (mut old, mut at) = (<T as Sums<S>>::V::load(b), <T as Sums<S>>::V::load(p));
                for (k, row) in rows.iter().enumerate().take(some) {
                    let v = <T as Sums<S>>::V::load(row.add(j));
                    let better = if GREATEST { old.above(v) } else { v.above(old) };
                    let (mut new, mut now) = (v, <T as Sums<S>>::V::splat(T::of(first + k)));
                    if !last {
                        let same = old.same(v);
                        new = <T as Sums<S>>::V::pick(same, old, new);
                        now = <T as Sums<S>>::V::pick(same, at, now);
                    }
                    old = <T as Sums<S>>::V::pick(better, old, new);
                    at = <T as Sums<S>>::V::pick(better, at, now);
                }
                old.store(b);
                at.store(p);
                j += lanes;
            }
            for j in j..wide {
                for (k, row) in rows.iter().enumerate().take(some) {
                    let v = *row.add(j);
                    if !keeps(best[j], v, GREATEST, last) {
                        (best[j], place[j]) = (v, T::of(first + k));
                    }
                }
            }
        }
        for (j, place) in place.iter().enumerate().take(wide) {
            let index = if line.n == 0 { -1 } else { place.index() };
            lines.put_index(to + j, index);
        }
    }
}
