//! Checks arrays against parameter types and converts them where that is allowed.

use relax_ir::{DTy, Module, Shape, Type};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use crate::Error;
use crate::param::{Param, shown};

/// Options for accepting arrays as arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taking {
    /// Converts arrays of another element type than the parameter's, provided every number is
    /// preserved up to rounding.
    pub cast: bool,
}

/// Checks and converts a tensor for a slot. NumPy has no bfloat16: for such a slot two-byte
/// unsigned elements are taken as its bits, the representation TVM exports.
///
/// # Errors
/// [`Error::Unfit`]: a description of the mismatch.
pub fn fit(m: &Module, p: &Param, t: &Tensor, taking: Taking) -> Result<Tensor, Error> {
    let unfit = |text: String| Error::Unfit(text, Vec::new());
    let Type::Tensor(want) = &m.types[p.ty] else {
        return Err(unfit(format!(
            "%{} has type {}, which no array can stand for; run a function that makes such a value from tensors",
            p.name,
            m.show_type(p.ty)
        )));
    };
    let shape = match &want.shape {
        Shape::Dims(dims) => {
            let same = |(d, &n): (&Dim, &i64)| d.as_const().is_none_or(|d| d == n);
            dims.len() == t.shape().len() && dims.iter().zip(t.shape()).all(same)
        }
        _ => true,
    };
    let refused = |more: String| {
        let (want, have) = (m.show_type(p.ty), shown(t.dtype(), t.shape()));
        unfit(format!(
            "%{} must be {want}, but the array is {have}{more}",
            p.name
        ))
    };
    match want.dtype {
        _ if !shape => Err(refused(String::new())),
        DTy::Known(dtype) if dtype != t.dtype() => {
            if dtype == DType::BF16 && t.dtype() == DType::U16 {
                let bits = Tensor::from_bytes(DType::BF16, t.shape(), t.bytes());
                return bits.ok_or_else(|| refused(String::new()));
            }
            match cast(t, dtype) {
                Ok(cast) if taking.cast => Ok(cast),
                Ok(_) => Err(refused(format!(
                    "; --cast converts it (`.astype(\"{dtype}\")` in NumPy)"
                ))),
                Err(why) => Err(refused(why)),
            }
        }
        _ => Ok(t.clone()),
    }
}

/// Converts to another element type, allowing float rounding. The error names, after a semicolon,
/// the first number that is not representable; it is empty where no conversion exists between the
/// two types.
fn cast(t: &Tensor, to: DType) -> Result<Tensor, String> {
    let from = t.dtype();
    let number = |d: DType| d.is_float() || d.is_bool() || d.int_range().is_some();
    if !number(from) || !number(to) {
        return Err(String::new());
    }
    let mut out = Tensor::zeros(to, t.shape());
    let range = match to.is_bool() {
        true => Some((0, 1)),
        false => to.int_range(),
    };
    for i in 0..t.len() {
        if to.is_float() {
            out.set_f64(i, t.get_f64(i));
            continue;
        }
        let whole = integer(t, i).filter(|n| range.is_some_and(|(a, b)| (a..=b).contains(n)));
        match whole {
            Some(n) => out.set_i64(i, n as i64),
            None => return Err(format!("; {} in it is no {to}", text(t, i))),
        }
    }
    Ok(out)
}

/// Reads element `i` as an integer, if it is one.
fn integer(t: &Tensor, i: usize) -> Option<i128> {
    let dtype = t.dtype();
    if dtype.is_float() {
        let x = t.get_f64(i);
        return (x.fract() == 0.0).then_some(x as i128);
    }
    Some(match dtype == DType::U64 {
        true => i128::from(t.get_i64(i) as u64),
        false => i128::from(t.get_i64(i)),
    })
}

fn text(t: &Tensor, i: usize) -> String {
    match integer(t, i) {
        Some(n) => n.to_string(),
        None => t.get_f64(i).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_what_they_are() {
        let halves = Tensor::from_slice(&[2], &[1.0f64, 0.5]);
        let f32s = cast(&halves, DType::F32).expect("floats");
        assert_eq!(f32s.slice::<f32>(), [1.0, 0.5]);
        assert_eq!(
            cast(&halves, DType::I32),
            Err("; 0.5 in it is no int32".into())
        );
        let large = Tensor::from_slice(&[1], &[1i64 << 40]);
        let said = "; 1099511627776 in it is no int32";
        assert_eq!(cast(&large, DType::I32), Err(said.into()));
        let small = cast(&Tensor::from_slice(&[1], &[-3i64]), DType::I8).expect("it fits");
        assert_eq!(small.slice::<i8>(), [-3]);
        assert!(cast(&Tensor::from_slice(&[1], &[u64::MAX]), DType::I64).is_err());
        assert!(cast(&Tensor::from_slice(&[1], &[2i8]), DType::BOOL).is_err());
        assert!(cast(&Tensor::from_slice(&[1], &[f32::NAN]), DType::I8).is_err());
    }
}
