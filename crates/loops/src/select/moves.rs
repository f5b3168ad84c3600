//! Stages that only move elements: transposition, slices, broadcasts, joining along an axis,
//! padding, gathering.

use super::copies::{self, Copies};
use super::picks::{self, Group};
use crate::extents::elements;
use crate::{BinOp, Buf, Compute, Ex, ExKind, Program, Var, axes_of};

/// The maximum number of arrays that a stage joins.
const PIECES: usize = 64;
/// Elements below which a call does not pay.
const FEW: i64 = 16;

/// A stage that moves elements.
#[derive(Clone, Debug)]
pub enum Moves {
    /// Strided copies.
    Copies(Copies),
    /// By tables of offsets.
    Picks(Vec<Group>),
}

/// Returns how a stage moves elements, where there are so many that a kernel for that pays.
pub fn find(program: &Program, c: &Compute) -> Option<Moves> {
    let out = &program.bufs[c.out];
    let known = elements(&out.shape);
    let size = matches!(out.dtype.size(), 1 | 2 | 4 | 8);
    if c.reduce.is_some() || !size || out.shape.is_empty() || known.is_some_and(|n| n < FEW) {
        return None;
    }
    let copies = copies::find(program, c).map(Moves::Copies);
    copies.or_else(|| picks::find(program, c).map(Moves::Picks))
}

/// The value read where an index lies below a bound, and not below any earlier bound.
pub struct Arm<'e> {
    /// The index and its bound; `None` for the last arm.
    pub below: Option<(&'e Ex, &'e Ex)>,
    /// The array that is read.
    pub buf: Buf,
    /// Its indices.
    pub index: &'e [Ex],
}

/// The arms of a value that selects among arrays, in order; `None` for any other value.
pub fn arms(value: &Ex) -> Option<Vec<Arm<'_>>> {
    let (mut out, mut rest) = (Vec::new(), value);
    loop {
        let (here, below, next) = match rest.kind() {
            ExKind::Select(cond, yes, no) => {
                let ExKind::Binary(BinOp::Lt, place, bound) = cond.kind() else {
                    return None;
                };
                (yes, Some((place, bound)), Some(no))
            }
            _ => (rest, None, None),
        };
        let ExKind::Load(buf, index) = here.kind() else {
            return None;
        };
        out.push(Arm {
            below,
            buf: *buf,
            index,
        });
        match next {
            Some(no) if out.len() < PIECES => rest = no,
            Some(_) => return None,
            None => return Some(out),
        }
    }
}

/// The array that a stage selects from, and the conditions.
pub struct Chosen<'e> {
    /// The conditions that all hold where an element of the array is read.
    pub conditions: Vec<&'e Ex>,
    /// The array that is read.
    pub buf: Buf,
    /// Its indices.
    pub index: &'e [Ex],
    /// The value elsewhere.
    pub fill: Option<&'e Ex>,
}

/// Returns what a value selects from, if it moves an element or is the fill value; `None` for any
/// other value.
pub fn chosen<'e>(value: &'e Ex, axes: &[Var]) -> Option<Chosen<'e>> {
    let (mut conditions, mut fill, mut rest) = (Vec::new(), None, value);
    loop {
        match rest.kind() {
            ExKind::Load(buf, index) => {
                return Some(Chosen {
                    conditions,
                    buf: *buf,
                    index,
                    fill,
                });
            }
            ExKind::Select(c, yes, no) if axes_of(no, axes).is_empty() => {
                if fill.is_some_and(|f: &Ex| f != no) {
                    return None;
                }
                fill = Some(no);
                rest = yes;
                let mut parts = vec![c];
                while let Some(part) = parts.pop() {
                    match part.kind() {
                        ExKind::Binary(BinOp::And, a, b) => parts.extend([a, b]),
                        _ => conditions.push(part),
                    }
                }
            }
            _ => return None,
        }
    }
}
