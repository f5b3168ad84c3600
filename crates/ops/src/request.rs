//! The program of a call, determined by the facts that its computation may use.

use std::fmt;

use relax_ir::Attrs;
use relax_loops::Program;
use relax_tensor::Tensor;

use crate::{OpDef, Te, TensorInfo};

/// The facts about a call of a built-in operator that its program depends on.
pub struct Request<'a> {
    /// The operator.
    pub op: &'a OpDef,
    /// The known facts about the tensors of each argument.
    pub args: &'a [Vec<TensorInfo>],
    /// The values of arguments that are constants.
    pub consts: Vec<Option<Tensor>>,
    /// The attributes, complete.
    pub attrs: &'a Attrs,
    /// The known facts about the results, tuples flattened.
    pub outs: &'a [TensorInfo],
}

/// The program of a request.
pub struct Made {
    /// The program.
    pub program: Program,
    /// Whether it depends on the values of constant arguments.
    pub by_value: bool,
}

/// The reason why a call has no program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoProgram {
    /// The operator has none for any call.
    NoComputation(String),
    /// It has none for this call, with the reason.
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
    /// Builds the program. `check` may insert assertions before everything else.
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
