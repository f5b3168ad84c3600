//! Relax's operators that look up elements by index, and those that create tensors of patterns.

use relax_loops::{BinOp, Combiner, Ex, UnOp};
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::elementwise::identity;
use super::relax_rules::float_arg;
use super::relax_unique::{nonzero, nonzero_compute, unique, unique_compute};
use super::scatter::{combine, copied};
use super::util::{
    dtype_given, dtype_or, extents, finish, finish_like, gap_attr, need_eq, need_integers,
    need_scalar, shaped, word,
};
use super::util_te::{Done, from_end, out_shape, with, without};
use crate::AttrTy::{Bool, DType, Dims, Int, Str};
use crate::{
    AttrDef, Default, Fusion, Input, OpDef, RelCx, RelResult, Stop, Subject, Te, attr, input,
};

const PAIR: &[Input] = &[
    input("x1", "the left operand"),
    input("x2", "the right operand"),
];
const DATA: &[Input] = &[input("data", "the input")];
const X: &[Input] = &[input("x", "the input")];
const OWN: AttrDef = attr(
    "dtype",
    DType,
    Default::DType(""),
    "the element type; the input's where none is given",
);

macro_rules! flag {
    ($name:literal, $default:literal, $doc:literal) => {
        attr($name, Bool, Default::Bool($default), $doc)
    };
}

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("relax.atan2", "The angle of points, by their second and first coordinates.", real_pair)
        .inputs(PAIR)
        .fusion(Fusion::Broadcast)
        .compute(|te| te.broadcast(|a, b| a.binary(BinOp::Atan2, b))),
    OpDef::new("relax.log_add_exp", "`log(exp(a) + exp(b))`.", real_pair)
        .inputs(PAIR)
        .fusion(Fusion::Broadcast)
        .compute(|te| te.broadcast(log_add_exp)),
    OpDef::new("relax.outer", "The product of each element of one vector with each of another.", outer)
        .inputs(PAIR)
        .fusion(Fusion::Injective)
        .compute(outer_compute),
    OpDef::new("relax.wrap_param", "A parameter of a model in the element type it is computed in.", wrap)
        .inputs(DATA)
        .attrs(&[attr("dtype", DType, Default::DType("float32"), "the element type of the result")])
        .fusion(Fusion::Elementwise)
        .compute(|te| {
            let dtype = te.out(0).dtype;
            te.elementwise(|x| x.cast(dtype))
        }),
    OpDef::new("relax.grad.no_grad", "The same tensor, through which no gradient passes.", identity)
        .inputs(&[input("input", "the input")])
        .fusion(Fusion::Elementwise)
        .compute(|te| te.elementwise(Ex::clone)),
    OpDef::new("relax.full_like", "A tensor as large as another one, of one number.", full_like)
        .inputs(&[input("x", "the tensor that is as large"), input("fill_value", "the number")])
        .attrs(&[OWN])
        .fusion(Fusion::Injective)
        .compute(full_like_compute),
    OpDef::new("relax.eye_like", "As large as a matrix, 1 on a diagonal and 0 elsewhere.", eye_like)
        .inputs(X)
        .attrs(&[attr("k", Int, Default::Int(0), "which diagonal"), OWN])
        .fusion(Fusion::Injective)
        .compute(eye_compute),
    OpDef::new("relax.collapse_sum_to", "The sum over all axes along which the given extents are broadcast to the input's.", collapse)
        .inputs(DATA)
        .attrs(&[attr("shape", Dims, Default::Required, "the extents of the result")])
        .fusion(Fusion::Reduction)
        .compute(|te| {
            let target = out_shape(te);
            super::broadcast_to::collapse(te, &target)
        }),
    OpDef::new("relax.one_hot", "Vectors with one number at an index and another elsewhere.", one_hot)
        .inputs(&[
            input("indices", "the indices"),
            input("on_value", "the number at the index"),
            input("off_value", "the number elsewhere"),
        ])
        .attrs(&[
            attr("depth", Int, Default::Required, "the length of the vectors"),
            attr("axis", Int, Default::Int(-1), "where they stand in the result"),
        ])
        .fusion(Fusion::Injective)
        .compute(one_hot_compute),
    OpDef::new("relax.gather_nd", "Elements (or slices) at tuples of indices, which stand along the last axis.", gather_nd)
        .inputs(&[input("data", "the input"), input("indices", "the tuples, along the last axis")])
        .attrs(&[attr("batch_dims", Int, Default::Int(0), "how many leading axes the two have in common")])
        .fusion(Fusion::Injective)
        .compute(gather_nd_compute),
    OpDef::new("relax.scatter_nd", "The input with elements (or slices) changed at tuples of indices, which stand along the last axis.", scatter_nd)
        .inputs(&[
            input("data", "the input"),
            input("indices", "the tuples, along the last axis"),
            input("updates", "what comes there"),
        ])
        .attrs(&[attr("reduction", Str, Default::Str("update"), "`update`, `add`, `mul`, `min` or `max`")])
        .compute(scatter_nd_compute),
    OpDef::new("relax.nonzero", "The indices of all elements that are not 0, a column for each, in order.", nonzero)
        .inputs(X)
        .data_dependent()
        .compute(nonzero_compute),
    OpDef::new("relax.unique", "The distinct elements, or slices along an axis, and where they are.", unique)
        .inputs(X)
        .attrs(&[
            flag!("sorted", true, "whether they are in order rather than as they occur"),
            flag!("return_index", false, "whether to say where each occurs first"),
            flag!("return_inverse", false, "whether to say which one each element is"),
            flag!("return_counts", false, "whether to say how often each occurs"),
            attr("axis", Int, Default::None, "the axis of the slices; elements where none is given"),
        ])
        .data_dependent()
        .compute(unique_compute),
    OpDef::new("relax.bucketize", "Between which boundaries each element lies.", bucketize)
        .inputs(&[input("input_tensor", "the input"), input("boundaries", "numbers in ascending order, a vector")])
        .attrs(&[
            flag!("out_int32", false, "whether the result is `int32` rather than `int64`"),
            flag!("right", false, "whether an element on a boundary lies behind it"),
        ])
        .compute(bucketize_compute),
    OpDef::new("relax.multinomial_from_uniform", "For each uniform number the class that it falls into.", multinomial)
        .inputs(&[
            input("prob", "(batch, classes), probabilities"),
            input("uniform_sample", "(n, 1), numbers from 0 to 1"),
            input("sample_indices", "(n, 1), the row of probabilities of each"),
        ])
        .attrs(&[attr("dtype", DType, Default::DType("int64"), "the element type of the result")])
        .compute(multinomial_compute),
];

fn real_pair(cx: &mut RelCx<'_>) -> RelResult {
    float_arg(cx, 0)?;
    float_arg(cx, 1)?;
    super::binary::broadcast(cx)
}

fn log_add_exp(a: &Ex, b: &Ex) -> Ex {
    let most = a.max(b);
    let sum = (a - &most).unary(UnOp::Exp) + (b - &most).unary(UnOp::Exp);
    most + sum.unary(UnOp::Log)
}

fn outer(cx: &mut RelCx<'_>) -> RelResult {
    let ((a, dtype), (b, own)) = (shaped(cx, 0)?, shaped(cx, 1)?);
    let dtype = cx.require_dtype(
        dtype,
        own,
        Subject::Arg(1),
        "both vectors have one element type",
    )?;
    for (i, dims) in [&a, &b].into_iter().enumerate() {
        if let Some(rank) = dims.as_ref().map(Vec::len).filter(|&n| n != 1) {
            let message = format!("`outer` takes vectors, not a tensor of rank {rank}");
            return cx.refuse(Subject::Arg(i), message);
        }
    }
    match (a.as_deref(), b.as_deref()) {
        (Some([n]), Some([m])) => finish(cx, vec![n.clone(), m.clone()], dtype),
        _ => finish(cx, super::util::anys(2), dtype),
    }
}

fn outer_compute(te: &mut Te<'_>) -> Done {
    let (a, b) = (te.arg(0), te.arg(1));
    let shape = [a.shape[0].clone(), b.shape[0].clone()];
    let y = te.compute("outer", &shape, |i| a.at(&i[..1]) * b.at(&i[1..]));
    te.output(&y);
    Ok(())
}

fn wrap(cx: &mut RelCx<'_>) -> RelResult {
    let like = cx.tensor(0)?;
    let dtype = dtype_given(cx, "dtype")?;
    finish_like(cx, like, dtype)
}

fn full_like(cx: &mut RelCx<'_>) -> RelResult {
    let like = cx.tensor(0)?;
    if shaped(cx, 1)?.0.is_none() {
        return cx.refuse(
            Subject::Arg(1),
            "the number must be a scalar, but its rank is not known",
        );
    }
    need_scalar(cx, 1, "the number")?;
    let dtype = dtype_or(cx, "dtype", like.dtype);
    finish_like(cx, like, dtype)
}

fn full_like_compute(te: &mut Te<'_>) -> Done {
    let (x, v, dtype) = (te.arg(0), te.arg(1), te.out(0).dtype);
    let y = te.compute("full", &x.shape, |_| v.scalar().cast(dtype));
    te.output(&y);
    Ok(())
}

fn eye_like(cx: &mut RelCx<'_>) -> RelResult {
    let like = cx.tensor(0)?;
    if let Some(rank) = shaped(cx, 0)?.0.map(|d| d.len()).filter(|&n| n != 2) {
        return cx.refuse(
            Subject::Arg(0),
            format!("a matrix is expected, not a tensor of rank {rank}"),
        );
    }
    let dtype = dtype_or(cx, "dtype", like.dtype);
    finish_like(cx, like, dtype)
}

fn eye_compute(te: &mut Te<'_>) -> Done {
    let (x, k, dtype) = (te.arg(0), te.int("k")?, te.out(0).dtype);
    let y = te.compute("eye", &x.shape, |i| {
        let on = (&i[0] + k).eq(&i[1]);
        Ex::where_(&on, &Ex::int(dtype, 1), &Ex::int(dtype, 0))
    });
    te.output(&y);
    Ok(())
}

fn collapse(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let target = extents(cx, "shape")?;
    if let Some(dims) = &dims {
        let Some(skip) = dims.len().checked_sub(target.len()) else {
            return cx.refuse(
                Subject::Attr("shape"),
                "a sum does not have more axes than the data",
            );
        };
        for (own, wanted) in dims[skip..].iter().zip(&target) {
            if wanted.as_const() != Some(1) {
                let rule = "only axes of extent 1 are summed";
                need_eq(cx, own, wanted, Subject::Attr("shape"), rule)?;
            }
        }
    }
    finish(cx, target, dtype)
}

fn one_hot(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, own) = shaped(cx, 0)?;
    need_integers(cx, own, 0, "the indices")?;
    let (on, off) = (
        need_scalar(cx, 1, "the number at the index")?,
        need_scalar(cx, 2, "the other number")?,
    );
    let dtype = cx.require_dtype(
        on,
        off,
        Subject::Arg(2),
        "both numbers have one element type",
    )?;
    let depth = cx.int("depth")?;
    if depth < 1 {
        return cx.refuse(
            Subject::Attr("depth"),
            format!("`depth={depth}` must be greater than 0"),
        );
    }
    let Some(mut dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let at = gap_attr(cx, "axis", dims.len())?;
    dims.insert(at, Dim::from(depth));
    finish(cx, dims, dtype)
}

fn one_hot_compute(te: &mut Te<'_>) -> Done {
    let (x, on, off) = (te.arg(0), te.arg(1), te.arg(2));
    let (axis, rank) = (te.int("axis")?, x.rank() as i64);
    let at = if axis < 0 { axis + rank + 1 } else { axis };
    let at = usize::try_from(at)
        .ok()
        .filter(|&a| a <= x.rank())
        .ok_or("`axis` is out of range")?;
    let shape = with(&x.shape, at, Ex::idx(te.int("depth")?));
    let y = te.compute("one_hot", &shape, |i| {
        let here = x.at(&without(i, at)).cast(DT::I64).eq(&i[at]);
        Ex::where_(&here, &on.scalar(), &off.scalar())
    });
    te.output(&y);
    Ok(())
}

/// Returns the length of an index tuple: the last extent of an argument.
fn tuple_len(cx: &mut RelCx<'_>, indices: &[Dim]) -> RelResult<usize> {
    let Some(last) = indices.last() else {
        return cx.refuse(
            Subject::Arg(1),
            "the indices have an axis that runs over the tuple",
        );
    };
    if last.has_infer() {
        return Err(Stop::Wait);
    }
    match last.as_const().and_then(|n| usize::try_from(n).ok()) {
        Some(n) => Ok(n),
        None => {
            let n = cx.host.show_dim(last);
            let message = format!(
                "the last axis of the indices says how many axes are indexed, so it must be known, but it is {n}"
            );
            cx.refuse(Subject::Arg(1), message)
        }
    }
}

fn gather_nd(cx: &mut RelCx<'_>) -> RelResult {
    let (data, dtype) = shaped(cx, 0)?;
    let (indices, own) = shaped(cx, 1)?;
    need_integers(cx, own, 1, "the indices")?;
    let (Some(data), Some(indices)) = (data, indices) else {
        return cx.finish_unranked(dtype);
    };
    let count = tuple_len(cx, &indices)?;
    let batch = usize::try_from(cx.int("batch_dims")?).unwrap_or(usize::MAX);
    if batch >= indices.len() || data.len().checked_sub(count).is_none_or(|n| batch > n) {
        let rank = data.len();
        let message = format!(
            "tuples of {count} indices behind these common axes do not fit data of rank {rank}"
        );
        return cx.refuse(Subject::Arg(1), message);
    }
    for (a, b) in indices[..batch].iter().zip(&data) {
        need_eq(
            cx,
            a,
            b,
            Subject::Arg(1),
            "data and indices have leading axes in common",
        )?;
    }
    let dims = [&indices[..indices.len() - 1], &data[batch + count..]].concat();
    finish(cx, dims, dtype)
}

/// The length of the tuples along the last axis.
fn count_of(shape: &[Ex], rank: usize) -> Result<usize, crate::ComputeError> {
    let count = shape
        .last()
        .and_then(Ex::as_int)
        .and_then(|n| usize::try_from(n).ok());
    Ok(count
        .filter(|&n| n <= rank)
        .ok_or("the length of the index tuples must be known")?)
}

fn gather_nd_compute(te: &mut Te<'_>) -> Done {
    let (x, indices) = (te.arg(0), te.arg(1));
    let count = count_of(&indices.shape, x.rank())?;
    let batch = te.int("batch_dims")?.max(0) as usize;
    let own = indices.rank() - 1;
    if batch + count > x.rank() || batch > own {
        return Err("the index tuples do not fit the data".into());
    }
    let shape = [&indices.shape[..own], &x.shape[batch + count..]].concat();
    let y = te.compute("gathered", &shape, |i| {
        let mut index = i[..batch].to_vec();
        for k in 0..count {
            let at = with(&i[..own], own, Ex::idx(k as i64));
            index.push(from_end(
                &indices.at(&at).cast(DT::I64),
                &x.shape[batch + k],
            ));
        }
        index.extend_from_slice(&i[own..]);
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}

fn scatter_nd(cx: &mut RelCx<'_>) -> RelResult {
    word(cx, "reduction", &["update", "add", "mul", "min", "max"])?;
    let (data, dtype) = shaped(cx, 0)?;
    let (indices, own) = shaped(cx, 1)?;
    let (updates, update) = shaped(cx, 2)?;
    need_integers(cx, own, 1, "the indices")?;
    cx.require_dtype(
        dtype,
        update,
        Subject::Arg(2),
        "the updates have the input's element type",
    )?;
    if let (Some(data), Some(indices)) = (&data, &indices) {
        let count = tuple_len(cx, indices)?;
        let Some(rest) = data.get(count..) else {
            let rank = data.len();
            return cx.refuse(
                Subject::Arg(1),
                format!("tuples of {count} indices do not fit data of rank {rank}"),
            );
        };
        if let Some(updates) = updates {
            let want = [&indices[..indices.len() - 1], rest].concat();
            if updates.len() != want.len() {
                let (n, m) = (updates.len(), want.len());
                let message =
                    format!("the updates have rank {n}, but the indices ask for rank {m}");
                return cx.refuse(Subject::Arg(2), message);
            }
            for (a, b) in updates.iter().zip(&want) {
                need_eq(
                    cx,
                    a,
                    b,
                    Subject::Arg(2),
                    "there is one update for each index",
                )?;
            }
        }
    }
    let ty = cx.arg(0);
    cx.set_out(ty)
}

fn scatter_nd_compute(te: &mut Te<'_>) -> Done {
    let (x, indices, updates) = (te.arg(0), te.arg(1), te.arg(2));
    let how = te.str("reduction").to_owned();
    combine(&how, &Ex::int(x.dtype, 0), &Ex::int(x.dtype, 0))?;
    let count = count_of(&indices.shape, x.rank())?;
    let own = indices.rank() - 1;
    let y = copied(te, &x);
    te.nest(|n| {
        n.grid(&indices.shape[..own], |n, o| {
            let mut at = Vec::with_capacity(x.rank());
            for k in 0..count {
                let i = indices.at(&with(o, own, Ex::idx(k as i64))).cast(DT::I64);
                at.push(n.let_(from_end(&i, &x.shape[k])));
            }
            n.grid(&x.shape[count..], |n, i| {
                let at = [&at, i].concat();
                if let Ok(v) = combine(&how, &y.at(&at), &updates.at(&[o, i].concat())) {
                    n.store(&y, &at, v);
                }
            });
        });
    });
    te.output(&y);
    Ok(())
}

fn bucketize(cx: &mut RelCx<'_>) -> RelResult {
    let like = cx.tensor(0)?;
    let (bounds, _) = shaped(cx, 1)?;
    if let Some(rank) = bounds.map(|d| d.len()).filter(|&n| n != 1) {
        return cx.refuse(
            Subject::Arg(1),
            format!("the boundaries are a vector, not of rank {rank}"),
        );
    }
    let dtype = if cx.flag("out_int32") {
        DT::I32
    } else {
        DT::I64
    };
    finish_like(cx, like, dtype)
}

fn bucketize_compute(te: &mut Te<'_>) -> Done {
    let (x, bounds) = (te.arg(0), te.arg(1));
    let (right, dtype) = (te.flag("right"), te.out(0).dtype);
    let wide = |e: Ex| {
        if x.dtype == bounds.dtype {
            e
        } else {
            e.cast(DT::F64)
        }
    };
    let y = te.reduce("bucket", &x.shape, &bounds.shape, Combiner::Sum, |i, r| {
        let (b, v) = (wide(bounds.at(r)), wide(x.at(i)));
        if right { b.le(v) } else { b.lt(v) }.cast(dtype)
    });
    te.output(&y);
    Ok(())
}

fn multinomial(cx: &mut RelCx<'_>) -> RelResult {
    let dtype = dtype_given(cx, "dtype")?;
    let mut out = Dim::ANY;
    for (i, what) in [(0, "probabilities"), (1, "uniform numbers"), (2, "rows")] {
        let (dims, own) = shaped(cx, i)?;
        if i == 2 {
            need_integers(cx, own, 2, "the rows")?;
        } else {
            float_arg(cx, i)?;
        }
        let Some(dims) = dims else { continue };
        let [n, last] = &dims[..] else {
            let rank = dims.len();
            return cx.refuse(
                Subject::Arg(i),
                format!("the {what} are a matrix, not of rank {rank}"),
            );
        };
        if i > 0 {
            need_eq(cx, last, &Dim::ONE, Subject::Arg(i), "there is one column")?;
            need_eq(
                cx,
                n,
                &out,
                Subject::Arg(i),
                "there is one row for each number",
            )?;
            out = n.clone();
        }
    }
    finish(cx, vec![out, Dim::ONE], dtype)
}

fn multinomial_compute(te: &mut Te<'_>) -> Done {
    let (p, u, rows) = (te.arg(0), te.arg(1), te.arg(2));
    let dtype = te.out(0).dtype;
    let classes = p.shape[1].clone();
    let y = te.temp("class", dtype, &u.shape);
    te.nest(|n| {
        n.grid(&u.shape.clone(), |n, i| {
            let row = n.let_(rows.at(i).cast(DT::I64));
            let (sum, found) = (n.cell(Ex::float(p.dtype, 0.0)), n.cell(Ex::idx(0)));
            // As in TVM: of all classes whose interval contains the number, the last one.
            n.for_(classes.clone(), |n, c| {
                let before = n.let_(sum.scalar());
                n.set(&sum, &before + p.at(&[row.clone(), c.clone()]));
                let number = n.let_(u.at(i).cast(p.dtype));
                let below = number.lt(sum.scalar()) | (c + 1).eq(&classes);
                let above = c.eq(0i64) | number.ge(&before);
                n.if_(below & above, |n| n.set(&found, c.clone()));
            });
            n.store(&y, i, found.scalar().cast(dtype));
        });
    });
    te.output(&y);
    Ok(())
}
