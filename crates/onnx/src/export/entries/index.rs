//! Indexing operators: gather, scatter, sort, count.

use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use super::super::call::{Call, why};
use super::super::graph::Attr;
use super::super::walk::{R, Val};
use super::movement::tuple;

fn one(name: String) -> R<Val> {
    Ok(Val::Tensor(name))
}

/// Returns an extent minus `less`, as a scalar.
fn scalar_extent(c: &mut Call<'_, '_>, d: &Dim, less: i64) -> R<String> {
    let d = d - &Dim::from(less);
    if let Some(n) = d.as_const() {
        return Ok(c.g.constant("extent", &Tensor::scalar_i64(DType::I64, n)));
    }
    let vector = c.extents(&[d])?;
    let none = c.g.ints(&[]);
    Ok(c.node("Reshape", &[&vector, &none], vec![]))
}

/// Gathers elements or slices at indices.
pub fn take(c: &mut Call<'_, '_>) -> R<Val> {
    if c.int("batch_dims").unwrap_or(0) != 0 {
        return why("leading axes in common");
    }
    let (mut x, mut dims) = (c.arg(0)?, c.dims(0)?);
    let axis = if c.attr("axis").is_none() {
        let flat = c.g.ints(&[-1]);
        x = c.node("Reshape", &[&x, &flat], vec![]);
        dims = vec![dims.iter().fold(Dim::ONE, |n, d| &n * d)];
        0
    } else {
        c.axis("axis", dims.len() as i64)?
    };
    let mut at = c.wide(1)?;
    let Some(extent) = dims.get(axis as usize) else {
        return why("an axis that is not there");
    };
    match c.text("mode").as_str() {
        "fast" => {}
        "wrap" => {
            let n = scalar_extent(c, extent, 0)?;
            at = c.node("Mod", &[&at, &n], vec![]);
        }
        _ => {
            let zero = c.g.constant("zero", &Tensor::scalar_i64(DType::I64, 0));
            let last = scalar_extent(c, extent, 1)?;
            at = c.node("Clip", &[&at, &zero, &last], vec![]);
        }
    }
    one(c.node("Gather", &[&x, &at], vec![("axis", Attr::Int(axis))]))
}

/// Gathers with an index per element along an axis.
pub fn gather(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, at) = (c.arg(0)?, c.wide(1)?);
    let axis = c.axis("axis", c.rank(0)?)?;
    one(c.node(
        "GatherElements",
        &[&x, &at],
        vec![("axis", Attr::Int(axis))],
    ))
}

/// Returns the indices with the tuples along the last axis, as in ONNX; here they are along the
/// first one.
fn tuples_last(c: &mut Call<'_, '_>) -> R<String> {
    let at = c.wide(1)?;
    let rank = c.rank(1)?;
    let order: Vec<i64> = (1..rank).chain([0]).collect();
    Ok(c.transposed(at, &order))
}

/// Gathers elements at index tuples.
pub fn gather_nd(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, at) = (c.arg(0)?, tuples_last(c)?);
    let batch = Attr::Int(c.int("batch_dims").unwrap_or(0));
    one(c.node("GatherND", &[&x, &at], vec![("batch_dims", batch)]))
}

fn reduction(c: &Call<'_, '_>, name: &str) -> R<Attr> {
    Ok(Attr::Str(match c.text(name).as_str() {
        "" | "update" => "none",
        "add" => "add",
        "mul" => "mul",
        "min" => "min",
        "max" => "max",
        other => return why(format!("`{name}=\"{other}\"`")),
    }))
}

/// Scatters updates along an axis.
pub fn scatter_elements(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, at, new) = (c.arg(0)?, c.wide(1)?, c.arg(2)?);
    let attrs = vec![
        ("axis", Attr::Int(c.axis("axis", c.rank(0)?)?)),
        ("reduction", reduction(c, "reduction")?),
    ];
    one(c.node("ScatterElements", &[&x, &at, &new], attrs))
}

/// Scatters updates at index tuples.
pub fn scatter_nd(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, at, new) = (c.arg(0)?, tuples_last(c)?, c.arg(2)?);
    let attrs = vec![("reduction", reduction(c, "mode")?)];
    one(c.node("ScatterND", &[&x, &at, &new], attrs))
}

/// Returns the indices of nonzero elements.
pub fn argwhere(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let at = c.node("NonZero", &[&x], vec![]);
    let rows = c.transposed(at, &[1, 0]);
    c.narrowed(rows, DType::I64)
}

/// Writes an arithmetic progression.
pub fn arange(c: &mut Call<'_, '_>) -> R<Val> {
    let to = c.out_dtype()?;
    let mut all = Vec::new();
    for i in 0..3 {
        let x = c.arg(i)?;
        all.push(c.cast(x, c.dtype(i)?, to));
    }
    one(c.node("Range", &[&all[0], &all[1], &all[2]], vec![]))
}

/// Writes a cumulative sum.
pub fn cumulated(c: &mut Call<'_, '_>, op: &str) -> R<Val> {
    if op == "CumProd" {
        c.g.needs(26);
    }
    let (mut x, from, to) = (c.arg(0)?, c.dtype(0)?, c.out_dtype()?);
    let axis = if c.attr("axis").is_none() {
        let flat = c.g.ints(&[-1]);
        x = c.node("Reshape", &[&x, &flat], vec![]);
        0
    } else {
        c.axis("axis", c.rank(0)?)?
    };
    let x = c.cast(x, from, to);
    let axis = c.g.constant("axis", &Tensor::scalar_i64(DType::I64, axis));
    let attrs = vec![("exclusive", Attr::Int(c.flag("exclusive").into()))];
    one(c.node(op, &[&x, &axis], attrs))
}

/// Writes a one-hot encoding along a new axis.
pub fn one_hot(c: &mut Call<'_, '_>) -> R<Val> {
    let depth = c.int("depth")?;
    let depth =
        c.g.constant("depth", &Tensor::scalar_i64(DType::I64, depth));
    one_hot_of(c, &depth)
}

/// Like [`one_hot`], with a depth that is a scalar of the graph. Indices out of range select
/// nothing, whereas ONNX's own operator counts negative ones from the end.
pub(super) fn one_hot_of(c: &mut Call<'_, '_>, depth: &str) -> R<Val> {
    let at = c.wide(0)?;
    let rank = c.out_dims()?.len() as i64;
    let axis = c.axis("axis", rank)?;
    let at = c.unsqueezed(&at, &[axis]);
    let zero = c.g.constant("zero", &Tensor::scalar_i64(DType::I64, 0));
    let step = c.g.constant("one", &Tensor::scalar_i64(DType::I64, 1));
    let mut all = c.node("Range", &[&zero, depth, &step], vec![]);
    let behind: Vec<i64> = (1..rank - axis).collect();
    if !behind.is_empty() {
        all = c.unsqueezed(&all, &behind);
    }
    let hit = c.node("Equal", &[&at, &all], vec![]);
    let to = c.out_dtype()?;
    let (on, off) = (c.arg(1)?, c.arg(2)?);
    let on = c.cast(on, c.dtype(1)?, to);
    let off = c.cast(off, c.dtype(2)?, to);
    one(c.node("Where", &[&hit, &on, &off], vec![]))
}

/// Returns the largest or smallest elements and their indices.
pub fn topk(c: &mut Call<'_, '_>) -> R<Val> {
    let axis = c.axis("axis", c.rank(0)?)?;
    let k = match c.count() {
        2 => c.wide_vector(1)?,
        _ => match c.int("k")? {
            n if n >= 1 => c.g.ints(&[n]),
            _ => whole(c, axis)?,
        },
    };
    let ascending = c.flag("is_ascend");
    let (values, places) = ordered(c, axis, &k, ascending)?;
    match c.text("ret_type").as_str() {
        "values" => one(values),
        "indices" => c.narrowed(places, DType::I64),
        _ => {
            let dtype = c.dtype(0)?;
            tuple(c, vec![(values, dtype), (places, DType::I64)])
        }
    }
}

/// Returns the extent of an axis, as a vector.
fn whole(c: &mut Call<'_, '_>, axis: i64) -> R<String> {
    let x = c.arg(0)?;
    Ok(c.g.axis(&x, axis))
}

fn ordered(c: &mut Call<'_, '_>, axis: i64, k: &str, up: bool) -> R<(String, String)> {
    let x = c.arg(0)?;
    let attrs = vec![
        ("axis", Attr::Int(axis)),
        ("largest", Attr::Int((!up).into())),
        ("sorted", Attr::Int(1)),
    ];
    let mut both = c.nodes("TopK", &[&x, k], attrs, 2).into_iter();
    match (both.next(), both.next()) {
        (Some(values), Some(places)) => Ok((values, places)),
        _ => Err(None),
    }
}

/// Sorts all elements along an axis, or returns their indices.
pub fn sorted(c: &mut Call<'_, '_>, places: bool) -> R<Val> {
    let axis = c.axis("axis", c.rank(0)?)?;
    let k = whole(c, axis)?;
    let up = c.flag("is_ascend");
    let (values, at) = ordered(c, axis, &k, up)?;
    if places {
        return c.narrowed(at, DType::I64);
    }
    one(values)
}

/// Returns the extents, as a vector.
pub fn shape_of(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let shape = c.node("Shape", &[&x], vec![]);
    c.narrowed(shape, DType::I64)
}

/// Returns the number of elements.
pub fn size(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let size = c.node("Size", &[&x], vec![]);
    c.narrowed(size, DType::I64)
}

/// Keeps a triangle of each matrix.
pub fn trilu(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, k) = (c.arg(0)?, c.wide(1)?);
    let attrs = vec![("upper", Attr::Int(c.flag("upper").into()))];
    one(c.node("Trilu", &[&x, &k], attrs))
}

/// Reverses the beginnings of sequences.
pub fn reverse_sequence(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, lengths, rank) = (c.arg(0)?, c.wide(1)?, c.rank(0)?);
    let (time, batch) = (c.axis("seq_axis", rank)?, c.axis("batch_axis", rank)?);
    if time > 1 || batch > 1 {
        return why("axes other than the first two");
    }
    let attrs = vec![
        ("time_axis", Attr::Int(time)),
        ("batch_axis", Attr::Int(batch)),
    ];
    one(c.node("ReverseSequence", &[&x, &lengths], attrs))
}

/// Returns the distinct slices along an axis, as a tuple.
pub fn unique(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let attrs = vec![
        ("axis", Attr::Int(c.axis("axis", c.rank(0)?)?)),
        ("sorted", Attr::Int(c.flag("sorted").into())),
    ];
    let dtype = c.dtype(0)?;
    let all = c.nodes("Unique", &[&x], attrs, 4).into_iter();
    let types = [dtype, DType::I64, DType::I64, DType::I64];
    tuple(c, all.zip(types).collect())
}

/// Returns the boxes that are kept, and their number; rows after them are zero. ONNX has no such
/// rows, drops boxes whose overlap exceeds the threshold where this operator also drops those that
/// equal it, and keeps no boxes where this one keeps all.
pub fn kept_boxes(c: &mut Call<'_, '_>) -> R<Val> {
    if c.text("output_format") == "tensorflow" {
        return why("`output_format=\"tensorflow\"`");
    }
    let (boxes, scores, most) = (c.arg(0)?, c.arg(1)?, c.wide(2)?);
    let (zero, all) = (c.g.ints(&[0]), c.g.ints(&[i64::from(i32::MAX)]));
    let one = c.g.ints(&[1]);
    let most = c.node("Reshape", &[&most, &one], vec![]);
    let none = c.node("Equal", &[&most, &zero], vec![]);
    let most = c.node("Where", &[&none, &all, &most], vec![]);
    let mut numbers = Vec::new();
    for i in [3, 4] {
        let v = c.arg(i)?;
        let v = c.cast(v, c.dtype(i)?, DType::F32);
        numbers.push(c.node("Reshape", &[&v, &one], vec![]));
    }
    let little = c.scalar(DType::F32, 1.0 - f64::from(f32::EPSILON));
    let overlap = c.node("Mul", &[&numbers[0], &little], vec![]);
    let inputs = [&boxes, &scores, &most, &overlap, &numbers[1]].map(String::as_str);
    let rows = c.node("NonMaxSuppression", &inputs, vec![]);
    let shape = c.node("Shape", &[&rows], vec![("end", Attr::Int(1))]);
    let Some(all) = c
        .out_fields()
        .first()
        .and_then(|t| t.shape.dims()?.first().cloned())
    else {
        return why("a result whose rank is not known");
    };
    let all = c.extents(&[all])?;
    let missing = c.node("Sub", &[&all, &shape], vec![]);
    let front = c.g.ints(&[0, 0]);
    let pads = c.node(
        "Concat",
        &[&front, &missing, &zero],
        vec![("axis", Attr::Int(0))],
    );
    let rows = c.node("Pad", &[&rows, &pads], vec![]);
    tuple(c, vec![(rows, DType::I64), (shape, DType::I64)])
}
