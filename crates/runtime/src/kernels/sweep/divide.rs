//! Division of integers by way of floats: a quotient in float64 of numbers below 2^50 is rounded to no other integer
//! than the true one, and processors divide floats in vectors.

/// How a quotient is brought to an integer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    Trunc,
    Floor,
}

/// An integer type.
pub(super) trait Divides: Copy {
    /// `q` and the remainder of `self / by`; both 0 for a divisor of 0.
    fn exact(self, by: Self, round: Round) -> (Self, Self);
    /// The same by floats.
    fn by_float(self, by: Self, round: Round) -> (Self, Self);
    /// Whether floats give the right result for numbers of these bits together.
    fn narrow(self) -> u64;
    /// The bits that must be 0 in [`Divides::narrow`] of all numbers.
    const WIDE: u64;
}

macro_rules! integer {
    ($($t:ty, $unsigned:ty, $wide:expr;)*) => {$(
        impl Divides for $t {
            const WIDE: u64 = $wide;
            #[inline(always)]
            fn exact(self, by: Self, round: Round) -> (Self, Self) {
                if by == 0 {
                    return (0, 0);
                }
                let (q, r) = (self.wrapping_div(by), self.wrapping_rem(by));
                #[allow(unused_comparisons)]
                let below = round == Round::Floor && r != 0 && (r < 0) != (by < 0);
                if below { (q.wrapping_sub(1), r.wrapping_add(by)) } else { (q, r) }
            }
            #[inline(always)]
            fn by_float(self, by: Self, round: Round) -> (Self, Self) {
                let divisor = if by == 0 { 1 } else { by };
                let q = self as f64 / divisor as f64;
                let q = if round == Round::Floor { q.floor() } else { q };
                // SAFETY: quotients of numbers that are narrow enough are in range.
                let q = unsafe { q.to_int_unchecked::<i64>() } as $t;
                let r = self.wrapping_sub(q.wrapping_mul(divisor));
                if by == 0 { (0, 0) } else { (q, r) }
            }
            #[inline(always)]
            fn narrow(self) -> u64 {
                #[allow(unused_comparisons)]
                let magnitude = if self < 0 { !self } else { self };
                magnitude as $unsigned as u64
            }
        }
    )*};
}

integer! {
    i8, u8, 0;
    u8, u8, 0;
    i16, u16, 0;
    u16, u16, 0;
    i32, u32, 0;
    u32, u32, 0;
    i64, u64, !((1 << 50) - 1);
    u64, u64, !((1 << 50) - 1);
}

/// Quotients (or remainders) of `n` pairs.
#[inline(always)]
pub(super) unsafe fn divide<T: Divides>(
    (a, b): (*const T, *const T),
    to: *mut T,
    n: usize,
    round: Round,
    quotient: bool,
) {
    // SAFETY: the callers' promise: all have `n` elements.
    unsafe {
        let mut bits = 0;
        if T::WIDE != 0 {
            for i in 0..n {
                bits |= (*a.add(i)).narrow() | (*b.add(i)).narrow();
            }
        }
        if bits & T::WIDE == 0 {
            for i in 0..n {
                let (q, r) = (*a.add(i)).by_float(*b.add(i), round);
                *to.add(i) = if quotient { q } else { r };
            }
        } else {
            for i in 0..n {
                let (q, r) = (*a.add(i)).exact(*b.add(i), round);
                *to.add(i) = if quotient { q } else { r };
            }
        }
    }
}
