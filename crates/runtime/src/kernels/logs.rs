//! Logarithms of float32, an exponent and a polynomial for the mantissa's near 1, and the area
//! functions, which are logarithms.

use super::math::Math;
use super::simd::{Simd, dispatch, ends, over_vectors, poly};

/// A base of logarithms.
pub(super) struct Base {
    /// The logarithm of 2 in two parts of one sign, so that their sum with infinite exponents is
    /// infinite; the first is short enough that its products with exponents are exact, the second is
    /// not 0.
    two: (f32, f32),
    /// The logarithm of `1 + f` by `f`, for `f` from √½ - 1 to √2 - 1.
    part: [f32; 10],
    /// The logarithm of e, in two parts, the first of 12 bits.
    e: (f32, f32),
    /// The logarithm of `1 + r` by `r`, for `r` from -1/32 to 1/16.
    near: [f32; 5],
    /// The logarithms of 1 by the factors of [`SIXTEENTHS`].
    sixteenths: [f32; 16],
}

/// Factors with which mantissas from ¾ to 1½ are nearly 1, by four of their bits. Those beside 1 stay as they are; the others
/// are such that their logarithms to all bases are floats, within a fiftieth of the last place.
const SIXTEENTHS: [f32; 16] = [
    1.0,
    0.916_704_6,
    0.863_374_5,
    0.823_048_7,
    0.781_781_44,
    0.747_109_8,
    0.713_299_3,
    0.680_472_97,
    1.305_092_6,
    1.248_171_8,
    1.203_524_6,
    1.162_360_3,
    1.126_490_4,
    1.079_072_4,
    1.049_526_9,
    1.0,
];

/// Natural logarithms.
pub(super) const NATURAL: Base = Base {
    two: (0.693_145_75, 1.428_606_8e-6),
    part: [
        -0.076_363_854,
        0.127_641_66,
        -0.131_605_33,
        0.142_013_82,
        -0.166_233,
        0.200_012_46,
        -0.250_008_23,
        0.333_333_3,
        -0.5,
        1.0,
    ],
    e: (1.0, 0.0),
    near: [0.188_552_23, -0.250_066_7, 0.333_344_46, -0.5, 1.0],
    sixteenths: [
        0.0,
        0.086_97,
        0.146_906_76,
        0.194_739_9,
        0.246_180_07,
        0.291_543_16,
        0.337_854_2,
        0.384_967_18,
        -0.266_273_98,
        -0.221_679_93,
        -0.185_254_41,
        -0.150_452_69,
        -0.119_106_92,
        -0.076_101_74,
        -0.048_339_52,
        0.0,
    ],
};
pub(super) const TWO: Base = Base {
    two: (1.0, 1e-30),
    part: [
        -0.080_107_54,
        0.163_654_1,
        -0.193_289_34,
        0.208_833_05,
        -0.239_788_74,
        0.288_306_18,
        -0.360_682_64,
        0.480_903_74,
        -0.721_347_5,
        std::f32::consts::LOG2_E,
    ],
    e: (1.442_871_1, -1.760_528_5e-4),
    near: [
        0.272_023_35,
        -0.360_77,
        0.480_914_4,
        -0.721_347_5,
        std::f32::consts::LOG2_E,
    ],
    sixteenths: [
        0.0,
        0.125_471_19,
        0.211_941_66,
        0.280_950_28,
        0.355_162_77,
        0.420_607_86,
        0.487_420_6,
        0.555_390_24,
        -0.384_152_14,
        -0.319_816_53,
        -0.267_265_62,
        -0.217_057_35,
        -0.171_834_96,
        -0.109_791_61,
        -0.069_739_185,
        0.0,
    ],
};
pub(super) const TEN: Base = Base {
    two: (0.301_025_4, 4.605_039e-6),
    part: [
        -0.051_047_266,
        0.063_967_39,
        -0.053_460_72,
        0.059_800_327,
        -0.072_433_956,
        0.086_994_56,
        -0.108_572_36,
        0.144_761_9,
        -0.217_147_25,
        std::f32::consts::LOG10_E,
    ],
    e: (0.434_326_17, -3.168_997e-5),
    near: [
        0.081_887_19,
        -0.108_602_58,
        0.144_769_67,
        -0.217_147_25,
        std::f32::consts::LOG10_E,
    ],
    sixteenths: [
        0.0,
        0.037_770_59,
        0.063_800_8,
        0.084_574_46,
        0.106_914_65,
        0.126_615_58,
        0.146_728_22,
        0.167_189_12,
        -0.115_641_32,
        -0.096_274_37,
        -0.080_454_97,
        -0.065_340_77,
        -0.051_727_477,
        -0.033_050_567,
        -0.020_993_587,
        0.0,
    ],
};

/// The logarithm of a mantissa from ¾ to 1½, by a table and a polynomial, plus `rest`.
#[inline(always)]
fn of_sixteenth<S: Simd>(m: S, rest: S, base: &Base) -> S {
    let r = m.fma(m.sixteenth(&SIXTEENTHS), m.same(-1.0));
    poly(r, &base.near).fma(r, m.sixteenth(&base.sixteenths).add(rest))
}

/// The natural logarithm of a number plus `rest`, which is small beside it, and `twos` times that of
/// 2. It is infinite or NaN where the exponent is, without more ado, if multiplications and additions
/// are one step; else it is NaN there.
#[inline(always)]
fn natural<S: Simd>(x: S, rest: S, twos: S) -> S {
    let (high, low) = NATURAL.two;
    if S::TABLES {
        let (m, e) = x.split_evenly();
        let e = e.add(twos);
        let y = of_sixteenth(m, e.fma(x.same(low), rest), &NATURAL);
        return e.fma(x.same(high), y);
    }
    let (m, e) = x.split();
    let (f, e) = (m.sub(x.same(1.0)), e.add(twos));
    let y = e.fma(x.same(low), rest);
    if S::FUSED {
        let y = f.fma(poly(f, &NATURAL.part), y);
        return e.fma(x.same(high), y);
    }
    let (half, y) = (f.mul(f), y.add(cubic(f)));
    let y = half.fma(x.same(-0.5), y);
    e.fma(x.same(high), f.add(y))
}

/// Returns what the natural logarithm of `1 + f` is more than `f - f²/2`.
#[inline(always)]
fn cubic<S: Simd>(f: S) -> S {
    poly(f, &NATURAL.part[..8]).mul(f).mul(f.mul(f))
}

/// `ln(1 + t)` for `t ≥ 0`, or where `large` `ln 2a`.
#[inline(always)]
fn inverse<S: Simd>(a: S, t: S, large: S::Mask) -> S {
    let (zero, one) = (a.same(0.0), a.same(1.0));
    let whole = one.add(t);
    let back = whole.sub(one);
    let lost = one.sub(whole.sub(back)).add(t.sub(back));
    // By `1 + t`, about. Beside the logarithm of a larger number it is less than half of the last
    // place, and so is what stands here for a `large` one.
    let rest = lost.mul(t.fma(a.same(-0.5), one));
    let rest = S::select(t.lt(a.same(2.0)), rest, zero);
    let twos = S::select(large, one, zero);
    natural(S::select(large, a, whole), rest, twos)
}

/// An area function of a vector: the inverse of the hyperbolic sine, cosine or tangent.
#[inline(always)]
pub(super) fn area<S: Simd>(x: S, math: Math) -> S {
    let (zero, one, infinity) = (x.same(0.0), x.same(1.0), x.same(f32::INFINITY));
    let (a, nan) = (x.abs(), x.same(f32::NAN));
    // From here on 1 is nothing beside a square.
    let large = x.same(8_192.0).lt(a);
    let y = if math == Math::Atanh {
        let t = a.add(a).div(one.sub(a));
        let none = one.lt(zero);
        let y = inverse(a, t, none).mul(x.same(0.5));
        let y = S::select(a.eq(one), infinity, y);
        S::select(one.lt(a), nan, y).copysign(x)
    } else if math == Math::Asinh {
        let near = S::select(large, one, a);
        let square = near.mul(near);
        let t = near.add(square.div(one.add(square.add(one).sqrt())));
        let y = inverse(a, t, large);
        S::select(a.eq(infinity), a, y).copysign(x)
    } else {
        let t = S::select(large, one, x).sub(one);
        let t = t.add(t.mul(t.add(x.same(2.0))).sqrt());
        let y = inverse(x, t, large);
        let y = S::select(x.lt(one), nan, y);
        S::select(x.eq(infinity), x, y)
    };
    S::select(x.eq(x), y, x)
}

/// Area functions.
///
/// # Safety
/// Both have `n` elements, and are the same or do not overlap.
pub(super) unsafe fn areas(math: Math, n: usize, x: *const f32, y: *mut f32) {
    #[inline(always)]
    unsafe fn strip<S: Simd>(math: Math, n: usize, x: *const f32, y: *mut f32) {
        // SAFETY: both have `n` elements.
        unsafe { over_vectors!(n, v: x => area(v, math), y) }
    }
    // SAFETY: both have `n` elements, and are the same or do not overlap.
    unsafe { dispatch!(strip(math: Math, n: usize, x: *const f32, y: *mut f32)) }
}

/// The logarithm to a base.
#[inline(always)]
pub(super) fn of_base<S: Simd>(x: S, base: &Base) -> S {
    if S::TABLES {
        let (m, e) = x.split_evenly();
        let y = of_sixteenth(m, e.mul(x.same(base.two.1)), base);
        return e.fma(x.same(base.two.0), y);
    }
    let (m, e) = x.split();
    let f = m.sub(x.same(1.0));
    if S::FUSED {
        let y = f.fma(poly(f, &base.part), e.mul(x.same(base.two.1)));
        return e.fma(x.same(base.two.0), y);
    }
    let y = cubic(f);
    let half = f.mul(f).mul(x.same(0.5));
    // The mantissa's logarithm is `high + low`, the former of 12 bits, so that its product with
    // the first part of the factor is exact.
    let near = f.sub(half);
    let rest = f.sub(near).sub(half).add(y);
    let wide = near.mul(x.same(4_097.0));
    let high = wide.sub(wide.sub(near));
    let low = near.sub(high).add(rest);
    let (first, second) = (x.same(base.e.0), x.same(base.e.1));
    let small = near.add(rest).mul(second);
    let small = low.fma(first, small);
    let small = e.fma(x.same(base.two.1), small);
    let large = high.mul(first);
    // The greater of the two is the exponent's, unless that is 0.
    let whole = e.mul(x.same(base.two.0));
    let sum = whole.add(large);
    let lost = large.sub(sum.sub(whole));
    ends(x, sum.add(lost.add(small)))
}

/// Logarithms to a base.
///
/// # Safety
/// Both have `n` elements, and are the same or do not overlap.
pub(super) unsafe fn run(n: usize, x: *const f32, y: *mut f32, base: &Base) {
    #[inline(always)]
    unsafe fn strip<S: Simd>(n: usize, x: *const f32, y: *mut f32, base: &Base) {
        // SAFETY: both have `n` elements.
        unsafe { over_vectors!(n, v: x => of_base(v, base), y) }
    }
    // SAFETY: both have `n` elements, and are the same or do not overlap.
    unsafe { dispatch!(strip(n: usize, x: *const f32, y: *mut f32, base: &Base)) }
}
