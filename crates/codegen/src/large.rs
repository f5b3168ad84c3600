//! Functions that are too large for the usual allocation of registers.
//!
//! It weighs all values against each other, which takes time that grows with the square of a function in which very many
//! values live across very many blocks: a parameter list of thousands with a check for each, a match over thousands of
//! constructors. Beyond a size such code is given its registers in a single pass over it instead, in time that
//! grows with the code; values then live in memory more often. No function that a person wrote is so large.

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{self, OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_module::{FuncId, Module, ModuleError, ModuleReloc};

/// Values times blocks, from which on a function is large.
const LARGE: usize = 1 << 24;

/// Whether a function is large.
pub(crate) fn is_large(f: &Function) -> bool {
    f.dfg.num_values().saturating_mul(f.layout.blocks().count()) > LARGE
}

/// The same target, with registers given in one pass; `None` where Cranelift cannot be told so.
pub(crate) fn in_one_pass(isa: &dyn TargetIsa) -> Option<OwnedTargetIsa> {
    let mut flags = settings::builder();
    for value in isa.flags().iter() {
        flags.set(value.name, &value.value_string()).ok()?;
    }
    flags.set("regalloc_algorithm", "single_pass").ok()?;
    let mut builder = isa::lookup(isa.triple().clone()).ok()?;
    for value in isa.isa_flags() {
        builder.set(value.name, &value.value_string()).ok()?;
    }
    builder.finish(settings::Flags::new(flags)).ok()
}

/// Defines a function in a module by code for another description of its target.
pub(crate) fn define(
    module: &mut dyn Module,
    id: FuncId,
    context: &mut Context,
    isa: &dyn TargetIsa,
) -> Result<(), Box<ModuleError>> {
    let compiled = context.compile(isa, &mut ControlPlane::default());
    let buffer = match compiled {
        Ok(code) => code.buffer.clone(),
        Err(e) => return Err(Box::new(ModuleError::Compilation(e.inner))),
    };
    let relocs: Vec<ModuleReloc> = (buffer.relocs().iter())
        .map(|r| ModuleReloc::from_mach_reloc(r, &context.func, id))
        .collect();
    let bytes = buffer.data();
    (module.define_function_bytes(id, u64::from(buffer.alignment), bytes, &relocs))
        .map_err(Box::new)
}
