//! Signal processing: transforms, windows, and random numbers.

use relax_ir::AttrValue;
use relax_sym::Dim;

use super::build::{dtype, flag, int};
use super::matrix::matmul;
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("DFT", 17, dft),
    op("STFT", 17, stft),
    op("BlackmanWindow", 17, |tr, n| {
        window(tr, n, [0.42, -0.5, 0.08])
    }),
    op("HammingWindow", 17, |tr, n| {
        window(tr, n, [25.0 / 46.0, -(1.0 - 25.0 / 46.0), 0.0])
    }),
    op("MelWeightMatrix", 17, mel),
    op("HannWindow", 17, |tr, n| window(tr, n, [0.5, -0.5, 0.0])),
];

/// Returns the numbers from 0 up to a run-time bound.
fn count(tr: &mut Tr<'_>, len: &Val) -> R<Val> {
    let len = tr.cast(len, Elem::I64)?;
    let len = tr.as_scalar(&len)?;
    let (zero, one) = (tr.number(Elem::I64, 0.0), tr.number(Elem::I64, 1.0));
    let stop = len.const_ints().map_or(AttrValue::None, |v| int(v[0]));
    let attrs = [
        ("start", int(0)),
        ("stop", stop),
        ("step", int(1)),
        ("dtype", dtype(relax_tensor::DType::I64)),
    ];
    tr.op("arange", &[&zero, &len, &one], &attrs)
}

fn window(tr: &mut Tr<'_>, n: &Node<'_>, [a, b, c]: [f64; 3]) -> Out {
    let len = n.t(0)?;
    let to = n.elem("output_datatype").unwrap_or(Elem::F32);
    let i = count(tr, &len)?;
    let i = tr.cast(&i, Elem::F32)?;
    let len = tr.cast(&len, Elem::F32)?;
    let len = tr.as_scalar(&len)?;
    let len = match n.int("periodic", 1) {
        0 => tr.by("subtract", &len, 1.0)?,
        _ => len,
    };
    let turn = tr.div(&i, &len)?;
    let mut y = tr.number(Elem::F32, a);
    for (k, f) in [(2.0, b), (4.0, c)] {
        if f == 0.0 {
            continue;
        }
        let angle = tr.by("multiply", &turn, k * std::f64::consts::PI)?;
        let cos = tr.unary("cos", &angle)?;
        let part = tr.by("multiply", &cos, f)?;
        y = tr.add(&y, &part)?;
    }
    Ok(vec![tr.cast(&y, to)?.into()])
}

/// Returns cosines and sines of all products of two ranges of numbers, in fractions of a circle.
fn circle(tr: &mut Tr<'_>, rows: &Val, columns: &Val, len: &Val, elem: Elem) -> R<(Val, Val)> {
    let rows = tr.expand(rows, 1)?;
    let product = tr.mul(&rows, columns)?;
    let part = tr.binary("floor_mod", &product, len)?;
    let wide = if elem == Elem::F64 {
        Elem::F64
    } else {
        Elem::F32
    };
    let (part, len) = (tr.cast(&part, wide)?, tr.cast(len, wide)?);
    let turn = tr.div(&part, &len)?;
    let angle = tr.by("multiply", &turn, 2.0 * std::f64::consts::PI)?;
    let (cos, sin) = (tr.unary("cos", &angle)?, tr.unary("sin", &angle)?);
    Ok((tr.cast(&cos, elem)?, tr.cast(&sin, elem)?))
}

/// The fewest complex numbers whose transform by products of matrices takes longer than another.
const MANY: i64 = 128;

/// Emits the discrete Fourier transform of real and imaginary parts along the last axis; `len` is
/// the number of elements used.
fn transform(
    tr: &mut Tr<'_>,
    re: &Val,
    im: Option<&Val>,
    len: &Val,
    onesided: bool,
    inverse: bool,
) -> R<(Val, Val)> {
    // Of complex numbers, an operator of its own, which computes in float64 too.
    let last = re.rank() - 1;
    let known = re.dim(last)?.as_const();
    if let (Some(im), Some(many)) = (im, known.filter(|&n| n >= MANY)) {
        let parts = tr.ops("dft", &[re, im], &[("inverse", flag(inverse))])?;
        let [a, b] = &parts[..] else {
            return Err("`dft` has two results".into());
        };
        return Ok(match onesided && !inverse {
            true => (
                tr.slice(a, last, 0, many / 2 + 1)?,
                tr.slice(b, last, 0, many / 2 + 1)?,
            ),
            false => (a.clone(), b.clone()),
        });
    }
    // Sums that cancel to near zero would lose all digits in float32.
    let elem = re.elem;
    let re = &tr.cast(re, Elem::F64)?;
    let im = match im {
        Some(im) => Some(tr.cast(im, Elem::F64)?),
        None => None,
    };
    let im = im.as_ref();
    let times = count(tr, len)?;
    let frequencies = match onesided && !inverse {
        true => {
            let half = tr.by("floor_divide", len, 2.0)?;
            let half = tr.by("add", &half, 1.0)?;
            count(tr, &half)?
        }
        false => times.clone(),
    };
    let (cos, sin) = circle(tr, &times, &frequencies, len, re.elem)?;
    let re_c = matmul(tr, re, &cos)?;
    let re_s = matmul(tr, re, &sin)?;
    let sign = if inverse { 1.0 } else { -1.0 };
    let (mut a, mut b) = (re_c, tr.by("multiply", &re_s, sign)?);
    if let Some(im) = im {
        let im_c = matmul(tr, im, &cos)?;
        let im_s = matmul(tr, im, &sin)?;
        let im_s = tr.by("multiply", &im_s, sign)?;
        a = tr.sub(&a, &im_s)?;
        b = tr.add(&b, &im_c)?;
    }
    if inverse {
        let wide = tr.cast(len, re.elem)?;
        (a, b) = (tr.div(&a, &wide)?, tr.div(&b, &wide)?);
    }
    Ok((tr.cast(&a, elem)?, tr.cast(&b, elem)?))
}

/// Truncates or zero-pads the last axis.
fn fitted(tr: &mut Tr<'_>, x: &Val, len: &Val) -> R<Val> {
    let last = x.but(1)?;
    let shape = tr.shape_of(x)?;
    let have = tr.slice(&shape, 0, last as i64, last as i64 + 1)?;
    let len = tr.as_vector(len)?;
    let less = tr.sub(&len, &have)?;
    let none = tr.vector(&[0]);
    let widths = tr.concat(&[none, less], 0)?;
    let (zero, axis) = (tr.number(x.elem, 0.0), tr.vector(&[last as i64]));
    let y = tr.op("dyn.pad", &[x, &widths, &zero, &axis], &[])?;
    let mut dims = x.dims.to_vec();
    dims[last] = Dim::ANY;
    Ok(tr.matched(&y, &dims))
}

fn dft(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let x = tr.known(&x);
    let rank = x.rank();
    if rank < 2 {
        return Err("the signal must have an axis, and one for its parts".into());
    }
    let axis = match n.opset < 20 {
        true => Some(n.int("axis", 1)),
        false => match n.opt(2)? {
            None => Some(-2),
            Some(v) => v.const_ints().and_then(|v| v.first().copied()),
        },
    };
    let (onesided, inverse) = (n.flag("onesided"), n.flag("inverse"));
    let Some(axis) = axis else {
        return at_run_time(tr, n, &x, onesided, inverse);
    };
    let axis = x.axis(axis)?;
    let length = n.opt(1)?;
    Ok(vec![
        along(tr, &x, axis, length.as_ref(), onesided, inverse, rank)?.into(),
    ])
}

/// Applies it to an axis chosen at run time.
fn at_run_time(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val, onesided: bool, inverse: bool) -> Out {
    let axis = n.t(2)?;
    let axis = tr.as_scalar(&axis)?;
    let rank = x.rank();
    let low = tr.by("less", &axis, 0.0)?;
    let up = tr.by("add", &axis, rank as f64)?;
    let axis = tr.select(&low, &up, &axis)?;
    let length = n.opt(1)?;
    let mut dims = vec![Dim::ANY; rank];
    dims[rank - 1] = if inverse && onesided {
        Dim::ONE
    } else {
        Dim::from(2)
    };
    let mut text: Option<String> = None;
    for a in (0..rank - 1).rev() {
        tr.open();
        let y = along(tr, x, a, length.as_ref(), onesided, inverse, rank);
        let y = match y {
            Ok(y) => tr.matched(&y, &dims),
            Err(e) => {
                tr.close("");
                return Err(e);
            }
        };
        let y = tr.text(&y);
        let body = tr.close(&y);
        text = Some(match text {
            None => body,
            Some(rest) => {
                let here = tr.by("equal", &axis, a as f64)?;
                let here = tr.text(&here);
                format!("if ({here}) {{\n{body}}} else {{\n{rest}}}\n")
            }
        });
    }
    let text = text.ok_or("there is no axis to transform")?;
    let block = if text.starts_with("if") {
        text.trim_end().to_owned()
    } else {
        format!("{{\n{text}}}")
    };
    let y = tr.line(block, x.elem, &dims);
    Ok(vec![y.into()])
}

fn along(
    tr: &mut Tr<'_>,
    x: &Val,
    axis: usize,
    length: Option<&Val>,
    onesided: bool,
    inverse: bool,
    rank: usize,
) -> R<Val> {
    if axis + 1 == rank {
        return unsupported("the last axis holds the parts of numbers and cannot be transformed");
    }
    // The axis is moved last, and real and imaginary parts are separated.
    let complex = x.dim(rank - 1)?.as_const() == Some(2);
    let part = |tr: &mut Tr<'_>, k: i64| -> R<Val> {
        let p = tr.pick(x, rank - 1, k)?;
        let order: Vec<usize> = (0..rank - 1).filter(|&a| a != axis).chain([axis]).collect();
        tr.transpose(&p, &order)
    };
    let mut re = part(tr, 0)?;
    let mut im = if complex { Some(part(tr, 1)?) } else { None };
    let have = |tr: &mut Tr<'_>, re: &Val| -> R<Val> {
        let shape = tr.shape_of(re)?;
        tr.pick(&shape, 0, re.rank() as i64 - 1)
    };
    let len = match length {
        Some(v) => {
            let v = tr.cast(v, Elem::I64)?;
            tr.as_scalar(&v)?
        }
        None if inverse && onesided => {
            let half = have(tr, &re)?;
            let l = tr.by("subtract", &half, 1.0)?;
            tr.by("multiply", &l, 2.0)?
        }
        None => have(tr, &re)?,
    };
    if inverse && onesided {
        // The other half is the conjugate of this one, reversed.
        let y = real_inverse(tr, &re, im.as_ref(), &len)?;
        let order = back(rank - 1, axis);
        let y = tr.transpose(&y, &order)?;
        return tr.expand(&y, rank - 1);
    }
    if length.is_some() {
        re = fitted(tr, &re, &len)?;
        im = match im {
            Some(im) => Some(fitted(tr, &im, &len)?),
            None => None,
        };
    }
    let (a, b) = transform(tr, &re, im.as_ref(), &len, onesided, inverse)?;
    let order = back(rank - 1, axis);
    let (a, b) = (tr.transpose(&a, &order)?, tr.transpose(&b, &order)?);
    let (a, b) = (tr.expand(&a, rank - 1)?, tr.expand(&b, rank - 1)?);
    tr.concat(&[a, b], rank - 1)
}

/// Returns the axis order that moves the last axis to a position.
fn back(rank: usize, axis: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank - 1).collect();
    order.insert(axis, rank - 1);
    order
}

/// Emits the inverse transform to real numbers from half a spectrum.
fn real_inverse(tr: &mut Tr<'_>, re: &Val, im: Option<&Val>, len: &Val) -> R<Val> {
    let half = tr.by("floor_divide", len, 2.0)?;
    let half = tr.by("add", &half, 1.0)?;
    let re = fitted(tr, re, &half)?;
    let frequencies = count(tr, &half)?;
    let times = count(tr, len)?;
    let (cos, sin) = circle(tr, &frequencies, &times, len, re.elem)?;
    // Each frequency except the first, and the last for an even length, counts twice.
    let twice = tr.by("multiply", &frequencies, 2.0)?;
    let own = tr.by("equal", &frequencies, 0.0)?;
    let top = tr.binary("equal", &twice, len)?;
    let once = tr.binary("logical_or", &own, &top)?;
    let (one, two) = (tr.number(re.elem, 1.0), tr.number(re.elem, 2.0));
    let weight = tr.select(&once, &one, &two)?;
    let a = tr.mul(&re, &weight)?;
    let mut y = matmul(tr, &a, &cos)?;
    if let Some(im) = im {
        let im = fitted(tr, im, &half)?;
        let b = tr.mul(&im, &weight)?;
        let b = matmul(tr, &b, &sin)?;
        y = tr.sub(&y, &b)?;
    }
    let wide = tr.cast(len, re.elem)?;
    tr.div(&y, &wide)
}

fn stft(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, step) = (n.t(0)?, n.t(1)?);
    let (window, length) = (n.opt(2)?, n.opt(3)?);
    let onesided = n.int("onesided", 1) != 0;
    let step = tr.cast(&step, Elem::I64)?;
    let step = tr.as_scalar(&step)?;
    let len = match (&length, &window) {
        (Some(v), _) => {
            let v = tr.cast(v, Elem::I64)?;
            tr.as_scalar(&v)?
        }
        (None, Some(w)) => {
            let s = tr.shape_of(w)?;
            tr.pick(&s, 0, 0)?
        }
        (None, None) => return Err("neither a window nor a length of frames is given".into()),
    };
    let complex = x.rank() == 3 && x.dim(2)?.as_const() == Some(2);
    let shape = tr.shape_of(&x)?;
    let whole = tr.pick(&shape, 0, 1)?;
    let rest = tr.sub(&whole, &len)?;
    let frames = tr.binary("floor_divide", &rest, &step)?;
    let frames = tr.by("add", &frames, 1.0)?;
    let (starts, inside) = (count(tr, &frames)?, count(tr, &len)?);
    let starts = tr.mul(&starts, &step)?;
    let starts = tr.expand(&starts, 1)?;
    let at = tr.add(&starts, &inside)?;
    let part = |tr: &mut Tr<'_>, k: i64| -> R<Val> {
        let p = if x.rank() == 3 {
            tr.pick(&x, 2, k)?
        } else {
            x.clone()
        };
        let framed = tr.take(&p, &at, 1)?;
        match &window {
            Some(w) => tr.mul(&framed, w),
            None => Ok(framed),
        }
    };
    let re = part(tr, 0)?;
    let im = if complex { Some(part(tr, 1)?) } else { None };
    let (a, b) = transform(tr, &re, im.as_ref(), &len, onesided, false)?;
    let (a, b) = (tr.expand(&a, 3)?, tr.expand(&b, 3)?);
    Ok(vec![tr.concat(&[a, b], 3)?.into()])
}

/// Emits a mel filter bank: triangles over the spectrum, with corners evenly spaced on the mel
/// scale.
fn mel(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let mut given = Vec::new();
    for i in 0..5 {
        let v = n.t(i)?;
        given.push(tr.as_scalar(&v)?);
    }
    let to = n.elem("output_datatype").unwrap_or(Elem::F32);
    let (bands, len) = (
        tr.cast(&given[0], Elem::I64)?,
        tr.cast(&given[1], Elem::I64)?,
    );
    let rate = tr.cast(&given[2], Elem::F64)?;
    let mel_of = |tr: &mut Tr<'_>, v: &Val| -> R<Val> {
        let v = tr.cast(v, Elem::F64)?;
        let v = tr.by("divide", &v, 700.0)?;
        let v = tr.by("add", &v, 1.0)?;
        let v = tr.unary("log", &v)?;
        tr.by("multiply", &v, 2595.0 / std::f64::consts::LN_10)
    };
    let (low, high) = (mel_of(tr, &given[3])?, mel_of(tr, &given[4])?);
    let corners = tr.by("add", &bands, 2.0)?;
    let wide = tr.cast(&corners, Elem::F64)?;
    let step = tr.sub(&high, &low)?;
    let step = tr.div(&step, &wide)?;
    let at = count(tr, &corners)?;
    let at = tr.cast(&at, Elem::F64)?;
    let at = tr.mul(&at, &step)?;
    let at = tr.add(&at, &low)?;
    let at = tr.by("multiply", &at, std::f64::consts::LN_10 / 2595.0)?;
    let at = tr.unary("exp", &at)?;
    let at = tr.by("subtract", &at, 1.0)?;
    let at = tr.by("multiply", &at, 700.0)?;
    let more = tr.by("add", &len, 1.0)?;
    let more = tr.cast(&more, Elem::F64)?;
    let at = tr.mul(&at, &more)?;
    let at = tr.div(&at, &rate)?;
    let at = tr.unary("floor", &at)?;
    // Corner `k` of each triangle.
    let numbers = count(tr, &bands)?;
    let corner = |tr: &mut Tr<'_>, k: f64| -> R<Val> {
        let which = tr.by("add", &numbers, k)?;
        tr.take(&at, &which, 0)
    };
    let (left, mid, right) = (corner(tr, 0.0)?, corner(tr, 1.0)?, corner(tr, 2.0)?);
    let lines = tr.by("floor_divide", &len, 2.0)?;
    let lines = tr.by("add", &lines, 1.0)?;
    let j = count(tr, &lines)?;
    let j = tr.cast(&j, Elem::F64)?;
    let j = tr.expand(&j, 1)?;
    let (up, down) = (tr.sub(&mid, &left)?, tr.sub(&right, &mid)?);
    let (from, until) = (
        tr.binary("greater_equal", &j, &left)?,
        tr.binary("less_equal", &j, &mid)?,
    );
    let rising = tr.binary("logical_and", &from, &until)?;
    let climbed = tr.sub(&j, &left)?;
    let slope = tr.by("maximum", &up, 1.0)?;
    let climbed = tr.div(&climbed, &slope)?;
    let zero = tr.number(Elem::F64, 0.0);
    let one = tr.number(Elem::F64, 1.0);
    let climbed = tr.select(&rising, &climbed, &zero)?;
    // A side of zero width is just the peak.
    let top = tr.binary("equal", &j, &mid)?;
    let peak = tr.select(&top, &one, &zero)?;
    let steep = tr.by("equal", &up, 0.0)?;
    let y = tr.select(&steep, &peak, &climbed)?;
    let (from, until) = (
        tr.binary("greater_equal", &j, &mid)?,
        tr.binary("less", &j, &right)?,
    );
    let falling = tr.binary("logical_and", &from, &until)?;
    let left_over = tr.sub(&right, &j)?;
    let slope = tr.by("maximum", &down, 1.0)?;
    let fallen = tr.div(&left_over, &slope)?;
    let y = tr.select(&falling, &fallen, &y)?;
    Ok(vec![tr.cast(&y, to)?.into()])
}
