//! Operators of `com.microsoft` on quantised tensors.

use relax_sym::Dim;

use super::build::{axes, float, int};
use super::fused::biased;
use super::matrix::matmul;
use super::nn;
use super::quant::{self, Scaled};
use super::steps::one_or_many;
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, ms};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    ms("QuantizeLinear", quant::quantize),
    ms("DequantizeLinear", quant::dequantize),
    ms("QLinearAdd", |tr, n| two(tr, n, "add")),
    ms("QLinearMul", |tr, n| two(tr, n, "multiply")),
    ms("QLinearSigmoid", |tr, n| {
        one(tr, n, |tr, x| tr.unary("sigmoid", x))
    }),
    ms("QLinearLeakyRelu", |tr, n| {
        let alpha = float(n.float("alpha", 0.01));
        one(tr, n, |tr, x| {
            tr.op("nn.leaky_relu", &[x], &[("alpha", alpha)])
        })
    }),
    ms("QLinearSoftmax", |tr, n| {
        let axis = n.int("axis", -1);
        one(tr, n, |tr, x| {
            let at = x.axis(axis)?;
            if n.int("opset", 13) >= 13 {
                return tr.op("nn.softmax", &[x], &[("axis", int(at as i64))]);
            }
            let x = tr.known(x);
            let product = |d: &[Dim]| d.iter().fold(Dim::ONE, |n, d| n * d);
            let to = [product(x.part(..at)?), product(x.part(at..)?)];
            let flat = tr.reshape(&x, &to)?;
            let y = tr.op("nn.softmax", &[&flat], &[("axis", int(1))])?;
            tr.reshape(&y, &x.dims.clone())
        })
    }),
    ms("QLinearAveragePool", |tr, n| {
        let last = n.flag("channels_last");
        one(tr, n, |tr, x| {
            channels_first(tr, x, last, |tr, x| nn::pool(tr, n, x, "avg"))
        })
    }),
    ms("QLinearGlobalAveragePool", |tr, n| {
        let last = n.flag("channels_last");
        one(tr, n, |tr, x| {
            channels_first(tr, x, last, |tr, x| {
                let over: Vec<usize> = (2..x.rank()).collect();
                tr.reduce("mean", x, &over, true)
            })
        })
    }),
    ms("QLinearReduceMean", |tr, n| {
        let keep = n.int("keepdims", 1) != 0;
        one(tr, n, |tr, x| {
            let over = match n.ints("axes") {
                Some(list) => list.iter().map(|&a| x.axis(a)).collect::<Result<_, _>>()?,
                None => (0..x.rank()).collect::<Vec<_>>(),
            };
            tr.reduce("mean", x, &over, keep)
        })
    }),
    ms("QLinearConcat", |tr, n| {
        let to = Scaled::read(n, 0, 1)?;
        let mut parts = Vec::new();
        for i in (2..n.inputs.len()).step_by(3) {
            let from = Scaled::read(n, i + 1, i + 2)?;
            parts.push(from.numbers(tr, &n.t(i)?)?);
        }
        let first = parts.first().ok_or("there is nothing to concatenate")?;
        let axis = first.axis(n.int("axis", 0))?;
        let y = tr.concat(&parts, axis)?;
        Ok(vec![to.quantized(tr, n, &y)?.into()])
    }),
    ms("QLinearWhere", |tr, n| {
        let c = n.t(0)?;
        let a = Scaled::read(n, 2, 3)?.numbers(tr, &n.t(1)?)?;
        let b = Scaled::read(n, 5, 6)?.numbers(tr, &n.t(4)?)?;
        let y = tr.select(&c, &a, &b)?;
        Ok(vec![Scaled::read(n, 7, 8)?.quantized(tr, n, &y)?.into()])
    }),
    ms("QGemm", q_gemm),
    ms("MatMulIntegerToFloat", |tr, n| {
        let (a, b) = (n.t(0)?, n.t(1)?);
        let (sa, sb) = (n.t(2)?, n.t(3)?);
        let y = quant::product(tr, (&a, n.opt(4)?), (&b, n.opt(5)?), &sa, &sb)?;
        Ok(vec![biased(tr, n, &y, 6)?.into()])
    }),
    ms("DynamicQuantizeMatMul", |tr, n| {
        let (a, b, sb) = (n.t(0)?, n.t(1)?, n.t(2)?);
        let (a, sa, za) = quant::dynamic(tr, n, &a)?;
        let y = quant::product(tr, (&a, Some(za)), (&b, n.opt(3)?), &sa, &sb)?;
        Ok(vec![biased(tr, n, &y, 4)?.into()])
    }),
    ms("NhwcMaxPool", |tr, n| {
        let x = n.t(0)?;
        let y = channels_first(tr, &x, true, |tr, x| nn::pool(tr, n, x, "max"))?;
        Ok(vec![y.into()])
    }),
    ms("MatMulNBits", matmul_bits),
];

/// Applies a function to a dequantised tensor and quantises the result: the inputs are the tensor,
/// its scale and zero point, and those of the result.
fn one(tr: &mut Tr<'_>, n: &Node<'_>, f: impl FnOnce(&mut Tr<'_>, &Val) -> R<Val>) -> Out {
    let x = Scaled::read(n, 1, 2)?.numbers(tr, &n.t(0)?)?;
    let y = f(tr, &x)?;
    Ok(vec![Scaled::read(n, 3, 4)?.quantized(tr, n, &y)?.into()])
}

fn two(tr: &mut Tr<'_>, n: &Node<'_>, name: &str) -> Out {
    let a = Scaled::read(n, 1, 2)?.numbers(tr, &n.t(0)?)?;
    let b = Scaled::read(n, 4, 5)?.numbers(tr, &n.t(3)?)?;
    let y = tr.binary(name, &a, &b)?;
    Ok(vec![Scaled::read(n, 6, 7)?.quantized(tr, n, &y)?.into()])
}

/// Applies a function on channels-first tensors to a channels-last one.
fn channels_first(
    tr: &mut Tr<'_>,
    x: &Val,
    last: bool,
    f: impl FnOnce(&mut Tr<'_>, &Val) -> R<Val>,
) -> R<Val> {
    if !last {
        return f(tr, x);
    }
    let rank = x.rank();
    if rank < 3 {
        return Err("it takes a batch, space and channels".into());
    }
    let to: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let back: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let x = tr.transpose(x, &to)?;
    let y = f(tr, &x)?;
    tr.transpose(&y, &back)
}

fn q_gemm(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let [a, sa, za, b, sb, zb] = [0, 1, 2, 3, 4, 5].map(|i| n.t(i));
    let (sa, sb) = (sa?, sb?);
    let (a, za, b, zb) = (a?, za?, b?, zb?);
    if a.rank() != 2 || b.rank() != 2 {
        return Err("it takes matrices".into());
    }
    let turned = |tr: &mut Tr<'_>, v: Val, name: &str| match n.flag(name) {
        true => tr.transpose(&v, &[1, 0]),
        false => Ok(v),
    };
    let (a, b) = (turned(tr, a, "transA")?, turned(tr, b, "transB")?);
    let (mut y, bytes) = quant::sums(tr, [&a, &b], [Some(&za), Some(&zb)], Some([&sa, &sb]))?;
    if let Some(c) = n.opt(6)? {
        y = tr.add(&y, &c)?;
    }
    let alpha = n.float("alpha", 1.0);
    if let (Some(bytes), Some(zero), true) = (bytes, n.opt(8)?, alpha == 1.0)
        && let Some(y) = bytes.requantized(tr, &y, 1, [&n.t(7)?, &zero])?
    {
        return Ok(vec![y.into()]);
    }
    let y = tr.cast(&y, Elem::F32)?;
    let (sa, sb) = (one_or_many(tr, &sa)?, one_or_many(tr, &sb)?);
    let mut scale = tr.mul(&sa, &sb)?;
    if alpha != 1.0 {
        scale = tr.by("multiply", &scale, alpha)?;
    }
    let y = tr.mul(&y, &scale)?;
    Ok(vec![match n.opt(7)? {
        Some(_) => Scaled::read(n, 7, 8)?.quantized(tr, n, &y)?.into(),
        None => y.into(),
    }])
}

/// Unpacks bit fields of bytes along the last axis, least significant first.
pub fn unpacked(tr: &mut Tr<'_>, x: &Val, bits: i64) -> R<Val> {
    if bits == 8 {
        return Ok(x.clone());
    }
    let rank = x.rank();
    let mut parts = Vec::new();
    for k in 0..8 / bits {
        let v = match k {
            0 => x.clone(),
            _ => tr.by("right_shift", x, (k * bits) as f64)?,
        };
        let v = tr.by("bitwise_and", &v, ((1 << bits) - 1) as f64)?;
        parts.push(tr.expand(&v, rank)?);
    }
    let all = tr.concat(&parts, rank)?;
    let mut dims = x.dims.to_vec();
    dims[rank - 1] = &dims[rank - 1] * (8 / bits);
    tr.reshape(&all, &dims)
}

/// Emits a product with a block-quantised matrix.
fn matmul_bits(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (a, b, scales) = (n.t(0)?, n.t(1)?, n.t(2)?);
    let (bits, block) = (n.int("bits", 4), n.int("block_size", 32));
    let (k, rows) = (n.int("K", 0), n.int("N", 0));
    if ![2, 4, 8].contains(&bits) {
        return unsupported(format!("elements of {bits} bits are not supported"));
    }
    let sane = |v: i64| (1..=1 << 31).contains(&v);
    if !sane(k) || !sane(rows) || !sane(block) {
        return Err("attributes `K`, `N` and `block_size` must be extents".into());
    }
    if n.opt(4)?.is_some() {
        return unsupported("an order of groups is not supported");
    }
    let blocks = (k + block - 1) / block;
    let d = |list: &[i64]| list.iter().map(|&v| Dim::from(v)).collect::<Vec<_>>();
    let floats = a.elem == Elem::F32 && scales.elem == Elem::F32;
    if n.opt(3)?.is_none() && bits > 2 && blocks * block == k && floats {
        // The middle of the unsigned numbers is zero: with their first bit inverted they are signed.
        let signs = if bits == 8 { 0x80 } else { 0x88 };
        let w = tr.reshape(&b, &d(&[rows, k * bits / 8]))?;
        let w = tr.by("bitwise_xor", &w, f64::from(signs))?;
        let w = tr.cast(&w, Elem::I8)?;
        let scales = tr.reshape(&scales, &d(&[rows, blocks]))?;
        let attrs = [("bits", int(bits)), ("block_size", int(block))];
        let y = tr.op("qnn.blockwise_dense", &[&a, &w, &scales], &attrs)?;
        return Ok(vec![biased(tr, n, &y, 5)?.into()]);
    }
    let packed = tr.reshape(&b, &d(&[rows, blocks, block * bits / 8]))?;
    let q = unpacked(tr, &packed, bits)?;
    let elem = scales.elem;
    let q = tr.cast(&q, elem)?;
    let scales = tr.reshape(&scales, &d(&[rows, blocks, 1]))?;
    let q = match n.opt(3)? {
        None => tr.by("subtract", &q, (1i64 << (bits - 1)) as f64)?,
        Some(z) if z.elem == Elem::U8 => {
            let wide = (blocks * bits + 7) / 8;
            let z = tr.reshape(&z, &d(&[rows, wide]))?;
            let z = unpacked(tr, &z, bits)?;
            let z = tr.slice(&z, 1, 0, blocks)?;
            let z = tr.cast(&z, elem)?;
            let z = tr.expand(&z, 2)?;
            tr.sub(&q, &z)?
        }
        Some(z) => {
            let z = tr.reshape(&z, &d(&[rows, blocks, 1]))?;
            tr.sub(&q, &z)?
        }
    };
    let w = tr.mul(&q, &scales)?;
    let w = tr.reshape(&w, &d(&[rows, blocks * block]))?;
    let w = match blocks * block == k {
        true => w,
        false => tr.slice(&w, 1, 0, k)?,
    };
    let w = tr.op("transpose", &[&w], &[("axes", axes(&[1, 0]))])?;
    let y = matmul(tr, &a, &w)?;
    Ok(vec![biased(tr, n, &y, 5)?.into()])
}
