//! Division of integers through floats: the quotient of numbers that a float represents exactly,
//! with as many bits again to spare, always rounds to the correct integer, and processors divide
//! floats in vectors. Adding a number whose last bit has the value 1 puts a float's integer value
//! in its low bits, since not all processors convert 64-bit integers in vectors.

/// The rounding of a quotient to an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Round {
    Trunc,
    Floor,
}

/// An integer type.
pub(super) trait Divides: Copy {
    /// Returns `q` and the remainder of `self / by`; both 0 for a divisor of 0.
    fn exact(self, by: Self, round: Round) -> (Self, Self);
    /// The same through floats.
    fn by_float(self, by: Self, round: Round) -> (Self, Self);
    /// Returns the bits that must be 0 in both numbers for floats to give the right result.
    fn narrow(self) -> u64;
    /// The bits that must be 0 in [`Divides::narrow`] of all numbers.
    const WIDE: u64;
    /// Like [`Divides::by_float`], in floats of which a vector holds twice as many.
    fn by_short(self, by: Self, round: Round) -> (Self, Self);
    /// The bits that must be 0 for that; none where there is no other way.
    const LONG: u64;
    /// The float of [`Divides::by_float`].
    type Long: Whole;
    /// The float of [`Divides::by_short`].
    type Short: Whole;
    /// The number as a float.
    fn long(self) -> Self::Long;
    /// The number as a float of the other type.
    fn short(self) -> Self::Short;
}

/// Floats by their last bits.
pub(super) trait Whole: Copy {
    /// Rounds to an integer: towards 0, or down.
    fn whole(self, round: Round) -> Self;
    /// The lower bits of an integer.
    fn bits(self) -> u64;
    /// The lower bits of a quotient's integer.
    fn integer(self, round: Round) -> u64;
}

macro_rules! floats {
    ($($t:ty, $shift:expr, |$q:ident, $round:ident| $integer:expr;)*) => {$(
        impl Whole for $t {
            #[inline(always)]
            fn whole(self, round: Round) -> Self {
                let a = if round == Round::Floor { self } else { self.abs() };
                let near = a + $shift - $shift;
                let below = if near > a { near - 1.0 } else { near };
                if round == Round::Floor { below } else { below.copysign(self) }
            }
            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn bits(self) -> u64 {
                ((self + $shift).to_bits() as u64).wrapping_sub(($shift as $t).to_bits() as u64)
            }
            #[inline(always)]
            fn integer(self, $round: Round) -> u64 {
                let $q = self;
                $integer
            }
        }
    )*};
}
/// The middle of the floats whose last bit is 1.
const SHIFT: f64 = 6_755_399_441_055_744.0;
floats! {
    // Every processor converts to 32 bits towards 0.
    f32, 12_582_912.0, |q, round| {
        // SAFETY: quotients in float32 are those of at most 21 bits.
        let near = unsafe { q.to_int_unchecked::<i32>() };
        let below = round == Round::Floor && near as f32 > q;
        (near - i32::from(below)) as u64
    };
    f64, SHIFT, |q, round| q.whole(round).bits();
}

/// A method of [`Divides`] that divides as floats of one type.
macro_rules! divided {
    ($name:ident, $t:ty, $float:ident) => {
        #[inline(always)]
        fn $name(self, by: Self, round: Round) -> (Self, Self) {
            let divisor = if by == 0 { 1 } else { by };
            let q = (self.$float() / divisor.$float()).integer(round) as $t;
            let r = self.wrapping_sub(q.wrapping_mul(divisor));
            if by == 0 { (0, 0) } else { (q, r) }
        }
    };
}

macro_rules! integer {
    ($($t:ty, $unsigned:ty, $wide:expr, $limit:expr, |$x:ident| $long:ty: $float:expr, $short:ty: $other:expr;)*) => {$(
        impl Divides for $t {
            const WIDE: u64 = $wide;
            const LONG: u64 = $limit;
            type Long = $long;
            type Short = $short;
            #[inline(always)]
            fn long(self) -> $long {
                let $x = self;
                $float
            }
            #[inline(always)]
            fn short(self) -> $short {
                let $x = self;
                $other
            }
            divided! { by_short, $t, short }
            divided! { by_float, $t, long }
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
            fn narrow(self) -> u64 {
                #[allow(unused_comparisons)]
                let magnitude = if self < 0 { !self } else { self };
                magnitude as $unsigned as u64
            }
        }
    )*};
}

/// An integer below 2^50 as a float.
#[inline(always)]
fn long(x: i64) -> f64 {
    f64::from_bits(SHIFT.to_bits().wrapping_add(x as u64)) - SHIFT
}

/// An integer below 2^21 as a float.
#[inline(always)]
fn short(x: i32) -> f32 {
    x as f32
}

integer! {
    i8, u8, 0, 0, |x| f32: f32::from(x), f32: f32::from(x);
    u8, u8, 0, 0, |x| f32: f32::from(x), f32: f32::from(x);
    i16, u16, 0, 0, |x| f32: f32::from(x), f32: f32::from(x);
    u16, u16, 0, 0, |x| f32: f32::from(x), f32: f32::from(x);
    i32, u32, 0, !((1 << 21) - 1), |x| f64: f64::from(x), f32: short(x as i32);
    u32, u32, 0, !((1 << 21) - 1), |x| f64: f64::from(x), f32: short(x as i32);
    i64, u64, !((1 << 50) - 1), 0, |x| f64: long(x), f64: long(x);
    u64, u64, !((1 << 50) - 1), 0, |x| f64: long(x as i64), f64: long(x as i64);
}

/// Quotients (or remainders) of `n` pairs.
#[inline(always)]
pub(super) unsafe fn divide<T: Divides>(
    pair: (*const T, *const T),
    to: *mut T,
    n: usize,
    round: Round,
    quotient: bool,
) {
    // SAFETY: all have `n` elements.
    unsafe {
        match (round, quotient) {
            (Round::Trunc, true) => each::<T, false, true>(pair, to, n),
            (Round::Trunc, false) => each::<T, false, false>(pair, to, n),
            (Round::Floor, true) => each::<T, true, true>(pair, to, n),
            (Round::Floor, false) => each::<T, true, false>(pair, to, n),
        }
    }
}

#[inline(always)]
unsafe fn each<T: Divides, const FLOOR: bool, const QUOTIENT: bool>(
    (a, b): (*const T, *const T),
    to: *mut T,
    n: usize,
) {
    let round = if FLOOR { Round::Floor } else { Round::Trunc };
    // SAFETY: all have `n` elements.
    unsafe {
        let mut bits = 0;
        if T::WIDE | T::LONG != 0 {
            for i in 0..n {
                bits |= (*a.add(i)).narrow() | (*b.add(i)).narrow();
            }
        }
        if T::LONG != 0 && bits & T::LONG == 0 {
            for i in 0..n {
                let (q, r) = (*a.add(i)).by_short(*b.add(i), round);
                *to.add(i) = if QUOTIENT { q } else { r };
            }
        } else if bits & T::WIDE == 0 {
            for i in 0..n {
                let (q, r) = (*a.add(i)).by_float(*b.add(i), round);
                *to.add(i) = if QUOTIENT { q } else { r };
            }
        } else {
            for i in 0..n {
                let (q, r) = (*a.add(i)).exact(*b.add(i), round);
                *to.add(i) = if QUOTIENT { q } else { r };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree<T: Divides + PartialEq + std::fmt::Debug>(numbers: &[T]) {
        for &a in numbers {
            for &b in numbers {
                for round in [Round::Trunc, Round::Floor] {
                    let (found, wanted) = (a.by_float(b, round), a.exact(b, round));
                    assert_eq!(found, wanted, "{a:?} / {b:?}");
                    if (a.narrow() | b.narrow()) & T::LONG == 0 {
                        let found = a.by_short(b, round);
                        assert_eq!(found, wanted, "{a:?} / {b:?} in short");
                    }
                }
            }
        }
    }

    #[test]
    fn floats_give_the_quotients_of_integers() {
        let bytes: Vec<i8> = (i8::MIN..=i8::MAX).collect();
        agree(&bytes);
        agree(&(u8::MIN..=u8::MAX).collect::<Vec<_>>());
        // Around powers of two, and between.
        let near: Vec<i64> = (0..50)
            .flat_map(|k| (-3i64..=3).map(move |d| (1 << k) + d))
            .chain((0..50).map(|k| (1i64 << k) / 3 * 2 + 1))
            .filter(|x| x.abs() < 1 << 50)
            .flat_map(|x| [x, -x])
            .collect();
        agree(&near);
        agree(&near.iter().map(|&x| x as i16).collect::<Vec<_>>());
        agree(&near.iter().map(|&x| x as u16).collect::<Vec<_>>());
        agree(&near.iter().map(|&x| x as i32).collect::<Vec<_>>());
        agree(&near.iter().map(|&x| x as u32).collect::<Vec<_>>());
        let unsigned = near.iter().filter(|x| **x >= 0).map(|&x| x as u64);
        agree(&unsigned.collect::<Vec<_>>());
        agree(&[i32::MIN, i32::MIN + 1, i32::MAX, -1, 0, 1, 2, -2, 3, -3]);
    }
}
