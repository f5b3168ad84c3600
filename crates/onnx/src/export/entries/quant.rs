//! Quantised numbers.

use relax_tensor::DType;

use super::super::call::{Call, why};
use super::super::graph::Attr;
use super::super::walk::{R, Val};
use super::window;

/// Returns argument `i`, a zero point, in the type that ONNX gives it; `None` where there is none.
fn zero(c: &mut Call<'_, '_>, i: usize, dtype: DType) -> R<Option<String>> {
    if c.number(i) == Some(0.0) {
        return Ok(None);
    }
    let z = c.arg(i)?;
    Ok(Some(c.cast(z, DType::I32, dtype)))
}

/// Writes `scale * (x - zero)` of argument 0, with scale and zero point in arguments 1 and 2.
fn numbers(c: &mut Call<'_, '_>) -> R<String> {
    let (mut x, scale, dtype) = (c.arg(0)?, c.arg(1)?, c.dtype(0)?);
    let rank = c.rank(0)?;
    let mut attrs = Vec::new();
    if c.rank(1)? > 0 || c.rank(2)? > 0 {
        attrs.push(("axis", Attr::Int(c.axis("axis", rank)?)));
    }
    if c.rank(1)? == 0 && c.rank(2)? > 0 {
        return why("zero points for each index of an axis with one scale");
    }
    // ONNX has no zero point of 32 bits.
    let wide = dtype == DType::I32;
    let mut inputs = vec![];
    if let Some(z) = zero(c, 2, dtype)? {
        if wide && c.rank(2)? > 0 {
            return why("zero points of 32 bits for each index of an axis");
        }
        if wide {
            x = c.node("Sub", &[&x, &z], vec![]);
        } else if c.rank(1)? > 0 && c.rank(2)? == 0 {
            return why("scales for each index of an axis with one zero point");
        } else {
            inputs.push(z);
        }
    }
    let mut all = vec![x.as_str(), scale.as_str()];
    all.extend(inputs.iter().map(String::as_str));
    Ok(c.node("DequantizeLinear", &all, attrs))
}

/// Writes the rounding of numbers to the integers of the result, whose scale and zero point are
/// arguments `scale` and `scale + 1`.
fn integers(c: &mut Call<'_, '_>, x: &str, scale: usize, axis: Option<i64>) -> R<Val> {
    let (s, z, dtype) = (c.arg(scale)?, c.arg(scale + 1)?, c.out_dtype()?);
    if c.text("rounding") != "TOEVEN" {
        return why("halves that are not rounded to even");
    }
    if !matches!(dtype, DType::I8 | DType::U8 | DType::I16) {
        return why(format!("quantised numbers of {dtype}"));
    }
    let z = c.cast(z, DType::I32, dtype);
    let attrs = axis.map(|a| ("axis", Attr::Int(a)));
    let attrs = attrs.into_iter().collect();
    Ok(Val::Tensor(c.node("QuantizeLinear", &[x, &s, &z], attrs)))
}

/// Writes `qnn.quantize`.
pub fn quantize(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, rank) = (c.arg(0)?, c.rank(0)?);
    if c.rank(1)? != c.rank(2)? {
        return why("scales and zero points of which only one is for each index of an axis");
    }
    let axis = match c.rank(1)? {
        0 => None,
        _ => Some(c.axis("axis", rank)?),
    };
    integers(c, &x, 1, axis)
}

/// Writes `qnn.dequantize`.
pub fn dequantize(c: &mut Call<'_, '_>) -> R<Val> {
    if c.out_dtype()? != DType::F32 {
        return why("dequantised numbers other than float32");
    }
    Ok(Val::Tensor(numbers(c)?))
}

/// Writes `qnn.requantize`.
pub fn requantize(c: &mut Call<'_, '_>) -> R<Val> {
    let x = numbers(c)?;
    integers(c, &x, 3, None)
}

/// Returns both operands' zero points in their types.
fn zeros(c: &mut Call<'_, '_>) -> R<[String; 2]> {
    let mut both = [String::new(), String::new()];
    for (i, both) in both.iter_mut().enumerate() {
        let (z, dtype) = (c.arg(2 + i)?, c.dtype(i)?);
        if !matches!(dtype, DType::I8 | DType::U8) || c.out_dtype()? != DType::I32 {
            return why(format!("a product of {dtype}"));
        }
        *both = c.cast(z, DType::I32, dtype);
    }
    Ok(both)
}

/// Writes `qnn.conv1d` and `qnn.conv2d`.
pub fn conv(c: &mut Call<'_, '_>) -> R<Val> {
    let [x, w] = zeros(c)?;
    window::convolution(c, "ConvInteger", &[&x, &w])
}

/// Writes `qnn.dense` and `qnn.batch_matmul`.
pub fn product(c: &mut Call<'_, '_>, dense: bool) -> R<Val> {
    let zeros = zeros(c)?;
    let mut all = Vec::new();
    for (i, flag) in ["transpose_a", "transpose_b"].into_iter().enumerate() {
        let (e, rank) = (c.arg(i)?, c.rank(i)?);
        let turned = if dense { i == 1 } else { c.flag(flag) };
        all.push(match turned {
            true => {
                let mut order: Vec<i64> = (0..rank).collect();
                order.swap(rank as usize - 1, rank as usize - 2);
                c.transposed(e, &order)
            }
            false => e,
        });
    }
    let [x, w] = &zeros;
    Ok(Val::Tensor(c.node(
        "MatMulInteger",
        &[&all[0], &all[1], x, w],
        vec![],
    )))
}
