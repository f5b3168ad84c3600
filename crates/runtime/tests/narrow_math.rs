//! Functions of narrow floats in registers: exactly those of float32, rounded.

mod common;

use common::{everywhere, sweep_of_one};
use half::{bf16, f16};
use relax_runtime::capi::arrays::rx_vmath_f32;
use relax_runtime::capi::kernels::rx_sweep;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::math::Math;
use relax_runtime::kernels::sweep::{Op, RxSweepOp};

const FUNCTIONS: [Math; 18] = [
    Math::Exp,
    Math::Log,
    Math::Log2,
    Math::Log10,
    Math::Tanh,
    Math::Sigmoid,
    Math::Erf,
    Math::Sin,
    Math::Cos,
    Math::Tan,
    Math::Atan,
    Math::Sinh,
    Math::Cosh,
    Math::Asin,
    Math::Acos,
    Math::Asinh,
    Math::Acosh,
    Math::Atanh,
];

fn number(kind: Kind, x: u16) -> f32 {
    match kind {
        Kind::F16 => f16::from_bits(x).to_f32(),
        _ => bf16::from_bits(x).to_f32(),
    }
}

fn rounded(kind: Kind, x: f32) -> u16 {
    match kind {
        Kind::F16 => f16::from_f32(x).to_bits(),
        _ => bf16::from_f32(x).to_bits(),
    }
}

/// All numbers of 16 bits, and fewer than a vector has; rows that are no whole vectors.
#[test]
fn functions_of_narrow_floats_are_those_of_float32_rounded() {
    for (rows, wide) in [(1, 1 << 16), (7, 9001), (1, 21)] {
        let x: Vec<u16> = (0..rows * wide).map(|k| k as u16).collect();
        let (extents, strides) = ([rows as i64, wide as i64], [wide as i64, 1]);
        let data = [x.as_ptr().cast()];
        for kind in [Kind::F16, Kind::BF16] {
            let kinds = [kind as i32];
            let floats: Vec<f32> = x.iter().map(|&x| number(kind, x)).collect();
            for math in FUNCTIONS {
                let op = RxSweepOp {
                    code: Op::Math as i32,
                    kind: Kind::F32 as i32,
                    to: Kind::F32 as i32,
                    dst: 0,
                    args: [0, math as i32, 0, 0],
                };
                everywhere(|ctx, isa| {
                    let mut out = vec![7u16; x.len()];
                    let sweep = sweep_of_one(
                        &op,
                        2,
                        (&data, &kinds),
                        (&extents, &strides),
                        (kind, &mut out),
                    );
                    // SAFETY: the input and the result have the rows.
                    assert_eq!(unsafe { rx_sweep(ctx, &raw const sweep) }, 0);
                    let mut wanted = vec![0f32; x.len()];
                    let (n, from) = (x.len() as i64, floats.as_ptr());
                    // SAFETY: both have `n` elements.
                    unsafe { rx_vmath_f32(math as i32, n, from, from, wanted.as_mut_ptr()) };
                    for ((&x, &found), &wanted) in x.iter().zip(&out).zip(&wanted) {
                        let nan = wanted.is_nan() && number(kind, found).is_nan();
                        let same = found == rounded(kind, wanted);
                        assert!(
                            same || nan,
                            "{math:?} of {x:#x} of {kind:?} is {found:#x}, {isa:?}"
                        );
                    }
                });
            }
        }
    }
}
