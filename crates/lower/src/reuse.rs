//! Memory planning: results that reuse the memory of an argument.
//!
//! A kernel that computes an element of its result from the same element of an argument may write
//! into that argument's memory if it is dead afterwards. So may one whose result begins with the
//! argument and extends it along the first axis (a cache that grows by a row), where the argument's
//! block is large enough. So may a convolution whose epilogue adds the argument, where its kernel
//! writes each element once: the back end decides which do. That it is the last use is determined
//! here; that the tensor has no other owners is checked at run time, by its reference count.
//! Everything else is left to the heap: dead values are released at once, and their blocks serve
//! the next tensors of that size.

use relax_loops::epilogue::{self, Fused};
use relax_loops::{Buf, Ex, ExKind, Hint, Program, Stage, visit_expr};

use crate::lir::{Inst, KernelDef, KernelId, LFunc};
use relax_base::Arena;
use rustc_hash::FxHashMap;

/// Assigns reused memory to results in a function whose reference counting is explicit.
pub(crate) fn plan(f: &mut LFunc, kernels: &Arena<KernelId, KernelDef>) {
    let mut known: FxHashMap<KernelId, Vec<Vec<(usize, bool)>>> = FxHashMap::default();
    for block in f.blocks.values_mut() {
        for k in 0..block.insts.len() {
            let (before, after) = block.insts.split_at_mut(k + 1);
            let Inst::Kernel {
                kernel,
                args,
                given,
                ..
            } = &mut before[k]
            else {
                continue;
            };
            // The last use of an argument: it is released right after.
            let dies = |r| {
                (after.iter())
                    .take_while(|i| matches!(i, Inst::Release(_)))
                    .any(|i| *i == Inst::Release(r))
            };
            let fit = known
                .entry(*kernel)
                .or_insert_with(|| element_wise(&kernels[*kernel].program));
            let mut taken = Vec::new();
            for (out, fit) in given.iter_mut().zip(&*fit) {
                // A view lies in its argument's memory as it is.
                let Some(out) = out.as_mut().filter(|out| out.view.is_none()) else {
                    continue;
                };
                let place = fit
                    .iter()
                    .map(|&(i, grows)| (args[i], grows))
                    .find(|(r, _)| {
                        // An argument that occurs twice must fit at each position.
                        let fits = (args.iter().enumerate())
                            .all(|(i, a)| a != r || fit.iter().any(|f| f.0 == i));
                        fits && !taken.contains(r) && dies(*r)
                    });
                taken.extend(place.map(|p| p.0));
                out.reuse = place.map(|p| p.0);
                out.grows = place.is_some_and(|p| p.1);
            }
        }
    }
}

/// Returns for each output the inputs whose memory it may reuse: those of its element type and
/// extents that only its own stage reads, each element for the same element of the output; and
/// whether the output is longer.
fn element_wise(p: &Program) -> Vec<Vec<(usize, bool)>> {
    (p.outputs.iter())
        .map(|&o| {
            let inputs = p.inputs.iter().enumerate();
            let mut fit: Vec<(usize, bool)> = inputs
                .filter(|(_, i)| may_share(p, o, **i))
                .map(|(k, i)| (k, p.bufs[*i].shape != p.bufs[o].shape))
                .collect();
            fit.sort_by_key(|f| f.1);
            fit
        })
        .collect()
}

/// Returns whether two shapes are the same except for the first extent.
fn same_rows(a: &[Ex], b: &[Ex]) -> bool {
    a.len() == b.len() && !a.is_empty() && a[1..] == b[1..]
}

fn may_share(p: &Program, out: Buf, input: Buf) -> bool {
    let (o, i) = (&p.bufs[out], &p.bufs[input]);
    let fits = o.shape == i.shape || same_rows(&o.shape, &i.shape);
    if o.dtype != i.dtype || !fits {
        return false;
    }
    if !p.hints.is_empty() {
        return o.shape == i.shape && is_residual(p, out, input);
    }
    let mut writers = 0;
    for stage in &p.stages {
        match stage {
            Stage::Compute(c) if c.out == out => {
                writers += 1;
                let mut fine = c.reduce.is_none();
                visit_expr(&c.value, |e| match e.kind() {
                    ExKind::Load(b, index) if *b == input => {
                        fine &= index.iter().zip(&c.axes).all(|(e, v)| is_var(e, *v));
                    }
                    ExKind::Load(b, _) if *b == out => fine = false,
                    _ => {}
                });
                if !fine {
                    return false;
                }
            }
            _ if relax_loops::reads_buffer(stage, input) => return false,
            Stage::Compute(_) => {
                if relax_loops::reads_buffer(stage, out) {
                    return false;
                }
            }
            stage if stage.is_guard() => {}
            // A nest may write anything.
            Stage::Nest(_) => return false,
        }
    }
    writers == 1
}

/// Returns whether the only use of an input is as the residual of the convolution that writes an
/// output.
fn is_residual(p: &Program, out: Buf, input: Buf) -> bool {
    let adds = |f: &Fused| {
        let written = |k: usize| match &p.stages[k] {
            Stage::Compute(c) => Some(c.out),
            Stage::Nest(_) => None,
        };
        let conv = p.hints.iter().any(|(b, h)| {
            matches!(h, Hint::Conv2d { .. } | Hint::Depthwise3d { .. })
                && Some(*b) == written(f.producer)
                && !h.operands().contains(&input)
        });
        let readers = p.stages.iter().enumerate();
        conv && written(f.consumer) == Some(out)
            && f.epilogue.residual == Some(input)
            && readers
                .filter(|(_, s)| relax_loops::reads_buffer(s, input))
                .all(|(k, _)| k == f.consumer)
    };
    epilogue::find(p).iter().any(adds)
}

fn is_var(e: &Ex, v: relax_loops::Var) -> bool {
    matches!(e.kind(), ExKind::Var(w) if *w == v)
}
