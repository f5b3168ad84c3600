//! Quantised numbers.

use relax_tensor::DType;

use super::super::call::{Call, why};
use super::super::graph::Attr;
use super::super::walk::{R, Val};
use super::window;

/// Returns the arguments at `scale` and `scale + 1`, a scale and a zero point, with the shape that
/// both have in ONNX: where one of them is for each index of an axis, so is the other. The zero
/// point keeps its 32 bits.
fn matched(c: &mut Call<'_, '_>, scale: usize) -> R<[String; 2]> {
    let (s, z) = (c.arg(scale)?, c.arg(scale + 1)?);
    let ranks = (c.rank(scale)?, c.rank(scale + 1)?);
    Ok(match ranks {
        (0, 0) => [s, z],
        (0, _) => [expanded(c, &s, scale + 1)?, z],
        (_, 0) => {
            let z = expanded(c, &z, scale)?;
            [s, z]
        }
        _ => [s, z],
    })
}

/// Repeats a scalar to the shape of argument `like`.
fn expanded(c: &mut Call<'_, '_>, value: &str, like: usize) -> R<String> {
    let dims = c.dims(like)?;
    let shape = c.extents(&dims)?;
    Ok(c.node("Expand", &[value, &shape], vec![]))
}

/// Returns the axis along whose indices the scale or zero point at `scale` and `scale + 1` differ.
fn axis(c: &Call<'_, '_>, scale: usize) -> R<Vec<(&'static str, Attr)>> {
    if c.rank(scale)? == 0 && c.rank(scale + 1)? == 0 {
        return Ok(vec![]);
    }
    let axis = c.axis("axis", c.rank(0)?)?;
    Ok(vec![("axis", Attr::Int(axis))])
}

/// Writes `scale * (x - zero)` of argument 0, with scale and zero point in arguments 1 and 2.
fn numbers(c: &mut Call<'_, '_>) -> R<String> {
    let (mut x, dtype, attrs) = (c.arg(0)?, c.dtype(0)?, axis(c, 1)?);
    if c.number(2) == Some(0.0) {
        let scale = c.arg(1)?;
        return Ok(c.node("DequantizeLinear", &[&x, &scale], attrs));
    }
    // ONNX has no zero point of 32 bits.
    if dtype == DType::I32 {
        if c.rank(2)? > 0 {
            return why("zero points of 32 bits for each index of an axis");
        }
        let (scale, z) = (c.arg(1)?, c.arg(2)?);
        x = c.node("Sub", &[&x, &z], vec![]);
        return Ok(c.node("DequantizeLinear", &[&x, &scale], attrs));
    }
    let [scale, z] = matched(c, 1)?;
    let z = c.cast(z, DType::I32, dtype);
    Ok(c.node("DequantizeLinear", &[&x, &scale, &z], attrs))
}

/// Writes the rounding of numbers to the integers of the result, whose scale and zero point are
/// arguments `scale` and `scale + 1`.
fn integers(c: &mut Call<'_, '_>, x: &str, scale: usize) -> R<Val> {
    let dtype = c.out_dtype()?;
    if c.text("rounding") != "TOEVEN" {
        return why("halves that are not rounded to even");
    }
    if dtype == DType::I32 {
        return wide_integers(c, x, scale);
    }
    if !matches!(dtype, DType::I8 | DType::U8 | DType::I16) {
        return why(format!("quantised numbers of {dtype}"));
    }
    let ([s, z], attrs) = (matched(c, scale)?, axis(c, scale)?);
    let z = c.cast(z, DType::I32, dtype);
    Ok(Val::Tensor(c.node("QuantizeLinear", &[x, &s, &z], attrs)))
}

/// Writes the rounding to 32 bits, which `QuantizeLinear` does not have, by the operators of its
/// definition.
fn wide_integers(c: &mut Call<'_, '_>, x: &str, scale: usize) -> R<Val> {
    let mut both = [String::new(), String::new()];
    for (i, both) in both.iter_mut().enumerate() {
        *both = c.arg(scale + i)?;
        if c.rank(scale + i)? > 0 {
            let rank = c.rank(0)?;
            let after: Vec<i64> = (1..rank - c.axis("axis", rank)?).collect();
            *both = c.unsqueezed(both, &after);
        }
    }
    let [s, z] = both;
    let steps = c.node("Div", &[x, &s], vec![]);
    let steps = c.node("Round", &[&steps], vec![]);
    let z = c.cast(z, DType::I32, DType::F32);
    let y = c.node("Add", &[&steps, &z], vec![]);
    // 2^31 is a float32 and the greatest integer is not: that one is cut off in 64 bits.
    let (low, high) = (i32::MIN as f64, i32::MAX as f64);
    let bounds = [c.scalar(DType::F32, low), c.scalar(DType::F32, high)];
    let y = c.node("Clip", &[&y, &bounds[0], &bounds[1]], vec![]);
    let y = c.cast(y, DType::F32, DType::I64);
    let most = c.scalar(DType::I64, high);
    let y = c.node("Min", &[&y, &most], vec![]);
    Ok(Val::Tensor(c.cast(y, DType::I64, DType::I32)))
}

/// Writes `qnn.quantize`.
pub fn quantize(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    integers(c, &x, 1)
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
    integers(c, &x, 3)
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
