//! Attention in one kernel.
//!
//! A product, a softmax of its result and another product become one kernel where nothing else looks at what is
//! between them, and where `relax_loops::attention` finds in the joined program what the runtime's kernel
//! computes: the matrix of scores is never written then. How the three were written does not matter, their programs'
//! hints say what they are.

use relax_base::Arena;
use relax_loops::{Ex, ExKind, Hint, Program, Var, substitute};
use relax_passes::fused;
use rustc_hash::FxHashMap;

use crate::lir::{BlockId, Inst, KernelDef, KernelId, LFunc, Lowered, Reg};

/// Three kernels in a row: each one's only result is an argument of the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Chain {
    kernels: [KernelId; 3],
    /// Which input of the last one the weights are.
    at: usize,
}

/// Joins the kernels of attention in all functions.
pub(crate) fn fuse(out: &mut Lowered) {
    if !out.kernels.values().any(|k| softmax(&k.program)) {
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
        out.sweep();
    }
}

fn softmax(p: &Program) -> bool {
    let ([input], [out]) = (&p.inputs[..], &p.outputs[..]) else {
        return false;
    };
    let is = |h: &Hint| matches!(h, Hint::Softmax { data, log: false } if data == input);
    p.hints.iter().any(|(b, h)| b == out && is(h))
}

/// How often each register is read, extents not counted.
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

/// The kernel of a block that has a register as its only result.
fn maker(insts: &[Inst], r: Reg) -> Option<(usize, KernelId)> {
    insts.iter().enumerate().rev().find_map(|(k, i)| match i {
        Inst::Kernel { dsts, kernel, .. } if dsts[..] == [r] => Some((k, *kernel)),
        _ => None,
    })
}

/// Joins the kernels that end with instruction `k` of a block; everything before the result stands as it was.
fn join(
    f: &mut LFunc,
    b: BlockId,
    k: usize,
    uses: &mut FxHashMap<Reg, usize>,
    kernels: &mut Arena<KernelId, KernelDef>,
    known: &mut FxHashMap<Chain, Option<KernelId>>,
) -> Option<usize> {
    let insts = &f.blocks[b].insts;
    let Inst::Kernel {
        kernel: last, args, ..
    } = &insts[k]
    else {
        return None;
    };
    let at = weights(&kernels[*last].program)?;
    let weights = args[at];
    let (second_at, second) = maker(&insts[..k], weights)?;
    let Inst::Kernel { args: middle, .. } = &insts[second_at] else {
        return None;
    };
    if !softmax(&kernels[second].program) {
        return None;
    }
    let scores = middle[0];
    let (first_at, first) = maker(&insts[..second_at], scores)?;
    if [scores, weights].iter().any(|r| uses.get(r) != Some(&1)) {
        return None;
    }
    let extents = [extents(&insts[first_at])?, extents(&insts[second_at])?];
    let chain = Chain {
        kernels: [first, second, *last],
        at,
    };
    let joined = match known.get(&chain) {
        Some(found) => *found,
        None => {
            let found = program(kernels, chain).map(|def| kernels.push(def));
            known.insert(chain, found);
            found
        }
    }?;
    let Inst::Kernel { args: mut all, .. } = insts[first_at].clone() else {
        return None;
    };
    let mut new = insts[k].clone();
    if let Inst::Kernel { kernel, args, .. } = &mut new {
        args.remove(at);
        all.append(args);
        (*kernel, *args) = (joined, all);
    }
    f.blocks[b].insts[k] = new;
    f.blocks[b].insts.remove(second_at);
    f.blocks[b].insts.remove(first_at);
    uses.remove(&scores);
    uses.remove(&weights);
    forget(f, [(scores, &extents[0]), (weights, &extents[1])]);
    Some(first_at)
}

/// The input of a program that is the first operand of a product per batch.
fn weights(p: &Program) -> Option<usize> {
    p.hints.iter().find_map(|(_, h)| match h {
        Hint::BatchGemm {
            a,
            transpose_a: false,
            ..
        } => p.inputs.iter().position(|i| i == a),
        _ => None,
    })
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
fn program(kernels: &Arena<KernelId, KernelDef>, chain: Chain) -> Option<KernelDef> {
    let [first, second, last] = chain.kernels.map(|k| &kernels[k]);
    let scores = fused::chain(&first.program, &second.program, 0)?;
    let mut program = fused::chain(&scores, &last.program, chain.at)?;
    if relax_loops::attention::find(&program).is_empty() {
        return None;
    }
    let label = [&first.label, &second.label, &last.label].map(String::as_str);
    let label = label.join("+");
    program.name = label.as_str().into();
    Some(KernelDef {
        program,
        label,
        by_hand: false,
        parts: Vec::new(),
        accesses: Vec::new(),
    })
}

/// Reads the extents of tensors that are no more from what they would have been allocated with.
fn forget(f: &mut LFunc, gone: [(Reg, &Vec<Ex>); 2]) {
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
    // The weights' extents may be said by those of the scores.
    let whole = |e: &Ex| -> Ex {
        let mut e = e.clone();
        for _ in 0..2 {
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
