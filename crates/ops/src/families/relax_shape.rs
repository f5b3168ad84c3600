//! Relax's operators on shapes, and those that create tensors of numbers.

use relax_ir::{AttrValue, DTy, Shape, Type};
use relax_loops::Ex;
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::elementwise::identity;
use super::util::{anys, dtype_or, finish, int_list, shaped, vector_len};
use super::util_te::{Done, out_shape, product, reshaped};
use crate::AttrTy::{Any, DType, Int, Ints};
use crate::{
    ComputeError, Default, Fusion, OpDef, RelCx, RelResult, Stop, Subject, Te, attr, input,
};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "relax.shape_of",
        "The extents of a tensor, a shape.",
        shape_of,
    )
    .inputs(&[input("expr", "the tensor")])
    .uncomputed("shapes are values of the program, not tensors")
    .not_computed(),
    OpDef::new(
        "relax.shape_to_tensor",
        "The numbers of a shape, a vector.",
        shape_to_tensor,
    )
    .inputs(&[input("expr", "the shape")])
    .uncomputed("shapes are values of the program, not tensors")
    .not_computed()
    .of_shape(numbers),
    OpDef::new(
        "relax.tensor_to_shape",
        "The shape that a vector of numbers gives.",
        tensor_to_shape,
    )
    .inputs(&[input("expr", "the vector")])
    .uncomputed("shapes are values of the program, not tensors")
    .not_computed(),
    OpDef::new("relax.size", "The number of elements.", size)
        .inputs(&[input("expr", "the tensor")])
        .compute(size_compute),
    OpDef::new(
        "relax.expand_dims",
        "The same elements with axes of extent 1 put in.",
        expand_dims,
    )
    .reshape()
    .inputs(&[input("x", "the input")])
    .attrs(&[attr(
        "axis",
        Ints,
        Default::Required,
        "where the new axes are in the result",
    )])
    .fusion(Fusion::Injective)
    .compute(expand_dims_compute),
    OpDef::new("relax.flatten", "All elements as a vector.", flatten)
        .reshape()
        .inputs(&[input("x", "the input")])
        .fusion(Fusion::Injective)
        .compute(flatten_compute),
    OpDef::new(
        "relax.triu",
        "The part of matrices on and above a diagonal; 0 elsewhere.",
        triangle,
    )
    .inputs(&[input("x", "the matrices")])
    .attrs(&[attr("k", Int, Default::Int(0), "which diagonal")])
    .fusion(Fusion::Injective)
    .compute(|te| triangle_compute(te, true)),
    OpDef::new(
        "relax.tril",
        "The part of matrices on and below a diagonal; 0 elsewhere.",
        triangle,
    )
    .inputs(&[input("x", "the matrices")])
    .attrs(&[attr("k", Int, Default::Int(0), "which diagonal")])
    .fusion(Fusion::Injective)
    .compute(|te| triangle_compute(te, false)),
    OpDef::new(
        "relax.arange",
        "The numbers from `start` to `end`, exclusive, by `step`.",
        arange,
    )
    .attrs(&[
        attr(
            "start",
            Any,
            Default::Required,
            "the first number; the end, where none is given",
        ),
        attr("end", Any, Default::None, "where to stop, exclusive"),
        attr("step", Any, Default::Int(1), "the distance"),
        attr(
            "dtype",
            DType,
            Default::DType(""),
            "the element type; `int64`, or `float32` where a number is a float",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(arange_compute),
];

fn shape_of(cx: &mut RelCx<'_>) -> RelResult {
    let t = cx.tensor(0)?;
    let ty = cx.host.types_mut().intern(Type::Shape(t.shape));
    cx.set_out(ty)
}

/// The shape type of an argument.
fn shape_arg(cx: &mut RelCx<'_>) -> RelResult<Shape> {
    let ty = cx.arg(0);
    match &cx.host.types()[ty] {
        Type::Shape(s) => Ok(s.clone()),
        Type::Infer(_) | Type::Error | Type::Object => Err(Stop::Wait),
        _ => {
            let text = cx.host.show(ty);
            cx.refuse(
                Subject::Arg(0),
                format!("`{}` takes a shape, not {text}", cx.name),
            )
        }
    }
}

fn shape_to_tensor(cx: &mut RelCx<'_>) -> RelResult {
    let dims = match shape_arg(cx)? {
        Shape::Dims(dims) => vec![Dim::from(dims.len() as i64)],
        _ => anys(1),
    };
    finish(cx, dims, DT::I64)
}

/// The extents as a tensor.
fn numbers(extents: &[i64], dtype: DT) -> relax_tensor::Tensor {
    let mut out = relax_tensor::Tensor::zeros(dtype, &[extents.len() as i64]);
    for (i, &d) in extents.iter().enumerate() {
        out.set_i64(i, d);
    }
    out
}

fn tensor_to_shape(cx: &mut RelCx<'_>) -> RelResult {
    let n = vector_len(cx, 0, "the tensor")?;
    let ty = cx
        .host
        .types_mut()
        .intern(Type::Shape(Shape::Dims(anys(n).into())));
    cx.set_out(ty)
}

fn size(cx: &mut RelCx<'_>) -> RelResult {
    cx.tensor(0)?;
    finish(cx, Vec::new(), DT::I64)
}

fn size_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let n = product(&x.shape).cast(DT::I64);
    let y = te.compute("size", &[], |_| n);
    te.output(&y);
    Ok(())
}

/// Returns the positions of the new axes in a result of that rank, in order.
fn new_axes(given: &[i64], rank: usize) -> Result<Vec<usize>, String> {
    let total = (rank + given.len()) as i64;
    let mut at = Vec::with_capacity(given.len());
    for &v in given {
        let a = if v < 0 { v + total } else { v };
        if !(0..total).contains(&a) {
            return Err(format!(
                "axis {v} is out of range: the result has {total} axes"
            ));
        }
        at.push(a as usize);
    }
    at.sort_unstable();
    match at.windows(2).find(|w| w[0] == w[1]) {
        Some(w) => Err(format!("axis {} is named twice", w[0])),
        None => Ok(at),
    }
}

fn expand_dims(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let given = int_list(cx, "axis")?;
    let Some(dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let at = match new_axes(&given, dims.len()) {
        Ok(at) => at,
        Err(why) => return cx.refuse(Subject::Attr("axis"), why),
    };
    let mut old = dims.into_iter();
    let total = old.len() + at.len();
    let out = (0..total).filter_map(|a| {
        if at.contains(&a) {
            Some(Dim::ONE)
        } else {
            old.next()
        }
    });
    let out = out.collect();
    finish(cx, out, dtype)
}

fn expand_dims_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let at =
        new_axes(&te.ints("axis").unwrap_or_default(), x.rank()).map_err(ComputeError::from)?;
    let total = x.rank() + at.len();
    let mut old = x.shape.iter();
    let shape: Vec<Ex> = (0..total)
        .filter_map(|a| {
            if at.contains(&a) {
                Some(Ex::idx(1))
            } else {
                old.next().cloned()
            }
        })
        .collect();
    let y = te.compute("y", &shape, |i| {
        let index: Vec<Ex> = (0..total)
            .filter(|a| !at.contains(a))
            .map(|a| i[a].clone())
            .collect();
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}

fn flatten(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let n = match dims {
        Some(dims) => dims.into_iter().product(),
        None => Dim::ANY,
    };
    finish(cx, vec![n], dtype)
}

fn flatten_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let n = product(&x.shape);
    let y = reshaped(te, &x, &[n]);
    te.output(&y);
    Ok(())
}

fn triangle(cx: &mut RelCx<'_>) -> RelResult {
    identity(cx)?;
    cx.int("k")?;
    match shaped(cx, 0)?.0 {
        Some(d) if d.len() < 2 => {
            let rank = d.len();
            cx.refuse(
                Subject::Arg(0),
                format!("a triangle is part of a matrix, but the data has rank {rank}"),
            )
        }
        _ => Ok(()),
    }
}

fn triangle_compute(te: &mut Te<'_>, upper: bool) -> Done {
    let x = te.arg(0);
    let (k, rank) = (te.int("k")?, x.rank());
    if rank < 2 {
        return Err("a triangle is part of a matrix".into());
    }
    let y = te.compute("y", &x.shape, |i| {
        let diagonal = &i[rank - 1] - k;
        let row = &i[rank - 2];
        let keep = if upper {
            row.le(&diagonal)
        } else {
            row.ge(&diagonal)
        };
        Ex::where_(&keep, &x.at(i), &Ex::int(x.dtype, 0))
    });
    te.output(&y);
    Ok(())
}

/// Returns `start`, `end` and `step`, with the first two in their positions.
fn range<'a>(start: &'a AttrValue, end: &'a AttrValue) -> (&'a AttrValue, &'a AttrValue) {
    const ZERO: &AttrValue = &AttrValue::Int(0);
    if end.is_none() {
        (ZERO, start)
    } else {
        (start, end)
    }
}

fn arange(cx: &mut RelCx<'_>) -> RelResult {
    let (start, end) = range(cx.attr("start"), cx.attr("end"));
    let step = cx.attr("step");
    let float = [start, end, step]
        .iter()
        .any(|v| matches!(v, AttrValue::Float(_)));
    let default: DTy = if float {
        DT::F32.into()
    } else {
        DT::I64.into()
    };
    let n = match (start.as_dim(), end.as_dim(), step.as_int()) {
        (_, _, Some(0)) => return cx.refuse(Subject::Attr("step"), "`step` must not be 0"),
        (Some(a), Some(b), Some(s)) => {
            let n = (&b - &a).ceildiv(&Dim::from(s));
            if n.as_const().is_some_and(|n| n < 0) {
                Dim::ZERO
            } else {
                n
            }
        }
        _ => match (start.as_float(), end.as_float(), step.as_float()) {
            (Some(a), Some(b), Some(s)) if s != 0.0 => {
                Dim::from(((b - a) / s).ceil().max(0.0) as i64)
            }
            _ => {
                return cx.refuse(
                    Subject::Attr("start"),
                    "`start`, `end` and `step` must be numbers, `step` not 0",
                );
            }
        },
    };
    let dtype = dtype_or(cx, "dtype", default);
    finish(cx, vec![n], dtype)
}

fn arange_compute(te: &mut Te<'_>) -> Done {
    let (start, _) = range(te.attr("start"), te.attr("end"));
    let (start, step) = (start.as_float(), te.attr("step").as_float());
    let (Some(start), Some(step)) = (start, step) else {
        return Err("`start` must be a number that is known".into());
    };
    let dtype = te.out(0).dtype;
    let shape = out_shape(te);
    let wide = if dtype.is_float() { DT::F64 } else { DT::I64 };
    let number = |x: f64| {
        if dtype.is_float() {
            Ex::float(wide, x)
        } else {
            Ex::int(wide, x as i64)
        }
    };
    let y = te.compute("arange", &shape, |i| {
        (number(start) + i[0].cast(wide) * number(step)).cast(dtype)
    });
    te.output(&y);
    Ok(())
}
