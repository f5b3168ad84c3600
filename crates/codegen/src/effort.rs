//! How much effort a function is worth.
//!
//! Cranelift's optimiser and its usual allocation of registers take most of its time. Code with loops pays that back;
//! code that runs through once per call, fills descriptors, and calls the runtime does not. And the usual allocation
//! weighs all values against each other, which takes time that grows with the square of a function in which very many
//! values live across very many blocks: a parameter list of thousands with a check for each, a match over thousands of
//! constructors. No function that a person wrote is so large; beyond a size it gets its registers in a single pass.

use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{self, OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};

/// Values times blocks, from which on a function is large.
const LARGE: usize = 1 << 24;

/// Instructions up to which a function gets all effort: it takes little, and may be called very often.
const SMALL: usize = 200;

/// How Cranelift is told to give registers in one pass.
const ONE_PASS: (&str, &str) = ("regalloc_algorithm", "single_pass");

/// What is done with a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effort {
    /// All that the module's target asks for.
    Full,
    /// No optimiser, registers in one pass.
    Little,
    /// Registers in one pass.
    OnePass,
}

/// What a function is worth.
pub(crate) fn of(f: &Function) -> Effort {
    if f.dfg.num_values().saturating_mul(f.layout.blocks().count()) > LARGE {
        Effort::OnePass
    } else if f.dfg.num_insts() > SMALL && runs_through(f) {
        Effort::Little
    } else {
        Effort::Full
    }
}

/// Whether no branch goes back: to its own block, or to one that is laid out before it.
pub(crate) fn runs_through(f: &Function) -> bool {
    let mut at = rustc_hash::FxHashMap::default();
    for (k, block) in f.layout.blocks().enumerate() {
        at.insert(block, k);
    }
    (f.layout.blocks()).all(|block| {
        let Some(last) = f.layout.last_inst(block) else {
            return true;
        };
        let targets =
            f.dfg.insts[last].branch_destination(&f.dfg.jump_tables, &f.dfg.exception_tables);
        (targets.iter()).all(|call| at.get(&call.block(&f.dfg.value_lists)) > at.get(&block))
    })
}

/// The same target with the settings of an effort; `None` where Cranelift cannot be told so.
pub(crate) fn target(isa: &dyn TargetIsa, effort: Effort) -> Option<OwnedTargetIsa> {
    let other: &[(&str, &str)] = match effort {
        Effort::Full => &[],
        Effort::Little => &[("opt_level", "none"), ONE_PASS],
        Effort::OnePass => &[ONE_PASS],
    };
    let mut flags = settings::builder();
    for value in isa.flags().iter() {
        flags.set(value.name, &value.value_string()).ok()?;
    }
    for (name, value) in other {
        flags.set(name, value).ok()?;
    }
    let mut builder = isa::lookup(isa.triple().clone()).ok()?;
    for value in isa.isa_flags() {
        builder.set(value.name, &value.value_string()).ok()?;
    }
    builder.finish(settings::Flags::new(flags)).ok()
}
