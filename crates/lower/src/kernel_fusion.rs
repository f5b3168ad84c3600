//! Fusion of consecutive kernels into one that the runtime has, without the intermediates in
//! memory: those that `relax_loops::select::joined` names. The intermediates must have no other
//! uses. Programs that have been through `select-kernels` are joined already.

use relax_base::Arena;
use relax_loops::select::joined::{Joined, arguments};
use relax_loops::{Ex, ExKind, Program, Var, substitute};
use rustc_hash::FxHashMap;

use crate::lir::{BlockId, Inst, KernelDef, KernelId, LFunc, Lowered, Reg};

/// Consecutive kernels: each one's only result is an argument of the next.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Chain {
    kernels: Vec<KernelId>,
    /// The input that receives the previous kernel's result, for all but the first.
    inputs: Vec<usize>,
}

/// Joins kernels in all functions.
pub(crate) fn fuse(out: &mut Lowered) {
    let ends = |k: &KernelDef| !Joined::ending_with(&k.program).is_empty();
    if !out.kernels.values().any(ends) {
        return;
    }
    let mut known: FxHashMap<Chain, Option<KernelId>> = FxHashMap::default();
    let mut changed = false;
    for id in out.funcs.ids() {
        let f = &mut out.funcs[id];
        let blocks: Vec<BlockId> = f.blocks.ids().collect();
        let mut uses = uses(f);
        for b in blocks {
            let mut k = 0;
            while k < f.blocks[b].insts.len() {
                match join(f, b, k, &mut uses, &mut out.kernels, &mut known) {
                    Some(at) => (k, changed) = (at, true),
                    None => k += 1,
                }
            }
        }
    }
    if changed {
        out.remove_dead_kernels();
    }
}

/// Returns how often each register is read, extents not counted.
fn uses(f: &LFunc) -> FxHashMap<Reg, usize> {
    let mut found = FxHashMap::default();
    for block in f.blocks.values() {
        let insts = block
            .insts
            .iter()
            .filter(|i| !matches!(i, Inst::Dim { .. }));
        let read = insts.flat_map(|i| i.borrows().into_iter().chain(i.consumes()));
        let end = (block.term.borrows().into_iter()).chain(block.term.consumes());
        for r in read.chain(end) {
            *found.entry(r).or_insert(0) += 1;
        }
    }
    found
}

/// The kernel of a block whose only result is a register.
fn maker(insts: &[Inst], r: Reg) -> Option<(usize, KernelId)> {
    insts.iter().enumerate().rev().find_map(|(k, i)| match i {
        Inst::Kernel { dsts, kernel, .. } if dsts[..] == [r] => Some((k, *kernel)),
        _ => None,
    })
}

/// Joins the kernels that end with instruction `k` of a block; the instructions before the result
/// are unchanged.
fn join(
    f: &mut LFunc,
    b: BlockId,
    k: usize,
    uses: &mut FxHashMap<Reg, usize>,
    kernels: &mut Arena<KernelId, KernelDef>,
    known: &mut FxHashMap<Chain, Option<KernelId>>,
) -> Option<usize> {
    let Inst::Kernel { kernel, .. } = &f.blocks[b].insts[k] else {
        return None;
    };
    let ends = Joined::ending_with(&kernels[*kernel].program);
    (ends.into_iter()).find_map(|end| join_as(end, f, (b, k), uses, kernels, known))
}

fn join_as(
    (whole, input): (Joined, usize),
    f: &mut LFunc,
    (b, k): (BlockId, usize),
    uses: &mut FxHashMap<Reg, usize>,
    kernels: &mut Arena<KernelId, KernelDef>,
    known: &mut FxHashMap<Chain, Option<KernelId>>,
) -> Option<usize> {
    let insts = &f.blocks[b].insts;
    let parts = |at: usize| match &insts[at] {
        Inst::Kernel { kernel, args, .. } => Some((*kernel, args)),
        _ => None,
    };
    // The registers between them, from the last to the first.
    let mut between = Vec::new();
    let before = |&(at, _): &(usize, KernelId), input: usize| {
        let r = parts(at)?.1[input];
        let made = maker(&insts[..at], r).filter(|_| uses.get(&r) == Some(&1))?;
        between.push((r, extents(&insts[made.0])?));
        Some(made)
    };
    let program_of = |&(_, kernel): &(usize, KernelId)| Some(&kernels[kernel].program);
    let (found, inputs) = whole.walk(((k, parts(k)?.0), input), before, program_of)?;
    let (places, chain): (Vec<usize>, Vec<KernelId>) = found.into_iter().unzip();
    // All arguments are read at the position of the last one.
    if insts[places[0]..k].iter().any(Inst::may_overwrite) {
        return None;
    }
    let chain = Chain {
        kernels: chain,
        inputs,
    };
    let joined = match known.get(&chain) {
        Some(found) => *found,
        None => {
            let found = program(kernels, &chain, whole).map(|def| kernels.push(def));
            known.insert(chain.clone(), found);
            found
        }
    }?;
    let args = places.iter().filter_map(|&at| Some(&parts(at)?.1[..]));
    let all: Vec<Reg> = arguments(args, &chain.inputs);
    let mut new = insts[k].clone();
    if let Inst::Kernel { kernel, args, .. } = &mut new {
        (*kernel, *args) = (joined, all);
    }
    f.blocks[b].insts[k] = new;
    for &at in places[..places.len() - 1].iter().rev() {
        f.blocks[b].insts.remove(at);
    }
    for (r, _) in &between {
        uses.remove(r);
    }
    forget(f, &between);
    Some(places[0])
}

/// The extents of a kernel's result, where its caller allocates it.
fn extents(inst: &Inst) -> Option<Vec<Ex>> {
    match inst {
        Inst::Kernel { given, .. } => match &given[..] {
            [Some(out)] if out.place.is_none() => Some(out.dims.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The joined program, when the runtime has a kernel for it.
fn program(
    kernels: &Arena<KernelId, KernelDef>,
    chain: &Chain,
    whole: Joined,
) -> Option<KernelDef> {
    let parts: Vec<&KernelDef> = chain.kernels.iter().map(|k| &kernels[*k]).collect();
    let programs: Vec<&Program> = parts.iter().map(|k| &k.program).collect();
    let mut program = whole.join(&programs, &chain.inputs)?;
    let labels: Vec<&str> = parts.iter().map(|k| k.label.as_str()).collect();
    let label = labels.join("+");
    program.name = label.as_str().into();
    Some(KernelDef {
        program,
        label,
        by_hand: false,
        // The caller allocates the output as it did the last kernel's, with the program's own
        // extents.
        holds_outputs: false,
        parts: Vec::new(),
        accesses: Vec::new(),
    })
}

/// Replaces the extents of removed tensors by those that they would have been allocated with.
fn forget(f: &mut LFunc, gone: &[(Reg, Vec<Ex>)]) {
    let mut known: FxHashMap<Var, Ex> = FxHashMap::default();
    for block in f.blocks.values_mut() {
        block.insts.retain(|inst| {
            let Inst::Dim { dst, src, axis } = inst else {
                return true;
            };
            let Some((_, dims)) = gone.iter().find(|g| g.0 == *src) else {
                return true;
            };
            known.insert(Var(dst.0), dims[*axis as usize].clone());
            false
        });
    }
    if known.is_empty() {
        return;
    }
    // The extents of one may refer to those of the one before.
    let whole = |e: &Ex| -> Ex {
        let mut e = e.clone();
        for _ in 0..gone.len() {
            e = substitute(&e, &|v| known.get(&v).cloned());
        }
        e
    };
    for inst in f.blocks.values_mut().flat_map(|b| &mut b.insts) {
        inst.dims_mut(&mut |e| {
            let mut reads = false;
            relax_loops::visit_expr(e, |x| {
                reads |= matches!(x.kind(), ExKind::Var(v) if known.contains_key(v));
            });
            if reads {
                *e = whole(e);
            }
        });
    }
}
