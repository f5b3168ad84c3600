//! Scales and zero points as the operators of `qnn` take them, and products of bytes that have
//! them.

use relax_ir::AttrValue;
use relax_tensor::{DType, Tensor};

use super::build::{dtype, int, str};
use crate::graph::Tr;
use crate::node::R;
use crate::value::{Elem, Val};

/// The scale and zero point of `qnn.quantize` and `qnn.dequantize`: of the whole tensor, or one for
/// each index of an axis.
pub struct Steps {
    /// The scale, `float32`.
    pub scale: Val,
    /// The zero point, `int32`.
    pub zero: Val,
    /// The axis of several, or -1.
    pub axis: i64,
}

impl Steps {
    /// Reads those between numbers of a tensor's shape and integers of `to`, if these operators take
    /// them.
    pub fn read(
        tr: &mut Tr<'_>,
        scale: &Val,
        zero: Option<&Val>,
        (x, to): (&Val, Elem),
        axis: i64,
    ) -> R<Option<Steps>> {
        let taken = [Elem::I8, Elem::U8, Elem::I16, Elem::I32].contains(&to);
        let zero_elem = zero.map_or(to, |z| z.elem);
        if !taken || scale.elem != Elem::F32 || zero_elem != to {
            return Ok(None);
        }
        let scale = one_or_many(tr, scale)?;
        let zero = match zero.filter(|z| !all_zero(z)) {
            Some(z) => {
                let z = one_or_many(tr, z)?;
                tr.cast(&z, Elem::I32)?
            }
            None => Val::constant(Tensor::scalar_i64(DType::I32, 0), Elem::I32, "zero"),
        };
        let axis = match (x.rank(), scale.rank(), zero.rank()) {
            (_, 0, 0) => -1,
            (1, 1, 0 | 1) => 0,
            (rank, 1, 0 | 1) if rank > 1 => x.axis(axis)? as i64,
            _ => return Ok(None),
        };
        Ok(Some(Steps { scale, zero, axis }))
    }
    /// Emits a tensor of `float32` in these steps, halves rounded to even.
    pub fn quantized(&self, tr: &mut Tr<'_>, x: &Val, to: Elem) -> R<Val> {
        let attrs = [
            ("out_dtype", dtype(to.storage().unwrap_or(DType::U8))),
            ("axis", int(self.axis)),
            ("rounding", str("TOEVEN")),
        ];
        tr.op("qnn.quantize", &[x, &self.scale, &self.zero], &attrs)
    }
}

/// What products of bytes need to know of both operands.
pub struct OfBytes {
    /// The zero points and the scales: one of the left operand; one of the right operand, or one for
    /// each channel or column of the result.
    zeros: [Val; 2],
    scales: [Val; 2],
}

impl OfBytes {
    /// Reads the zero points and scales (1 where there are none) of two operands. `axis` is that of
    /// the right one along which there may be several. `None` where the operands are no bytes, or
    /// where numbers are not of these forms.
    pub fn read(
        tr: &mut Tr<'_>,
        [x, w]: [&Val; 2],
        zeros: [Option<&Val>; 2],
        scales: Option<[&Val; 2]>,
        axis: Option<i64>,
    ) -> R<Option<OfBytes>> {
        if [x, w]
            .iter()
            .any(|v| ![Elem::I8, Elem::U8].contains(&v.elem))
        {
            return Ok(None);
        }
        let one = Val::constant(Tensor::scalar_f64(DType::F32, 1.0), Elem::F32, "scale");
        let [of_x, of_w] = scales.unwrap_or([&one, &one]);
        let of_x = Steps::read(tr, of_x, zeros[0], (x, x.elem), 0)?;
        let of_w = Steps::read(tr, of_w, zeros[1], (w, w.elem), axis.unwrap_or(0))?;
        let (Some(of_x), Some(of_w)) = (of_x, of_w) else {
            return Ok(None);
        };
        let fits = of_x.axis == -1 && (of_w.axis == -1 || Some(of_w.axis) == axis);
        Ok(fits.then_some(OfBytes {
            zeros: [of_x.zero, of_w.zero],
            scales: [of_x.scale, of_w.scale],
        }))
    }

    /// The zero point of the left operand.
    pub fn zero(&self) -> &Val {
        &self.zeros[0]
    }

    /// Emits a product: its sums, of 32 bits.
    pub fn product(
        &self,
        tr: &mut Tr<'_>,
        name: &str,
        [x, w]: [&Val; 2],
        mut attrs: Vec<(&str, AttrValue)>,
    ) -> R<Val> {
        attrs.push(("out_dtype", dtype(DType::I32)));
        let ([zx, zw], [sx, sw]) = (&self.zeros, &self.scales);
        tr.op(name, &[x, w, zx, zw, sx, sw], &attrs)
    }

    /// Emits sums, whose channels or columns lie along an axis, in units of another scale, as
    /// integers of the zero point's type. `None` where that is none of `qnn`'s.
    pub fn requantized(
        &self,
        tr: &mut Tr<'_>,
        sums: &Val,
        axis: usize,
        [scale, zero]: [&Val; 2],
    ) -> R<Option<Val>> {
        let to = zero.elem;
        let Some(steps) = Steps::read(tr, scale, Some(zero), (sums, to), 0)? else {
            return Ok(None);
        };
        let Some(out) = to.storage().filter(|_| steps.axis == -1) else {
            return Ok(None);
        };
        let of_sums = tr.mul(&self.scales[0], &self.scales[1])?;
        let none = tr.number(Elem::I32, 0.0);
        let axis = if of_sums.rank() == 0 { -1 } else { axis as i64 };
        let attrs = [
            ("axis", int(axis)),
            ("out_dtype", dtype(out)),
            ("rounding", str("TOEVEN")),
            ("compute_dtype", str("float32")),
        ];
        let args = [sums, &of_sums, &none, &steps.scale, &steps.zero];
        let mut y = tr.op("qnn.requantize", &args, &attrs)?;
        y.elem = to;
        Ok(Some(y))
    }
}

/// Returns whether all elements of a value are known to be zero.
pub fn all_zero(z: &Val) -> bool {
    let zeros = |all: Vec<f64>| all.iter().all(|&v| v == 0.0);
    z.elem.narrow().is_none() && z.const_floats().is_some_and(zeros)
}

/// Returns a vector of one element as a scalar, and others as they are.
pub fn one_or_many(tr: &mut Tr<'_>, z: &Val) -> R<Val> {
    match z.rank() == 1 && z.dim(0)?.as_const() == Some(1) {
        true => tr.reshape(z, &[]),
        false => Ok(z.clone()),
    }
}
