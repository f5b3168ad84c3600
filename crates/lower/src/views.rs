//! Results that are views: a reshape moves no element.
//!
//! The result of a kernel that only gives its argument's elements other extents may lie in the
//! argument's memory. That holds where nothing can tell the two apart: every reader is a kernel of
//! the same block, so that no caller sees memory under two names, or under a name that outlives it,
//! and nothing in between overwrites tensors that exist (hand-written memory plans, and opaque
//! code). The view has a reference to the argument, so no kernel takes either for its own while
//! both live.

use relax_base::Arena;
use relax_loops::select::copies;
use rustc_hash::FxHashMap;

use crate::lir::{Inst, KernelDef, KernelId, LFunc, Reg};

/// Marks the results of a function whose reference counting is explicit.
pub(crate) fn mark(f: &mut LFunc, kernels: &Arena<KernelId, KernelDef>) {
    let mut known: FxHashMap<KernelId, Option<usize>> = FxHashMap::default();
    let mut found = Vec::new();
    for b in f.blocks.ids() {
        for (k, inst) in f.blocks[b].insts.iter().enumerate() {
            let Inst::Kernel {
                dsts,
                kernel,
                args,
                given,
                ..
            } = inst
            else {
                continue;
            };
            let ([dst], [Some(out)]) = (&dsts[..], &given[..]) else {
                continue;
            };
            let input = *(known.entry(*kernel))
                .or_insert_with(|| copies::reshaped(&kernels[*kernel].program));
            if let Some(input) = input
                && out.place.is_none()
                && stays(&f.blocks[b].insts[k + 1..], *dst)
            {
                found.push((b, k, args[input]));
            }
        }
    }
    for (b, k, view) in found {
        if let Inst::Kernel { given, .. } = &mut f.blocks[b].insts[k] {
            given[0].as_mut().expect("a result that is allocated").view = Some(view);
        }
    }
}

/// Returns whether only kernels read a register between its definition and its release, which comes
/// in the same block, and nothing writes into tensors that exist until then.
fn stays(after: &[Inst], r: Reg) -> bool {
    for inst in after {
        match inst {
            Inst::Release(last) if *last == r => return true,
            Inst::Kernel { .. } | Inst::Release(_) => {}
            _ if inst.borrows().contains(&r) || inst.consumes().contains(&r) => return false,
            Inst::Retain(kept) if *kept == r => return false,
            _ => {}
        }
        if inst.may_overwrite() {
            return false;
        }
    }
    false
}
