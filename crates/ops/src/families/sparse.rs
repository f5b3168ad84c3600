//! Tensors given by the indices and values of their elements.

use relax_ir::DTy;
use relax_loops::{Ex, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::util::{
    anys, extents, finish, finish_tuple, need_eq, need_integers, need_scalar, shaped, tensor_type,
    vector_len,
};
use super::util_te::{Done, elements, out_shape};
use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("sparse_to_dense", "A dense tensor from indices and values.", sparse_to_dense)
        .inputs(&[input("sparse_indices", "the indices: a scalar, a vector, or a row for each"), input("sparse_values", "the values: a scalar for all, or one each"), input("default_value", "the value elsewhere, a scalar")])
        .attrs(&[attr("output_shape", Dims, Default::Required, "the extents of the output")])
        .compute(sparse_to_dense_compute),
    OpDef::new("dyn.sparse_to_dense", "`sparse_to_dense` to the extents that a tensor holds.", dyn_sparse_to_dense)
        .static_form("sparse_to_dense")
        .inputs(&[input("sparse_indices", "the indices"), input("sparse_values", "the values"), input("default_value", "the value elsewhere, a scalar"), input("output_shape", "the extents of the output, a vector")])
        .data_dependent()
        .compute(dyn_sparse_to_dense_compute),
    OpDef::new("sparse_fill_empty_rows", "A sparse matrix with one element put into each empty row: indices, values, and which rows were empty.", sparse_fill_empty_rows)
        .inputs(&[input("sparse_indices", "the indices, a row for each"), input("sparse_values", "the values"), input("dense_shape", "the extents"), input("default_value", "the value to put in, a scalar")])
        .data_dependent()
        .compute(sparse_fill_empty_rows_compute),
    OpDef::new("sparse_reshape", "The indices of a sparse tensor under another shape, and that shape.", sparse_reshape)
        .inputs(&[input("sparse_indices", "the indices, a row for each"), input("prev_shape", "the extents"), input("new_shape", "the new extents, one of which may be -1")])
        .fusion(Fusion::Injective)
        .compute(sparse_reshape_compute),
];

/// Checks the arguments of both forms of `sparse_to_dense`; returns the element type of the result.
fn parts(cx: &mut RelCx<'_>, rank: usize) -> RelResult<DTy> {
    let (indices, index_dtype) = shaped(cx, 0)?;
    let (values, dtype) = shaped(cx, 1)?;
    need_integers(cx, index_dtype, 0, "the indices")?;
    let default = need_scalar(cx, 2, "the value elsewhere")?;
    for (i, dims, most) in [(0, &indices, 2), (1, &values, 1)] {
        if let Some(rank) = dims.as_ref().map(Vec::len).filter(|&n| n > most) {
            return cx.refuse(
                Subject::Arg(i),
                format!("this tensor must have rank {most} or less, but has rank {rank}"),
            );
        }
    }
    if let Some([_, n]) = indices.as_deref()
        && let Some(n) = n.as_const().filter(|&n| n > rank as i64)
    {
        return cx.refuse(
            Subject::Arg(0),
            format!("each row of the indices names {n} axes, but the output has {rank}"),
        );
    }
    if let (Some([count, ..]), Some([own])) = (indices.as_deref(), values.as_deref()) {
        let rule = "there is one value for each index";
        need_eq(cx, own, count, Subject::Arg(1), rule)?;
    }
    cx.require_dtype(
        dtype,
        default,
        Subject::Arg(2),
        "all values have one element type",
    )
}

fn sparse_to_dense(cx: &mut RelCx<'_>) -> RelResult {
    let dims = extents(cx, "output_shape")?;
    let dtype = parts(cx, dims.len())?;
    finish(cx, dims, dtype)
}

fn dyn_sparse_to_dense(cx: &mut RelCx<'_>) -> RelResult {
    let rank = vector_len(cx, 3, "the shape of the output")?;
    let dtype = parts(cx, rank)?;
    finish(cx, anys(rank), dtype)
}

fn dense(te: &mut Te<'_>, shape: &[Ex]) -> Done {
    let [indices, values, default] = [te.arg(0), te.arg(1), te.arg(2)];
    // A row of the indices specifies the first axes; the others are filled.
    let named = match indices.shape.as_slice() {
        [] | [_] => 1,
        [_, n] => n
            .as_int()
            .ok_or("the length of index tuples must be known")? as usize,
        _ => return Err("the indices have too many axes".into()),
    };
    let Some((own, rest)) = shape.split_at_checked(named) else {
        return Err("the index tuples are longer than the output's rank".into());
    };
    let y = te.temp("y", values.dtype, shape);
    let count = indices.shape.first().cloned().unwrap_or(Ex::idx(1));
    te.nest(|n| {
        n.grid(shape, |n, i| n.store(&y, i, default.scalar()));
        n.for_(count, |n, j| {
            let at: Vec<Ex> = (0..named)
                .map(|k| {
                    let full = [j.clone(), Ex::idx(k as i64)];
                    n.let_(indices.at(&full[..indices.rank()]).cast(DT::I64))
                })
                .collect();
            let inside = (at.iter().zip(own)).fold(Ex::bool(true), |all, (i, n)| {
                Ex::where_(&all, &(i.ge(0i64) & i.lt(n)), &Ex::bool(false))
            });
            let value = values.at(&[j.clone()][..values.rank()]);
            n.if_(inside, |n| {
                n.grid(rest, |n, i| n.store(&y, &[&at, i].concat(), value.clone()));
            });
        });
    });
    te.output(&y);
    Ok(())
}

fn sparse_to_dense_compute(te: &mut Te<'_>) -> Done {
    let shape = out_shape(te);
    dense(te, &shape)
}
fn dyn_sparse_to_dense_compute(te: &mut Te<'_>) -> Done {
    let shape = elements(&te.arg(3))?;
    dense(te, &shape)
}

fn sparse_fill_empty_rows(cx: &mut RelCx<'_>) -> RelResult {
    let (indices, dtype) = shaped(cx, 0)?;
    need_integers(cx, dtype, 0, "the indices")?;
    // TVM takes a vector of one element as well.
    if let Some(dims) = shaped(cx, 3)?.0
        && dims.iter().any(|d| d.as_const().is_some_and(|n| n != 1))
    {
        return cx.refuse(
            Subject::Arg(3),
            "the value to put in must be a scalar or have one element",
        );
    }
    for (i, what) in [(1, "the values"), (2, "the extents")] {
        if let Some(rank) = shaped(cx, i)?.0.map(|d| d.len()).filter(|&n| n != 1) {
            return cx.refuse(
                Subject::Arg(i),
                format!("{what} must be a vector, but have rank {rank}"),
            );
        }
    }
    let columns = match indices.as_deref() {
        Some([_, n]) => n.clone(),
        Some(other) => {
            let rank = other.len();
            return cx.refuse(
                Subject::Arg(0),
                format!("the indices must be a matrix, but have rank {rank}"),
            );
        }
        None => Dim::ANY,
    };
    if let (Some([count, _]), Some([own])) = (indices.as_deref(), shaped(cx, 1)?.0.as_deref()) {
        let rule = "there is one value for each index";
        need_eq(cx, own, count, Subject::Arg(1), rule)?;
    }
    if let Some([own]) = shaped(cx, 2)?.0.as_deref() {
        let rule = "there is one extent for each column of the indices";
        need_eq(cx, own, &columns, Subject::Arg(2), rule)?;
    }
    let rows = tensor_type(cx, vec![Dim::ANY, columns], DT::I64)?;
    let vector = tensor_type(cx, vec![Dim::ANY], DT::I64)?;
    finish_tuple(cx, vec![rows, vector, vector])
}

fn sparse_fill_empty_rows_compute(te: &mut Te<'_>) -> Done {
    let [indices, values, shape, default] = [0, 1, 2, 3].map(|k| te.arg(k));
    let [count, columns] = indices
        .shape
        .clone()
        .try_into()
        .map_err(|_| "the indices must be a matrix")?;
    let rows = shape.at(&[Ex::idx(0)]).cast(DT::I64);
    let row = |j: &Ex| indices.at(&[j.clone(), Ex::idx(0)]).cast(DT::I64);
    // The row after the previous one: rows from there to the current one are empty.
    let after = |j: &Ex| {
        let before = row(&(j - 1).max(0i64)) + 1;
        Ex::where_(&j.eq(0i64), &Ex::idx(0), &before)
    };
    let total = te.temp("total", DT::I64, &[]);
    te.nest(|n| {
        n.set(&total, &count);
        n.for_(&count + 1, |n, j| {
            let end = Ex::where_(&j.lt(&count), &row(j), &rows);
            let gap = n.let_((end - after(j)).max(0i64));
            n.set(&total, total.scalar() + gap);
        });
    });
    let new_indices = te.temp("indices", DT::I64, &[total.scalar(), columns.clone()]);
    let new_values = te.temp("values", DT::I64, &[total.scalar()]);
    let empty = te.temp("empty", DT::I64, std::slice::from_ref(&rows));
    te.nest(|n| {
        n.for_(rows.clone(), |n, r| {
            n.store(&empty, std::slice::from_ref(r), 0i64)
        });
        let at = n.cell(Ex::idx(0));
        n.for_(&count + 1, |n, j| {
            let from = n.let_(after(j));
            let end = n.let_(Ex::where_(&j.lt(&count), &row(j), &rows));
            n.for_((&end - &from).max(0i64), |n, k| {
                let r = n.let_(&from + k);
                n.for_(columns.clone(), |n, c| {
                    let first = c.eq(0i64);
                    let v = Ex::where_(&first, &r, &Ex::idx(0));
                    n.store(&new_indices, &[at.scalar(), c.clone()], v);
                });
                n.store(&new_values, &[at.scalar()], default.scalar().cast(DT::I64));
                n.store(&empty, std::slice::from_ref(&r), 1i64);
                n.set(&at, at.scalar() + 1);
            });
            n.if_(j.lt(&count), |n| {
                n.for_(columns.clone(), |n, c| {
                    let v = indices.at(&[j.clone(), c.clone()]).cast(DT::I64);
                    n.store(&new_indices, &[at.scalar(), c.clone()], v);
                });
                let v = values.at(std::slice::from_ref(j)).cast(DT::I64);
                n.store(&new_values, &[at.scalar()], v);
                n.set(&at, at.scalar() + 1);
            });
        });
    });
    for t in [&new_indices, &new_values, &empty] {
        te.output(t);
    }
    Ok(())
}

fn sparse_reshape(cx: &mut RelCx<'_>) -> RelResult {
    let (indices, index_dtype) = shaped(cx, 0)?;
    let (old, old_dtype) = shaped(cx, 1)?;
    let (new, new_dtype) = shaped(cx, 2)?;
    need_integers(cx, index_dtype, 0, "the indices")?;
    need_integers(cx, old_dtype, 1, "the extents")?;
    need_integers(cx, new_dtype, 2, "the new extents")?;
    for (i, dims, want) in [(0, &indices, 2), (1, &old, 1), (2, &new, 1)] {
        if let Some(rank) = dims.as_ref().map(Vec::len).filter(|&n| n != want) {
            return cx.refuse(
                Subject::Arg(i),
                format!("this tensor must have rank {want}, but has rank {rank}"),
            );
        }
    }
    if let (Some([_, columns]), Some([n])) = (indices.as_deref(), old.as_deref()) {
        let rule = "there is one extent for each column of the indices";
        need_eq(cx, n, columns, Subject::Arg(1), rule)?;
    }
    let first = |dims: &Option<Vec<Dim>>| dims.as_ref().map_or(Dim::ANY, |d| d[0].clone());
    let (count, rank) = (first(&indices), first(&new));
    let rows = tensor_type(cx, vec![count, rank.clone()], index_dtype)?;
    let shape = tensor_type(cx, vec![rank], new_dtype)?;
    finish_tuple(cx, vec![rows, shape])
}

/// The numbers of axes need not be known: all lengths are read at run time.
fn sparse_reshape_compute(te: &mut Te<'_>) -> Done {
    let [indices, old, new]: [TensorRef; 3] = [0, 1, 2].map(|k| te.arg(k));
    if indices.rank() != 2 || old.rank() != 1 || new.rank() != 1 {
        return Err("the indices must be a matrix, and the shapes vectors".into());
    }
    let (count, axes, new_axes) = (&indices.shape[0], &old.shape[0], &new.shape[0]);
    let one = std::slice::from_ref;
    let shape = te.temp("shape", new.dtype, &new.shape);
    te.nest(|n| {
        let total = n.cell(Ex::idx(1));
        n.for_(axes.clone(), |n, k| {
            n.set(&total, total.scalar() * old.at(one(k)).cast(DT::I64));
        });
        // The inferred extent, which is -1.
        let given = n.cell(Ex::idx(1));
        n.for_(new_axes.clone(), |n, k| {
            let extent = new.at(one(k)).cast(DT::I64);
            let extent = Ex::where_(&extent.eq(-1i64), &Ex::idx(1), &extent);
            n.set(&given, given.scalar() * extent);
        });
        n.for_(new_axes.clone(), |n, k| {
            let rest = total.scalar().floor_div(given.scalar()).cast(new.dtype);
            let extent = new.at(one(k));
            n.store(
                &shape,
                one(k),
                Ex::where_(&extent.eq(-1i64), &rest, &extent),
            );
        });
    });
    let rows = te.temp("indices", indices.dtype, &[count.clone(), new_axes.clone()]);
    te.nest(|n| {
        n.for_(count.clone(), |n, row| {
            let at = n.cell(Ex::idx(0));
            n.for_(axes.clone(), |n, k| {
                let index = indices.at(&[row.clone(), k.clone()]).cast(DT::I64);
                n.set(&at, at.scalar() * old.at(one(k)).cast(DT::I64) + index);
            });
            // From the last axis: the position is divided by each extent in turn, and the first
            // axis takes the remaining quotient.
            n.for_(new_axes.clone(), |n, back| {
                let k = n.let_(new_axes - 1 - back);
                let extent = n.let_(shape.at(one(&k)).cast(DT::I64));
                let here = n.let_(at.scalar());
                let part = Ex::where_(&k.eq(0i64), &here, &here.floor_mod(&extent));
                n.store(&rows, &[row.clone(), k.clone()], part.cast(indices.dtype));
                n.set(&at, here.floor_div(&extent));
            });
        });
    });
    te.output(&rows);
    te.output(&shape);
    Ok(())
}
