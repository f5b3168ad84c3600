//! Matrix products.

use super::super::call::{Call, why};
use super::super::graph::Attr;
use super::super::walk::{R, Val};

/// Checks that the product has the element type of its operands, as ONNX requires.
fn plain(c: &Call<'_, '_>) -> R<()> {
    let (a, b, y) = (c.dtype(0)?, c.dtype(1)?, c.out_dtype()?);
    if a == b && a == y {
        return Ok(());
    }
    why(format!("a product of {a} and {b} as {y}"))
}

/// Returns the axis order that swaps the last two axes.
fn swapped(rank: i64) -> R<Vec<i64>> {
    if rank < 2 {
        return why("a transposed operand that is no matrix");
    }
    let mut order: Vec<i64> = (0..rank).collect();
    order.swap(rank as usize - 1, rank as usize - 2);
    Ok(order)
}

/// Writes `a · b`, with either operand optionally transposed.
pub fn matmul(c: &mut Call<'_, '_>) -> R<Val> {
    plain(c)?;
    let (mut a, mut b) = (c.arg(0)?, c.arg(1)?);
    if c.flag("transpose_a") {
        let order = swapped(c.rank(0)?)?;
        a = c.transposed(a, &order);
    }
    if c.flag("transpose_b") {
        let order = swapped(c.rank(1)?)?;
        b = c.transposed(b, &order);
    }
    Ok(Val::Tensor(c.node("MatMul", &[&a, &b], vec![])))
}

/// Writes `x · wᵀ`.
pub fn dense(c: &mut Call<'_, '_>) -> R<Val> {
    plain(c)?;
    let (x, w) = (c.arg(0)?, c.arg(1)?);
    if c.rank(0)? == 2 && c.rank(1)? == 2 {
        return Ok(Val::Tensor(c.node(
            "Gemm",
            &[&x, &w],
            vec![("transB", Attr::Int(1))],
        )));
    }
    let order = swapped(c.rank(1)?)?;
    let w = c.transposed(w, &order);
    Ok(Val::Tensor(c.node("MatMul", &[&x, &w], vec![])))
}

/// Writes an Einstein summation.
pub fn einsum(c: &mut Call<'_, '_>) -> R<Val> {
    let fields = c.fields(0)?;
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let equation = Attr::Text(c.text("equation"));
    Ok(Val::Tensor(c.node(
        "Einsum",
        &fields,
        vec![("equation", equation)],
    )))
}
