//! Stages that only move elements: transposition, slices, broadcasts, joining along an axis,
//! padding, gathering.

use super::copies::{self, Copies};
use super::picks::{self, Group};
use crate::extents::elements;
use crate::{Compute, Program};

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
