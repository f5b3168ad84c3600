//! Reductions.

use relax_tensor::DType;

use super::super::call::{Call, why};
use super::super::graph::Attr;
use super::super::walk::{R, Val};

/// Returns the axes of a reduction, normalised to be non-negative.
fn axes(c: &Call<'_, '_>) -> R<Vec<i64>> {
    let rank = c.rank(0)?;
    let all = || (0..rank).collect::<Vec<i64>>();
    if c.attr("axis").is_none() {
        return Ok(all());
    }
    let mut given = c.ints("axis")?;
    if given.is_empty() {
        return Ok(all());
    }
    for a in &mut given {
        if *a < 0 {
            *a += rank;
        }
    }
    if c.flag("exclude") {
        return Ok(all().into_iter().filter(|a| !given.contains(a)).collect());
    }
    given.sort_unstable();
    Ok(given)
}

fn node(c: &mut Call<'_, '_>, op: &str, x: &str, axes: &[i64], keep: bool) -> String {
    let axes = c.g.ints(axes);
    let attrs = vec![
        ("keepdims", Attr::Int(keep.into())),
        ("noop_with_empty_axes", Attr::Int(1)),
    ];
    c.node(op, &[x, &axes], attrs)
}

/// Writes a reduction along the axes of a call.
pub fn reduced(c: &mut Call<'_, '_>, op: &str) -> R<Val> {
    let (x, axes) = (c.arg(0)?, axes(c)?);
    let keep = c.flag("keepdims");
    Ok(Val::Tensor(node(c, op, &x, &axes, keep)))
}

/// Reduces booleans via integers: the sum is 0 if none is true, the product is 0 if one is false.
pub fn truth(c: &mut Call<'_, '_>, op: &str) -> R<Val> {
    let (x, axes) = (c.arg(0)?, axes(c)?);
    let keep = c.flag("keepdims");
    let x = c.cast(x, c.dtype(0)?, DType::BOOL);
    let x = c.cast(x, DType::BOOL, DType::I32);
    let y = node(c, op, &x, &axes, keep);
    c.narrowed(y, DType::I32)
}

/// Writes the index of the largest or smallest element along one axis, or of all.
pub fn place(c: &mut Call<'_, '_>, op: &str) -> R<Val> {
    let (x, axes, rank) = (c.arg(0)?, axes(c)?, c.rank(0)?);
    let keep = c.flag("keepdims");
    let last = Attr::Int(c.flag("select_last_index").into());
    let (x, axis, keep) = match axes[..] {
        [axis] => (x, axis, keep),
        _ if axes.len() as i64 == rank && !keep => {
            let flat = c.g.ints(&[-1]);
            (c.node("Reshape", &[&x, &flat], vec![]), 0, false)
        }
        _ => return why("the index along several axes at once"),
    };
    let attrs = vec![
        ("axis", Attr::Int(axis)),
        ("keepdims", Attr::Int(keep.into())),
        ("select_last_index", last),
    ];
    let y = c.node(op, &[&x], attrs);
    c.narrowed(y, DType::I64)
}

/// Writes the mean of squared differences from a given mean.
pub fn variance(c: &mut Call<'_, '_>) -> R<Val> {
    if c.flag("unbiased") {
        return why("the variance without bias");
    }
    let (x, mean, axes) = (c.arg(0)?, c.arg(1)?, axes(c)?);
    let keep = c.flag("keepdims");
    let away = c.node("Sub", &[&x, &mean], vec![]);
    let squares = c.node("Mul", &[&away, &away], vec![]);
    Ok(Val::Tensor(node(c, "ReduceMean", &squares, &axes, keep)))
}

/// Writes the sum over the axes that were broadcast.
pub fn collapsed(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let (from, to) = (c.dims(0)?, c.out_dims()?);
    let lead = from.len() - to.len().min(from.len());
    let one = |d: &relax_sym::Dim| d.as_const() == Some(1);
    let mut axes: Vec<i64> = (0..lead as i64).collect();
    for (i, (a, b)) in from[lead..].iter().zip(&to).enumerate() {
        if one(b) && !one(a) {
            axes.push((lead + i) as i64);
        } else if a != b {
            return why("extents that may be broadcast");
        }
    }
    let sum = node(c, "ReduceSum", &x, &axes, true);
    Ok(Val::Tensor(c.reshaped(&sum, &to)?))
}
