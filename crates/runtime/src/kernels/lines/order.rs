//! Numbers in order, in vectors: parts on both sides of a number of theirs, until they are short,
//! and those by a network of comparisons that always has the lesser one first.

use super::super::simd::{Isa, isa};

/// Elements up to which a network sorts.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 256;

/// A number that is sorted in vectors.
pub(super) trait Ordered: Copy + Ord {
    /// The greatest number.
    const MOST: Self;
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
            const MOST: Self = $t::MAX;
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
    use super::{Isa, Ordered, SHORT, isa};
    use std::arch::x86_64::*;

    /// Numbers in a vector.
    ///
    /// # Safety
    /// The processor has AVX2, and AVX-512 for [`Words`].
    pub(super) trait Lanes: Copy {
        type Number: Ordered;
        const LANES: usize;
        unsafe fn all(x: Self::Number) -> Self;
        unsafe fn load(from: *const Self::Number) -> Self;
        unsafe fn store(self, to: *mut Self::Number);
        /// The lesser ones of two vectors, and the greater ones.
        unsafe fn both(self, b: Self) -> (Self, Self);
        /// The lanes in reverse order.
        unsafe fn reversed(self) -> Self;
        /// One stage of the network within a vector, by its number: 0 to 2 compare lanes 1, 2 and
        /// 4 apart, those from `LANES.ilog2()` on lanes that lie opposite in 4 and in 8.
        unsafe fn within(self, stage: usize) -> Self;
        /// Lanes that are less than another vector's first, with `EQUAL` those that are not greater,
        /// and the number of them.
        unsafe fn parted<const EQUAL: bool>(self, by: Self) -> (Self, usize);
    }

    /// For each mask, the lanes of its bits and then the others.
    const fn lanes_of<const N: usize, const W: usize>() -> [[u8; 8]; N] {
        let mut all = [[0; 8]; N];
        let mut mask = 0;
        while mask < N {
            let (mut at, mut pass) = (0, 0);
            while pass < 2 {
                let mut lane = 0;
                while lane < 8 / W {
                    if (mask >> lane & 1 == 1) == (pass == 0) {
                        let mut part = 0;
                        while part < W {
                            all[mask][at] = (lane * W + part) as u8;
                            at += 1;
                            part += 1;
                        }
                    }
                    lane += 1;
                }
                pass += 1;
            }
            mask += 1;
        }
        all
    }
    static EIGHTS: [[u8; 8]; 256] = lanes_of::<256, 1>();
    static FOURS: [[u8; 8]; 16] = lanes_of::<16, 2>();

    /// The lanes of a vector of words in the order of a table.
    #[inline(always)]
    unsafe fn permuted(x: __m256i, order: &[u8; 8]) -> __m256i {
        // SAFETY: the processor has AVX2, and the table has eight bytes.
        unsafe {
            let order = _mm256_cvtepu8_epi32(_mm_loadl_epi64(order.as_ptr().cast()));
            _mm256_permutevar8x32_epi32(x, order)
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Eight(__m256i);

    /// Compares lanes with others: the lesser ones where `$greater` has no bits.
    macro_rules! compared {
        ($x:expr, $other:expr, $greater:literal) => {{
            let (less, more) = Self($x).both(Self($other));
            Self(_mm256_blend_epi32::<$greater>(less.0, more.0))
        }};
    }

    // SAFETY: intrinsics of AVX2.
    #[allow(unsafe_op_in_unsafe_fn)]
    impl Lanes for Eight {
        type Number = i32;
        const LANES: usize = 8;
        #[inline(always)]
        unsafe fn all(x: i32) -> Self {
            Self(_mm256_set1_epi32(x))
        }
        #[inline(always)]
        unsafe fn load(from: *const i32) -> Self {
            Self(_mm256_loadu_si256(from.cast()))
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut i32) {
            _mm256_storeu_si256(to.cast(), self.0);
        }
        #[inline(always)]
        unsafe fn both(self, b: Self) -> (Self, Self) {
            (
                Self(_mm256_min_epi32(self.0, b.0)),
                Self(_mm256_max_epi32(self.0, b.0)),
            )
        }
        #[inline(always)]
        unsafe fn reversed(self) -> Self {
            let halves = _mm256_shuffle_epi32::<0x1b>(self.0);
            Self(_mm256_permute4x64_epi64::<0x4e>(halves))
        }
        #[inline(always)]
        unsafe fn within(self, stage: usize) -> Self {
            let x = self.0;
            match stage {
                0 => compared!(x, _mm256_shuffle_epi32::<0xb1>(x), 0xaa),
                1 => compared!(x, _mm256_shuffle_epi32::<0x4e>(x), 0xcc),
                2 => compared!(x, _mm256_permute4x64_epi64::<0x4e>(x), 0xf0),
                3 => compared!(x, _mm256_shuffle_epi32::<0x1b>(x), 0xcc),
                _ => compared!(x, self.reversed().0, 0xf0),
            }
        }
        #[inline(always)]
        unsafe fn parted<const EQUAL: bool>(self, by: Self) -> (Self, usize) {
            let first = match EQUAL {
                true => _mm256_xor_si256(_mm256_cmpgt_epi32(self.0, by.0), _mm256_set1_epi8(-1)),
                false => _mm256_cmpgt_epi32(by.0, self.0),
            };
            let mask = _mm256_movemask_ps(_mm256_castsi256_ps(first)) as usize;
            (
                Self(permuted(self.0, &EIGHTS[mask])),
                mask.count_ones() as usize,
            )
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Four(__m256i);

    // SAFETY: intrinsics of AVX2.
    #[allow(unsafe_op_in_unsafe_fn)]
    impl Lanes for Four {
        type Number = i64;
        const LANES: usize = 4;
        #[inline(always)]
        unsafe fn all(x: i64) -> Self {
            Self(_mm256_set1_epi64x(x))
        }
        #[inline(always)]
        unsafe fn load(from: *const i64) -> Self {
            Self(_mm256_loadu_si256(from.cast()))
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut i64) {
            _mm256_storeu_si256(to.cast(), self.0);
        }
        #[inline(always)]
        unsafe fn both(self, b: Self) -> (Self, Self) {
            let more = _mm256_cmpgt_epi64(self.0, b.0);
            (
                Self(_mm256_blendv_epi8(self.0, b.0, more)),
                Self(_mm256_blendv_epi8(b.0, self.0, more)),
            )
        }
        #[inline(always)]
        unsafe fn reversed(self) -> Self {
            Self(_mm256_permute4x64_epi64::<0x1b>(self.0))
        }
        #[inline(always)]
        unsafe fn within(self, stage: usize) -> Self {
            let x = self.0;
            match stage {
                0 => compared!(x, _mm256_shuffle_epi32::<0x4e>(x), 0xcc),
                1 => compared!(x, _mm256_permute4x64_epi64::<0x4e>(x), 0xf0),
                _ => compared!(x, self.reversed().0, 0xf0),
            }
        }
        #[inline(always)]
        unsafe fn parted<const EQUAL: bool>(self, by: Self) -> (Self, usize) {
            let first = match EQUAL {
                true => _mm256_xor_si256(_mm256_cmpgt_epi64(self.0, by.0), _mm256_set1_epi8(-1)),
                false => _mm256_cmpgt_epi64(by.0, self.0),
            };
            let mask = _mm256_movemask_pd(_mm256_castsi256_pd(first)) as usize;
            (
                Self(permuted(self.0, &FOURS[mask])),
                mask.count_ones() as usize,
            )
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Words(__m512i);

    /// Compares lanes with others: the greater ones where the mask has bits.
    macro_rules! masked {
        ($x:expr, $other:expr, $greater:literal) => {{
            let (x, other) = ($x, $other);
            let less = _mm512_min_epi64(x, other);
            Self(_mm512_mask_max_epi64(less, $greater, x, other))
        }};
    }

    // SAFETY: intrinsics of AVX-512 F.
    #[allow(unsafe_op_in_unsafe_fn)]
    impl Lanes for Words {
        type Number = i64;
        const LANES: usize = 8;
        #[inline(always)]
        unsafe fn all(x: i64) -> Self {
            Self(_mm512_set1_epi64(x))
        }
        #[inline(always)]
        unsafe fn load(from: *const i64) -> Self {
            Self(_mm512_loadu_epi64(from))
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut i64) {
            _mm512_storeu_epi64(to, self.0);
        }
        #[inline(always)]
        unsafe fn both(self, b: Self) -> (Self, Self) {
            (
                Self(_mm512_min_epi64(self.0, b.0)),
                Self(_mm512_max_epi64(self.0, b.0)),
            )
        }
        #[inline(always)]
        unsafe fn reversed(self) -> Self {
            let fours = _mm512_permutex_epi64::<0x1b>(self.0);
            Self(_mm512_shuffle_i64x2::<0x4e>(fours, fours))
        }
        #[inline(always)]
        unsafe fn within(self, stage: usize) -> Self {
            let x = self.0;
            match stage {
                0 => masked!(x, _mm512_permutex_epi64::<0xb1>(x), 0xaa),
                1 => masked!(x, _mm512_permutex_epi64::<0x4e>(x), 0xcc),
                2 => masked!(x, _mm512_shuffle_i64x2::<0x4e>(x, x), 0xf0),
                3 => masked!(x, _mm512_permutex_epi64::<0x1b>(x), 0xcc),
                _ => masked!(x, self.reversed().0, 0xf0),
            }
        }
        #[inline(always)]
        unsafe fn parted<const EQUAL: bool>(self, by: Self) -> (Self, usize) {
            let mask = match EQUAL {
                true => _mm512_cmple_epi64_mask(self.0, by.0),
                false => _mm512_cmplt_epi64_mask(self.0, by.0),
            };
            let count = mask.count_ones() as usize;
            let first = _mm512_maskz_compress_epi64(mask, self.0);
            let others = _mm512_maskz_compress_epi64(!mask, self.0);
            let behind = (0xff_u32 << count) as __mmask8;
            (Self(_mm512_mask_expand_epi64(first, behind, others)), count)
        }
    }

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
            V::all(V::Number::MOST).store(line.add(n));
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
