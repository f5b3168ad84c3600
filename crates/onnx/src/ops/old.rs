//! Experimental operators of the first versions, as emitted by converters of that time.

use super::elementwise::{channelwise, softplus};
use crate::graph::Tr;
use crate::node::{Node, R};
use crate::table::{Entry, op};
use crate::value::{Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("Affine", 1, |tr, n| {
        let y = tr.by("multiply", &n.t(0)?, n.float("alpha", 1.0))?;
        Ok(vec![tr.by("add", &y, n.float("beta", 0.0))?.into()])
    }),
    op("Scale", 1, |tr, n| {
        Ok(vec![
            tr.by("multiply", &n.t(0)?, n.float("scale", 1.0))?.into(),
        ])
    }),
    op("ScaledTanh", 1, |tr, n| {
        let y = tr.by("multiply", &n.t(0)?, n.float("beta", 1.0))?;
        let y = tr.unary("tanh", &y)?;
        Ok(vec![tr.by("multiply", &y, n.float("alpha", 1.0))?.into()])
    }),
    op("ParametricSoftplus", 1, |tr, n| {
        let y = tr.by("multiply", &n.t(0)?, n.float("beta", 1.0))?;
        let y = softplus(tr, &y)?;
        Ok(vec![tr.by("multiply", &y, n.float("alpha", 1.0))?.into()])
    }),
    op("ImageScaler", 1, |tr, n| {
        let x = n.t(0)?;
        let y = tr.by("multiply", &x, n.float("scale", 1.0))?;
        let bias: Vec<f32> = (n.floats("bias").unwrap_or_default().iter())
            .map(|&v| v as f32)
            .collect();
        let bias = relax_tensor::Tensor::from_slice(&[bias.len() as i64], &bias);
        let bias = Val::constant(bias, crate::value::Elem::F32, "bias");
        let bias = tr.cast(&bias, x.elem)?;
        let bias = channelwise(tr, &bias, x.rank())?;
        Ok(vec![tr.add(&y, &bias)?.into()])
    }),
    op("Crop", 1, crop),
];

/// Crops an image: by borders left, above, right and below, or to a rectangle of a size.
fn crop(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let border = n.ints("border").unwrap_or_default();
    let [left, top, right, bottom] = border[..] else {
        return Err("attribute `border` must have 4 numbers".into());
    };
    if x.rank() != 4 || border.iter().any(|&v| !(0..1 << 40).contains(&v)) {
        return Err("it takes images, and borders that are not negative".into());
    }
    let size = n.ints("scale").filter(|s| s.len() == 2);
    let ends = match &size {
        Some(s) => [top.saturating_add(s[0]), left.saturating_add(s[1])],
        // From the end, where an axis is cropped there.
        None => [-bottom, -right].map(|v| if v == 0 { i64::MAX } else { v }),
    };
    let y = tr.slice(&x, 2, top, ends[0])?;
    Ok(vec![tr.slice(&y, 3, left, ends[1])?.into()])
}
