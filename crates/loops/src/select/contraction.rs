//! Sums of products of two arrays, of any form and element type: convolutions of any rank over
//! padded data, transposed or grouped, `einsum`, batched products. A stage is recognised by its
//! expression, not by the operator that it comes from.

use relax_tensor::DType;

use super::digits::{self, Walks};
use super::lines::is_element;
use super::strided::Strided;
use super::vectors;
use crate::extents::{elements, numbers};
use crate::{BinOp, Buf, Combiner, Compute, Ex, ExKind, Program, Var};

/// Multiplications below which a call does not pay.
const FEW: i64 = 512;
/// The maximum number of axes of the result and of the sums together.
pub const AXES: usize = 16;

/// A sum of products of two arrays.
#[derive(Clone, Debug)]
pub struct Contraction {
    /// The arrays.
    pub factors: [Buf; 2],
    /// How they are read along the axes of the stage.
    pub reads: Reads,
}

/// How the arrays of a contraction are read.
#[derive(Clone, Debug)]
pub enum Reads {
    /// Along loops of constant extents, into which the axes are split.
    Walks(Walks),
    /// With steps along the axes themselves.
    Steps([Strided; 2]),
}

/// Returns the contraction that a stage is, if it is large enough for a kernel and both arrays are
/// read with constant strides.
pub fn find(program: &Program, c: &Compute) -> Option<Contraction> {
    let of = |b: Buf| program.bufs[b].dtype;
    let [a, b] = factors(c)?;
    let (from, to) = ([of(a.0), of(b.0)], of(c.out));
    let loops = program.loops(c);
    let known = elements(loops.iter().map(|l| &l.1));
    let fits = to != DType::BOOL
        && is_element(to)
        && from.iter().all(|&f| is_element(f) && widens(f, to))
        && loops.len() <= AXES
        && known.is_none_or(|n| n >= FEW)
        && !is_sweep(program, c);
    let reads = match fits.then(|| walks(program, &loops, [a, b]))? {
        Some(walks) => Reads::Walks(walks),
        None => Reads::Steps(steps(&loops, [a, b])?),
    };
    let factors = [a.0, b.0];
    Some(Contraction { factors, reads })
}

/// Returns whether a stage is better computed as a sweep: all products are one sum.
fn is_sweep(program: &Program, c: &Compute) -> bool {
    elements(&program.bufs[c.out].shape) == Some(1) && vectors::find(program, c).is_some()
}

/// For constant sizes; divisions in indices split axes.
fn walks(program: &Program, axes: &[(Var, Ex)], factors: [(Buf, &[Ex]); 2]) -> Option<Walks> {
    let vars: Vec<Var> = axes.iter().map(|a| a.0).collect();
    let extents = numbers(axes.iter().map(|a| &a.1))?;
    let load = |(buf, index): (Buf, _)| Some((index, numbers(&program.bufs[buf].shape)?));
    let loads = factors.into_iter().map(load).collect::<Option<Vec<_>>>()?;
    digits::walks(&vars, &extents, &loads)
}

/// For any sizes.
fn steps(axes: &[(Var, Ex)], [a, b]: [(Buf, &[Ex]); 2]) -> Option<[Strided; 2]> {
    let vars: Vec<Var> = axes.iter().map(|a| a.0).collect();
    let strided = |(buf, index)| Strided::along(&vars, buf, index);
    Some([strided(a)?, strided(b)?])
}

/// Returns the two factors whose products a stage sums up: buffers, and their indices.
fn factors(c: &Compute) -> Option<[(Buf, &[Ex]); 2]> {
    let sums = |r: &crate::Reduce| r.combiner == Combiner::Sum && !r.axes.is_empty();
    if !c.reduce.as_ref().is_some_and(sums) {
        return None;
    }
    match c.value.kind() {
        ExKind::Binary(BinOp::Mul, x, y) => Some([factor(x)?, factor(y)?]),
        _ => None,
    }
}

/// A factor of the products: elements of a buffer, perhaps converted to a wider type.
fn factor(e: &Ex) -> Option<(Buf, &[Ex])> {
    let loaded = match e.kind() {
        ExKind::Cast(inner) => inner,
        _ => e,
    };
    match loaded.kind() {
        ExKind::Load(buf, index) => Some((*buf, index)),
        _ => None,
    }
}

/// Returns whether elements of one type may be multiplied and summed as those of another: the sums
/// lose no precision.
fn widens(from: DType, to: DType) -> bool {
    let narrow = |d: DType| matches!(d, DType::F16 | DType::BF16);
    match (from.is_float(), to.is_float()) {
        (false, false) => true,
        // Narrow integers are exact as floats; others would be rounded to the narrow type first.
        (false, true) => matches!(to, DType::F32 | DType::F64),
        (true, false) => false,
        (true, true) => {
            from == to || narrow(from) && to == DType::F32 || (from, to) == (DType::F32, DType::F64)
        }
    }
}
