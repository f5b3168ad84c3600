//! Rows that are reduced as they lie: of several axes, and truth values.

mod common;

use common::{Random, everywhere, sweep_of_one};
use relax_runtime::capi::kernels::rx_sweep;
use relax_runtime::kernels::combiner::Combiner;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::sweep::{Op, RxSweep, RxSweepOp};

/// Reduces the first and the last axis of an array of `a` by `b` by `c` elements everywhere.
fn reduced<T: Copy + Default + PartialEq + std::fmt::Debug>(
    (kind, combiner): (Kind, Combiner),
    [a, b, c]: [usize; 3],
    x: &[T],
    together: impl Fn(T, T) -> T,
) {
    let op = RxSweepOp {
        code: Op::Copy as i32,
        kind: kind as i32,
        to: kind as i32,
        dst: 0,
        args: [0; 4],
    };
    let extents = [b, a, c].map(|n| n as i64);
    let strides = [c, b * c, 1].map(|n| n as i64);
    let (data, kinds) = ([x.as_ptr().cast()], [kind as i32]);
    everywhere(|ctx, isa| {
        let mut out = vec![T::default(); b];
        let sweep = RxSweep {
            combiner: combiner as i32,
            ..sweep_of_one(
                &op,
                1,
                (&data, &kinds),
                (&extents, &strides),
                (kind, &mut out),
            )
        };
        // SAFETY: the input has all elements, the result one for each of `b`.
        assert_eq!(unsafe { rx_sweep(ctx, &raw const sweep) }, 0);
        for (j, &found) in out.iter().enumerate() {
            let all = (0..a).flat_map(|i| &x[(i * b + j) * c..][..c]).copied();
            let wanted = all.reduce(&together).unwrap_or_default();
            let sizes = [a, b, c];
            assert_eq!(
                found, wanted,
                "{combiner:?} of {kind:?}, {sizes:?} at {j}, {isa:?}"
            );
        }
    });
}

/// Rows that are shorter than what they are folded onto, no multiple of it, and long.
#[test]
fn rows_of_two_axes_are_reduced() {
    let mut random = Random(51);
    for sizes in [[16, 5, 500], [3, 20, 1031], [40, 3, 17], [1, 4, 4096]] {
        let count: usize = sizes.iter().product();
        macro_rules! all {
            ($($t:ident $kind:ident),*) => {$(
                let x: Vec<$t> = (0..count).map(|_| random.bits() as $t).collect();
                let kind = Kind::$kind;
                reduced((kind, Combiner::Sum), sizes, &x, |a, b| a.wrapping_add(b));
                reduced((kind, Combiner::Product), sizes, &x, |a, b| a.wrapping_mul(b));
                reduced((kind, Combiner::Max), sizes, &x, |a, b| a.max(b));
                reduced((kind, Combiner::Min), sizes, &x, |a, b| a.min(b));
            )*};
        }
        all!(i8 I8, u16 U16, i32 I32, u32 U32, i64 I64);
        let x: Vec<f64> = (0..count)
            .map(|_| f64::from(random.bits() as u16))
            .collect();
        reduced((Kind::F64, Combiner::Sum), sizes, &x, |a, b| a + b);
        reduced((Kind::F64, Combiner::Max), sizes, &x, f64::max);
    }
}

/// What decides may stand anywhere, and any byte but 0 holds.
#[test]
fn truth_values_are_decided_wherever_the_one_stands_that_decides() {
    let mut random = Random(52);
    for n in [16, 255, 256, 257, 2048, 5000] {
        for _ in 0..12 {
            let (place, some) = (random.below(n + 20), random.below(255) as u8 + 1);
            for (combiner, rest, one) in [(Combiner::And, some, 0), (Combiner::Or, 0, some)] {
                let mut x = vec![rest; 3 * n];
                if place < n {
                    x[n + place] = one;
                }
                reduced(
                    (Kind::Bool, combiner),
                    [1, 3, n],
                    &x,
                    |a, b| match combiner {
                        Combiner::And => u8::from(a != 0 && b != 0),
                        _ => u8::from(a != 0 || b != 0),
                    },
                );
            }
        }
    }
}
