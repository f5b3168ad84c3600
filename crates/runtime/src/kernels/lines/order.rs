//! Numbers in order, in vectors: parts on both sides of a number of theirs, until they are short,
//! and those by a network of comparisons that always has the lesser one first.

use super::super::simd::{Isa, isa};

/// Elements up to which a network sorts.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 256;

/// A number that is sorted in vectors.
pub(super) trait Ordered: Copy + Ord {
    /// Brings numbers into order, by way of `spare`, which is as long. Returns `false`, with the
    /// numbers in any order, where the processor lacks the instructions, or it would take long.
    fn order(all: &mut [Self], spare: &mut [Self]) -> bool;
}

/// Returns whether numbers are sorted here.
pub(super) fn knows() -> bool {
    cfg!(target_arch = "x86_64") && isa() >= Isa::Avx2
}

macro_rules! ordered {
    ($($t:ident $order:ident),*) => {$(
        impl Ordered for $t {
            fn order(all: &mut [Self], spare: &mut [Self]) -> bool {
                #[cfg(target_arch = "x86_64")]
                if knows() {
                    // SAFETY: the processor has AVX2.
                    return unsafe { vectors::$order(all, spare) };
                }
                let _ = (all, spare);
                false
            }
        }
    )*};
}
ordered!(i32 halves, i64 words);

#[cfg(target_arch = "x86_64")]
mod vectors {
    use super::super::lanes::{Eight, Four, Lanes, Words};
    use super::{Isa, SHORT, isa};

    /// Brings the lanes of a vector into order of which comparators between vectors left only those
    /// within it.
    #[inline(always)]
    unsafe fn finished<V: Lanes>(mut x: V) -> V {
        // SAFETY: the processor has AVX2.
        unsafe {
            if V::LANES == 8 {
                x = x.within(2);
            }
            x.within(1).within(0)
        }
    }

    /// Brings the lanes of a vector into order.
    #[inline(always)]
    unsafe fn lanes<V: Lanes>(x: V) -> V {
        // SAFETY: the processor has AVX2.
        unsafe {
            if V::LANES == 8 {
                let fours = x.within(0).within(3).within(0);
                fours.within(4).within(1).within(0)
            } else {
                x.within(0).within(2).within(0)
            }
        }
    }

    /// Compares vectors from `begin` to `end` with those `step` behind them, which are there.
    #[inline(always)]
    unsafe fn apart<V: Lanes>(at: *mut V::Number, begin: usize, end: usize, step: usize) {
        for i in begin..(begin + step).min(end.saturating_sub(step)) {
            // SAFETY: both vectors are before the end.
            unsafe {
                let places = [i, i + step].map(|k| at.add(k * V::LANES));
                let (less, more) = V::load(places[0]).both(V::load(places[1]));
                less.store(places[0]);
                more.store(places[1]);
            }
        }
    }

    /// Compares four vectors, `step` apart: those two steps apart, and then neighbours.
    #[inline(always)]
    unsafe fn four<V: Lanes>(at: *mut V::Number, step: usize) {
        // SAFETY: the vectors are there.
        unsafe {
            let places = [0, 1, 2, 3].map(|k| at.add(k * step * V::LANES));
            // No closure: it would not have the instruction set.
            let (a, c) = V::load(places[0]).both(V::load(places[2]));
            let (b, d) = V::load(places[1]).both(V::load(places[3]));
            let ((a, b), (c, d)) = (a.both(b), c.both(d));
            a.store(places[0]);
            b.store(places[1]);
            c.store(places[2]);
            d.store(places[3]);
        }
    }

    /// Sorts `n` vectors by a network. Comparators whose second vector would be beyond the last one
    /// have nothing to do: it holds what is greater than all.
    #[inline(always)]
    unsafe fn network<V: Lanes>(at: *mut V::Number, n: usize) {
        // SAFETY: there are `n` vectors.
        let place = |k: usize| unsafe { at.add(k * V::LANES) };
        // SAFETY: there are `n` vectors.
        unsafe {
            for k in 0..n {
                lanes(V::load(place(k))).store(place(k));
            }
        }
        let mut half = 1;
        while half < n {
            // Both halves are in order: the first of one is compared with the last of the other.
            let mut begin = 0;
            // SAFETY: there are `n` vectors.
            unsafe {
                while begin + half < n {
                    for k in 0..half {
                        let (i, j) = (begin + k, begin + 2 * half - 1 - k);
                        if j < n {
                            let (less, more) = V::load(place(i)).both(V::load(place(j)).reversed());
                            less.store(place(i));
                            more.reversed().store(place(j));
                        }
                    }
                    begin += 2 * half;
                }
            }
            let mut step = half / 2;
            // SAFETY: there are `n` vectors.
            unsafe {
                // Two stages at a time, while four vectors are at hand.
                while step > 1 {
                    let near = step / 2;
                    let mut begin = 0;
                    while begin + near < n {
                        let end = (begin + 2 * step).min(n);
                        if begin + 2 * step <= n {
                            for i in begin..begin + near {
                                four::<V>(place(i), near);
                            }
                        } else {
                            apart::<V>(at, begin, end, step);
                            apart::<V>(at, begin, end.min(begin + step), near);
                            apart::<V>(at, begin + step, end, near);
                        }
                        begin = end;
                    }
                    step /= 4;
                }
            }
            // SAFETY: there are `n` vectors.
            unsafe {
                for k in (0..n).step_by(2) {
                    let mut x = V::load(place(k));
                    if k + 1 < n {
                        let mut y = V::load(place(k + 1));
                        if step == 1 {
                            (x, y) = x.both(y);
                        }
                        finished(y).store(place(k + 1));
                    }
                    finished(x).store(place(k));
                }
            }
            half *= 2;
        }
    }

    /// Room for a short list, where no vector lies in two lines of the caches.
    #[repr(align(64))]
    struct Line<T>([std::mem::MaybeUninit<T>; SHORT + 8]);

    /// Sorts a short list, which is copied to `to` unless it is there.
    #[inline(always)]
    unsafe fn short<V: Lanes>(from: *const V::Number, to: *mut V::Number, n: usize) {
        // SAFETY: both have `n` numbers, and the line has room for all and for the last vector.
        unsafe {
            if n < 2 {
                if n == 1 {
                    *to = *from;
                }
                return;
            }
            let mut line = Line([std::mem::MaybeUninit::<V::Number>::uninit(); SHORT + 8]);
            let line = line.0.as_mut_ptr().cast::<V::Number>();
            std::ptr::copy_nonoverlapping(from, line, n);
            V::all(V::MOST).store(line.add(n));
            network::<V>(line, n.div_ceil(V::LANES));
            std::ptr::copy_nonoverlapping(line, to, n);
        }
    }

    /// Moves numbers to both sides: those that are less than `by`, or with `EQUAL` not greater, and
    /// the others. Returns how many the former are.
    #[inline(always)]
    unsafe fn parted<V: Lanes, const EQUAL: bool>(
        from: *const V::Number,
        to: *mut V::Number,
        n: usize,
        by: V::Number,
    ) -> usize {
        // SAFETY: both have `n` numbers. What is between `low` and `high` are as many places as
        // numbers that were not read yet: at least two vectors, of which one is written from either
        // side.
        unsafe {
            let pivot = V::all(by);
            let (mut low, mut high, mut i) = (0, n, 0);
            while i + 2 * V::LANES <= n {
                let x = V::load(from.add(i));
                let (x, less) = x.parted::<EQUAL>(pivot);
                x.store(to.add(low));
                x.store(to.add(high - V::LANES));
                low += less;
                high -= V::LANES - less;
                i += V::LANES;
            }
            while i < n {
                let x = *from.add(i);
                if x < by || EQUAL && x == by {
                    *to.add(low) = x;
                    low += 1;
                } else {
                    high -= 1;
                    *to.add(high) = x;
                }
                i += 1;
            }
            low
        }
    }

    /// A number from the middle of what is there.
    unsafe fn middle<T: Ord + Copy>(from: *const T, n: usize) -> T {
        // SAFETY: the places are below `n`.
        unsafe {
            let mut some = [*from; 9];
            for (k, x) in some.iter_mut().enumerate() {
                *x = *from.add(n / 10 * (k + 1));
            }
            some.sort_unstable();
            some[4]
        }
    }

    /// [`Ordered::order`] of numbers of 32 bits.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn halves(all: &mut [i32], spare: &mut [i32]) -> bool {
        // SAFETY: the processor has AVX2.
        unsafe { order::<Eight>(all, spare) }
    }

    pub(super) unsafe fn words(all: &mut [i64], spare: &mut [i64]) -> bool {
        // SAFETY: the processor has what is asked for.
        unsafe {
            match isa() {
                Isa::Avx512 => wide_words(all, spare),
                _ => narrow_words(all, spare),
            }
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn narrow_words(all: &mut [i64], spare: &mut [i64]) -> bool {
        // SAFETY: the processor has AVX2.
        unsafe { order::<Four>(all, spare) }
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,fma,avx2,f16c,bmi1,bmi2")]
    unsafe fn wide_words(all: &mut [i64], spare: &mut [i64]) -> bool {
        // SAFETY: the processor has AVX-512.
        unsafe { order::<Words>(all, spare) }
    }

    #[inline(always)]
    unsafe fn order<V: Lanes>(all: &mut [V::Number], spare: &mut [V::Number]) -> bool {
        let n = all.len();
        assert_eq!(spare.len(), n);
        let (home, away) = (all.as_mut_ptr(), spare.as_mut_ptr());
        // Parts that are left: where they begin and end, and whether they are in the spare list. Of
        // two the longer one waits, so that there are fewer than bits in a number.
        let mut waiting = [(0, 0, false); 64];
        let mut count = 0;
        let mut part = (0, n, false);
        let mut left = 4 * (usize::BITS - n.leading_zeros()) as usize * n;
        loop {
            let (begin, end, is_away) = part;
            let n = end - begin;
            // SAFETY: parts lie in both lists.
            let (from, to) = unsafe {
                match is_away {
                    true => (away.add(begin), home.add(begin)),
                    false => (home.add(begin), away.add(begin)),
                }
            };
            // SAFETY: parts lie in both lists.
            unsafe {
                if n <= SHORT {
                    short::<V>(from, home.add(begin), n);
                    if count == 0 {
                        return true;
                    }
                    count -= 1;
                    part = waiting[count];
                    continue;
                }
                if left < n {
                    // The lists hold the same numbers once what is away is brought home.
                    for &(begin, end, is_away) in waiting[..count].iter().chain([&part]) {
                        if is_away {
                            let from = away.add(begin).cast_const();
                            std::ptr::copy_nonoverlapping(from, home.add(begin), end - begin);
                        }
                    }
                    return false;
                }
            }
            left -= n;
            // SAFETY: parts lie in both lists.
            let (by, mut less) = unsafe {
                let by = middle(from, n);
                let less = parted::<V, false>(from, to, n, by);
                (by, less)
            };
            let mut first = (begin, begin + less, !is_away);
            // SAFETY: parts lie in both lists.
            unsafe {
                if less == 0 {
                    // It is the least: all that are equal are in order.
                    less = parted::<V, true>(from, to, n, by);
                    first = (begin, begin, false);
                    if !is_away {
                        std::ptr::copy_nonoverlapping(to, home.add(begin), less);
                    }
                }
            }
            let second = (begin + less, end, !is_away);
            let (now, later) = match first.1 - first.0 < second.1 - second.0 {
                true => (first, second),
                false => (second, first),
            };
            waiting[count] = later;
            count += 1;
            part = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Ordered + std::fmt::Debug>(
        make: impl Fn(u64) -> T,
        order: impl Fn(&mut [T], &mut [T]) -> bool,
    ) {
        let mut state = 1u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 11
        };
        let sizes = (0..80).chain([127, 128, 129, 255, 256, 257, 300, 511, 1000, 4099, 40_000]);
        for n in sizes {
            // Any numbers, few different ones, equal ones, and ones in order.
            for kind in 0..5u64 {
                let mut x: Vec<T> = (0..n as u64)
                    .map(|i| match kind {
                        0 => make(random()),
                        1 => make(random() % 3),
                        2 => make(7),
                        3 => make(i),
                        _ => make(u64::MAX - i),
                    })
                    .collect();
                let mut wanted = x.clone();
                wanted.sort_unstable();
                let mut spare = x.clone();
                if order(&mut x, &mut spare) {
                    assert_eq!(x, wanted, "{n} of kind {kind}");
                } else {
                    assert!(!knows() || n > SHORT, "{n} of kind {kind}");
                    x.sort_unstable();
                    assert_eq!(x, wanted, "{n} of kind {kind} are others");
                }
            }
        }
    }

    #[test]
    fn numbers_are_in_order() {
        check(|x| x as i32, i32::order);
        check(|x| (x << 9) as i64, i64::order);
        // Where the processor has wider vectors, too.
        #[cfg(target_arch = "x86_64")]
        if knows() {
            // SAFETY: the processor has AVX2.
            let narrow = |x: &mut [_], spare: &mut [_]| unsafe { vectors::narrow_words(x, spare) };
            check(|x| (x << 9) as i64, narrow);
        }
    }
}
