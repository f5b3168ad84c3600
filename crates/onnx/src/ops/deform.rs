//! Deformable convolutions: sampled columns of the images (im2col), and a matrix product.

use relax_sym::Dim;
use relax_tensor::Tensor;

use super::build::{flag, str};
use super::matrix::matmul;
use super::nn;
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

pub static OPS: &[Entry] = &[op("DeformConv", 19, deform_conv)];

/// The sampling positions: the window, and the extents of the result.
struct Taps {
    window: nn::Window,
    out: [Dim; 2],
}

fn deform_conv(tr: &mut Tr<'_>, n: &Node<'_>) -> R<Vec<Value>> {
    let (x, w, offset) = (n.t(0)?, n.t(1)?, n.t(2)?);
    if [x.rank(), w.rank(), offset.rank()] != [4; 3] {
        return unsupported("deformable convolutions over other than two axes are not supported");
    }
    let (x, offset) = (tr.known(&x), tr.known(&offset));
    // Offsets are given for each image.
    let x = tr.matched(&x, &[offset.part(..1)?, x.part(1..)?].concat());
    let window = nn::Window::read(n, &x, nn::kernel_of(&w)?)?;
    let (groups, moved) = (n.int("group", 1), n.int("offset_group", 1));
    if groups < 1 || moved < 1 {
        return Err("attributes `group` and `offset_group` must be positive".into());
    }
    let out = [offset.dim(2)?.clone(), offset.dim(3)?.clone()];
    let taps = Taps { window, out };
    let count = taps.count();
    let channels = x.dim(1)?.clone();
    let part = |d: &Dim, by: i64| d.floordiv(&Dim::from(by));
    let images = x.dim(0)? * moved;
    let rows = &taps.out[0] * count;
    let grid = places(tr, &x, &offset, &images, &taps)?;
    let data = [
        images.clone(),
        part(&channels, moved),
        x.dim(2)?.clone(),
        x.dim(3)?.clone(),
    ];
    let data = tr.reshape(&x, &data)?;
    let attrs = [
        ("method", str("bilinear")),
        ("layout", str("NCHW")),
        ("padding_mode", str("zeros")),
        ("align_corners", flag(false)),
    ];
    let mut columns = tr.op("image.grid_sample", &[&data, &grid], &attrs)?;
    if let Some(mask) = n.opt(4)? {
        let to = [images, Dim::ONE, rows, taps.out[1].clone()];
        let mask = tr.reshape(&mask, &to)?;
        columns = tr.mul(&columns, &mask)?;
    }
    let space = &taps.out[0] * &taps.out[1];
    let depth = part(&channels, groups) * count;
    let g = Dim::from(groups);
    let columns = tr.reshape(
        &columns,
        &[x.dim(0)?.clone(), g.clone(), depth.clone(), space],
    )?;
    let weight = tr.reshape(&w, &[g, part(w.dim(0)?, groups), depth])?;
    let y = matmul(tr, &weight, &columns)?;
    let [height, width] = taps.out;
    let y = tr.reshape(&y, &[x.dim(0)?.clone(), w.dim(0)?.clone(), height, width])?;
    Ok(vec![match n.opt(3)? {
        Some(b) => nn::biased(tr, &y, &b)?.into(),
        None => y.into(),
    }])
}

impl Taps {
    fn count(&self) -> i64 {
        self.window.kernel.iter().product()
    }
    /// Returns the positions of the taps along an axis without offsets: (taps, rows, 1) or (taps,
    /// 1, columns).
    fn start(&self, tr: &mut Tr<'_>, offset: &Val, a: usize) -> R<Val> {
        let w = &self.window;
        let steps = tr.iota(offset, 2 + a)?;
        let steps = tr.by("multiply", &steps, w.strides[a] as f64)?;
        let steps = tr.by("subtract", &steps, w.before[a] as f64)?;
        let steps = tr.cast(&steps, Elem::F64)?;
        let steps = tr.expand(&steps, 1 - a)?;
        let of = |t: i64| {
            if a == 0 {
                t / w.kernel[1]
            } else {
                t % w.kernel[1]
            }
        };
        let taps: Vec<f64> = (0..self.count())
            .map(|t| (of(t) * w.dilations[a]) as f64)
            .collect();
        let taps = Tensor::from_slice(&[self.count(), 1, 1], &taps);
        let taps = Val::constant(taps, Elem::F64, "taps");
        tr.add(&taps, &steps)
    }
}

/// Returns the sampling positions, between -1 and 1: (images, 2, taps and rows, columns), the
/// horizontal coordinate first.
fn places(tr: &mut Tr<'_>, x: &Val, offset: &Val, images: &Dim, taps: &Taps) -> R<Val> {
    let [height, width] = taps.out.clone();
    let count = Dim::from(taps.count());
    let apart = [
        images.clone(),
        count,
        Dim::from(2),
        height.clone(),
        width.clone(),
    ];
    let moves = tr.reshape(offset, &apart)?;
    let moves = tr.cast(&moves, Elem::F64)?;
    let shape = tr.shape_of(x)?;
    let mut both = Vec::new();
    for a in [1, 0] {
        let start = taps.start(tr, offset, a)?;
        let own = tr.pick(&moves, 2, a as i64)?;
        let at = tr.add(&own, &start)?;
        let extent = match x.dim(2 + a)?.as_const() {
            Some(len) => tr.number(Elem::F64, len as f64),
            None => {
                let len = tr.pick(&shape, 0, 2 + a as i64)?;
                tr.cast(&len, Elem::F64)?
            }
        };
        let at = tr.by("multiply", &at, 2.0)?;
        let at = tr.by("add", &at, 1.0)?;
        let at = tr.div(&at, &extent)?;
        let at = tr.by("subtract", &at, 1.0)?;
        let rows = &height * taps.count();
        both.push(tr.reshape(&at, &[images.clone(), Dim::ONE, rows, width.clone()])?);
    }
    tr.concat(&both, 1)
}
