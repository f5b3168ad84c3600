//! Normalisation, and per-channel biases and slopes.

use std::rc::Rc;

use relax_tensor::{DType, Tensor};

use super::super::call::{Call, why};
use super::super::graph::Attr;
use super::super::walk::{R, Val};

fn one(name: String) -> R<Val> {
    Ok(Val::Tensor(name))
}

/// Writes a node with the attribute `axis`.
pub fn along(c: &mut Call<'_, '_>, op: &str) -> R<Val> {
    let x = c.arg(0)?;
    let axis = c.axis("axis", c.rank(0)?)?;
    one(c.node(op, &[&x], vec![("axis", Attr::Int(axis))]))
}

/// Reshapes a vector for broadcasting along an axis of a tensor.
fn along_axis(c: &mut Call<'_, '_>, vector: String, axis: i64, rank: i64) -> String {
    let behind: Vec<i64> = (1..rank - axis).collect();
    if behind.is_empty() {
        vector
    } else {
        c.unsqueezed(&vector, &behind)
    }
}

/// Adds a vector along one axis.
pub fn bias(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, b, rank) = (c.arg(0)?, c.arg(1)?, c.rank(0)?);
    let axis = c.axis("axis", rank)?;
    let b = along_axis(c, b, axis, rank);
    one(c.node("Add", &[&x, &b], vec![]))
}

/// Writes PReLU with slopes along one axis.
pub fn prelu(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, slope, rank) = (c.arg(0)?, c.arg(1)?, c.rank(0)?);
    let axis = c.axis("axis", rank)?;
    let slope = along_axis(c, slope, axis, rank);
    one(c.node("PRelu", &[&x, &slope], vec![]))
}

/// The limit on channels of generated constants.
const MOST_CHANNELS: i64 = 1 << 24;

/// Returns a parameter of a normalisation, or a neutral constant if it is disabled.
fn parameter(c: &mut Call<'_, '_>, i: usize, flag: &str, neutral: f64) -> R<String> {
    if c.flag(flag) {
        return c.arg(i);
    }
    let known = c.dims(i)?[..].first().and_then(relax_sym::Dim::as_const);
    let Some(n) = known.filter(|n| (0..=MOST_CHANNELS).contains(n)) else {
        return why("a number of channels that is not known, or too large");
    };
    let values = vec![neutral as f32; usize::try_from(n).unwrap_or(0)];
    let dtype = c.dtype(i)?;
    let name = c.g.constant("neutral", &Tensor::from_slice(&[n], &values));
    Ok(c.cast(name, DType::F32, dtype))
}

/// Writes batch normalisation with given means and variances, as a tuple.
pub fn batch(c: &mut Call<'_, '_>) -> R<Val> {
    let rank = c.rank(0)?;
    let axis = c.axis("axis", rank)?;
    let x = c.arg(0)?;
    let (scale, shift) = (
        parameter(c, 1, "scale", 1.0)?,
        parameter(c, 2, "center", 0.0)?,
    );
    let (mean, var) = (c.arg(3)?, c.arg(4)?);
    let epsilon = ("epsilon", Attr::Float(c.float("epsilon")?));
    // In ONNX, channels are the second axis.
    let order = moved(rank, axis, 1);
    let x = c.transposed(x, &order);
    let inputs = [&x[..], &scale, &shift, &mean, &var];
    let y = c.node("BatchNormalization", &inputs, vec![epsilon]);
    let y = c.transposed(y, &inverse(&order));
    let all = [y, mean, var].map(Val::Tensor);
    Ok(Val::Tuple(Rc::new(all)))
}

/// Returns the axis order that moves one axis to another position.
fn moved(rank: i64, from: i64, to: i64) -> Vec<i64> {
    let mut order: Vec<i64> = (0..rank).filter(|&a| a != from).collect();
    order.insert((to as usize).min(order.len()), from);
    order
}

/// Returns the inverse of an axis order.
fn inverse(order: &[i64]) -> Vec<i64> {
    let mut back = vec![0; order.len()];
    for (i, &a) in order.iter().enumerate() {
        back[a as usize] = i as i64;
    }
    back
}

/// Writes a node for an operator with an axis attribute that ONNX has at a fixed position.
fn at_place(
    c: &mut Call<'_, '_>,
    op: &str,
    place: impl Fn(i64) -> i64,
    parameters: &[&str],
    attrs: Vec<(&str, Attr)>,
) -> R<Val> {
    let rank = c.rank(0)?;
    let order = moved(rank, c.axis("axis", rank)?, place(rank));
    let x = c.arg(0)?;
    let x = c.transposed(x, &order);
    let inputs: Vec<&str> = [&x[..]].iter().chain(parameters).copied().collect();
    let y = c.node(op, &inputs, attrs);
    one(c.transposed(y, &inverse(&order)))
}

/// Writes a normalisation followed by scale and shift.
fn scaled(
    c: &mut Call<'_, '_>,
    op: &str,
    place: impl Fn(i64) -> i64,
    mut attrs: Vec<(&str, Attr)>,
) -> R<Val> {
    let scale = parameter(c, 1, "scale", 1.0)?;
    let shift = parameter(c, 2, "center", 0.0)?;
    attrs.push(("epsilon", Attr::Float(c.float("epsilon")?)));
    at_place(c, op, place, &[&scale, &shift], attrs)
}

/// Writes a normalisation along one axis.
pub fn layer(c: &mut Call<'_, '_>) -> R<Val> {
    let axis = ("axis", Attr::Int(-1));
    scaled(c, "LayerNormalization", |rank| rank - 1, vec![axis])
}

/// Writes instance normalisation.
pub fn instance(c: &mut Call<'_, '_>) -> R<Val> {
    scaled(c, "InstanceNormalization", |_| 1, vec![])
}

/// Writes group normalisation.
pub fn group(c: &mut Call<'_, '_>) -> R<Val> {
    let groups = ("num_groups", Attr::Int(c.int("num_groups")?));
    scaled(c, "GroupNormalization", |_| 1, vec![groups])
}

/// Writes local response normalisation across channels.
pub fn lrn(c: &mut Call<'_, '_>) -> R<Val> {
    let attrs = vec![
        ("alpha", Attr::Float(c.float("alpha")?)),
        ("beta", Attr::Float(c.float("beta")?)),
        ("bias", Attr::Float(c.float("bias")?)),
        ("size", Attr::Int(c.int("size")?)),
    ];
    at_place(c, "LRN", |_| 1, &[], attrs)
}

/// Returns the input, and a mask of ones.
pub fn dropout(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let dtype = c.dtype(0)?;
    let ones = c.scalar(dtype, 1.0);
    let shape = c.node("Shape", &[&x], vec![]);
    let mask = c.node("Expand", &[&ones, &shape], vec![]);
    Ok(Val::Tuple(Rc::new([x, mask].map(Val::Tensor))))
}
