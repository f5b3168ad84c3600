//! Matrix products.

use relax_ir::AttrValue;
use relax_sym::Dim;

use super::build::{flag, str};
use super::steps::OfBytes;
use crate::graph::Tr;
use crate::node::{Node, R};
use crate::table::{Entry, ms, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("MatMul", 1, |tr, n| {
        let (a, b) = (n.t(0)?, n.t(1)?);
        Ok(vec![matmul(tr, &a, &b)?.into()])
    }),
    op("Gemm", 1, gemm),
    op("Einsum", 12, |tr, n| {
        let parts = (0..n.inputs.len()).map(|i| n.t(i)).collect::<R<Vec<_>>>()?;
        let all: Vec<&Val> = parts.iter().collect();
        let equation: String = n
            .str("equation", "")
            .chars()
            .filter(|c| !c.is_whitespace())
            .collect();
        Ok(vec![
            tr.op_of_tuple("einsum", &all, &[("equation", str(&equation))])?
                .into(),
        ])
    }),
    op("Det", 11, |tr, n| {
        let x = n.t(0)?;
        Ok(vec![tr.op("determinant", &[&x], &[])?.into()])
    }),
    ms("FusedMatMul", fused),
];

/// Emits a scaled product of optionally transposed matrices.
pub fn fused(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let ordered = |tr: &mut Tr<'_>, x: Val, batch: &str, turned: &str| -> R<Val> {
        let r = x.rank();
        if r < 2 {
            return Ok(x);
        }
        // The first axis may come after those of the batch; the last two may then be swapped.
        let mut order: Vec<usize> = match n.flag(batch) {
            true => (1..r - 1).chain([0, r - 1]).collect(),
            false => (0..r).collect(),
        };
        if n.flag(turned) {
            order.swap(r - 1, r - 2);
        }
        tr.transpose(&x, &order)
    };
    let a = ordered(tr, n.t(0)?, "transBatchA", "transA")?;
    let b = ordered(tr, n.t(1)?, "transBatchB", "transB")?;
    let y = matmul(tr, &a, &b)?;
    let alpha = n.float("alpha", 1.0);
    Ok(vec![match alpha == 1.0 {
        true => y.into(),
        false => tr.by("multiply", &y, alpha)?.into(),
    }])
}

/// Emits a product with the semantics of `numpy.matmul`.
pub fn matmul(tr: &mut Tr<'_>, a: &Val, b: &Val) -> R<Val> {
    matmul_of(tr, a, b, None)
}

/// Emits such a product, of bytes where these have zero points and scales.
pub fn matmul_of(tr: &mut Tr<'_>, a: &Val, b: &Val, bytes: Option<&OfBytes>) -> R<Val> {
    if a.rank() == 0 || b.rank() == 0 {
        return Err("a scalar is no matrix".into());
    }
    if a.rank() == 1 {
        let row = tr.expand(a, 0)?;
        let y = matmul_of(tr, &row, b, bytes)?;
        let at = y.rank() - if b.rank() == 1 { 1 } else { 2 };
        return tr.squeeze(&y, &[at]);
    }
    if b.rank() == 1 {
        let column = tr.expand(b, 1)?;
        let y = matmul_of(tr, a, &column, bytes)?;
        return tr.squeeze(&y, &[y.but(1)?]);
    }
    if b.rank() == 2 {
        let units = ("units", AttrValue::None);
        let Some(bytes) = bytes else {
            return tr.op("nn.matmul", &[a, b], &[units]);
        };
        let b = tr.transpose(b, &[1, 0])?;
        return bytes.product(tr, "qnn.dense", [a, &b], vec![units]);
    }
    batched(tr, a, b, bytes)
}

fn batched(tr: &mut Tr<'_>, a: &Val, b: &Val, bytes: Option<&OfBytes>) -> R<Val> {
    let (a, b) = (tr.known(a), tr.known(b));
    let matrix = |v: &Val| v.dims[v.rank() - 2..].to_vec();
    let lead = |v: &Val| v.dims[..v.rank() - 2].to_vec();
    let batch = broadcast(&lead(&a), &lead(&b));
    let size = batch.iter().fold(Dim::ONE, |n, d| n * d);
    let flat = |tr: &mut Tr<'_>, v: &Val| -> R<Val> {
        let to = |first: Vec<Dim>| first.into_iter().chain(matrix(v)).collect::<Vec<_>>();
        // One matrix is used for all batches.
        if lead(v).iter().all(|d| d.as_const() == Some(1)) {
            return tr.reshape(v, &to(vec![Dim::ONE]));
        }
        let whole = tr.broadcast(v, &to(batch.clone()))?;
        tr.reshape(&whole, &to(vec![size.clone()]))
    };
    let (x, y) = (flat(tr, &a)?, flat(tr, &b)?);
    let as_it_lies = vec![("transpose_b", flag(false))];
    let z = match bytes {
        Some(bytes) => bytes.product(tr, "qnn.batch_matmul", [&x, &y], as_it_lies)?,
        None => tr.op("nn.batch_matmul", &[&x, &y], &as_it_lies)?,
    };
    let mut to = batch;
    to.extend([matrix(&a)[0].clone(), matrix(&b)[1].clone()]);
    tr.reshape(&z, &to)
}

/// Returns the broadcast of two shapes, as far as they are known.
pub fn broadcast(a: &[Dim], b: &[Dim]) -> Vec<Dim> {
    let rank = a.len().max(b.len());
    (0..rank)
        .map(|i| {
            let at = |d: &[Dim]| (i + d.len()).checked_sub(rank).map(|k| d[k].clone());
            match (at(a), at(b)) {
                (Some(x), Some(y)) => match (x.as_const(), y.as_const()) {
                    (Some(1), _) => y,
                    (_, Some(1)) => x,
                    (Some(_), _) => x,
                    (_, Some(_)) => y,
                    _ => x,
                },
                (Some(x), None) | (None, Some(x)) => x,
                (None, None) => Dim::ONE,
            }
        })
        .collect()
}

pub fn gemm(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (a, b) = (n.t(0)?, n.t(1)?);
    let (ta, tb) = (n.flag("transA"), n.flag("transB"));
    let (alpha, beta) = (n.float("alpha", 1.0), n.float("beta", 1.0));
    let mut y = if !ta && tb {
        tr.op("nn.dense", &[&a, &b], &[("units", AttrValue::None)])?
    } else {
        let mut attrs = vec![("units", AttrValue::None)];
        if ta {
            attrs.push(("transpose_a", flag(true)));
        }
        if tb {
            attrs.push(("transpose_b", flag(true)));
        }
        tr.op("nn.matmul", &[&a, &b], &attrs)?
    };
    let scaled = |tr: &mut Tr<'_>, v: &Val, by: f64| -> R<Val> {
        if by == 1.0 {
            return Ok(v.clone());
        }
        if v.elem.is_float() {
            return tr.by("multiply", v, by);
        }
        let wide = tr.cast(v, Elem::F64)?;
        let wide = tr.by("multiply", &wide, by)?;
        tr.cast(&wide, v.elem)
    };
    y = scaled(tr, &y, alpha)?;
    if let Some(c) = n.opt(2)? {
        let c = scaled(tr, &c, beta)?;
        y = tr.add(&y, &c)?;
    }
    Ok(vec![y.into()])
}
