//! Products with sparse matrices, stored by rows (CSR) or by rows of blocks (BSR).
//!
//! A sparse matrix consists of its values (`data`: one for each element, or a block of rows and
//! columns), the column of each (`indices`), and for each row the index of its first value
//! (`indptr`, one longer).

use relax_loops::{Ex, Nest, TensorRef};
use relax_sym::Dim;

use super::util::{finish, finish_like, finish_tuple, tensor_type, word};
use super::util_te::Done;
use super::vision_nms::of_rank;
use crate::AttrTy::{Bool, Ints, Str};
use crate::{
    AttrDef, ComputeError, Default, Fusion, Input, OpDef, RelCx, RelResult, Subject, Te, attr,
    input,
};
use relax_tensor::DType;

const MATRIX: [Input; 3] = [
    input("sparse_data", "the sparse matrix' numbers or blocks"),
    input("sparse_indices", "the column of each"),
    input("sparse_indptr", "where each row begins"),
];
const DENSE: &[Input] = &[
    input("dense_data", "the dense operand"),
    MATRIX[0],
    MATRIX[1],
    MATRIX[2],
];
const SIDE: &[AttrDef] = &[attr(
    "sparse_lhs",
    Bool,
    Default::Bool(false),
    "whether the sparse matrix is the left operand",
)];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.sparse_dense",
        "`y = x · wᵀ` where one operand is sparse.",
        dense,
    )
    .inputs(DENSE)
    .attrs(SIDE)
    .fusion(Fusion::OutElementwise)
    .compute(dense_compute),
    OpDef::new(
        "nn.internal.sparse_dense_padded",
        "`nn.sparse_dense` with rows padded to equal lengths.",
        dense,
    )
    .inputs(&[
        input("data", "the dense operand"),
        input("weight_data", "the sparse matrix' numbers or blocks"),
        input("weight_indices", "the column of each"),
        input("weight_indptr", "where each row begins"),
    ])
    .attrs(SIDE)
    .fusion(Fusion::OutElementwise)
    .compute(dense_compute),
    OpDef::new(
        "nn.sparse_transpose",
        "A square sparse matrix transposed.",
        transpose,
    )
    .inputs(&MATRIX)
    .fusion(Fusion::OutElementwise)
    .compute(transpose_compute),
    OpDef::new(
        "nn.sparse_add",
        "The sum of a dense and a sparse matrix.",
        add,
    )
    .inputs(DENSE)
    .compute(add_compute),
    OpDef::new(
        "nn.sparse_conv2d",
        "2-D convolution with a sparse weight, 1x1 or 3x3 (padded to the same extents).",
        conv2d,
    )
    .inputs(DENSE)
    .attrs(&[
        attr(
            "layout",
            Str,
            Default::Str("NHWC"),
            "layout of the data: \"NHWC\" or \"NCHW\"",
        ),
        attr(
            "kernel_size",
            Ints,
            Default::Ints(&[1, 1]),
            "height and width of the weight: 1 or 3",
        ),
    ])
    .fusion(Fusion::OutElementwise)
    .compute(conv2d_compute),
];

/// Returns the number of rows of a sparse matrix whose values are argument `data`, and its row
/// starts argument `starts`.
fn rows(cx: &mut RelCx<'_>, data: usize, starts: usize) -> RelResult<(Dim, usize)> {
    let (blocks, _) = cx.ranked(data)?;
    let starts = of_rank(cx, starts, 1)?.remove(0);
    let rows = if starts.is_any() {
        Dim::ANY
    } else {
        starts - Dim::ONE
    };
    match blocks.len() {
        1 => Ok((rows, 1)),
        2 | 3 => Ok((rows * blocks[1].clone(), blocks.len())),
        rank => cx.refuse(
            Subject::Arg(data),
            format!(
                "the numbers of a sparse matrix have rank 1 (by rows) or 3 (by blocks), not {rank}"
            ),
        ),
    }
}

fn dense(cx: &mut RelCx<'_>) -> RelResult {
    let x = of_rank(cx, 0, 2)?;
    let dtype = cx.tensor(0)?.dtype;
    let (rows, rank) = rows(cx, 1, 3)?;
    if rank == 2 {
        return cx.refuse(
            Subject::Arg(1),
            "the numbers of a sparse matrix have rank 1 (by rows) or 3 (by blocks), not 2",
        );
    }
    let out = if cx.flag("sparse_lhs") {
        vec![rows, x[0].clone()]
    } else {
        vec![x[0].clone(), rows]
    };
    finish(cx, out, dtype)
}

/// A sparse matrix in a computation.
struct Sparse {
    data: TensorRef,
    indices: TensorRef,
    starts: TensorRef,
}

impl Sparse {
    fn new(te: &Te<'_>, first: usize) -> Sparse {
        Sparse {
            data: te.arg(first),
            indices: te.arg(first + 1),
            starts: te.arg(first + 2),
        }
    }
    /// Rows and columns of a block.
    fn block(&self) -> (Ex, Ex) {
        let extent = |k: usize| self.data.shape.get(k).cloned().unwrap_or(Ex::idx(1));
        (extent(1), extent(2))
    }
    /// The number of rows.
    fn rows(&self) -> Ex {
        (&self.starts.shape[0] - 1) * self.block().0
    }
    /// Visits the elements of a row: column and number.
    fn each(&self, n: &mut Nest<'_>, row: &Ex, visit: impl Fn(&mut Nest<'_>, &Ex, &Ex)) {
        let (high, wide) = self.block();
        let part = n.let_(row.floor_div(&high));
        let within = n.let_(row.floor_mod(&high));
        let start = |at: Ex| self.starts.at(&[at]).cast(DType::I64);
        let (from, to) = (n.let_(start(part.clone())), n.let_(start(part + 1)));
        n.for_((to - &from).max(0i64), |n, k| {
            let at = n.let_(&from + k);
            let column =
                n.let_(self.indices.at(std::slice::from_ref(&at)).cast(DType::I64) * &wide);
            n.for_(wide.clone(), |n, c| {
                let index = [at.clone(), within.clone(), c.clone()];
                let value = self.data.at(&index[..self.data.rank()]);
                visit(n, &(&column + c), &value);
            });
        });
    }
}

fn dense_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let w = Sparse::new(te, 1);
    let left = te.flag("sparse_lhs");
    let (count, rows) = (x.shape[0].clone(), w.rows());
    let shape = if left { [rows, count] } else { [count, rows] };
    let y = te.temp("product", x.dtype, &shape);
    te.nest(|n| {
        n.grid(&shape, |n, i| {
            let (m, row) = if left { (&i[1], &i[0]) } else { (&i[0], &i[1]) };
            let sum = n.cell(Ex::float(x.dtype, 0.0));
            w.each(n, row, |n, column, value| {
                let other = x.at(&[m.clone(), column.clone()]);
                n.set(&sum, sum.scalar() + value.cast(x.dtype) * other);
            });
            n.store(&y, i, sum.scalar());
        });
    });
    te.output(&y);
    Ok(())
}

fn transpose(cx: &mut RelCx<'_>) -> RelResult {
    let mut fields = Vec::new();
    for i in 0..3 {
        let dims = of_rank(cx, i, 1)?;
        let dtype = cx.tensor(i)?.dtype;
        fields.push(tensor_type(cx, dims, dtype)?);
    }
    finish_tuple(cx, fields)
}

fn transpose_compute(te: &mut Te<'_>) -> Done {
    let w = Sparse::new(te, 0);
    let data = te.temp("data", w.data.dtype, &w.data.shape);
    let indices = te.temp("indices", w.indices.dtype, &w.indices.shape);
    let starts = te.temp("starts", w.starts.dtype, &w.starts.shape);
    let t = w.starts.dtype;
    te.nest(|n| {
        let count = w.indices.shape[0].clone();
        let side = n.let_(&w.starts.shape[0] - 1);
        let column = |k: &Ex| w.indices.at(std::slice::from_ref(k)).cast(DType::I64);
        n.grid(&starts.shape, |n, i| n.store(&starts, i, 0i64));
        // Elements that rows omit keep these values.
        n.grid(&data.shape, |n, i| n.store(&data, i, 0i64));
        n.grid(&indices.shape, |n, i| n.store(&indices, i, 0i64));
        // The number of elements of each column, then the index of its first.
        n.for_(count.clone(), |n, k| {
            let at = [n.let_(column(k) + 1)];
            n.assert(
                at[0].le(&side),
                "a column beyond the rows: the matrix is not square",
            );
            n.store(&starts, &at, starts.at(&at) + Ex::int(t, 1));
        });
        n.for_(side.clone(), |n, i| {
            n.store(
                &starts,
                &[i + 1],
                starts.at(&[i + 1]) + starts.at(std::slice::from_ref(i)),
            );
        });
        let next = n.local("next", DType::I64, std::slice::from_ref(&side));
        n.for_(side.clone(), |n, i| {
            let at = std::slice::from_ref(i);
            n.store(&next, at, starts.at(at).cast(DType::I64));
        });
        n.for_(side.clone(), |n, row| {
            w.each(n, row, |n, column, value| {
                let at = [n.let_(next.at(std::slice::from_ref(column)))];
                n.store(&data, &at, value);
                n.store(&indices, &at, row.cast(indices.dtype));
                n.store(&next, std::slice::from_ref(column), &at[0] + 1);
            });
        });
    });
    for part in [&data, &indices, &starts] {
        te.output(part);
    }
    Ok(())
}

fn add(cx: &mut RelCx<'_>) -> RelResult {
    let t = cx.tensor(0)?;
    let numbers = cx.tensor(1)?;
    of_rank(cx, 0, 2)?;
    for i in 1..4 {
        of_rank(cx, i, 1)?;
    }
    let rule = "dense and sparse matrix have one element type";
    let dtype = cx.require_dtype(t.dtype, numbers.dtype, Subject::Arg(1), rule)?;
    finish_like(cx, t, dtype)
}

fn add_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let w = Sparse::new(te, 1);
    let y = te.temp("sum", x.dtype, &x.shape);
    te.nest(|n| {
        n.grid(&x.shape, |n, i| n.store(&y, i, x.at(i)));
        n.for_(w.rows(), |n, row| {
            w.each(n, row, |n, column, value| {
                let at = [row.clone(), column.clone()];
                n.store(&y, &at, y.at(&at) + value.clone());
            });
        });
    });
    te.output(&y);
    Ok(())
}

fn conv2d(cx: &mut RelCx<'_>) -> RelResult {
    let x = of_rank(cx, 0, 4)?;
    let dtype = cx.tensor(0)?.dtype;
    let layout = word(cx, "layout", &["NHWC", "NCHW"])?;
    let (channels, rank) = rows(cx, 1, 3)?;
    if rank == 1 {
        return cx.refuse(
            Subject::Arg(1),
            "the weight is given by blocks, of rank 2 or 3",
        );
    }
    let size = cx.ints("kernel_size")?.unwrap_or_default();
    match size[..] {
        [1, 1] | [1] => {}
        [3, 3] | [3] if layout == "NHWC" && rank == 3 => {}
        _ => {
            let text = format!(
                "`kernel_size={size:?}` must be 1x1, or 3x3 with \"NHWC\" and blocks of rank 3"
            );
            return cx.refuse(Subject::Attr("kernel_size"), text);
        }
    }
    let at = if layout == "NHWC" { 3 } else { 1 };
    let mut out = x;
    out[at] = channels;
    finish(cx, out, dtype)
}

fn conv2d_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let w = Sparse::new(te, 1);
    let last = te.str("layout") == "NHWC";
    let side = te
        .ints("kernel_size")
        .and_then(|k| k.first().copied())
        .ok_or_else(|| ComputeError("`kernel_size` is missing".into()))?;
    let (c, h, wd) = if last { (3, 1, 2) } else { (1, 2, 3) };
    let mut shape = x.shape.clone();
    shape[c] = w.rows();
    let channels = x.shape[c].clone();
    let y = te.temp("conv", x.dtype, &shape);
    te.nest(|n| {
        n.grid(&shape, |n, i| {
            let sum = n.cell(Ex::float(x.dtype, 0.0));
            w.each(n, &i[c], |n, column, value| {
                // With 3x3, columns are ordered by taps, row by row, and within each by channels.
                let mut at = i.to_vec();
                let mut inside = Ex::bool(true);
                if side == 3 {
                    let tap = column.floor_div(&channels);
                    at[h] = &i[h] + tap.floor_div(3) - 1;
                    at[wd] = &i[wd] + tap.floor_mod(3) - 1;
                    at[c] = column.floor_mod(&channels);
                    for k in [h, wd] {
                        inside = inside & at[k].ge(0i64) & at[k].lt(&x.shape[k]);
                    }
                } else {
                    at[c] = column.clone();
                }
                let other = x.at(&at);
                let other = Ex::where_(&inside, &other, &other.same(0.0));
                n.set(&sum, sum.scalar() + value.cast(x.dtype) * other);
            });
            n.store(&y, i, sum.scalar());
        });
    });
    te.output(&y);
    Ok(())
}
