//! The program of a call, from what its computation may look at.

use std::fmt;

use relax_ir::{Attrs, TypeArena, UserOp};
use relax_loops::Program;
use relax_ops::{OpDef, Te, TensorInfo};
use relax_tensor::Tensor;

/// Constant arguments of more elements than this are not looked at by computations.
pub const CONST_LIMIT: usize = 4096;

/// A call of a built-in operator, as far as its program depends on it.
pub struct Request<'a> {
    /// The operator.
    pub op: &'a OpDef,
    /// What is known of the tensors of each argument.
    pub args: &'a [Vec<TensorInfo>],
    /// The values of arguments that are constants.
    pub consts: Vec<Option<Tensor>>,
    /// The attributes, all of them.
    pub attrs: &'a Attrs,
    /// What is known of the results, tuples flattened.
    pub outs: &'a [TensorInfo],
}

/// A program that was asked for.
pub struct Made {
    /// The program.
    pub program: Program,
    /// Whether it depends on the values of constant arguments.
    pub by_value: bool,
}

/// Why a call has no program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoProgram {
    /// The operator has none for any call.
    NoComputation(String),
    /// It has none for this one; with the reason.
    Unsupported(String),
}

impl fmt::Display for NoProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoProgram::NoComputation(op) => write!(f, "`{op}` has no computation"),
            NoProgram::Unsupported(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NoProgram {}

impl Request<'_> {
    /// The program. `check` may put assertions in front of it.
    ///
    /// # Errors
    /// The operator has no computation, or none for such arguments.
    pub fn program(self, check: impl FnOnce(&mut Te<'_>)) -> Result<Made, NoProgram> {
        let op = self.op;
        let Some(compute) = op.compute else {
            return Err(NoProgram::NoComputation(op.name.to_owned()));
        };
        let mut te = Te::new(op.name, self.args, self.consts, self.attrs, self.outs);
        compute(&mut te).map_err(|e| NoProgram::Unsupported(format!("`{}`: {}", op.name, e.0)))?;
        check(&mut te);
        let by_value = te.asked_for_consts();
        Ok(Made {
            program: te.finish(),
            by_value,
        })
    }
}

/// The program of an operator that the text defines, for arguments of these extents (`None`: known
/// only when it runs). `types` are those of the module.
///
/// # Errors
/// The operator has no computation for these attributes.
pub fn item_program(
    op: &UserOp,
    types: &TypeArena,
    attrs: &Attrs,
    args: &[Vec<Option<i64>>],
) -> Result<Program, NoProgram> {
    op.program_for(types, attrs, args)
        .map_err(|e| NoProgram::Unsupported(e.to_string()))
}
