//! The index of the greatest or the least element of each line.

use super::{Element, RxLines, work};
use crate::context::RxContext;
use crate::kernels::simd::{Simd, dispatch_of};
use crate::threads::Share;

/// Lines side by side that are looked through together.
const STRIP: usize = 256;
/// Chains of comparisons along one line.
const LANES: usize = 32;
/// Elements below which nobody is woken.
const SMALL: usize = 1 << 15;

pub(super) unsafe fn run<T: Element>(context: &mut RxContext, lines: &RxLines) -> i32 {
    let (n, inner) = (lines.extent.max(0) as usize, lines.inner as usize);
    let strips = inner.div_ceil(STRIP);
    let tasks = lines.outer as usize * strips;
    let each = n.max(1) * inner.min(STRIP);
    // SAFETY: lines are disjoint, and each thread has its own room.
    let shared = unsafe { Share::new(lines) };
    context
        .pool
        .each(tasks, (SMALL / each.max(1)).max(1), |begin, end, _| {
            let lines: &RxLines = shared.get();
            // SAFETY: the caller's promise; tasks write their own places.
            unsafe {
                dispatch_of!(tasks_of<T: Element>(lines: &RxLines, begin: usize, end: usize))
            };
        });
    0
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn tasks_of<S: Simd, T: Element>(lines: &RxLines, begin: usize, end: usize) {
    let (n, inner) = (lines.extent.max(0) as usize, lines.inner as usize);
    let strips = inner.div_ceil(STRIP);
    let (greatest, last) = (lines.work == work::GREATEST, lines.flag != 0);
    // SAFETY: the caller's promise.
    unsafe {
        for task in begin..end {
            let (outer, first) = (task / strips, task % strips * STRIP);
            let x = lines.x.cast::<T>().add(outer * n * inner + first);
            let to = outer * inner + first;
            if inner == 1 {
                let place = match greatest {
                    true => alone::<T, true>(x, n, last),
                    false => alone::<T, false>(x, n, last),
                };
                lines.put_index(to, place);
            } else {
                let wide = (inner - first).min(STRIP);
                match greatest {
                    true => beside::<T, true>(lines, x, (n, wide), to, last),
                    false => beside::<T, false>(lines, x, (n, wide), to, last),
                }
            }
        }
    }
}

/// Whether the best one so far is kept.
#[inline(always)]
fn keeps<T: Element, const GREATEST: bool>(best: T, x: T, last: bool) -> bool {
    match (GREATEST, last) {
        (true, true) => best > x,
        (true, false) => best >= x,
        (false, true) => best < x,
        (false, false) => best <= x,
    }
}

/// A line whose elements lie side by side; -1 of nothing.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the lanes out of memory.
unsafe fn alone<T: Element, const GREATEST: bool>(x: *const T, n: usize, last: bool) -> i64 {
    // SAFETY: the callers' promise.
    unsafe {
        if n == 0 {
            return -1;
        }
        let mut lanes = [*x; LANES];
        let mut bits = [T::Bits::default(); LANES];
        let whole = n / LANES * LANES;
        for i in (0..whole).step_by(LANES) {
            for j in 0..LANES {
                let v = *x.add(i + j);
                let better = if GREATEST { v > lanes[j] } else { v < lanes[j] };
                lanes[j] = if better { v } else { lanes[j] };
                bits[j] = bits[j].max(v.magnitude());
            }
        }
        let mut lost = bits.iter().any(|&b| T::any_lost(b));
        let mut best = lanes[0];
        for &v in &lanes[1..] {
            best = if keeps::<T, GREATEST>(best, v, false) {
                best
            } else {
                v
            };
        }
        for i in whole..n {
            let v = *x.add(i);
            best = if keeps::<T, GREATEST>(best, v, false) {
                best
            } else {
                v
            };
            lost |= v.lost();
        }
        if lost || (*x).lost() {
            return in_order::<T, GREATEST>(x, n, last);
        }
        let at = |i: usize| *x.add(i) == best;
        let found = if last {
            (0..n).rev().find(|&i| at(i))
        } else {
            (0..n).find(|&i| at(i))
        };
        found.map_or(-1, |i| i as i64)
    }
}

/// One after the other, as comparisons with NaN need it.
unsafe fn in_order<T: Element, const GREATEST: bool>(x: *const T, n: usize, last: bool) -> i64 {
    let (mut best, mut place) = (T::default(), -1);
    for i in 0..n {
        // SAFETY: the callers' promise.
        let v = unsafe { *x.add(i) };
        if place < 0 || !keeps::<T, GREATEST>(best, v, last) {
            (best, place) = (v, i as i64);
        }
    }
    place
}

/// Lines that lie side by side, element by element.
#[inline(always)]
unsafe fn beside<T: Element, const GREATEST: bool>(
    lines: &RxLines,
    x: *const T,
    (n, wide): (usize, usize),
    to: usize,
    last: bool,
) {
    let inner = lines.inner as usize;
    let mut best = [T::default(); STRIP];
    let mut place = [-1i32; STRIP];
    // SAFETY: the callers' promise.
    unsafe {
        for i in 0..n {
            let row = x.add(i * inner);
            for j in 0..wide {
                let v = *row.add(j);
                let keep = (i > 0) & keeps::<T, GREATEST>(best[j], v, last);
                best[j] = if keep { best[j] } else { v };
                place[j] = if keep { place[j] } else { i as i32 };
            }
        }
        for (j, &place) in place.iter().enumerate().take(wide) {
            lines.put_index(to + j, i64::from(place));
        }
    }
}
