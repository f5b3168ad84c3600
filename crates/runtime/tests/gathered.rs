//! Sums of elements at tabulated places, against plain loops.

mod common;

use common::{Random, everywhere};
use half::{bf16, f16};
use relax_runtime::capi::kernels::rx_gathered;
use relax_runtime::context::RxContext;
use relax_runtime::kernels::gathered::RxGathered;
use relax_runtime::kernels::kinds::Kind;

/// An element of an array or of a result, as float64.
trait Element: Copy + Default {
    const KIND: Kind;
    /// How far a sum may be off, of its terms' magnitudes.
    const ERROR: f64;
    fn of(x: f32) -> Self;
    fn number(self) -> f64;
}

macro_rules! elements {
    ($($t:ident $kind:ident $error:literal |$x:ident| $of:expr, |$y:ident| $number:expr;)*) => {$(
        impl Element for $t {
            const KIND: Kind = Kind::$kind;
            const ERROR: f64 = $error;
            fn of($x: f32) -> Self {
                $of
            }
            fn number(self) -> f64 {
                let $y = self;
                $number
            }
        }
    )*};
}
elements! {
    f32 F32 1e-5 |x| x, |y| y.into();
    f64 F64 1e-12 |x| f64::from(x) / 3.0, |y| y;
    f16 F16 2e-3 |x| f16::from_f32(x), |y| y.to_f64();
    bf16 BF16 2e-2 |x| bf16::from_f32(x), |y| y.to_f64();
    u8 U8 1e-5 |x| (x * 100.0) as u8, |y| y.into();
}

/// The extents of a case: places before and behind the channels of the array, and of the result.
#[derive(Clone, Copy, Debug)]
struct Extents {
    from: (usize, usize),
    to: (usize, usize),
    channels: usize,
    inner: usize,
    taps: usize,
}

/// `W` is the type of weights: float64 for float64.
fn check<X: Element, W: Element, Y: Element>(ctx: *mut RxContext, random: &mut Random, e: Extents) {
    let (before, behind) = e.to;
    let count = before * behind;
    let all = e.from.0 * e.from.1;
    let x: Vec<X> = (0..all * e.channels * e.inner)
        .map(|_| X::of(random.float()))
        .collect();
    let places: Vec<i64> = (0..e.taps * count)
        .map(|_| random.below(all + 1) as i64 - 1)
        .collect();
    let weights: Vec<W> = (0..e.taps * count).map(|_| W::of(random.float())).collect();
    let mut y = vec![Y::default(); count * e.channels * e.inner];
    let gathered = RxGathered {
        taps: e.taps as i32,
        kind: Y::KIND as i32,
        from_kind: X::KIND as i32,
        reserved: 0,
        from_before: e.from.0 as i64,
        before: before as i64,
        channels: e.channels as i64,
        from_behind: e.from.1 as i64,
        behind: behind as i64,
        inner: e.inner as i64,
        places: places.as_ptr(),
        weights: weights.as_ptr().cast(),
        x: x.as_ptr().cast(),
        out: y.as_mut_ptr().cast(),
    };
    // SAFETY: arrays and tables are as large as the descriptor says.
    assert_eq!(unsafe { rx_gathered(ctx, &gathered) }, 0);
    for (n, found) in y.iter().enumerate() {
        let (rest, i) = (n / e.inner, n % e.inner);
        let (rest, a) = (rest / behind, rest % behind);
        let (b, c) = (rest / e.channels, rest % e.channels);
        let (mut sum, mut size) = (0.0, 0.1);
        for k in 0..e.taps {
            let entry = k * count + b * behind + a;
            if places[entry] >= 0 {
                let q = places[entry] as usize;
                let (q, r) = (q / e.from.1, q % e.from.1);
                let at = ((q * e.channels + c) * e.from.1 + r) * e.inner + i;
                let term = x[at].number() * weights[entry].number();
                (sum, size) = (sum + term, size + term.abs());
            }
        }
        let error = (found.number() - sum).abs();
        assert!(
            error <= Y::ERROR * size,
            "{e:?}: element {n} is off by {error}"
        );
    }
}

#[test]
fn sums_at_tabulated_places_of_any_type() {
    everywhere(|ctx, _| {
        let mut random = Random(11);
        for round in 0..60 {
            let some = |r: &mut Random, all: &[usize]| all[r.below(all.len())];
            let r = &mut random;
            let e = Extents {
                from: (some(r, &[1, 1, 3]), some(r, &[1, 7, 60])),
                to: (some(r, &[1, 1, 4]), some(r, &[1, 5, 49, 600])),
                channels: some(r, &[1, 3, 8, 17, 40, 70]),
                inner: some(r, &[1, 1, 1, 2, 3, 8, 19, 64]),
                taps: some(r, &[1, 2, 4, 16]),
            };
            match round % 6 {
                0 => check::<f32, f32, f32>(ctx, r, e),
                1 => check::<f64, f64, f64>(ctx, r, e),
                2 => check::<f16, f32, f16>(ctx, r, e),
                3 => check::<bf16, f32, bf16>(ctx, r, e),
                4 => check::<u8, f32, f32>(ctx, r, e),
                _ => check::<f32, f64, f64>(ctx, r, e),
            }
        }
    });
}

/// What is not read is 0, which an infinite weight makes no number; a negative zero stays one.
#[test]
fn nothing_times_a_weight_is_added() {
    everywhere(|ctx, _| {
        for inner in [1usize, 64] {
            let x = vec![-2.0f32; 64 * inner];
            let mut y = vec![0.0f32; 64 * 2 * inner];
            let (places, weights) = ([-1i64, 0], [f32::INFINITY, 0.0]);
            let gathered = RxGathered {
                taps: 1,
                kind: Kind::F32 as i32,
                from_kind: Kind::F32 as i32,
                reserved: 0,
                from_before: 1,
                before: 1,
                channels: 64,
                from_behind: 1,
                behind: 2,
                inner: inner as i64,
                places: places.as_ptr(),
                weights: weights.as_ptr().cast(),
                x: x.as_ptr().cast(),
                out: y.as_mut_ptr().cast(),
            };
            // SAFETY: arrays and tables are as large as the descriptor says.
            assert_eq!(unsafe { rx_gathered(ctx, &gathered) }, 0);
            for pair in y.chunks(2 * inner) {
                let (none, read) = pair.split_at(inner);
                assert!(
                    none.iter().all(|y| y.is_nan())
                        && read.iter().all(|&y| y == 0.0 && y.is_sign_negative())
                );
            }
        }
    });
}
