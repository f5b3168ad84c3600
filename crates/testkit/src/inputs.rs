//! Tensors to call programs with.

use relax_tensor::{DType, Tensor};

use crate::rng::Rng;
use crate::types::Elem;

impl Elem {
    fn dtype(self) -> DType {
        match self {
            Elem::F32 => DType::F32,
            Elem::F64 => DType::F64,
            Elem::I32 => DType::I32,
            Elem::I64 => DType::I64,
            Elem::Bool => DType::BOOL,
        }
    }
}

/// A tensor of random elements; with `special`, a quarter of the floats are NaN, infinities and
/// zeros of both signs.
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
            Elem::F32 | Elem::F64 => {
                let value = if special && rng.chance(25) {
                    *rng.pick(&odd)
                } else {
                    // Sixteenths are exact in every element type.
                    (rng.below(97) as f64 - 48.0) / 16.0
                };
                out.set_f64(i, value);
            }
            Elem::I32 | Elem::I64 => out.set_i64(i, rng.below(9) as i64 - 3),
            Elem::Bool => out.set_i64(i, rng.below(2) as i64),
        }
    }
    out
}
