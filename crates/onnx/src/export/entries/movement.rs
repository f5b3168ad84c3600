//! Operators that move elements, or create tensors filled with one value.

use std::rc::Rc;

use relax_ir::AttrValue;
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use super::super::call::{Call, known, why};
use super::super::graph::Attr;
use super::super::walk::{R, Val};

fn one(name: String) -> R<Val> {
    Ok(Val::Tensor(name))
}

/// Reshapes to the extents of the result.
pub fn to_shape(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, dims) = (c.arg(0)?, c.out_dims()?);
    one(c.reshaped(&x, &dims)?)
}

/// Inserts axes of extent 1.
pub fn expand_dims(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, rank) = (c.arg(0)?, c.out_dims()?.len() as i64);
    let count = c.int("num_newaxis").unwrap_or(1);
    let axis = c.int("axis")?;
    let first = if axis < 0 {
        axis + rank - count + 1
    } else {
        axis
    };
    let axes: Vec<i64> = (first..first + count).collect();
    one(c.unsqueezed(&x, &axes))
}

/// Removes axes of extent 1.
pub fn squeeze(c: &mut Call<'_, '_>) -> R<Val> {
    if c.attr("axis").is_none() {
        return to_shape(c);
    }
    let (x, axes) = (c.arg(0)?, c.ints("axis")?);
    let axes = c.g.ints(&axes);
    one(c.node("Squeeze", &[&x, &axes], vec![]))
}

/// Permutes the axes.
pub fn transpose(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, rank) = (c.arg(0)?, c.rank(0)?);
    let mut order: Vec<i64> = match c.attr("axes").is_none() {
        true => (0..rank).rev().collect(),
        false => c.ints("axes")?,
    };
    for a in &mut order {
        if *a < 0 {
            *a += rank;
        }
    }
    one(c.node("Transpose", &[&x], vec![("perm", Attr::Ints(order))]))
}

/// Concatenates tensors.
pub fn concatenate(c: &mut Call<'_, '_>) -> R<Val> {
    let fields = c.fields(0)?;
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let axis = c.axis("axis", c.out_dims()?.len() as i64)?;
    one(c.node("Concat", &fields, vec![("axis", Attr::Int(axis))]))
}

/// Stacks tensors along a new axis.
pub fn stack(c: &mut Call<'_, '_>) -> R<Val> {
    let axis = c.axis("axis", c.out_dims()?.len() as i64)?;
    let fields = c.fields(0)?;
    let fields: Vec<String> = fields.iter().map(|f| c.unsqueezed(f, &[axis])).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    one(c.node("Concat", &fields, vec![("axis", Attr::Int(axis))]))
}

/// Splits along an axis into a tuple.
pub fn split(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let axis = c.axis("axis", c.rank(0)?)?;
    let mut sizes = Vec::new();
    for part in c.out_fields() {
        match part.shape.dims().and_then(|d| d.get(axis as usize)) {
            Some(d) => sizes.push(d.clone()),
            None => return why("a part whose extents are not known"),
        }
    }
    let count = sizes.len();
    let sizes = c.extents(&sizes)?;
    let parts = c.nodes(
        "Split",
        &[&x, &sizes],
        vec![("axis", Attr::Int(axis))],
        count,
    );
    let parts: Vec<Val> = parts.into_iter().map(Val::Tensor).collect();
    Ok(Val::Tuple(parts.into()))
}

/// Returns the list of extents in an attribute.
fn extents(value: &AttrValue) -> R<Vec<Dim>> {
    let all = value
        .as_array()
        .map(|a| a.iter().map(AttrValue::as_dim).collect());
    match all {
        Some(Some(all)) => Ok(all),
        _ => why("a range that is not known"),
    }
}

/// Writes a strided slice.
pub fn strided_slice(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let rank = c.rank(0)?;
    let begin = extents(c.attr("begin"))?;
    let mut end = extents(c.attr("end"))?;
    let mut axes: Vec<i64> = match c.attr("axes").is_none() {
        true => (0..begin.len() as i64).collect(),
        false => c.ints("axes")?,
    };
    for a in &mut axes {
        if *a < 0 {
            *a += rank;
        }
    }
    let by_size = c.text("slice_mode") == "size";
    let mut steps = match c.attr("strides").is_none() || by_size {
        true => Vec::new(),
        false => c.ints("strides")?,
    };
    // A single step applies to all axes.
    let last = if steps.len() == 1 { steps[0] } else { 1 };
    steps.resize(axes.len(), last);
    if end.len() < begin.len() {
        return why("fewer ends than beginnings");
    }
    if by_size {
        for (e, b) in end.iter_mut().zip(&begin) {
            *e = match e.as_const() {
                Some(-1) => Dim::from(i64::from(i32::MAX)),
                _ => b + &*e,
            };
        }
    }
    let (begin, end) = (c.extents(&begin)?, c.extents(&end)?);
    let (axes, steps) = (c.g.ints(&axes), c.g.ints(&steps));
    one(c.node("Slice", &[&x, &begin, &end, &axes, &steps], vec![]))
}

/// Slices the leading part along all axes.
pub fn slice_like(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, dims) = (c.arg(0)?, c.out_dims()?);
    let begin = c.g.ints(&vec![0; dims.len()]);
    let end = c.extents(&dims)?;
    one(c.node("Slice", &[&x, &begin, &end], vec![]))
}

/// Reverses the elements along an axis.
pub fn reverse(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let axis = c.axis("axis", c.rank(0)?)?;
    let (begin, end) = (c.g.ints(&[-1]), c.g.ints(&[i64::MIN]));
    let axis = c.g.ints(&[axis]);
    one(c.node("Slice", &[&x, &begin, &end, &axis, &begin], vec![]))
}

/// Repeats the tensor along each axis.
pub fn tile(c: &mut Call<'_, '_>) -> R<Val> {
    let mut x = c.arg(0)?;
    let (mut dims, mut reps) = (c.dims(0)?, c.ints("reps")?);
    let more = reps.len().saturating_sub(dims.len());
    if more > 0 {
        let lead: Vec<i64> = (0..more as i64).collect();
        x = c.unsqueezed(&x, &lead);
        dims.splice(0..0, vec![Dim::ONE; more]);
    }
    let ones = dims.len() - reps.len();
    reps.splice(0..0, vec![1; ones]);
    let reps = c.g.ints(&reps);
    one(c.node("Tile", &[&x, &reps], vec![]))
}

/// Repeats each element along an axis.
pub fn repeat(c: &mut Call<'_, '_>) -> R<Val> {
    let (mut x, mut rank) = (c.arg(0)?, c.rank(0)?);
    let axis = if c.attr("axis").is_none() {
        let flat = c.g.ints(&[-1]);
        x = c.node("Reshape", &[&x, &flat], vec![]);
        rank = 1;
        0
    } else {
        c.axis("axis", rank)?
    };
    let x = c.unsqueezed(&x, &[axis + 1]);
    let mut reps = vec![1; rank as usize + 1];
    reps[axis as usize + 1] = c.int("repeats")?;
    let reps = c.g.ints(&reps);
    let x = c.node("Tile", &[&x, &reps], vec![]);
    let dims = c.out_dims()?;
    one(c.reshaped(&x, &dims)?)
}

/// Broadcasts the input to the extents of the result.
pub fn expanded(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, dims) = (c.arg(0)?, c.out_dims()?);
    let shape = c.extents(&dims)?;
    one(c.node("Expand", &[&x, &shape], vec![]))
}

/// Writes a tensor filled with one value.
pub fn filled(c: &mut Call<'_, '_>) -> R<Val> {
    let (dims, to) = (c.out_dims()?, c.out_dtype()?);
    let shape = c.extents(&dims)?;
    if let Some(value) = c.number(0) {
        return Ok(constant_of_shape(c, to, value, &shape));
    }
    let value = c.arg(0)?;
    let value = c.cast(value, c.dtype(0)?, to);
    one(c.node("Expand", &[&value, &shape], vec![]))
}

fn constant_of_shape(c: &mut Call<'_, '_>, dtype: DType, value: f64, shape: &str) -> Val {
    let value = Tensor::scalar_f64(dtype, value);
    let value = value.reshape(&[1]).unwrap_or(value);
    let value = vec![("value", Attr::Tensor(value))];
    Val::Tensor(c.node("ConstantOfShape", &[shape], value))
}

/// Writes a filled tensor with the extents of another.
pub fn filled_like(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, to) = (c.arg(0)?, c.out_dtype()?);
    let shape = c.node("Shape", &[&x], vec![]);
    if let Some(value) = c.number(1) {
        return Ok(constant_of_shape(c, to, value, &shape));
    }
    let value = c.arg(1)?;
    let value = c.cast(value, c.dtype(1)?, to);
    one(c.node("Expand", &[&value, &shape], vec![]))
}

/// Writes a tensor filled with one number, with the extents of the argument if there is one.
pub fn number(c: &mut Call<'_, '_>, value: f64) -> R<Val> {
    let to = c.out_dtype()?;
    let shape = if c.count() == 1 {
        let x = c.arg(0)?;
        c.node("Shape", &[&x], vec![])
    } else {
        let dims = c.out_dims()?;
        c.extents(&dims)?
    };
    Ok(constant_of_shape(c, to, value, &shape))
}

/// Returns the padding widths: those before all axes, then those after.
fn widths(c: &mut Call<'_, '_>) -> R<String> {
    let Some(pairs) = c.attr("pad_width").as_int_pairs() else {
        return why("`pad_width` is not known");
    };
    let before = pairs.iter().map(|p| p.0);
    let all: Vec<i64> = before.chain(pairs.iter().map(|p| p.1)).collect();
    Ok(c.g.ints(&all))
}

/// Pads a tensor with a value.
pub fn pad(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let widths = widths(c)?;
    let mode = ("mode", Attr::Text(c.text("pad_mode")));
    let mut inputs = vec![x, widths];
    if c.count() > 1 {
        let value = c.arg(1)?;
        inputs.push(c.cast(value, c.dtype(1)?, c.dtype(0)?));
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    one(c.node("Pad", &inputs, vec![mode]))
}

/// Pads a tensor with mirrored elements.
pub fn mirror_pad(c: &mut Call<'_, '_>) -> R<Val> {
    if c.text("mode") != "REFLECT" {
        return why("a mirror that repeats the border");
    }
    let x = c.arg(0)?;
    let widths = widths(c)?;
    one(c.node("Pad", &[&x, &widths], vec![("mode", Attr::Str("reflect"))]))
}

/// Returns a tuple of tensors, cast to the types of the result's fields.
pub fn tuple(c: &mut Call<'_, '_>, values: Vec<(String, DType)>) -> R<Val> {
    let mut fields = Vec::new();
    for (ty, (value, from)) in c.out_fields().into_iter().zip(values) {
        fields.push(Val::Tensor(c.cast(value, from, known(ty.dtype)?)));
    }
    Ok(Val::Tuple(Rc::from(fields)))
}
