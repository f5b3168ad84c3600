//! Stages whose elements are computed by vector operations: element-wise expressions and reductions
//! of any element type, whose arrays are read with constant strides.
//!
//! There are two forms: [`strips`] of float32, which may convert integers on their way in and to
//! bytes on their way out, and the [`sweep`] of any types.

pub use super::operations::{AXES, Form, Op, Operand, Read, Step, Vectors, WINDOW_STEP};
use super::operations::{Split, side_by_side};
use super::{strips, sweep};
use crate::{Compute, Program};

/// Returns the vector operations that a stage is, where a kernel for them pays.
pub fn find(program: &Program, c: &Compute) -> Option<Vectors> {
    let axes = program.loops(c);
    let (result_axes, reduced) = (c.axes.len(), axes.len() - c.axes.len());
    if result_axes > AXES || reduced > AXES || (c.reduce.is_some() && reduced == 0) {
        return None;
    }
    let stage = Split::new(program, c, axes);
    if stage.result_axes > AXES || stage.axes.len() - stage.result_axes > AXES {
        return None;
    }
    let sweep = || sweep::find(program, c, &stage);
    match side_by_side(c, program.bufs[c.out].dtype) {
        true => sweep().or_else(|| strips::find(program, c, &stage)),
        false => strips::find(program, c, &stage).or_else(sweep),
    }
}
