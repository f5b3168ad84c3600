//! Numbers about shapes and indices.

use relax_loops::Ex;
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::elementwise::identity;
use super::util::{
    dtype_or, finish, finish_tuple, need_integers, shaped, shaped_field, tensor_type,
    unranked_type, word,
};
use super::util_te::{Done, elements, product};
use crate::AttrTy::*;
use crate::{AttrDef, Default, Former, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const DTYPE: &[AttrDef] = &[attr("dtype", DType, Default::DType(""), "the element type")];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("shape_of", "The extents, a vector.", shape_of)
        .of_shape(extents_vector)
        .inputs(&[input("data", "the input")])
        .attrs(DTYPE)
        .compute(shape_of_compute),
    OpDef::new("vm.shape_of", "The extents, a vector.", shape_of)
        .of_shape(extents_vector)
        .not_computed()
        .inputs(&[input("tensor", "the input")])
        .attrs(DTYPE)
        .compute(shape_of_compute),
    OpDef::new("ndarray_size", "The number of elements.", ndarray_size)
        .of_shape(element_count)
        .former(&[Former::name("contrib.ndarray_size", 6)])
        .inputs(&[input("data", "the input")])
        .attrs(DTYPE)
        .fusion(Fusion::Injective)
        .compute(ndarray_size_compute),
    OpDef::new(
        "unravel_index",
        "Flat indices as tuples of indices into a shape; the first axis runs over the tuple.",
        unravel_index,
    )
    .inputs(&[
        input("data", "the flat indices"),
        input("shape", "the extents, a vector"),
    ])
    .fusion(Fusion::Injective)
    .compute(unravel_index_compute),
    OpDef::new(
        "invert_permutation",
        "The permutation that undoes the given one.",
        permutation,
    )
    .inputs(&[input("data", "a permutation, a vector")])
    .fusion(Fusion::Injective)
    .compute(invert_permutation_compute),
    OpDef::new(
        "argwhere",
        "The indices of all elements that are not 0, one row each, in order.",
        argwhere,
    )
    .inputs(&[input("condition", "the input")])
    .data_dependent()
    .compute(argwhere_compute),
    OpDef::new(
        "meshgrid",
        "Coordinate grids, one for each vector; a tuple.",
        meshgrid,
    )
    .inputs(&[input(
        "data",
        "the coordinates of each axis, a tuple of vectors",
    )])
    .attrs(&[attr(
        "indexing",
        Str,
        Default::Str("ij"),
        "`ij`, or `xy`: the first two axes swapped",
    )])
    .fusion(Fusion::Injective)
    .compute(meshgrid_compute),
];

/// A vector of integers, and the same again.
fn permutation(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    need_integers(cx, dtype, 0, "a permutation's elements")?;
    if let Some(rank) = dims.map(|d| d.len()).filter(|&n| n != 1) {
        return cx.refuse(
            Subject::Arg(0),
            format!("a permutation is a vector, but this has rank {rank}"),
        );
    }
    identity(cx)
}

fn shape_of(cx: &mut RelCx<'_>) -> RelResult {
    let dtype = dtype_or(cx, "dtype", DT::I32.into());
    match shaped(cx, 0)?.0 {
        // As in TVM, the shape of a scalar is a scalar.
        Some(d) if d.is_empty() => finish(cx, Vec::new(), dtype),
        Some(d) => finish(cx, vec![Dim::from(d.len() as i64)], dtype),
        None => finish(cx, vec![Dim::ANY], dtype),
    }
}

fn shape_of_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let dtype = te.out(0).dtype;
    let shape: Vec<Ex> = if x.rank() == 0 {
        Vec::new()
    } else {
        vec![Ex::idx(x.rank() as i64)]
    };
    let y = te.compute("y", &shape, |i| {
        let pick = |n: Ex, (k, d): (usize, &Ex)| Ex::where_(&i[0].eq(k as i64), d, &n);
        x.shape
            .iter()
            .enumerate()
            .fold(Ex::idx(0), pick)
            .cast(dtype)
    });
    te.output(&y);
    Ok(())
}

fn ndarray_size(cx: &mut RelCx<'_>) -> RelResult {
    cx.tensor(0)?;
    finish(cx, Vec::new(), dtype_or(cx, "dtype", DT::I32.into()))
}

fn ndarray_size_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let dtype = te.out(0).dtype;
    let y = te.compute("y", &[], |_| product(&x.shape).cast(dtype));
    te.output(&y);
    Ok(())
}

fn unravel_index(cx: &mut RelCx<'_>) -> RelResult {
    let (indices, dtype) = shaped(cx, 0)?;
    let (shape, shape_dtype) = shaped(cx, 1)?;
    need_integers(cx, dtype, 0, "the flat indices")?;
    need_integers(cx, shape_dtype, 1, "the extents")?;
    let (Some(indices), Some(shape)) = (indices, shape) else {
        return cx.finish_unranked(dtype);
    };
    let [n] = shape.as_slice() else {
        let rank = shape.len();
        return cx.refuse(
            Subject::Arg(1),
            format!("the extents must be a vector, but have rank {rank}"),
        );
    };
    if indices.len() > 1 {
        let rank = indices.len();
        return cx.refuse(
            Subject::Arg(0),
            format!("the flat indices must be a scalar or a vector, but have rank {rank}"),
        );
    }
    finish(
        cx,
        [std::slice::from_ref(n), indices.as_slice()].concat(),
        dtype,
    )
}

fn unravel_index_compute(te: &mut Te<'_>) -> Done {
    let (x, shape) = (te.arg(0), te.arg(1));
    let extents = elements(&shape)?;
    let out = [&shape.shape, x.shape.as_slice()].concat();
    let y = te.compute("y", &out, |i| {
        let mut rest = x.at(&i[1..]).cast(DT::I64);
        let mut found = Ex::idx(0);
        for (k, n) in extents.iter().enumerate().rev() {
            found = Ex::where_(&i[0].eq(k as i64), &rest.floor_mod(n), &found);
            rest = rest.floor_div(n);
        }
        found.cast(x.dtype)
    });
    te.output(&y);
    Ok(())
}

fn invert_permutation_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    if x.rank() != 1 {
        return Err("a permutation is a vector".into());
    }
    let y = te.temp("y", x.dtype, &x.shape);
    te.nest(|n| {
        n.for_(x.shape[0].clone(), |n, i| {
            n.store(&y, std::slice::from_ref(i), 0i64)
        });
        n.for_(x.shape[0].clone(), |n, i| {
            let to = x.at(std::slice::from_ref(i)).cast(DT::I64);
            n.store(&y, &[to], i.cast(x.dtype));
        });
    });
    te.output(&y);
    Ok(())
}

fn argwhere(cx: &mut RelCx<'_>) -> RelResult {
    match shaped(cx, 0)?.0 {
        Some(d) => finish(cx, vec![Dim::ANY, Dim::from(d.len() as i64)], DT::I32),
        None => finish(cx, vec![Dim::ANY, Dim::ANY], DT::I32),
    }
}

fn argwhere_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let dtype = te.out(0).dtype;
    let (count, rank) = (te.temp("count", DT::I64, &[]), Ex::idx(x.rank() as i64));
    // Each place is written behind those that were found, and stays where it is one of them: without
    // branches, which nobody could predict.
    let most = x.shape.iter().fold(Ex::idx(1), |n, d| n * d) + 1;
    let places = te.temp("places", dtype, &[most, rank.clone()]);
    te.nest(|n| {
        let row = n.cell(Ex::idx(0));
        n.grid(&x.shape, |n, i| {
            for (k, i) in i.iter().enumerate() {
                n.store(&places, &[row.scalar(), Ex::idx(k as i64)], i.cast(dtype));
            }
            let found = x.at(i).cast(DT::BOOL).cast(DT::I64);
            n.set(&row, row.scalar() + found);
        });
        n.set(&count, row.scalar());
    });
    let y = te.compute("y", &[count.scalar(), rank], |i| places.at(i));
    te.output(&y);
    Ok(())
}

fn meshgrid(cx: &mut RelCx<'_>) -> RelResult {
    let swap = word(cx, "indexing", &["ij", "xy"])? == "xy";
    let types = cx.tuple(0)?;
    let Some(&first) = types.first() else {
        return cx.refuse(Subject::Arg(0), "`meshgrid` takes at least one vector");
    };
    let (_, mut dtype) = shaped_field(cx, 0, first)?;
    let mut grid = Some(Vec::with_capacity(types.len()));
    for (k, &ty) in types.iter().enumerate() {
        let (dims, d) = shaped_field(cx, 0, ty)?;
        dtype = cx.require_dtype(
            dtype,
            d,
            Subject::Arg(0),
            "`meshgrid` takes tensors of one element type",
        )?;
        match dims.as_deref() {
            Some([]) => grid.iter_mut().for_each(|g| g.push(Dim::ONE)),
            Some([n]) => grid.iter_mut().for_each(|g| g.push(n.clone())),
            Some(more) => {
                let rank = more.len();
                return cx.refuse(
                    Subject::Arg(0),
                    format!("`meshgrid` takes scalars and vectors, but number {k} has rank {rank}"),
                );
            }
            None => grid = None,
        }
    }
    let field = match grid {
        Some(mut grid) => {
            if swap && grid.len() > 1 {
                grid.swap(0, 1);
            }
            tensor_type(cx, grid, dtype)?
        }
        None => unranked_type(cx, dtype),
    };
    finish_tuple(cx, vec![field; types.len()])
}

fn meshgrid_compute(te: &mut Te<'_>) -> Done {
    let parts = te.tuple(0);
    let mut shape: Vec<Ex> = (parts.iter())
        .map(|p| p.shape.first().cloned().unwrap_or(Ex::idx(1)))
        .collect();
    let swap = te.str("indexing") == "xy" && shape.len() > 1;
    if swap {
        shape.swap(0, 1);
    }
    for (k, p) in parts.iter().enumerate() {
        let axis = if swap && k < 2 { 1 - k } else { k };
        let y = te.compute("grid", &shape, |i| p.at(&i[axis..axis + p.rank()]));
        te.output(&y);
    }
    Ok(())
}

/// The value of `shape_of`.
fn extents_vector(extents: &[i64], dtype: relax_tensor::DType) -> relax_tensor::Tensor {
    let mut out = relax_tensor::Tensor::zeros(dtype, &[extents.len() as i64]);
    for (i, &n) in extents.iter().enumerate() {
        out.set_i64(i, n);
    }
    out
}

/// The value of `ndarray_size`.
fn element_count(extents: &[i64], dtype: relax_tensor::DType) -> relax_tensor::Tensor {
    relax_tensor::Tensor::scalar_i64(dtype, extents.iter().product())
}
