//! What stages that move elements read: the arms of a selection among arrays, and the array and the
//! conditions of a selection of elements.

use crate::{BinOp, Buf, Ex, ExKind, UnOp, Var, axes_of};

/// The maximum number of arrays that a stage joins.
const PIECES: usize = 64;

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
    pub conditions: Vec<Ex>,
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
            ExKind::Select(c, a, b) => {
                // An element stands on either side of the fill value.
                let still = |e: &Ex| axes_of(e, axes).is_empty();
                let (element, other, holds) = match (still(a), still(b)) {
                    (_, true) => (a, b, true),
                    (true, false) => (b, a, false),
                    (false, false) => return None,
                };
                if fill.is_some_and(|f: &Ex| f != other) {
                    return None;
                }
                fill = Some(other);
                rest = element;
                let mut parts = vec![c];
                while let Some(part) = parts.pop() {
                    match part.kind() {
                        ExKind::Binary(BinOp::And, a, b) if holds => parts.extend([a, b]),
                        ExKind::Binary(BinOp::Or, a, b) if !holds => parts.extend([a, b]),
                        _ if holds => conditions.push(part.clone()),
                        _ => conditions.push(part.unary(UnOp::Not)),
                    }
                }
            }
            _ => return None,
        }
    }
}
