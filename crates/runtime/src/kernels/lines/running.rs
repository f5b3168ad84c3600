//! Running sums and products along each line, in order.

use super::{Element, RxLines, Work};
use crate::context::RxContext;
use crate::kernels::halves::{self, Running};
use crate::kernels::kinds::{Kind, Sum};
use crate::kernels::simd::{Simd, dispatch_of};
use crate::kernels::turn::turn;
use crate::threads::{Grain, Share};

/// Adjacent lines that are computed together.
const STRIP: usize = 256;
/// Consecutive lines that are computed together.
const TOGETHER: usize = 4;
/// Elements below which no thread is woken.
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
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new(lines) };
    context
        .pool
        .each(tasks, Grain::of_work(SMALL, each), |begin, end, _| {
            let lines: &RxLines = shared.get();
            // SAFETY: the arrays have the lines' sizes; tasks write their own lines.
            unsafe {
                dispatch_of!(tasks_of<T: Element>(lines: &RxLines, begin: usize, end: usize))
            };
        });
    0
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn tasks_of<S: Simd, T: Element>(lines: &RxLines, begin: usize, end: usize) {
    let product = lines.work == Work::Product as i32;
    let outside = lines.flag != 0;
    // SAFETY: tasks are those of the lines, whose arrays have their sizes.
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

/// `OUTSIDE`: results exclude the element at their own position.
#[inline(always)]
unsafe fn task_of<T: Element, const PRODUCT: bool, const OUTSIDE: bool>(
    lines: &RxLines,
    task: usize,
) {
    let (n, inner) = (lines.extent.max(0) as usize, lines.inner as usize);
    let start = if PRODUCT { T::one() } else { T::default() };
    let (x, y) = (lines.x.cast::<T>(), lines.values.cast::<T>());
    if inner == 1 {
        let first = task * TOGETHER;
        let count = (lines.outer as usize - first).min(TOGETHER);
        // SAFETY: the task is one of the lines, whose arrays have their sizes.
        unsafe {
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
        }
        return;
    }
    let strips = inner.div_ceil(STRIP);
    let (outer, first) = (task / strips, task % strips * STRIP);
    let wide = (inner - first).min(STRIP);
    let mut sums = [start; STRIP];
    // SAFETY: the task is one of the lines, whose arrays have their sizes.
    unsafe {
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

/// The number of consecutive lines that are transposed together, and of their elements.
const SQUARE: usize = 64;
/// The most lines of a vector.
const VECTOR: usize = 16;

/// Running sums and products of narrow floats, which are rounded at every step: vectors run across
/// lines.
pub(super) unsafe fn narrow(context: &mut RxContext, lines: &RxLines, kind: Kind) -> i32 {
    let (n, inner) = (lines.extent.max(0) as usize, lines.inner as usize);
    let together = if inner == 1 { SQUARE } else { STRIP };
    let rows = if inner == 1 {
        lines.outer as usize
    } else {
        inner
    };
    let strips = rows.div_ceil(together);
    let tasks = if inner == 1 {
        strips
    } else {
        lines.outer as usize * strips
    };
    let grain = Grain::of_work(SMALL, n * rows.min(together));
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new(lines) };
    context.pool.each(tasks, grain, |begin, end, _| {
        let lines: &RxLines = shared.get();
        for task in begin..end {
            // SAFETY: the arrays have the lines' sizes; tasks write their own lines.
            unsafe {
                let (outer, first) = (task / strips, task % strips * together);
                let wide = (rows - first).min(together);
                match inner {
                    1 => turned_over(lines, kind, first, wide),
                    _ => {
                        let mut sums = Sums::new(lines, kind);
                        for i in (0..n).step_by(SQUARE) {
                            let at = (outer * n + i) * inner + first;
                            let (x, y) = (lines.x.cast::<u16>(), lines.values.cast::<u16>());
                            let steps = (n - i).min(SQUARE);
                            sums.steps(x.add(at), y.add(at), wide, (steps, inner));
                        }
                    }
                }
            }
        }
    });
    0
}

/// Lines of contiguous elements: squares of them are transposed.
unsafe fn turned_over(lines: &RxLines, kind: Kind, first: usize, wide: usize) {
    let n = lines.extent.max(0) as usize;
    let (x, y) = (lines.x.cast::<u16>(), lines.values.cast::<u16>());
    let mut sums = Sums::new(lines, kind);
    let (mut given, mut made) = ([[0u16; SQUARE]; SQUARE], [[0u16; SQUARE]; SQUARE]);
    for from in (0..n).step_by(SQUARE) {
        let len = (n - from).min(SQUARE);
        // SAFETY: there are `wide` lines from `first` on.
        unsafe {
            let (place, step, side) = (first * n + from, n as isize, SQUARE as isize);
            turn(
                (wide, len),
                x.add(place),
                step,
                given.as_mut_ptr().cast(),
                side,
            );
            // Whole vectors: there is room for lines beyond the last one.
            let (from, to) = (given.as_ptr().cast(), made.as_mut_ptr().cast());
            sums.steps(from, to, wide.next_multiple_of(VECTOR), (len, SQUARE));
            turn((len, wide), made.as_ptr().cast(), side, y.add(place), step);
        }
    }
}

/// The running results of adjacent lines: as they are stored, and in float32.
struct Sums {
    kind: Kind,
    product: bool,
    outside: bool,
    bits: [u16; STRIP],
    sums: [f32; STRIP],
}

impl Sums {
    fn new(lines: &RxLines, kind: Kind) -> Self {
        let product = lines.work == Work::Product as i32;
        let sums = [if product { 1.0 } else { 0.0 }; STRIP];
        let mut bits = [0u16; STRIP];
        // SAFETY: both have as many elements.
        unsafe { f32::narrow(kind, STRIP, sums.as_ptr(), bits.as_mut_ptr().cast()) };
        Self {
            kind,
            product,
            outside: lines.flag != 0,
            bits,
            sums,
        }
    }

    /// Adds some elements of each of `wide` lines, which are `apart`, and stores the results
    /// including or excluding them.
    unsafe fn steps(
        &mut self,
        x: *const u16,
        y: *mut u16,
        wide: usize,
        (steps, apart): (usize, usize),
    ) {
        // SAFETY: both have `wide` lines of as many elements.
        unsafe {
            if halves::known() {
                let r = Running {
                    brain: self.kind == Kind::BF16,
                    product: self.product,
                    outside: self.outside,
                    steps,
                    apart,
                };
                return halves::running(r, wide, x, self.sums.as_mut_ptr(), y);
            }
            for i in 0..steps {
                self.step(x.add(i * apart), y.add(i * apart), wide);
            }
        }
    }

    /// Adds an element of each line, and stores the result including or excluding it.
    unsafe fn step(&mut self, x: *const u16, y: *mut u16, wide: usize) {
        // SAFETY: both have `wide` elements.
        unsafe {
            if self.outside {
                std::ptr::copy_nonoverlapping(self.bits.as_ptr(), y, wide);
            }
        }
        let mut row = [0.0f32; STRIP];
        // SAFETY: both have `wide` elements.
        unsafe {
            f32::widen(self.kind, wide, x.cast(), row.as_mut_ptr());
        }
        for (sum, x) in self.sums.iter_mut().zip(row).take(wide) {
            *sum = if self.product { *sum * x } else { *sum + x };
        }
        // SAFETY: both have `wide` elements.
        unsafe {
            f32::narrow(
                self.kind,
                wide,
                self.sums.as_ptr(),
                self.bits.as_mut_ptr().cast(),
            );
            f32::widen(
                self.kind,
                wide,
                self.bits.as_ptr().cast(),
                self.sums.as_mut_ptr(),
            );
            if !self.outside {
                std::ptr::copy_nonoverlapping(self.bits.as_ptr(), y, wide);
            }
        }
    }
}
