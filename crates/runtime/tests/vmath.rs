//! The stated error bounds of the vector functions, against float64.

mod common;

use common::everywhere;
use relax_runtime::capi::arrays::{
    rx_vatan_f32, rx_vcos_f32, rx_verf_f32, rx_vexp_f32, rx_vgelu_f32, rx_vlog_f32, rx_vmath_f32,
    rx_vmath_f64, rx_vpow_f32, rx_vrsqrt_f32, rx_vsigmoid_f32, rx_vsin_f32, rx_vsqrt_f32,
    rx_vtanh_f32,
};
use relax_runtime::capi::numbers::rx_math_f64;

type Exact = fn(f32) -> f32;
type Strip = unsafe extern "C" fn(i64, *const f32, *mut f32);

fn apply(strip: Strip, x: &[f32]) -> Vec<f32> {
    let mut y = vec![0.0f32; x.len()];
    // SAFETY: both have as many elements.
    unsafe { strip(x.len() as i64, x.as_ptr(), y.as_mut_ptr()) };
    y
}

/// Distance of a result from the exact one, in units in the last place of the latter.
fn ulps(found: f32, exact: f64) -> f64 {
    let near = exact as f32;
    if found == near || found.is_nan() && near.is_nan() {
        return 0.0;
    }
    if !near.is_finite() || !found.is_finite() {
        return f64::INFINITY;
    }
    if near.abs() < f32::MIN_POSITIVE && found == 0.0 {
        return 0.0; // Subnormal results may be flushed.
    }
    let unit = f64::from(near.abs().max(f32::MIN_POSITIVE).next_up())
        - f64::from(near.abs().max(f32::MIN_POSITIVE));
    (f64::from(found) - exact).abs() / unit
}

/// Every 1009th float in a range of both signs, and the neighbourhoods of some numbers.
fn samples(lo: f32, hi: f32) -> Vec<f32> {
    let all = (0..u32::MAX / 1009).map(|i| f32::from_bits(i * 1009));
    let near = [
        0.0f32,
        1.0,
        -1.0,
        0.625,
        lo,
        hi,
        std::f32::consts::PI,
        std::f32::consts::LN_2,
    ];
    let near = near
        .into_iter()
        .flat_map(|x| (-20..=20).map(move |d| f32::from_bits(x.to_bits().wrapping_add_signed(d))));
    all.chain(near).filter(|x| *x >= lo && *x <= hi).collect()
}

fn check(name: &str, strip: Strip, exact: fn(f64) -> f64, bound: f64, lo: f32, hi: f32) {
    everywhere(|ctx, isa| {
        // SAFETY: a live context.
        if unsafe { (*ctx).threads } != 1 {
            return;
        }
        let x = samples(lo, hi);
        let y = apply(strip, &x);
        let mut worst = (0.0, 0.0f32, 0.0f32);
        for (&x, &y) in x.iter().zip(&y) {
            let error = ulps(y, exact(f64::from(x)));
            if error > worst.0 {
                worst = (error, x, y);
            }
        }
        println!("{name} {isa:?}: {:.2} ulp at {}", worst.0, worst.1);
        let (error, x, y) = worst;
        assert!(
            error <= bound,
            "{name} {isa:?}: {error} ulp at {x:?}: {y:?}, not {:?}",
            exact(f64::from(x))
        );
    });
}

#[test]
fn errors_are_within_the_stated_bounds() {
    let inf = f32::INFINITY;
    check("exp", rx_vexp_f32, libm::exp, 1.5, -inf, inf);
    check("log", rx_vlog_f32, libm::log, 1.5, 0.0, inf);
    check("tanh", rx_vtanh_f32, libm::tanh, 3.5, -inf, inf);
    check("erf", rx_verf_f32, libm::erf, 4.0, -inf, inf);
    check(
        "sigmoid",
        rx_vsigmoid_f32,
        |x| 1.0 / (1.0 + libm::exp(-x)),
        3.0,
        -inf,
        inf,
    );
    check("sqrt", rx_vsqrt_f32, libm::sqrt, 0.5, 0.0, inf);
    check("rsqrt", rx_vrsqrt_f32, |x| 1.0 / x.sqrt(), 1.5, 1e-37, inf);
    check("sin", rx_vsin_f32, libm::sin, 2.0, -1e6, 1e6);
    check("cos", rx_vcos_f32, libm::cos, 2.0, -1e6, 1e6);
    check("tan", numbered::<8>, libm::tan, 1.0, -1e6, 1e6);
}

/// Fails unless a function of `x` is what is wanted: zeros and infinities with their signs, what is no
/// number, others within a relative tolerance.
fn alike(x: f32, found: f32, wanted: f32, tolerance: f32) {
    let same = found == wanted && found.is_sign_negative() == wanted.is_sign_negative();
    let near = (found - wanted).abs() <= tolerance * wanted.abs() && wanted != 0.0;
    let none = found.is_nan() && wanted.is_nan();
    assert!(same || near || none, "of {x} is {found}, not {wanted}");
}

#[test]
fn logarithms_and_areas_of_float32_are_within_their_bounds() {
    let inf = f32::INFINITY;
    check("log2", numbered::<2>, libm::log2, 2.0, 0.0, inf);
    check("log10", numbered::<3>, libm::log10, 2.0, 0.0, inf);
    check("asinh", numbered::<15>, libm::asinh, 4.0, -inf, inf);
    check("acosh", numbered::<16>, libm::acosh, 4.0, 1.0, inf);
    check("atanh", numbered::<17>, libm::atanh, 4.0, -1.0, 1.0);
    check("round", numbered::<23>, libm::round, 0.0, -inf, inf);
    check("rint", numbered::<24>, libm::rint, 0.0, -inf, inf);
    let special = [
        f32::NAN,
        inf,
        -inf,
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        1e-40,
        -1e-40,
        3e38,
    ];
    let whole: Vec<f32> = (-8..=8).map(|k| (k as f32 * 0.5).next_down()).collect();
    let x = [&special[..], &whole].concat();
    everywhere(|_, isa| {
        for (strip, exact) in [
            (numbered::<2> as Strip, libm::log2f as Exact),
            (numbered::<3>, libm::log10f),
            (numbered::<15>, libm::asinhf),
            (numbered::<16>, libm::acoshf),
            (numbered::<17>, libm::atanhf),
            (numbered::<23>, libm::roundf),
            (numbered::<24>, libm::rintf),
        ] {
            for (&x, y) in x.iter().zip(apply(strip, &x)) {
                alike(x, y, exact(x), 5e-7);
            }
        }
        // Powers of the base are exact.
        let two: Vec<f32> = (-149..128).map(|k| (k as f32).exp2()).collect();
        let found = apply(numbered::<2>, &two);
        assert!(
            found.into_iter().eq((-149..128).map(|k| k as f32)),
            "{isa:?}"
        );
    });
}

/// Angles of points in all directions, near the axes, and of zeros, infinities and what is no
/// number.
#[test]
fn angles_of_float32_are_within_their_bounds() {
    let inf = f32::INFINITY;
    let special = [
        f32::NAN,
        inf,
        -inf,
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e-40,
        -1e-40,
        3e38,
        2e-38,
        -7.5,
    ];
    let mut random = common::Random(13);
    let mut pairs: Vec<(f32, f32)> = Vec::new();
    for y in special {
        pairs.extend(special.map(|x| (y, x)));
    }
    while pairs.len() < 200_000 {
        let scale = (random.float() * 20.0).exp2();
        pairs.push((random.float() - 0.5, (random.float() - 0.5) * scale));
    }
    let (y, x): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
    everywhere(|_, isa| {
        let mut z = vec![0.0f32; x.len()];
        // SAFETY: all have as many elements.
        unsafe { rx_vmath_f32(26, x.len() as i64, y.as_ptr(), x.as_ptr(), z.as_mut_ptr()) };
        for ((&y, &x), &z) in y.iter().zip(&x).zip(&z) {
            let exact = libm::atan2(f64::from(y), f64::from(x));
            let error = ulps(z, exact);
            assert!(
                error <= 4.0 && (z.is_nan() || z.is_sign_negative() == exact.is_sign_negative()),
                "atan2({y:e}, {x:e}) is {z:e}, not {exact:e}: {error} ({isa:?})"
            );
        }
    });
}

/// The function with a number, over a strip.
unsafe extern "C" fn numbered<const F: i32>(n: i64, x: *const f32, y: *mut f32) {
    // SAFETY: all that are read have `n` elements; functions of one number read no second one.
    unsafe { rx_vmath_f32(F, n, x, x, y) };
}

#[test]
fn hyperbolic_functions_are_within_their_bounds() {
    let inf = f32::INFINITY;
    check("sinh", numbered::<12>, libm::sinh, 3.0, -inf, inf);
    check("cosh", numbered::<13>, libm::cosh, 3.0, -inf, inf);
    let greatest = 89.415_985f32;
    for strip in [numbered::<12> as Strip, numbered::<13>] {
        let y = apply(strip, &[greatest, greatest.next_up(), f32::NAN, inf]);
        assert!(y[0].is_finite() && y[1] == inf && y[2].is_nan() && y[3] == inf);
    }
    assert!(apply(numbered::<12>, &[-0.0])[0].is_sign_negative());
}

#[test]
fn special_values_are_those_of_c() {
    everywhere(|_, isa| {
        let nan = f32::NAN;
        let inf = f32::INFINITY;
        let x = [nan, inf, -inf, 0.0, -0.0, -1.0, 1e-40];
        let strips: [(Strip, Exact, &str); 6] = [
            (rx_vexp_f32, libm::expf, "exp"),
            (rx_vlog_f32, libm::logf, "log"),
            (rx_vtanh_f32, libm::tanhf, "tanh"),
            (rx_verf_f32, libm::erff, "erf"),
            (rx_vsin_f32, libm::sinf, "sin"),
            (rx_vcos_f32, libm::cosf, "cos"),
        ];
        for (strip, exact, name) in strips {
            for (x, y) in x.iter().zip(apply(strip, &x)) {
                let wanted = exact(*x);
                let same = y.is_nan() && wanted.is_nan()
                    || y == wanted && y.is_sign_negative() == wanted.is_sign_negative()
                    || (y - wanted).abs() <= 1e-6 * wanted.abs();
                assert!(same, "{name}({x}) is {y}, not {wanted} ({isa:?})");
            }
        }
        // A NaN with other bits than the usual ones is none of the numbers that they would be.
        let odd = [
            f32::from_bits(0x7fc0_0001),
            f32::from_bits(0xffff_ffff),
            9e9,
        ];
        for (strip, _, name) in strips {
            let y = apply(strip, &odd);
            assert!(y[0].is_nan() && y[1].is_nan(), "{name}: {y:?} ({isa:?})");
        }
        // Where a function comes as near to 1 as a float can, it is no more.
        let large: Vec<f32> = (0..1 << 16)
            .map(|i| 3.5 + i as f32 / (1 << 13) as f32)
            .collect();
        for strip in [rx_vtanh_f32 as Strip, rx_verf_f32] {
            let y = apply(strip, &large);
            assert!(y.iter().all(|y| *y <= 1.0) && y[y.len() - 1] == 1.0);
        }
        let y = apply(rx_vsigmoid_f32, &odd);
        assert!(y[0].is_nan() && y[1].is_nan() && y[2] == 1.0);
        let y = apply(rx_vsigmoid_f32, &[nan, inf, -inf, 0.0]);
        assert!(y[0].is_nan() && y[1..] == [1.0, 0.0, 0.5]);
        let y = apply(rx_vgelu_f32, &[0.0, 1.0, -1.0, 10.0]);
        common::close("gelu", &y, &[0.0, 0.841_344_7, -0.158_655_26, 10.0], 1e-6);
    });
}

/// The distance of a float64 from the scalar function's result, in units in the last place.
fn double_ulps(found: f64, wanted: f64) -> f64 {
    if found == wanted || found.is_nan() && wanted.is_nan() {
        return 0.0;
    }
    if !found.is_finite() || !wanted.is_finite() {
        return f64::INFINITY;
    }
    let least = wanted.abs().max(f64::MIN_POSITIVE);
    (found - wanted).abs() / (least.next_up() - least)
}

/// Every function of float64, at a million points of all magnitudes and at special ones.
#[test]
fn functions_of_float64_are_within_the_stated_bounds() {
    let mut random = common::Random(5);
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        3.0,
        -3.0,
        0.5,
        -0.5,
        1e-310,
        -1e-310,
        709.9,
        -745.3,
        1e300,
        -1e300,
        5e-324,
        f64::MAX,
        22.5,
        -22.5,
        1e6,
    ];
    let mut x: Vec<f64> = Vec::new();
    let mut y: Vec<f64> = Vec::new();
    for &a in &special {
        for &b in &special {
            x.push(a);
            y.push(b);
        }
    }
    for k in 0..1_000_000 {
        let mut bits = || random.bits() << 33 ^ random.bits() << 11 ^ random.bits();
        let (a, b) = (bits(), bits());
        // Any bits, and numbers between 2^-30 and 2^10.
        let near = |b: u64| f64::from_bits(b & 0x800f_ffff_ffff_ffff | (0x3ff - 30 + b % 40) << 52);
        x.push(if k % 4 == 0 {
            f64::from_bits(a)
        } else {
            near(a)
        });
        y.push(if k % 4 == 0 {
            f64::from_bits(b)
        } else {
            near(b)
        });
    }
    everywhere(|ctx, isa| {
        // SAFETY: a live context.
        if unsafe { (*ctx).threads } != 1 {
            return;
        }
        for function in 0..29 {
            let mut z = vec![0.0f64; x.len()];
            // SAFETY: all have as many elements.
            unsafe {
                rx_vmath_f64(
                    function,
                    x.len() as i64,
                    x.as_ptr(),
                    y.as_ptr(),
                    z.as_mut_ptr(),
                )
            };
            for ((&x, &y), &z) in x.iter().zip(&y).zip(&z) {
                let wanted = rx_math_f64(function, x, y);
                let error = double_ulps(z, wanted);
                assert!(
                    error <= 4.0,
                    "{function} of {x:e}, {y:e} is {z:e}, not {wanted:e}: {error} units ({isa:?})"
                );
                let zero = z == 0.0 && z.is_sign_negative() != wanted.is_sign_negative();
                assert!(!zero, "{function} of {x:e}, {y:e} is {z:e} ({isa:?})");
            }
        }
    });
}

#[test]
fn strips_of_any_length_touch_nothing_else() {
    everywhere(|_, _| {
        for n in 0..70 {
            let x = vec![0.5f32; n + 1];
            let mut y = vec![7.0f32; n + 1];
            // SAFETY: one more element than is touched.
            unsafe { rx_vexp_f32(n as i64, x.as_ptr(), y.as_mut_ptr()) };
            assert!(y[..n].iter().all(|y| (y - 1.648_721_3).abs() < 1e-6));
            assert_eq!(y[n], 7.0);
        }
    });
}

#[test]
fn functions_by_number_agree_with_float64() {
    let x: Vec<f64> = (1..200).map(|i| f64::from(i) / 201.0).collect();
    let y: Vec<f64> = x.iter().map(|x| 2.5 - x).collect();
    let (xs, ys): (Vec<f32>, Vec<f32>) = x
        .iter()
        .zip(&y)
        .map(|(x, y)| (*x as f32, *y as f32))
        .unzip();
    for function in 0..29 {
        let (mut z, mut zs) = (vec![0.0f64; x.len()], vec![0.0f32; x.len()]);
        let n = x.len() as i64;
        // SAFETY: all have as many elements.
        unsafe {
            rx_vmath_f64(function, n, x.as_ptr(), y.as_ptr(), z.as_mut_ptr());
            rx_vmath_f32(function, n, xs.as_ptr(), ys.as_ptr(), zs.as_mut_ptr());
        }
        if function == 16 {
            continue; // acosh is defined from 1 on.
        }
        for (z, zs) in z.iter().zip(&zs) {
            assert!(
                (z - f64::from(*zs)).abs() < 2e-5 * z.abs().max(1.0),
                "{function}: {z} {zs}"
            );
        }
    }
    // Spot checks that the function numbers are those of the header.
    let one = |f, x, y| rx_math_f64(f, x, y);
    assert_eq!(one(2, 8.0, 0.0), 3.0);
    assert_eq!([one(10, 1.0, 0.0), one(16, 1.0, 0.0)], [0.0, 0.0]);
    assert_eq!(one(22, 27.0, 0.0), 3.0);
    assert_eq!([one(23, 2.5, 0.0), one(24, 2.5, 0.0)], [3.0, 2.0]);
    assert_eq!(
        [one(25, 2.0, 10.0), one(27, 7.5, 2.0), one(28, 3.0, 4.0)],
        [1024.0, 1.5, 5.0]
    );
    assert!(one(29, 1.0, 1.0).is_nan() && one(-1, 1.0, 1.0).is_nan());
}

#[test]
fn arcs_and_powers_of_float32_are_within_their_bounds() {
    let inf = f32::INFINITY;
    check("atan", rx_vatan_f32, libm::atan, 2.0, -inf, inf);
    check("asin", numbered::<9>, libm::asin, 2.5, -1.0, 1.0);
    check("acos", numbered::<10>, libm::acos, 2.5, -1.0, 1.0);
    for (strip, exact) in [
        (numbered::<9> as Strip, libm::asinf as Exact),
        (numbered::<10>, libm::acosf),
    ] {
        for x in [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, inf, f32::NAN] {
            let (found, wanted) = (apply(strip, &[x])[0], exact(x));
            alike(x, found, wanted, 2.0 * f32::EPSILON);
        }
    }
    let special = [
        f32::NAN,
        inf,
        -inf,
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        0.75,
        -0.5,
        3.0,
        -3.0,
        1e-40,
        1e30,
        -1e30,
        16_777_217.0,
    ];
    everywhere(|_, isa| {
        let mut random = common::Random(7);
        let mut pairs: Vec<(f32, f32)> = Vec::new();
        for x in special {
            pairs.extend(special.map(|y| (x, y)));
        }
        // Also whole pieces of ordinary numbers.
        while pairs.len() < 100_000 {
            let x = (random.float() * 20.0).exp2();
            pairs.push((x, random.float() * [1.0, 4.0, 30.0][random.below(3)]));
        }
        let (x, y): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let mut z = vec![0.0f32; x.len()];
        // SAFETY: all have as many elements.
        unsafe { rx_vpow_f32(x.len() as i64, x.as_ptr(), y.as_ptr(), z.as_mut_ptr()) };
        for ((&x, &y), &z) in x.iter().zip(&y).zip(&z) {
            let exact = libm::pow(f64::from(x), f64::from(y));
            let error = ulps(z, exact);
            assert!(
                error <= 1.0,
                "pow({x:e}, {y:e}) is {z:e}, not {exact:e}: {error} ({isa:?})"
            );
            let minus =
                z == 0.0 && exact as f32 == 0.0 && z.is_sign_negative() != exact.is_sign_negative();
            assert!(!minus, "pow({x:e}, {y:e}) is {z:e} ({isa:?})");
        }
        for x in [0.0f32, -0.0, inf, -inf, f32::NAN, 1e-40] {
            let found = apply(rx_vatan_f32, &[x])[0];
            let wanted = libm::atan(f64::from(x)) as f32;
            let sign = found.is_sign_negative() == wanted.is_sign_negative() || x.is_nan();
            assert!(
                (found == wanted || x.is_nan() && found.is_nan()) && sign,
                "atan({x}) is {found}"
            );
        }
    });
}

/// Remainders are exact, of quotients of any size.
#[test]
fn remainders_are_exact() {
    let special = [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-40,
        -3e38,
        0.1,
        16_777_216.0,
    ];
    everywhere(|_, isa| {
        let mut random = common::Random(11);
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for a in special {
            x.extend([a; 11]);
            y.extend(special);
        }
        // Any bits in some pieces, in others numbers whose quotients have few bits, or are whole.
        for k in 0..200_000usize {
            let (a, b) = (random.bits() as u32, random.bits() as u32);
            let near = |b: u32, to: u32| f32::from_bits(b & 0x807f_ffff | (127 + b % to) << 23);
            let (a, b) = match k / 640 % 3 {
                0 => (f32::from_bits(a), f32::from_bits(b)),
                1 => (near(a, 25), near(b, 5)),
                _ => (near(b, 5) * (a % 4096) as f32, near(b, 5)),
            };
            x.push(a);
            y.push(b);
        }
        let mut z = vec![0.0f32; x.len()];
        // SAFETY: all have as many elements.
        unsafe { rx_vmath_f32(27, x.len() as i64, x.as_ptr(), y.as_ptr(), z.as_mut_ptr()) };
        for ((&x, &y), &z) in x.iter().zip(&y).zip(&z) {
            let wanted = x % y;
            let same = z.to_bits() == wanted.to_bits() || z.is_nan() && wanted.is_nan();
            assert!(same, "{x:e} % {y:e} is {z:e}, not {wanted:e} ({isa:?})");
        }
        // Of float64: all bits of both, and multiples with the last place more or less.
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for k in 0..200_000u64 {
            let mut bits = || random.bits() << 33 ^ random.bits() << 11 ^ random.bits();
            let near = |b: u64| f64::from_bits(b & 0x800f_ffff_ffff_ffff | (1023 + b % 20) << 52);
            let (a, b) = (near(bits()), near(bits()));
            let a = if k % 2 == 0 {
                a
            } else {
                b * (bits() % 1000) as f64
            };
            x.push(if k % 3 == 0 { a.next_down() } else { a });
            y.push(b);
        }
        let mut z = vec![0.0f64; x.len()];
        // SAFETY: all have as many elements.
        unsafe { rx_vmath_f64(27, x.len() as i64, x.as_ptr(), y.as_ptr(), z.as_mut_ptr()) };
        for ((&x, &y), &z) in x.iter().zip(&y).zip(&z) {
            let wanted = x % y;
            assert_eq!(
                z.to_bits(),
                wanted.to_bits(),
                "{x:e} % {y:e} is {z:e} ({isa:?})"
            );
        }
    });
}

/// Where all exponents are the same quarters of a whole number, powers are roots and products.
#[test]
fn powers_with_one_exponent_are_within_their_bounds() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -2.5,
    ];
    let mut x = special.to_vec();
    x.extend((0..20_000u32).map(|i| f32::from_bits(0x0100_0000 + i * 100_003)));
    everywhere(|_, isa| {
        for exponent in [
            0.25f32, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, -0.25, -0.5, -0.75, -1.0, -1.5, -2.0, 0.6,
        ] {
            let y = vec![exponent; x.len()];
            let mut z = vec![0.0f32; x.len()];
            // SAFETY: all have as many elements.
            unsafe { rx_vpow_f32(x.len() as i64, x.as_ptr(), y.as_ptr(), z.as_mut_ptr()) };
            for (&x, &z) in x.iter().zip(&z) {
                let exact = libm::pow(f64::from(x), f64::from(exponent));
                if exact.abs() > f64::from(f32::MIN_POSITIVE) && exact.abs() < f64::from(f32::MAX) {
                    let error = ulps(z, exact);
                    let bound = if exponent < 0.0 { 3.5 } else { 2.1 };
                    assert!(
                        error <= bound,
                        "{x:e}^{exponent} is {z:e}: {error} ({isa:?})"
                    );
                } else if exact.is_nan() {
                    assert!(z.is_nan(), "{x:e}^{exponent} is {z:e} ({isa:?})");
                } else if exact == 0.0 || exact.is_infinite() {
                    assert_eq!(z, exact as f32, "{x:e}^{exponent} ({isa:?})");
                }
            }
        }
    });
}
