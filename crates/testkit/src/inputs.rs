//! Random tensors as program inputs.

use relax_tensor::{DType, Tensor};

use crate::rng::Rng;
use crate::types::Elem;

impl Elem {
    fn dtype(self) -> DType {
        match self {
            Elem::F16 => DType::F16,
            Elem::BF16 => DType::BF16,
            Elem::I8 => DType::I8,
            Elem::I16 => DType::I16,
            Elem::U8 => DType::U8,
            Elem::U16 => DType::U16,
            Elem::F32 => DType::F32,
            Elem::F64 => DType::F64,
            Elem::I32 => DType::I32,
            Elem::I64 => DType::I64,
            Elem::Bool => DType::BOOL,
        }
    }
}

/// Generates a tensor of random elements; with `special`, a quarter of the floats are NaN,
/// infinities and signed zeros.
pub fn tensor(rng: &mut Rng, elem: Elem, shape: &[i64], special: bool) -> Tensor {
    let mut out = Tensor::zeros(elem.dtype(), shape);
    let odd = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        1e-40,
        3e38,
    ];
    for i in 0..out.len() {
        match elem {
            Elem::F16 | Elem::BF16 | Elem::F32 | Elem::F64 => {
                let value = if special && rng.chance(25) {
                    *rng.pick(&odd)
                } else {
                    // Multiples of 1/16 are exact in every element type.
                    (rng.below(97) as f64 - 48.0) / 16.0
                };
                out.set_f64(i, value);
            }
            Elem::U8 | Elem::U16 => out.set_i64(i, rng.below(9) as i64),
            // Near the ends of the range now and then, as arithmetic wraps.
            Elem::I8 if rng.chance(10) => out.set_i64(i, *rng.pick(&[-128, 127, 100])),
            Elem::I8 | Elem::I16 | Elem::I32 | Elem::I64 => {
                out.set_i64(i, rng.below(9) as i64 - 3);
            }
            Elem::Bool => out.set_i64(i, rng.below(2) as i64),
        }
    }
    out
}
