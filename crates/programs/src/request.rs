//! The programs of operators that the text defines, and what computations may know of constants.

use relax_ir::{Attrs, TypeArena, UserOp};
use relax_loops::{Program, TensorInfo};
use relax_ops::NoProgram;

/// The maximum number of elements of constant arguments that computations use.
pub const CONST_LIMIT: usize = 4096;

/// Builds the program of an operator that the text defines, for such arguments, whose extents may be
/// known only at run time. `types` are those of the module.
///
/// # Errors
/// The operator has no computation for these attributes, or elements of these types.
pub fn item_program(
    op: &UserOp,
    types: &TypeArena,
    attrs: &Attrs,
    args: &[TensorInfo],
) -> Result<Program, NoProgram> {
    op.program_for(types, attrs, args)
        .map_err(|e| NoProgram::Unsupported(e.to_string()))
}
