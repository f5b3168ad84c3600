//! How much effort a function is worth.
//!
//! Cranelift's optimiser and its usual allocation of registers take most of its time. Code with
//! loops pays that back; code that runs through once per call, fills descriptors, and calls the
//! runtime does not. And every allocation takes time that grows with the square of a function in
//! which very many values live across very many blocks: a parameter list of thousands with a check
//! for each, a match over thousands of constructors. No function that a person wrote is so large;
//! beyond a size nothing stays in registers from block to block.

use cranelift_codegen::ir::{Block, Function, Opcode};
use cranelift_codegen::isa::{self, CallConv, OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};

/// Values times blocks, from which on a function is large.
const LARGE: usize = 1 << 24;

/// Instructions up to which a function of the program gets all effort: it takes little, and may be
/// called very often.
const SMALL: usize = 200;

/// The same of a kernel. One without loops fills the structure of a kernel of the runtime, which
/// takes longer.
const SMALL_KERNEL: usize = 60;

/// How Cranelift is told to give registers in one pass.
const ONE_PASS: (&str, &str) = ("regalloc_algorithm", "single_pass");

/// What is done with a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effort {
    /// All that the module's target asks for.
    Full,
    /// No optimiser, registers in one pass.
    Little,
    /// As little, with values in memory between blocks.
    Least,
}

/// Returns what a function is worth.
pub(crate) fn of(f: &Function) -> Effort {
    let small = match f.signature.call_conv {
        CallConv::Tail => SMALL,
        _ => SMALL_KERNEL,
    };
    if f.dfg.num_values().saturating_mul(f.layout.blocks().count()) > LARGE {
        Effort::Least
    } else if f.dfg.num_insts() > small && runs_through(f) {
        Effort::Little
    } else {
        Effort::Full
    }
}

/// Returns whether every block runs once at most: no way leads from one to itself. How blocks are
/// laid out does not matter, as the ends that failures share stand beside the first of them. A call
/// in the place of the function's end may be one of itself, which is a loop, too.
pub(crate) fn runs_through(f: &Function) -> bool {
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut states = vec![0u8; f.dfg.num_blocks()];
    let mut work = Vec::from_iter(f.layout.entry_block().map(|b: Block| (b, false)));
    while let Some((block, ready)) = work.pop() {
        let state = &mut states[block.as_u32() as usize];
        if ready || *state == DONE {
            *state = DONE;
            continue;
        }
        *state = OPEN;
        work.push((block, true));
        let Some(last) = f.layout.last_inst(block) else {
            continue;
        };
        let data = &f.dfg.insts[last];
        if matches!(
            data.opcode(),
            Opcode::ReturnCall | Opcode::ReturnCallIndirect
        ) {
            return false;
        }
        let targets = data.branch_destination(&f.dfg.jump_tables, &f.dfg.exception_tables);
        for call in targets {
            let to = call.block(&f.dfg.value_lists);
            match states[to.as_u32() as usize] {
                OPEN => return false,
                DONE => {}
                _ => work.push((to, false)),
            }
        }
    }
    true
}

/// The same target with the settings of an effort; `None` where Cranelift cannot be told so.
pub(crate) fn target(isa: &dyn TargetIsa, effort: Effort) -> Option<OwnedTargetIsa> {
    let other: &[(&str, &str)] = match effort {
        Effort::Full => &[],
        Effort::Little | Effort::Least => &[("opt_level", "none"), ONE_PASS],
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
