//! Running sums and products along each line, in order.

use super::{Element, RxLines, work};
use crate::context::RxContext;
use crate::kernels::simd::{Simd, dispatch_of};
use crate::threads::Share;

/// Lines side by side that run together.
const STRIP: usize = 256;
/// Lines one behind the other that run together.
const TOGETHER: usize = 4;
/// Elements below which nobody is woken.
const SMALL: usize = 1 << 15;

pub(super) unsafe fn run<T: Element>(context: &mut RxContext, lines: &RxLines) -> i32 {
    let (n, inner) = (lines.extent.max(0) as usize, lines.inner as usize);
    let (tasks, each) = match inner {
        1 => ((lines.outer as usize).div_ceil(TOGETHER), TOGETHER * n),
        _ => {
            let strips = inner.div_ceil(STRIP);
            (lines.outer as usize * strips, n * inner.min(STRIP))
        }
    };
    // SAFETY: lines are disjoint, and each thread has its own room.
    let shared = unsafe { Share::new(lines) };
    context
        .pool
        .each(tasks, (SMALL / each.max(1)).max(1), |begin, end, _| {
            let lines: &RxLines = shared.get();
            // SAFETY: the caller's promise; tasks write their own lines.
            unsafe {
                dispatch_of!(tasks_of<T: Element>(lines: &RxLines, begin: usize, end: usize))
            };
        });
    0
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn tasks_of<S: Simd, T: Element>(lines: &RxLines, begin: usize, end: usize) {
    let product = lines.work == work::PRODUCT;
    let outside = lines.flag != 0;
    // SAFETY: the caller's promise.
    unsafe {
        for task in begin..end {
            match (product, outside) {
                (false, false) => task_of::<T, false, false>(lines, task),
                (false, true) => task_of::<T, false, true>(lines, task),
                (true, false) => task_of::<T, true, false>(lines, task),
                (true, true) => task_of::<T, true, true>(lines, task),
            }
        }
    }
}

#[inline(always)]
fn next<T: Element, const PRODUCT: bool>(sum: T, x: T) -> T {
    if PRODUCT { sum.times(x) } else { sum.plus(x) }
}

/// `OUTSIDE`: an element is not part of what stands in its place.
#[inline(always)]
unsafe fn task_of<T: Element, const PRODUCT: bool, const OUTSIDE: bool>(
    lines: &RxLines,
    task: usize,
) {
    let (n, inner) = (lines.extent.max(0) as usize, lines.inner as usize);
    let start = if PRODUCT { T::one() } else { T::default() };
    let (x, y) = (lines.x.cast::<T>(), lines.values.cast::<T>());
    // SAFETY: the callers' promise.
    unsafe {
        if inner == 1 {
            let first = task * TOGETHER;
            let count = (lines.outer as usize - first).min(TOGETHER);
            if count == TOGETHER {
                let mut sums = [start; TOGETHER];
                for i in 0..n {
                    for (k, sum) in sums.iter_mut().enumerate() {
                        let at = (first + k) * n + i;
                        let after = next::<T, PRODUCT>(*sum, *x.add(at));
                        *y.add(at) = if OUTSIDE { *sum } else { after };
                        *sum = after;
                    }
                }
                return;
            }
            for line in first..first + count {
                let mut sum = start;
                for at in line * n..(line + 1) * n {
                    let after = next::<T, PRODUCT>(sum, *x.add(at));
                    *y.add(at) = if OUTSIDE { sum } else { after };
                    sum = after;
                }
            }
            return;
        }
        let strips = inner.div_ceil(STRIP);
        let (outer, first) = (task / strips, task % strips * STRIP);
        let wide = (inner - first).min(STRIP);
        let mut sums = [start; STRIP];
        for i in 0..n {
            let at = (outer * n + i) * inner + first;
            let (x, y) = (x.add(at), y.add(at));
            for (j, sum) in sums.iter_mut().enumerate().take(wide) {
                let after = next::<T, PRODUCT>(*sum, *x.add(j));
                *y.add(j) = if OUTSIDE { *sum } else { after };
                *sum = after;
            }
        }
    }
}
