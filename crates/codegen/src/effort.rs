//! Selects how much compile time a function is worth.
//!
//! Cranelift's optimiser and its default register allocator take most of its time. That pays for
//! loops, but not for loop-free code that runs once per call, fills descriptors and calls the
//! runtime. With either allocator the time grows with the square of the function's size where very
//! many values are live across very many blocks: thousands of parameters with a check for each, a
//! match over thousands of constructors. No function written by hand is so large; beyond this size
//! no value stays in a register across blocks.

use cranelift_codegen::ir::{Block, Function, Opcode};
use cranelift_codegen::isa::{self, CallConv, OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use relax_lower::lir::{FnId, Inst, Lowered, Term};
use rustc_hash::FxHashMap;

/// Values times blocks from which a function counts as large.
const LARGE: usize = 1 << 24;

/// Instructions up to which a function of the program gets full effort: compiling it is cheap, and
/// it may be called very often.
const SMALL: usize = 200;

/// The same for a kernel. One without loops only fills the descriptor of a runtime kernel, whose
/// call takes longer.
const SMALL_KERNEL: usize = 60;

/// Kernels above which a program that runs each function a few times spends its time in kernels, so
/// that nothing else is worth full effort.
const NETWORK: usize = 16;

/// The setting of Cranelift that selects the single-pass register allocator.
const ONE_PASS: (&str, &str) = ("regalloc_algorithm", "single_pass");

/// The way a function is compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effort {
    /// With all that the module's target enables.
    Full,
    /// Without the optimiser, with the single-pass register allocator.
    Little,
    /// Like `Little`, with values in memory between blocks.
    Least,
}

/// Returns whether a program runs each of its many kernels a few times only: no function calls
/// itself, not even by way of others, and none is a value.
pub(crate) fn is_network(lowered: &Lowered) -> bool {
    if lowered.kernels.len() <= NETWORK {
        return false;
    }
    // How many calls of each function there are, and what each calls.
    let mut calls: FxHashMap<FnId, usize> = FxHashMap::default();
    let mut callees: FxHashMap<FnId, Vec<FnId>> = FxHashMap::default();
    for (id, f) in lowered.funcs.iter() {
        if f.captures.is_some() {
            return false;
        }
        for block in f.blocks.values() {
            let direct = block.insts.iter().filter_map(|inst| match inst {
                Inst::Call { func, .. } => Some(*func),
                _ => None,
            });
            let last = match block.term {
                Term::TailCall { func, .. } => Some(func),
                _ => None,
            };
            for callee in direct.chain(last) {
                *calls.entry(callee).or_default() += 1;
                callees.entry(id).or_default().push(callee);
            }
        }
    }
    // Functions in an order in which callers come first; those of a cycle never come.
    let mut ready: Vec<FnId> = lowered.funcs.ids().collect();
    ready.retain(|f| !calls.contains_key(f));
    let mut met = 0;
    while let Some(f) = ready.pop() {
        met += 1;
        for callee in callees.remove(&f).unwrap_or_default() {
            if let Some(left) = calls.get_mut(&callee) {
                *left -= 1;
                if *left == 0 {
                    ready.push(callee);
                }
            }
        }
    }
    met == lowered.funcs.len()
}

/// Returns the effort for a function; `network`: of a program for which [`is_network`] holds.
pub(crate) fn of(f: &Function, network: bool) -> Effort {
    // A part of a parallel loop returns nothing, and runs many times wherever it is.
    let small = match f.signature.call_conv {
        _ if network && !f.signature.returns.is_empty() => 0,
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

/// Returns whether every block runs at most once, that is, the control-flow graph is acyclic. The
/// layout order is irrelevant, since shared failure blocks follow the first block that uses them. A
/// tail call may be recursive, and counts as a loop.
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

/// The same target with the settings for an effort; `None` where Cranelift does not accept them.
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
