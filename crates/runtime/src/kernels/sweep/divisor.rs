//! Division of many integers by one: a multiplication by its reciprocal. Those of at most 16 bits are
//! multiplied in 32 and shifted (Granlund and Montgomery, "Division by invariant integers using
//! multiplication"). To others half is added, away from the integer that the quotient is rounded to,
//! which takes quotients as far from integers as floats with bits to spare may err.

use super::divide::{Divides, Round, Whole};

/// An integer type whose elements are divided by one number.
pub(super) trait Divided: Divides {
    /// Quotients, or remainders, of `n` numbers and one that is not 0.
    ///
    /// # Safety
    /// Both have `n` elements.
    unsafe fn by_one(
        from: *const Self,
        by: Self,
        to: *mut Self,
        n: usize,
        round: Round,
        quotient: bool,
    );
}

/// Writes quotients, or remainders, from those that `$over` gives, rounded as `$given`: in masks, so
/// that there is one loop for all that are not just those.
macro_rules! corrected {
    ($t:ty, ($from:ident, $by:ident, $to:ident, $n:ident), ($round:ident, $quotient:ident, $given:expr), |$x:ident| $over:expr) => {{
        if $round == $given && $quotient {
            for i in 0..$n {
                let $x = *$from.add(i);
                *$to.add(i) = $over;
            }
            return;
        }
        let turned: $t = if $round == $given { 0 } else { !0 };
        // What is added to a quotient that is rounded the other way.
        let one: $t = if $given == Round::Floor { 1 } else { !0 };
        let wanted: $t = if $quotient { !0 } else { 0 };
        for i in 0..$n {
            let $x = *$from.add(i);
            let q: $t = $over;
            let r = $x.wrapping_sub(q.wrapping_mul($by));
            #[allow(unused_comparisons)]
            let between = r != 0 && ($x < 0) != ($by < 0);
            let other = (0 as $t).wrapping_sub(<$t>::from(between)) & turned;
            let q = q.wrapping_add(one & other);
            let r = r.wrapping_sub(one.wrapping_mul($by) & other);
            *$to.add(i) = q & wanted | r & !wanted;
        }
    }};
}

macro_rules! by_factors {
    ($($t:ty, |$x:ident| $magnitude:expr;)*) => {$(
        impl Divided for $t {
            #[inline(always)]
            #[allow(unused_comparisons)]
            unsafe fn by_one(from: *const Self, by: Self, to: *mut Self, n: usize, round: Round, quotient: bool) {
                let of = |$x: $t| -> u16 { $magnitude };
                let size = u32::from(of(by));
                let bits = size.next_power_of_two().trailing_zeros();
                let factor = ((((1 << bits) - size) << 16) / size + 1) as u16;
                let (first, then) = (bits.min(1), bits.saturating_sub(1));
                // SAFETY: both have `n` elements.
                unsafe {
                    corrected!($t, (from, by, to, n), (round, quotient, Round::Trunc), |x| {
                        let whole = of(x);
                        let high = (u32::from(whole) * u32::from(factor) >> 16) as u16;
                        let q = ((high + (whole - high >> first)) >> then) as $t;
                        if (x < 0) != (by < 0) { q.wrapping_neg() } else { q }
                    });
                }
            }
        }
    )*};
}

macro_rules! by_floats {
    ($($t:ty;)*) => {$(
        impl Divided for $t {
            #[inline(always)]
            #[allow(unused_comparisons, clippy::bad_bit_mask)] // Masks of some types are 0.
            unsafe fn by_one(from: *const Self, by: Self, to: *mut Self, n: usize, round: Round, quotient: bool) {
                let given = Round::Floor;
                // SAFETY: both have `n` elements.
                unsafe {
                    let mut bits = by.narrow();
                    for i in 0..n {
                        bits |= (*from.add(i)).narrow();
                    }
                    if Self::LONG != 0 && bits & Self::LONG == 0 {
                        let half: <$t as Divides>::Short = 0.5;
                        let factor = 1.0 / by.short();
                        corrected!($t, (from, by, to, n), (round, quotient, Round::Trunc), |x| {
                            let x = x.short();
                            ((x + half.copysign(x)) * factor).to_int_unchecked::<i32>() as $t
                        });
                    } else if bits & Self::WIDE == 0 {
                        let half = if by < 0 { -0.5 } else { 0.5 };
                        let factor = 1.0 / by.long();
                        corrected!($t, (from, by, to, n), (round, quotient, given), |x| {
                            ((x.long() + half) * factor).whole(given).bits() as $t
                        });
                    } else {
                        for i in 0..n {
                            let (q, r) = (*from.add(i)).exact(by, round);
                            *to.add(i) = if quotient { q } else { r };
                        }
                    }
                }
            }
        }
    )*};
}

by_factors! {
    i8, |x| x.unsigned_abs().into();
    u8, |x| x.into();
    i16, |x| x.unsigned_abs();
    u16, |x| x;
}
by_floats! {
    i32;
    u32;
    i64;
    u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree<T: Divided + Default + PartialEq + std::fmt::Debug>(numbers: &[T], by: &[T]) {
        let mut found = vec![T::default(); numbers.len()];
        for &by in by.iter().filter(|&&by| by != T::default()) {
            for round in [Round::Trunc, Round::Floor] {
                for quotient in [false, true] {
                    let (from, to) = (numbers.as_ptr(), found.as_mut_ptr());
                    // SAFETY: both have so many elements.
                    unsafe { T::by_one(from, by, to, numbers.len(), round, quotient) };
                    for (&x, &found) in numbers.iter().zip(&found) {
                        let (q, r) = x.exact(by, round);
                        let wanted = if quotient { q } else { r };
                        assert_eq!(found, wanted, "{x:?} by {by:?} {round:?}");
                    }
                }
            }
        }
    }

    /// Numbers around powers of two and multiples of some divisors, of at most so many bits.
    fn near(bits: u32) -> Vec<i64> {
        let around = |x: i64| (-3..=3).map(move |d| x + d);
        (0..bits)
            .flat_map(|k| around(1 << k).chain(around((1i64 << k) / 3 * 2)))
            .chain([7i64, 10, 641, 1000, 65_535].into_iter().flat_map(|d| {
                let most = ((1i64 << bits) - 1) / d;
                [most, most / 2]
                    .into_iter()
                    .flat_map(move |k| around(k * d))
            }))
            .filter(|x| x.abs() < 1i64 << bits)
            .flat_map(|x| [x, -x])
            .collect()
    }

    #[test]
    fn factors_give_the_quotients_of_integers() {
        let bytes: Vec<i8> = (i8::MIN..=i8::MAX).collect();
        agree(&bytes, &bytes);
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        agree(&bytes, &bytes);
        let some: Vec<i16> = near(15).iter().map(|&x| x as i16).collect();
        let all: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        agree(&some, &all);
        agree(&all, &[1, -1, 2, 3, -3, 7, 10, -641, i16::MIN, i16::MAX]);
        let some: Vec<u16> = near(16).iter().map(|&x| x as u16).collect();
        let all: Vec<u16> = (0..=u16::MAX).collect();
        agree(&some, &all);
        agree(&all, &[1, 2, 3, 7, 641, 32_767, 32_768, 32_769, u16::MAX]);
    }

    #[test]
    fn reciprocals_give_the_quotients_of_integers() {
        let (short, words, long) = (near(20), near(31), near(49));
        for some in [&short, &words] {
            let signed: Vec<i32> = some.iter().map(|&x| x as i32).collect();
            agree(&signed, &signed);
            let unsigned: Vec<u32> = some.iter().map(|&x| x as u32).collect();
            agree(&unsigned, &unsigned);
        }
        let ends = [i32::MIN, i32::MIN + 1, i32::MAX, -1, 1, 2, -2, 3];
        agree(&ends, &ends);
        agree(
            &[u32::MAX, u32::MAX - 1, 1 << 31],
            &[1, 2, 3, 1 << 31, u32::MAX],
        );
        agree(&long, &long);
        let unsigned: Vec<u64> = long.iter().map(|&x| x.unsigned_abs()).collect();
        agree(&unsigned, &unsigned);
        agree(
            &[i64::MIN, i64::MAX, -1, 0, 1],
            &[i64::MIN, -1, 1, 3, i64::MAX],
        );
    }
}
