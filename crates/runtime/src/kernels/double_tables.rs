//! Logarithms and powers of float64, and powers of float32 in float64, with AVX-512: mantissas are
//! brought near 1, and exponents near 0, by numbers that two registers hold sixteen of, and what is
//! left is a short polynomial.

use std::arch::x86_64::*;

use super::double_parts::{LN2_HI, LN2_LO, SHIFT};

/// Factors of nine bits with which mantissas from ¾ to 1½ are nearly 1, by the four bits after the
/// first one; those beside 1 stay as they are.
const FACTORS: [f64; 16] = [
    1.0,
    0.914_062_5,
    0.863_281_25,
    0.820_312_5,
    0.781_25,
    0.746_093_75,
    0.710_937_5,
    0.679_687_5,
    1.304_687_5,
    1.253_906_25,
    1.207_031_25,
    1.164_062_5,
    1.121_093_75,
    1.085_937_5,
    1.050_781_25,
    1.0,
];
/// The natural logarithms of 1 by these, as sums of two numbers: multiples of 2^-32, so that their
/// sums with multiples of [`LN2_HI`] are exact, and the rest.
const HIGH: [f64; 16] = [
    0.0,
    0.089_856_329_141_184_69,
    0.147_014_742_949_977_52,
    0.198_069_913_778_454_07,
    0.246_860_077_837_482_1,
    0.292_904_016_328_975_56,
    0.341_170_757_310_465,
    0.386_122_145_224_362_6,
    -0.265_963_548_561_558_1,
    -0.226_263_678_632_676_6,
    -0.188_163_832_528_516_65,
    -0.151_916_041_970_253,
    -0.114_304_771_181_195_97,
    -0.082_443_669_205_531_48,
    -0.049_533_935_030_922_294,
    0.0,
];
const LOW: [f64; 16] = [
    0.0,
    -1.932_364_053_779_398_5e-11,
    1.183_214_190_684_419e-11,
    -1.636_027_050_360_844e-11,
    9.404_370_311_993_247e-11,
    1.039_570_442_069_622e-10,
    9.230_214_654_370_605e-11,
    4.067_083_557_147_77e-11,
    6.442_018_606_413_335e-11,
    -1.777_678_795_187_497_4e-11,
    1.103_336_633_738_995_5e-10,
    -5.558_898_434_914_717e-11,
    -9.886_265_928_428_356e-11,
    -5.543_113_339_998_448e-12,
    -9.135_433_721_907_13e-11,
    0.0,
];
/// Their logarithms to base 2.
const TWOS: [f64; 16] = [
    0.0,
    0.129_635_280_416_595_47,
    0.212_097_440_608_568_44,
    0.285_754_482_333_877_35,
    0.356_143_810_225_275_3,
    0.422_571_171_964_251_3,
    0.492_205_359_801_303_75,
    0.557_056_504_151_271_7,
    -0.383_704_292_474_052_24,
    -0.326_429_487_122_303_13,
    -0.271_463_027_904_374_54,
    -0.219_168_520_462_161_56,
    -0.164_906_926_675_687_8,
    -0.118_941_072_723_507_43,
    -0.071_462_362_556_624_15,
    0.0,
];
/// Powers of 2 by sixteenths.
const ROOTS: [f64; 16] = [
    1.0,
    1.044_273_782_427_413_8,
    1.090_507_732_665_257_7,
    1.138_788_634_756_691_6,
    1.189_207_115_002_721,
    1.241_857_812_073_484,
    1.296_839_554_651_009_6,
    1.354_255_546_936_892_7,
    std::f64::consts::SQRT_2,
    1.476_826_145_939_499_3,
    1.542_210_825_407_940_7,
    1.610_490_331_949_254_3,
    1.681_792_830_507_429,
    1.756_252_160_373_299_5,
    1.834_008_086_409_342_4,
    1.915_206_561_397_147_4,
];
/// `log2(1 + r) / r` for `r` from -1/32 to 1/16, with a relative error of 2^-39.
const SHORT: [f64; 7] = [
    0.187_970_927_992_001_4,
    -0.240_263_393_359_345_07,
    0.288_566_857_916_366_1,
    -0.360_674_255_147_469_5,
    0.480_898_335_189_872_57,
    -0.721_347_520_299_138_4,
    1.442_695_040_889_845_1,
];
/// `2^t` for `t` from -½ to ½, with a relative error of 2^-28; 1 at 0, so that exact powers stay
/// exact.
const POWER: [f64; 7] = [
    1.535_336_182_311_620_3e-4,
    1.339_887_444_223_475_2e-3,
    9.618_437_358_239_92e-3,
    0.055_503_324_710_371_06,
    0.240_226_479_136_205_73,
    0.693_147_202_855_122_7,
    1.0,
];
/// `(log(1 + r) - r) / r²` for the same `r`, with an error of 2^-60 beside `r`.
const LOGARITHM: [f64; 10] = [
    0.080_317_871_749_449,
    -0.099_732_688_712_854_26,
    0.111_127_968_089_467_02,
    -0.125_000_706_054_042_37,
    0.142_857_135_564_355_42,
    -0.166_666_666_238_829_06,
    0.200_000_000_000_853_77,
    -0.250_000_000_000_063_67,
    0.333_333_333_333_333_3,
    -0.5,
];
/// `(log(1 + r) - r + r²/2) / r³`, with one of 2^-63.
const LONG: [f64; 10] = [
    -0.072_550_654_476_954_72,
    0.090_556_557_062_482_13,
    -0.100_016_210_976_380_53,
    0.111_112_075_771_474_92,
    -0.124_999_995_909_531_1,
    0.142_857_142_151_214_56,
    -0.166_666_666_664_910_84,
    0.200_000_000_000_167_63,
    -0.250_000_000_000_000_4,
    0.333_333_333_333_333_3,
];
/// `(e^r - 1 - r) / r²` for `r` up to ln 2 / 32.
const EXPONENTIAL: [f64; 6] = [
    1.984_146_417_555_839_2e-4,
    1.388_906_378_993_546_3e-3,
    8.333_333_332_990_724e-3,
    0.041_666_666_663_583_17,
    0.166_666_666_666_666_69,
    0.500_000_000_000_000_1,
];

#[inline(always)]
unsafe fn all(x: f64) -> __m512d {
    // SAFETY: the callers enable the instruction set.
    unsafe { _mm512_set1_pd(x) }
}

/// As [`super::double_parts::poly`].
#[inline(always)]
unsafe fn poly(x: __m512d, coefficients: &[f64]) -> __m512d {
    // SAFETY: the callers enable the instruction set.
    unsafe {
        let mut sum = all(coefficients[0]);
        for &c in &coefficients[1..] {
            sum = _mm512_fmadd_pd(sum, x, all(c));
        }
        sum
    }
}

/// The numbers of a table at the places that the low four bits of `index` say.
#[inline(always)]
unsafe fn sixteenth(index: __m512i, table: &[f64; 16]) -> __m512d {
    // SAFETY: the callers enable the instruction set; the table has two vectors.
    unsafe {
        let [low, high] = [0, 8].map(|k| table.as_ptr().wrapping_add(k));
        _mm512_permutex2var_pd(_mm512_loadu_pd(low), index, _mm512_loadu_pd(high))
    }
}

/// Mantissas from ¾ to 1½, exponents, and which sixteenths the former are. Exponents are infinite
/// or no numbers where logarithms are.
#[inline(always)]
unsafe fn split(x: __m512d) -> (__m512d, __m512d, __m512i) {
    // SAFETY: the callers enable the instruction set.
    unsafe {
        let m = _mm512_getmant_pd::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_NAN>(x);
        let (e, one) = (_mm512_getexp_pd(x), all(1.0));
        let below = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(m, one);
        let index = _mm512_srli_epi64::<48>(_mm512_castpd_si512(m));
        (m, _mm512_mask_add_pd(e, below, e, one), index)
    }
}

/// The natural logarithm of a mantissa as a sum of two numbers: of its sixteenth, and of the rest.
#[inline(always)]
unsafe fn of_mantissa(m: __m512d, index: __m512i) -> (__m512d, __m512d) {
    // SAFETY: the callers enable the instruction set.
    unsafe {
        let r = _mm512_fmadd_pd(m, sixteenth(index, &FACTORS), all(-1.0));
        let near = _mm512_add_pd(r, sixteenth(index, &LOW));
        let rest = _mm512_fmadd_pd(poly(r, &LOGARITHM), _mm512_mul_pd(r, r), near);
        (sixteenth(index, &HIGH), rest)
    }
}

/// Logarithms to a base: exponents times `whole` (whose first part is short) plus those of
/// mantissas times `part`. Within 2 units in the last place; of any numbers.
///
/// # Safety
/// The processor has AVX-512; both have as many elements, which eight divides.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,fma,avx2")]
pub(super) unsafe fn logarithms((whole, low, part): (f64, f64, f64), x: &[f64], y: &mut [f64]) {
    for (x, y) in x.chunks_exact(8).zip(y.chunks_exact_mut(8)) {
        // SAFETY: both have eight elements.
        unsafe {
            let (m, e, index) = split(_mm512_loadu_pd(x.as_ptr()));
            let (high, rest) = of_mantissa(m, index);
            // An infinite exponent stays one: its product with 0 would be no number.
            let small = _mm512_mul_pd(e, all(if low == 0.0 { f64::MIN_POSITIVE } else { low }));
            let small = _mm512_fmadd_pd(_mm512_add_pd(high, rest), all(part), small);
            _mm512_storeu_pd(y.as_mut_ptr(), _mm512_fmadd_pd(e, all(whole), small));
        }
    }
}

/// Natural logarithms of numbers plus `rest`, which is small beside them, and `twos` times that of
/// 2.
///
/// # Safety
/// As [`logarithms`].
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,fma,avx2")]
pub(super) unsafe fn sums(x: &[f64], rest: &[f64], twos: &[f64], y: &mut [f64]) {
    let others = rest.chunks_exact(8).zip(twos.chunks_exact(8));
    let all_of = x.chunks_exact(8).zip(others).zip(y.chunks_exact_mut(8));
    for ((x, (rest, twos)), y) in all_of {
        // SAFETY: all have eight elements.
        unsafe {
            let (m, e, index) = split(_mm512_loadu_pd(x.as_ptr()));
            let e = _mm512_add_pd(e, _mm512_loadu_pd(twos.as_ptr()));
            let (high, near) = of_mantissa(m, index);
            let small = _mm512_fmadd_pd(e, all(LN2_LO), _mm512_loadu_pd(rest.as_ptr()));
            let small = _mm512_add_pd(near, small);
            let large = _mm512_fmadd_pd(e, all(LN2_HI), high);
            _mm512_storeu_pd(y.as_mut_ptr(), _mm512_add_pd(large, small));
        }
    }
}

/// The natural logarithm of positive numbers as a sum of two numbers, to about 63 bits.
#[inline(always)]
unsafe fn long_log(x: __m512d) -> (__m512d, __m512d) {
    // SAFETY: the callers enable the instruction set.
    unsafe {
        let (m, e, index) = split(x);
        let factor = sixteenth(index, &FACTORS);
        // `m` by the factor is `1 + r + lost`, and the sum of the two greatest terms is exact.
        let near = _mm512_mul_pd(m, factor);
        let lost = _mm512_fmsub_pd(m, factor, near);
        let r = _mm512_sub_pd(near, all(1.0));
        let large = _mm512_fmadd_pd(e, all(LN2_HI), sixteenth(index, &HIGH));
        let first = _mm512_add_pd(large, r);
        let first_low = _mm512_add_pd(_mm512_sub_pd(large, first), r);
        let square = _mm512_mul_pd(r, r);
        let square_low = _mm512_fmsub_pd(r, r, square);
        let half = _mm512_mul_pd(square, all(0.5));
        let high = _mm512_sub_pd(first, half);
        let high_low = _mm512_sub_pd(_mm512_sub_pd(first, high), half);
        // What was lost is to be divided by `1 + r`.
        let low = _mm512_fmadd_pd(lost, _mm512_sub_pd(square, r), lost);
        let low = _mm512_fmadd_pd(square_low, all(-0.5), low);
        let low = _mm512_fmadd_pd(e, all(LN2_LO), low);
        let low = _mm512_add_pd(low, sixteenth(index, &LOW));
        let low = _mm512_fmadd_pd(poly(r, &LONG), _mm512_mul_pd(square, r), low);
        let low = _mm512_add_pd(low, _mm512_add_pd(first_low, high_low));
        let sum = _mm512_add_pd(high, low);
        (sum, _mm512_add_pd(_mm512_sub_pd(high, sum), low))
    }
}

/// `e^(x + low)`, where `low` is small; infinite or 0 far out.
#[inline(always)]
unsafe fn exponential(x: __m512d, low: __m512d) -> __m512d {
    // SAFETY: the callers enable the instruction set.
    unsafe {
        let inside = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(_mm512_abs_pd(x), all(800.0));
        let x = _mm512_max_pd(_mm512_min_pd(x, all(800.0)), all(-800.0));
        let low = _mm512_maskz_mov_pd(inside, low);
        let shifted = _mm512_fmadd_pd(x, all(16.0 * std::f64::consts::LOG2_E), all(SHIFT));
        let n = _mm512_sub_pd(shifted, all(SHIFT));
        let r = _mm512_fmadd_pd(n, all(-LN2_HI / 16.0), x);
        let r = _mm512_fmadd_pd(n, all(-LN2_LO / 16.0), _mm512_add_pd(r, low));
        let root = sixteenth(_mm512_castpd_si512(shifted), &ROOTS);
        let less = _mm512_fmadd_pd(poly(r, &EXPONENTIAL), _mm512_mul_pd(r, r), r);
        let power = _mm512_fmadd_pd(root, less, root);
        // What is no whole number of twos is rounded down.
        _mm512_scalef_pd(power, _mm512_mul_pd(n, all(1.0 / 16.0)))
    }
}

/// Powers of positive finite numbers with finite exponents, within 3 units in the last place.
///
/// # Safety
/// The processor has AVX-512; all have as many elements, which eight divides.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,fma,avx2")]
pub(super) unsafe fn powers(x: &[f64], y: &[f64], z: &mut [f64]) {
    let both = x.chunks_exact(8).zip(y.chunks_exact(8));
    for ((x, y), z) in both.zip(z.chunks_exact_mut(8)) {
        // SAFETY: all have eight elements.
        unsafe {
            let (x, y) = (_mm512_loadu_pd(x.as_ptr()), _mm512_loadu_pd(y.as_ptr()));
            let (high, low) = long_log(x);
            let e = _mm512_mul_pd(y, high);
            let rest = _mm512_fmadd_pd(y, low, _mm512_fmsub_pd(y, high, e));
            let power = exponential(e, rest);
            let squared = _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(y, all(2.0));
            let power = _mm512_mask_mul_pd(power, squared, x, x);
            _mm512_storeu_pd(z.as_mut_ptr(), power);
        }
    }
}

/// The same of float32, rounded once.
///
/// # Safety
/// As [`powers`].
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,fma,avx2")]
pub(super) unsafe fn single_powers(x: &[f32], y: &[f32], z: &mut [f32]) {
    let both = x.chunks_exact(8).zip(y.chunks_exact(8));
    for ((x, y), z) in both.zip(z.chunks_exact_mut(8)) {
        // SAFETY: all have eight elements.
        unsafe {
            let (x, y) = (_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(y.as_ptr()));
            let (m, e, index) = split(_mm512_cvtps_pd(x));
            let r = _mm512_fmadd_pd(m, sixteenth(index, &FACTORS), all(-1.0));
            let part = _mm512_fmadd_pd(poly(r, &SHORT), r, sixteenth(index, &TWOS));
            let t = _mm512_mul_pd(_mm512_cvtps_pd(y), _mm512_add_pd(e, part));
            let n = _mm512_roundscale_pd::<0>(t);
            let power = _mm512_scalef_pd(poly(_mm512_sub_pd(t, n), &POWER), n);
            let power = _mm512_cvtpd_ps(power);
            let squared = _mm256_cmp_ps_mask::<_CMP_EQ_OQ>(y, _mm256_set1_ps(2.0));
            _mm256_storeu_ps(z.as_mut_ptr(), _mm256_mask_mul_ps(power, squared, x, x));
        }
    }
}
