//! Operators that take axes, extents and counts as tensors.

use super::super::call::Call;
use super::super::graph::Attr;
use super::super::walk::{R, Val};
use super::index;

fn one(name: String) -> R<Val> {
    Ok(Val::Tensor(name))
}

/// Writes a reduction along axes; an empty list reduces nothing.
pub fn reduced(c: &mut Call<'_, '_>, op: &str) -> R<Val> {
    let (x, axes) = (c.arg(0)?, c.wide(1)?);
    let attrs = vec![
        ("keepdims", Attr::Int(1)),
        ("noop_with_empty_axes", Attr::Int(1)),
    ];
    one(c.node(op, &[&x, &axes], attrs))
}

/// Writes a node of the input and a vector of integers.
pub fn axes(c: &mut Call<'_, '_>, op: &str) -> R<Val> {
    let (x, axes) = (c.arg(0)?, c.wide_vector(1)?);
    one(c.node(op, &[&x, &axes], vec![]))
}

/// Broadcasts the input and extents with each other.
pub fn expand(c: &mut Call<'_, '_>) -> R<Val> {
    axes(c, "Expand")
}

/// Broadcasts the input to extents.
pub fn broadcast_to(c: &mut Call<'_, '_>) -> R<Val> {
    axes(c, "Expand")
}

/// Writes a tensor filled with one value.
pub fn full(c: &mut Call<'_, '_>) -> R<Val> {
    let (value, shape) = (c.arg(0)?, c.wide(1)?);
    let value = c.cast(value, c.dtype(0)?, c.out_dtype()?);
    one(c.node("Expand", &[&value, &shape], vec![]))
}

/// Writes a reshape.
pub fn reshape(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, shape) = (c.arg(0)?, c.wide(1)?);
    let attrs = vec![("allowzero", Attr::Int(c.flag("allowzero").into()))];
    one(c.node("Reshape", &[&x, &shape], attrs))
}

/// Writes a slice of axes.
pub fn slice(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let [starts, ends, axes, steps] = [c.wide(1)?, c.wide(2)?, c.wide(3)?, c.wide(4)?];
    one(c.node("Slice", &[&x, &starts, &ends, &axes, &steps], vec![]))
}

/// Writes a padding of some axes.
pub fn pad(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, widths, value, axes) = (c.arg(0)?, c.wide(1)?, c.arg(2)?, c.wide(3)?);
    let mode = ("mode", Attr::Text(c.text("pad_mode")));
    one(c.node("Pad", &[&x, &widths, &value, &axes], vec![mode]))
}

/// Writes a cumulative sum.
pub fn cumulated(c: &mut Call<'_, '_>, op: &str) -> R<Val> {
    if op == "CumProd" {
        c.g.needs(26);
    }
    let (x, axis) = (c.arg(0)?, c.wide(1)?);
    let attrs = vec![
        ("exclusive", Attr::Int(c.flag("exclusive").into())),
        ("reverse", Attr::Int(c.flag("reverse").into())),
    ];
    one(c.node(op, &[&x, &axis], attrs))
}

/// Writes a one-hot encoding along a new axis.
pub fn one_hot(c: &mut Call<'_, '_>) -> R<Val> {
    let depth = c.wide(3)?;
    index::one_hot_of(c, &depth)
}
