//! Reference execution of tensor programs.
//!
//! This crate defines the semantics of a program by executing it: every other way to run one is
//! checked against it. It is an interpreter, but one that works on strips of elements.
//!
//! Invariant: no access leaves its buffer; a program that tries fails with an [`ExecError`].

mod code;
mod compile;
mod error;
mod memory;
mod nest;
mod num;
pub mod scalar;
mod span;
mod strip;
#[cfg(test)]
mod tests;

pub use error::{ExecError, ExecFault};

use relax_base::Id;
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::{Buf, Ex, ExKind, MOST_EXTENT, Program, Role, Stage, Var};
use compile::Compiler;
use error::Fault;
use memory::{Bufs, Memory};

/// Returns the buffers that a nest stores to or allocates, in order of first appearance.
pub(crate) fn written(body: &[crate::Stmt]) -> Vec<Buf> {
    nest::buffers(body)
}

/// Returns whether a function is defined on an element type.
pub(crate) fn unary_exists(op: crate::UnOp, dtype: DType) -> bool {
    num::Num::of(dtype).is_some_and(|n| num::unary_exists(op, n))
}

/// Like [`unary_exists`].
pub(crate) fn binary_exists(op: crate::BinOp, dtype: DType) -> bool {
    num::Num::of(dtype).is_some_and(|n| num::binary_exists(op, n))
}

/// The values of dimension variables.
struct Dims(Vec<(Var, i64)>);

impl Dims {
    fn bind(&self, c: &mut Compiler<'_>) {
        for (var, value) in &self.0 {
            c.bind_const(*var, *value);
        }
    }
}

/// Runs `program` on `inputs`; returns its outputs, in order.
///
/// # Errors
/// An access outside of a buffer, a division by zero, an assertion that does not hold.
pub fn execute(program: &Program, inputs: &[Tensor]) -> Result<Vec<Tensor>, ExecError> {
    execute_for(program, inputs, None)
}

/// Like [`execute`], where the caller has fixed the outputs' shapes (destination passing): they
/// bind dimension variables that no input binds, and are checked against the outputs' extents.
///
/// # Errors
/// As for [`execute`].
pub fn execute_for(
    program: &Program,
    inputs: &[Tensor],
    outputs: Option<&[Vec<i64>]>,
) -> Result<Vec<Tensor>, ExecError> {
    execute_within(program, inputs, outputs, &mut { u64::MAX })
}

/// The iterations that the engines count as one step, for their limits on steps: a call takes longer
/// than an iteration.
pub const STEP: u64 = 100;

/// Like [`execute_for`], with a limit on iterations: those of loops in nests, and for computations,
/// of which up to 256 elements are computed together, one for each time that this is done. Those
/// that were made are subtracted from `left`.
///
/// # Errors
/// As for [`execute`], and [`ExecFault::Endless`] if the limit does not suffice.
pub fn execute_within(
    program: &Program,
    inputs: &[Tensor],
    outputs: Option<&[Vec<i64>]>,
    left: &mut u64,
) -> Result<Vec<Tensor>, ExecError> {
    let program = &*crate::with_starts(program);
    let mut bufs = Bufs {
        of: (0..program.bufs.len()).map(|_| None).collect(),
        left: *left,
    };
    let result = run(program, inputs, outputs, &mut bufs);
    *left = bufs.left;
    result.map_err(|fault| ExecError::new(program, fault))
}

fn run(
    program: &Program,
    inputs: &[Tensor],
    outputs: Option<&[Vec<i64>]>,
    bufs: &mut Bufs,
) -> Result<Vec<Tensor>, Fault> {
    if inputs.len() != program.inputs.len() {
        return Err(Fault::Inputs(program.inputs.len(), inputs.len()));
    }
    let mut given: Vec<(Buf, Vec<i64>)> = Vec::new();
    for (buf, tensor) in program.inputs.iter().zip(inputs) {
        let info = &program.bufs[*buf];
        if tensor.dtype() != info.dtype || tensor.shape().len() != info.shape.len() {
            return Err(Fault::Input(*buf, tensor.dtype(), tensor.shape().to_vec()));
        }
        // SAFETY: `inputs` is borrowed for the whole run, and nothing moves its tensors.
        let memory = unsafe { Memory::input(tensor) }
            .ok_or_else(|| Fault::Unsupported(format!("buffers of {:?}", info.dtype)))?;
        bufs.of[buf.index()] = Some(memory);
        given.push((*buf, tensor.shape().to_vec()));
    }
    if let Some(shapes) = outputs {
        if shapes.len() != program.outputs.len() {
            return Err(Fault::Outputs(program.outputs.len(), shapes.len()));
        }
        for (buf, shape) in program.outputs.iter().zip(shapes) {
            if shape.len() != program.bufs[*buf].shape.len() {
                return Err(Fault::Output(*buf, shape.clone()));
            }
            given.push((*buf, shape.clone()));
        }
    }
    for (buf, shape) in &given {
        if shape.iter().any(|d| !(0..=MOST_EXTENT).contains(d)) {
            return Err(Fault::Size(*buf, shape.clone()));
        }
    }
    let dims = bind(program, &given, bufs)?;
    let fixed: FxHashMap<Buf, Vec<i64>> = given.into_iter().collect();
    for stage in &program.stages {
        match stage {
            Stage::Compute(c) => {
                allocate(program, c.out, &dims, &fixed, bufs)?;
                strip::run(program, c, &dims, bufs)?;
            }
            Stage::Nest(body) => {
                for buf in nest::buffers(body) {
                    if program.bufs[buf].role != Role::Local {
                        allocate(program, buf, &dims, &fixed, bufs)?;
                    }
                }
                nest::run(program, body, &dims, bufs)?;
            }
        }
    }
    let mut results: Vec<Tensor> = Vec::with_capacity(program.outputs.len());
    for (k, buf) in program.outputs.iter().enumerate() {
        let same = program.outputs[..k].iter().position(|b| b == buf);
        results.push(match (same, bufs.of[buf.index()].take()) {
            (Some(same), _) => results[same].clone(),
            (None, Some(memory)) => memory.tensor(),
            (None, None) => return Err(Fault::Early(*buf)),
        });
    }
    Ok(results)
}

/// Binds dimension variables from the given extents, then checks all extents that do not depend on
/// an element of a buffer.
fn bind(program: &Program, given: &[(Buf, Vec<i64>)], bufs: &mut Bufs) -> Result<Dims, Fault> {
    let mut bound: FxHashMap<Var, i64> = FxHashMap::default();
    for (buf, shape) in given {
        for (extent, value) in program.bufs[*buf].shape.iter().zip(shape) {
            if let ExKind::Var(v) = extent.kind() {
                bound.entry(*v).or_insert(*value);
            }
        }
    }
    let mut dims = Dims(Vec::new());
    for var in &program.dims {
        if let Some(value) = bound.get(var) {
            dims.0.push((*var, *value));
        }
    }
    for (buf, shape) in given {
        for (axis, (extent, value)) in program.bufs[*buf].shape.iter().zip(shape).enumerate() {
            let wanted = match scalar(program, extent, &dims, bufs) {
                Ok(v) => v,
                // An output's extent may be known only later; `allocate` checks it then.
                Err(Fault::Early(_)) if program.bufs[*buf].role == Role::Output => continue,
                Err(f) => return Err(f),
            };
            if wanted != *value {
                return Err(Fault::Extent {
                    buf: *buf,
                    axis,
                    wanted,
                    found: *value,
                });
            }
        }
    }
    Ok(dims)
}

/// Allocates a buffer, unless it exists.
fn allocate(
    program: &Program,
    buf: Buf,
    dims: &Dims,
    fixed: &FxHashMap<Buf, Vec<i64>>,
    bufs: &mut Bufs,
) -> Result<(), Fault> {
    if bufs.of[buf.index()].is_some() {
        return Ok(());
    }
    let info = &program.bufs[buf];
    let mut shape = Vec::with_capacity(info.shape.len());
    for extent in &info.shape {
        shape.push(scalar(program, extent, dims, bufs)?);
    }
    if let Some(given) = fixed.get(&buf) {
        for (axis, (&wanted, &found)) in shape.iter().zip(given).enumerate() {
            if found != wanted {
                return Err(Fault::Extent {
                    buf,
                    axis,
                    wanted,
                    found,
                });
            }
        }
    }
    if Tensor::byte_len(info.dtype, &shape).is_none() {
        return Err(Fault::Size(buf, shape));
    }
    let memory = Memory::fresh(info.dtype, shape.clone()).ok_or(Fault::Size(buf, shape))?;
    bufs.of[buf.index()] = Some(memory);
    Ok(())
}

/// Returns the value of an integer expression over dimensions and elements of existing buffers.
fn scalar(program: &Program, e: &Ex, dims: &Dims, bufs: &mut Bufs) -> Result<i64, Fault> {
    if let Some(v) = e.as_int() {
        return Ok(v);
    }
    if e.dtype() != DType::I64 {
        return Err(Fault::Unsupported(format!("an extent of {:?}", e.dtype())));
    }
    let mut c = Compiler::new(program, bufs, true);
    dims.bind(&mut c);
    let mut r = c.expr(e)?;
    let words = c.allocate(&mut [&mut r]);
    let segs = std::mem::take(&mut c.segs);
    let mut m = code::Machine::new(words, 0);
    m.run(&segs[0], bufs)?;
    Ok(m.int(r))
}
