//! Stages that are strided copies: transposition, slices, broadcasts, and joining along an axis,
//! where selections by one index choose the input.

use std::ops::Range;

use super::chosen::{Arm, arms};
use super::digits::{self, Part, Walk};
use super::strided::affine;
use crate::extents::{elements, numbers};
use crate::{BinOp, Buf, Compute, Ex, ExKind, Program, Stage, Var};

/// The maximum number of axes of the result.
pub const AXES: usize = 16;

/// A stage as strided copies.
#[derive(Clone, Debug)]
pub enum Copies {
    /// Of constant size, along loops into which the axes are split.
    Walks(Joined),
    /// Along the axes themselves: the pieces of the result, joined along one axis.
    Pieces(usize, Vec<Piece>),
}

/// Arrays that are joined: the loops over the result, and how each array is traversed.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The extents of the loops, outermost first.
    pub loops: Vec<i64>,
    /// The arrays.
    pub parts: Vec<(Buf, Walk)>,
}

/// Part of a stage: where one index lies below a bound, the elements come from one load.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The piece's end along the joined axis; `None` is the axis's own end.
    pub end: Option<Ex>,
    /// The array.
    pub buf: Buf,
    /// For each place of the buffer, its step along every axis of the stage, and the offset.
    pub index: Vec<(Vec<Ex>, Ex)>,
    /// The axes of the buffer that are one place: its index is a number over all of them.
    pub axes: Vec<Range<usize>>,
}

/// Returns the copies that a stage is; `None` where its indices are no sums of multiples of axes.
pub fn find(program: &Program, c: &Compute) -> Option<Copies> {
    if program.bufs[c.out].shape.len() > AXES {
        return None;
    }
    if let Some(joined) = walks(program, c) {
        return Some(Copies::Walks(joined));
    }
    let (along, pieces) = pieces(program, &c.value, &c.axes)?;
    let dtype = program.bufs[c.out].dtype;
    let same = |p: &Piece| program.bufs[p.buf].dtype == dtype;
    (pieces.iter().all(same)).then_some(Copies::Pieces(along, pieces))
}

/// The loops of a stage of constant size, and how each of its parts is traversed.
fn walks(program: &Program, c: &Compute) -> Option<Joined> {
    let out = &program.bufs[c.out];
    let extents = numbers(&out.shape)?;
    let (mut bufs, mut parts) = (Vec::new(), Vec::new());
    for Arm { below, buf, index } in arms(&c.value)? {
        let of = &program.bufs[buf];
        if of.dtype != out.dtype {
            return None;
        }
        let below = match below {
            Some((place, bound)) => Some((place, bound.as_int()?)),
            None => None,
        };
        bufs.push(buf);
        parts.push(Part {
            below,
            index,
            shape: numbers(&of.shape)?,
        });
    }
    let (loops, walks) = digits::parts(&c.axes, &extents, &parts)?;
    let parts = bufs.into_iter().zip(walks).collect();
    Some(Joined { loops, parts })
}

/// Returns the input whose elements the program's only result has, all of them and in the same
/// order: such a result may be a view of the input. The extents are constant.
pub fn reshaped(program: &Program) -> Option<usize> {
    let ([out], [Stage::Compute(c)]) = (&program.outputs[..], &program.stages[..]) else {
        return None;
    };
    if c.out != *out || c.reduce.is_some() {
        return None;
    }
    let joined = walks(program, c)?;
    let [(buf, walk)] = &joined.parts[..] else {
        return None;
    };
    let mut step = 1;
    let steps = joined.loops.iter().zip(&walk.steps).rev().all(|(&n, &s)| {
        let fits = n == 1 || s == step;
        step *= n;
        fits
    });
    let whole = steps && walk.first == 0 && elements(&program.bufs[*buf].shape) == Some(step);
    let input = program.inputs.iter().position(|i| i == buf);
    input.filter(|_| whole)
}

/// The pieces of a value and the axis along which they are joined; `None` for any other value.
fn pieces(program: &Program, value: &Ex, axes: &[Var]) -> Option<(usize, Vec<Piece>)> {
    let (mut along, mut out) = (None, Vec::new());
    for Arm { below, buf, index } in arms(value)? {
        if let Some((place, bound)) = below {
            let ExKind::Var(v) = place.kind() else {
                return None;
            };
            let axis = axes.iter().position(|a| a == v)?;
            if along.is_some_and(|a| a != axis) {
                return None;
            }
            along = Some(axis);
            // The bound is the same for all elements.
            let (steps, _) = affine(bound, axes, 8)?;
            steps.iter().all(|s| s.as_int() == Some(0)).then_some(())?;
        }
        let places = undivided(index, &program.bufs[buf].shape);
        let index = (places.iter())
            .map(|(i, _)| affine(i, axes, 16))
            .collect::<Option<Vec<_>>>()?;
        out.push(Piece {
            end: below.map(|b| b.1.clone()),
            buf,
            index,
            axes: places.into_iter().map(|p| p.1).collect(),
        });
    }
    Some((along.unwrap_or(0), out))
}

/// Indices in which no adjacent axes are the quotient and the remainder of one number by the
/// extent of the latter: these are one place of the buffer, at that number. Reshapes with extents
/// known only at run time are read so.
fn undivided(index: &[Ex], shape: &[Ex]) -> Vec<(Ex, Range<usize>)> {
    let mut out: Vec<(Ex, Range<usize>)> = Vec::with_capacity(index.len());
    for (k, e) in index.iter().enumerate() {
        out.push((e.clone(), k..k + 1));
        // A place may be the remainder of the next larger number.
        while let [.., (first, of), (last, own)] = &out[..] {
            let (ExKind::Binary(BinOp::FloorDiv, a, n), ExKind::Binary(BinOp::FloorMod, b, m)) =
                (first.kind(), last.kind())
            else {
                break;
            };
            let extent = shape[own.clone()].iter().fold(Ex::idx(1), |n, d| n * d);
            if a != b || n != m || extent != *n {
                break;
            }
            let joined = (a.clone(), of.start..own.end);
            out.truncate(out.len() - 2);
            out.push(joined);
        }
    }
    out
}
