//! Helpers for the computations of several families.

pub(super) use relax_loops::wide;
use relax_loops::{Combiner, Ex, Hint, TensorRef, UnOp};
use relax_tensor::DType;

use crate::{ComputeError, Te};

/// The result of a computation.
pub type Done = Result<(), ComputeError>;

/// Returns the row-major position of `index` in an array of extents `shape`.
pub fn flat(index: &[Ex], shape: &[Ex]) -> Ex {
    let mut at = Ex::idx(0);
    for (i, n) in index.iter().zip(shape) {
        at = if n.as_int() == Some(1) {
            at
        } else {
            at * n + i
        };
    }
    at
}

/// The index of the element at row-major position `at`.
pub fn unflat(at: &Ex, shape: &[Ex]) -> Vec<Ex> {
    let mut index = vec![Ex::idx(0); shape.len()];
    let mut rest = at.clone();
    // The first axis with an extent other than 1 needs no remainder: the position is within the
    // array.
    let first = shape
        .iter()
        .position(|n| n.as_int() != Some(1))
        .unwrap_or(0);
    for axis in (0..shape.len()).rev() {
        let n = &shape[axis];
        if n.as_int() == Some(1) {
            continue;
        }
        if axis == first {
            index[axis] = rest;
            break;
        }
        index[axis] = rest.floor_mod(n);
        rest = rest.floor_div(n);
    }
    index
}

/// The product of extents.
pub fn product(shape: &[Ex]) -> Ex {
    shape.iter().fold(Ex::idx(1), |p, n| p * n)
}

/// The output `x` under another shape of as many elements.
pub fn reshaped(te: &mut Te<'_>, x: &TensorRef, shape: &[Ex]) -> TensorRef {
    let x = x.clone();
    let own = shape.to_vec();
    te.compute("reshape", shape, move |i| {
        x.at(&unflat(&flat(i, &own), &x.shape))
    })
}

/// Returns the elements of a vector, or a scalar as a vector of one, as indices.
pub fn elements(x: &TensorRef) -> Result<Vec<Ex>, ComputeError> {
    match x.shape.as_slice() {
        [] => Ok(vec![x.scalar().cast(DType::I64)]),
        [n] => match n.as_int() {
            Some(n) => Ok((0..n)
                .map(|i| x.at(&[Ex::idx(i)]).cast(DType::I64))
                .collect()),
            None => Err("a vector that gives extents must have a known length".into()),
        },
        _ => Err("extents are given by a vector".into()),
    }
}

/// Normalises `i` to `0..n`, where negative indices count from the end.
pub fn from_end(i: &Ex, n: &Ex) -> Ex {
    Ex::where_(&i.lt(0i64), &(i + n), i)
}

/// Clamps `i` to `0..n`.
pub fn clamp(i: &Ex, n: &Ex) -> Ex {
    i.max(0i64).min(n - 1).max(0i64)
}

/// The element type of output `k`.
pub fn out_dtype(te: &Te<'_>, k: usize) -> DType {
    te.out(k).dtype
}

/// An index without one of its components.
pub fn without(index: &[Ex], axis: usize) -> Vec<Ex> {
    let mut v = index.to_vec();
    v.remove(axis);
    v
}

/// An index with one component inserted.
pub fn with(index: &[Ex], axis: usize, part: Ex) -> Vec<Ex> {
    let mut v = index.to_vec();
    v.insert(axis, part);
    v
}

/// An index with one component replaced.
pub fn set(index: &[Ex], axis: usize, part: Ex) -> Vec<Ex> {
    let mut v = index.to_vec();
    v[axis] = part;
    v
}

/// Returns the extents of output 0: constants, or dimension variables that the caller binds.
pub fn out_shape(te: &mut Te<'_>) -> Vec<Ex> {
    let known = te.out(0).shape.clone();
    (known.iter())
        .map(|n| match n {
            Some(n) => Ex::idx(*n),
            None => te.dim("n"),
        })
        .collect()
}

/// A tensor of narrow floats as float32, in a stage of its own; any other one as it is.
pub fn widened(te: &mut Te<'_>, x: &TensorRef) -> TensorRef {
    match wide(x.dtype) {
        dtype if dtype == x.dtype => x.clone(),
        dtype => te.compute("wide", &x.shape, |i| x.at(i).cast(dtype)),
    }
}

/// A tensor with elements of a type that may be narrower, in a stage of its own where it is.
pub fn narrowed(te: &mut Te<'_>, y: &TensorRef, dtype: DType) -> TensorRef {
    if y.dtype == dtype {
        return y.clone();
    }
    te.compute("narrow", &y.shape, |i| y.at(i).cast(dtype))
}

/// Names the kernel that normalises `x`, which is `y` then, of the same type: the rows from an axis
/// on, in groups of channels (see [`Hint::LayerNorm`]). It converts narrow factors itself: they are
/// those that were given.
pub fn normalised_rows(
    te: &mut Te<'_>,
    (x, y): (&TensorRef, &TensorRef),
    (gamma, beta): (&TensorRef, Option<&TensorRef>),
    epsilon: f64,
    (axis, groups): (usize, i64),
) {
    let hint = Hint::LayerNorm {
        data: x.buf,
        gamma: gamma.buf,
        beta: beta.map(|b| b.buf),
        epsilon,
        axis,
        groups,
    };
    te.program.hints.push((y.buf, hint));
}

/// Means and squared distances from them over some axes.
pub struct Moments {
    means: TensorRef,
    squares: TensorRef,
    count: Ex,
}

/// Returns the moments, of extents `shape`, of the elements that `at` gives for an index of `shape`
/// and one of the axes `over`.
pub fn moments(
    te: &mut Te<'_>,
    shape: &[Ex],
    over: &[Ex],
    dtype: DType,
    at: impl Fn(&[Ex], &[Ex]) -> Ex,
) -> Moments {
    let count = product(over).cast(dtype);
    let sums = te.reduce("sums", shape, over, Combiner::Sum, &at);
    let means = te.compute("means", shape, |i| sums.at(i) / &count);
    let squares = te.reduce("squares", shape, over, Combiner::Sum, |i, r| {
        let d = at(i, r) - means.at(i);
        &d * &d
    });
    Moments {
        means,
        squares,
        count,
    }
}

impl Moments {
    /// Normalises a value: subtracts the mean at an index, and divides by the square root of the
    /// variance plus `epsilon`.
    pub fn normal(&self, value: Ex, at: &[Ex], epsilon: f64) -> Ex {
        let spread = self.squares.at(at) / &self.count;
        let root = (spread.clone() + spread.same(epsilon)).unary(UnOp::Sqrt);
        (value - self.means.at(at)) / root
    }
}
