//! Sines and arcs of float64.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};

use crate::kernels::double_parts::{SHIFT, fma, poly};
use crate::kernels::simd::Simd;

/// Sines of larger magnitudes are left to the scalar function.
pub(super) const FAR: f64 = 1_048_576.0;

/// What float64 loses of a quarter of a turn.
const QUARTER_LOW: f64 = 6.123_233_995_736_766e-17;

#[inline(always)]
pub(super) fn atan<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let far = a > 2.414_213_562_373_095;
    let middle = a > 0.66;
    let top = if far { -1.0 } else { a - 1.0 };
    let below = if far { a } else { a + 1.0 };
    let t = if middle { top / below } else { a };
    let z = t * t;
    let p = poly::<S, 5>(
        z,
        [
            -8.750_608_600_031_904e-1,
            -1.615_753_718_733_365_1e1,
            -7.500_855_792_314_705e1,
            -1.228_866_684_490_136_2e2,
            -6.485_021_904_942_025e1,
        ],
    );
    let q = poly::<S, 6>(
        z,
        [
            1.0,
            2.485_846_490_142_306_3e1,
            1.650_270_098_316_988_5e2,
            4.328_810_604_912_903e2,
            4.853_903_996_359_137e2,
            1.945_506_571_482_614e2,
        ],
    );
    let y = fma::<S>(t * z, p / q, t);
    // The rounding errors of a quarter and an eighth of a turn.
    let rest = if far {
        QUARTER_LOW
    } else {
        3.061_616_997_868_383e-17
    };
    let base = if far { FRAC_PI_2 } else { FRAC_PI_4 };
    (if middle { base + (y + rest) } else { y }).copysign(x)
}

/// The angle of a point with the coordinates `y` and `x`: the arc tangent of the lesser magnitude by
/// the greater one, turned to where the point is.
#[inline(always)]
pub(super) fn atan2<S: Simd>(y: f64, x: f64) -> f64 {
    let (up, along) = (y.abs(), x.abs());
    let steep = up > along;
    let top = if steep { along } else { up };
    let below = if steep { up } else { along };
    let t = if top == below { 1.0 } else { top / below };
    let t = if top == 0.0 { 0.0 } else { t };
    let a = atan::<S>(t);
    let back = x.is_sign_negative();
    let base = if steep { FRAC_PI_2 } else { PI };
    // What float64 loses of a quarter and of a half of a turn.
    let rest = if steep {
        QUARTER_LOW
    } else {
        1.224_646_799_147_353_2e-16
    };
    let turned = if steep == back {
        base + (a + rest)
    } else {
        base - (a - rest)
    };
    let angle = if steep || back { turned } else { a };
    #[allow(clippy::eq_op)] // Only a NaN is not itself.
    let angle = if x != x { x } else { angle };
    angle.copysign(y)
}

/// Sine and cosine of a number below [`FAR`] reduced by quarter turns, and their number, in the low
/// bits.
#[inline(always)]
pub(super) fn turned<S: Simd>(x: f64) -> (f64, f64, u64) {
    let shifted = x * FRAC_2_PI + SHIFT;
    let n = shifted - SHIFT;
    let r = fma::<S>(n, -FRAC_PI_2, x);
    let r = fma::<S>(n, -QUARTER_LOW, r);
    let r = fma::<S>(n, 1.497_384_904_859_169_8e-33, r);
    let z = r * r;
    let s = poly::<S, 6>(
        z,
        [
            1.589_690_995_211_55e-10,
            -2.505_076_025_340_686_3e-8,
            2.755_731_370_707_006_8e-6,
            -1.984_126_982_985_795e-4,
            8.333_333_333_322_49e-3,
            -1.666_666_666_666_663_2e-1,
        ],
    );
    let sin = fma::<S>(s * z, r, r);
    let c = poly::<S, 6>(
        z,
        [
            -1.135_964_755_778_819_5e-11,
            2.087_572_321_298_175e-9,
            -2.755_731_435_139_066_3e-7,
            2.480_158_728_947_673e-5,
            -1.388_888_888_887_411e-3,
            4.166_666_666_666_66e-2,
        ],
    );
    let half = 0.5 * z;
    let near = 1.0 - half;
    let cos = near + fma::<S>(c * z, z, (1.0 - near) - half);
    (sin, cos, shifted.to_bits())
}

/// Sine, or cosine with `quarter` 1, of numbers below [`FAR`].
#[inline(always)]
pub(super) fn sine<S: Simd>(x: f64, quarter: u64) -> f64 {
    let (sin, cos, quarters) = turned::<S>(x);
    let place = quarters.wrapping_add(quarter);
    let y = if place & 1 == 0 { sin } else { cos };
    f64::from_bits(y.to_bits() ^ (place & 2) << 62)
}

/// Tangent of numbers below [`FAR`].
#[inline(always)]
pub(super) fn tan<S: Simd>(x: f64) -> f64 {
    let (sin, cos, quarters) = turned::<S>(x);
    let odd = quarters & 1 != 0;
    (if odd { -cos } else { sin }) / (if odd { sin } else { cos })
}

/// Up to a half the arc sine of a magnitude, beyond that half of what it lacks of a quarter turn, by the
/// sine of that half.
#[inline(always)]
fn arc<S: Simd>(a: f64) -> f64 {
    let far = a > 0.5;
    let z = if far { 0.5 - 0.5 * a } else { a * a };
    let s = if far { z.sqrt() } else { a };
    // `(asin s - s) / s^3`.
    let p = poly::<S, 12>(
        z,
        [
            2.816_921_806_088_141_4e-2,
            -1.074_905_033_969_780_8e-2,
            1.603_551_434_914_882e-2,
            7.802_949_477_353_317_5e-3,
            1.187_549_438_263_692_2e-2,
            1.392_965_290_232_663_3e-2,
            1.735_525_995_578_632_3e-2,
            2.237_204_763_174_451e-2,
            3.038_194_736_709_848e-2,
            4.464_285_710_342_364_6e-2,
            7.500_000_000_020_764e-2,
            1.666_666_666_666_665e-1,
        ],
    );
    fma::<S>(p * z, s, s)
}

#[inline(always)]
pub(super) fn asin<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let y = arc::<S>(a);
    let beyond = FRAC_PI_2 - (2.0 * y - QUARTER_LOW);
    (if a > 0.5 { beyond } else { y }).copysign(x)
}

#[inline(always)]
pub(super) fn acos<S: Simd>(x: f64) -> f64 {
    let y = arc::<S>(x.abs());
    let near = FRAC_PI_2 - (y.copysign(x) - QUARTER_LOW);
    let back = PI - 2.0 * (y - QUARTER_LOW);
    let beyond = if x < 0.0 { back } else { 2.0 * y };
    if x.abs() > 0.5 { beyond } else { near }
}
