//! Integers that calls pass to kernels as constants become part of the kernels.
//!
//! Zero points are such: where they are known, so are the bounds of what they are subtracted from, and
//! the arithmetic of bytes is that of floats (`relax_loops::as_byte`), or a product's
//! (`relax_loops::fused_bytes`).

use relax_loops::{
    Compute, Ex, Program, Role, Stage, drop_unused, fused_bytes, in_extents, inline_compute,
};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use crate::lir::{DataId, Inst, KernelDef, KernelId, LFunc, Lowered, Reg};

/// The most kernels that are made of one: a program may call it with any number of constants.
const MOST: usize = 16;

/// The constant inputs of a call: their positions, and numbers.
type Bound = Vec<(usize, i64)>;

/// Binds constants in all functions.
pub(crate) fn bind(out: &mut Lowered) {
    let mut made: FxHashMap<KernelId, FxHashMap<Bound, KernelId>> = FxHashMap::default();
    for id in out.funcs.ids() {
        let constants = scalars(&out.funcs[id], |data| &out.data[data]);
        if constants.is_empty() {
            continue;
        }
        let blocks = out.funcs[id].blocks.values_mut();
        for inst in blocks.flat_map(|b| &mut b.insts) {
            let Inst::Kernel { kernel, args, .. } = inst else {
                continue;
            };
            let def = &out.kernels[*kernel];
            let bound: Bound = (args.iter().enumerate())
                .filter_map(|(k, arg)| Some((k, *constants.get(arg)?)))
                .filter(|&(k, _)| takes(def, k))
                .collect();
            if bound.is_empty() {
                continue;
            }
            let known = made.entry(*kernel).or_default();
            if known.len() == MOST && !known.contains_key(&bound) {
                continue;
            }
            let kernels = &mut out.kernels;
            let new = *known.entry(bound.clone()).or_insert_with(|| {
                let mut def = kernels[*kernel].clone();
                bind_inputs(&mut def.program, &bound);
                kernels.push(def)
            });
            *kernel = new;
            for (k, _) in bound.iter().rev() {
                args.remove(*k);
            }
        }
    }
}

/// The integers of rank 0 among the constants of a function.
fn scalars<'t>(f: &LFunc, tensor: impl Fn(DataId) -> &'t Tensor) -> FxHashMap<Reg, i64> {
    let insts = f.blocks.values().flat_map(|b| &b.insts);
    insts
        .filter_map(|inst| match inst {
            Inst::Const { dst, data } => {
                let t = tensor(*data);
                let small = t.dtype().is_integral() && t.dtype().bits <= 32;
                (small && t.is_scalar()).then(|| (*dst, t.get_i64(0)))
            }
            _ => None,
        })
        .collect()
}

/// Returns whether a kernel reads an input's number alone.
fn takes(def: &KernelDef, input: usize) -> bool {
    let p = &def.program;
    let Some(&buf) = p.inputs.get(input) else {
        return false;
    };
    let hinted = || p.hints.iter().any(|(_, h)| h.operands().contains(&buf));
    !def.by_hand
        && p.bufs[buf].shape.is_empty()
        && !p.outputs.contains(&buf)
        && !hinted()
        && !in_extents(p, buf)
}

fn bind_inputs(program: &mut Program, bound: &Bound) {
    for &(k, value) in bound.iter().rev() {
        let buf = program.inputs.remove(k);
        let dtype = program.bufs[buf].dtype;
        program.bufs[buf].role = Role::Temp;
        let constant = Compute {
            out: buf,
            axes: Vec::new(),
            reduce: None,
            value: Ex::int(dtype, value),
        };
        program.insert_stage(0, Stage::Compute(constant));
        // Where it has to stay, it is a number of the kernel's own.
        let _ = inline_compute(program, 0);
    }
    drop_unused(program);
    fused_bytes::split(program);
}
