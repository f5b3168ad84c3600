//! Buffers that are read with constant strides along the axes of a stage.

use relax_tensor::DType;

use crate::{BinOp, Buf, Ex, ExKind, Var, visit_expr};

/// A buffer read at an affine index.
#[derive(Clone, Debug)]
pub struct Strided {
    /// The buffer.
    pub buf: Buf,
    /// For each axis of the buffer, its step along every axis of the stage, and the offset.
    pub index: Vec<(Vec<Ex>, Ex)>,
    /// Whether it is proven to be in the buffer as a whole, even where single axes are not.
    pub sure: bool,
}

impl Strided {
    /// Returns how a buffer is read along axes; `None` where an index is not affine in them.
    pub(super) fn along(axes: &[Var], buf: Buf, index: &[Ex]) -> Option<Strided> {
        let index = index.iter().map(|i| affine(i, axes, 16));
        Some(Strided {
            buf,
            index: index.collect::<Option<_>>()?,
            sure: false,
        })
    }
}

/// The steps of an index along axes, and the part that does not depend on them; `None` when it is
/// not affine. Recursion is bounded by `depth`.
pub fn affine(e: &Ex, axes: &[Var], depth: usize) -> Option<(Vec<Ex>, Ex)> {
    let none = || vec![Ex::idx(0); axes.len()];
    let mut depends = false;
    visit_expr(e, |x| {
        depends |= matches!(x.kind(), ExKind::Var(v) if axes.contains(v))
    });
    if !depends {
        return Some((none(), e.clone()));
    }
    if depth == 0 || e.dtype() != DType::I64 {
        return None;
    }
    match e.kind() {
        ExKind::Var(v) => {
            let mut steps = none();
            steps[axes.iter().position(|a| a == v)?] = Ex::idx(1);
            Some((steps, Ex::idx(0)))
        }
        ExKind::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) => {
            let (x, y) = (affine(a, axes, depth - 1)?, affine(b, axes, depth - 1)?);
            let join = |a: &Ex, b: &Ex| if *op == BinOp::Add { a + b } else { a - b };
            let steps = x.0.iter().zip(&y.0).map(|(a, b)| join(a, b)).collect();
            Some((steps, join(&x.1, &y.1)))
        }
        ExKind::Binary(BinOp::Mul, a, b) => {
            let (x, y) = (affine(a, axes, depth - 1)?, affine(b, axes, depth - 1)?);
            let still = |x: &[Ex]| x.iter().all(|s| s.as_int() == Some(0));
            let (x, factor) = match (still(&y.0), still(&x.0)) {
                (true, _) => (x, &y.1),
                (_, true) => (y, &x.1),
                _ => return None,
            };
            let steps = x.0.iter().map(|s| s * factor).collect();
            Some((steps, &x.1 * factor))
        }
        // A broadcast that depends on extents known only at run time.
        ExKind::Select(c, a, b) => {
            let (cond, _) = affine(c, axes, 0).map(|x| (x.1, x.0))?;
            let (x, y) = (affine(a, axes, depth - 1)?, affine(b, axes, depth - 1)?);
            let pick = |a: &Ex, b: &Ex| Ex::where_(&cond, a, b);
            let steps = x.0.iter().zip(&y.0).map(|(a, b)| pick(a, b)).collect();
            Some((steps, pick(&x.1, &y.1)))
        }
        _ => None,
    }
}

/// Returns whether an index is proven in bounds of an extent: it runs over exactly that extent, or
/// all numbers are constants.
pub fn inside((steps, rest): &(Vec<Ex>, Ex), extent: &Ex, axes: &[(Var, Ex)]) -> bool {
    let moving: Vec<usize> = (0..steps.len())
        .filter(|&j| steps[j].as_int() != Some(0))
        .collect();
    if let ([j], Some(0)) = (&moving[..], rest.as_int())
        && steps[*j].as_int() == Some(1)
        && axes[*j].1 == *extent
    {
        return true;
    }
    let (Some(mut low), Some(n)) = (rest.as_int(), extent.as_int()) else {
        return false;
    };
    let mut high = low;
    for j in moving {
        let (Some(step), Some(n)) = (steps[j].as_int(), axes[j].1.as_int()) else {
            return false;
        };
        let Some(reach) = step.checked_mul((n - 1).max(0)) else {
            return false;
        };
        low = low.saturating_add(reach.min(0));
        high = high.saturating_add(reach.max(0));
    }
    low >= 0 && high < n
}
