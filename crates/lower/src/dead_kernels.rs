//! Removal of unused kernels and constants.

use relax_base::Arena;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::lir::{DataId, Inst, KernelId, Lowered, Reg};

impl Lowered {
    /// Removes unused kernels and constants, and renumbers the others. Returns the new numbers of
    /// kernels.
    pub fn remove_dead_kernels(&mut self) -> FxHashMap<KernelId, KernelId> {
        let (mut kernels, mut data) = (FxHashSet::default(), FxHashSet::default());
        for f in self.funcs.values_mut() {
            let mut read: FxHashSet<Reg> = FxHashSet::default();
            for block in f.blocks.values() {
                for inst in &block.insts {
                    if let Inst::Kernel { kernel, .. } = inst {
                        kernels.insert(*kernel);
                    }
                    read.extend(inst.borrows());
                    read.extend(inst.consumes());
                }
                read.extend(block.term.borrows());
                read.extend(block.term.consumes());
            }
            let mut dead = FxHashSet::default();
            for inst in f.blocks.values().flat_map(|b| &b.insts) {
                match inst {
                    Inst::Const { dst, data: id } if read.contains(dst) => {
                        data.insert(*id);
                    }
                    Inst::Const { dst, .. } => {
                        dead.insert(*dst);
                    }
                    _ => {}
                }
            }
            for block in f.blocks.values_mut() {
                block.insts.retain(|inst| match inst {
                    Inst::Const { dst: r, .. } | Inst::Retain(r) | Inst::Release(r) => {
                        !dead.contains(r)
                    }
                    _ => true,
                });
            }
        }
        let kernels = keep(&mut self.kernels, |id| kernels.contains(&id));
        let data: FxHashMap<DataId, DataId> = keep(&mut self.data, |id| data.contains(&id));
        for inst in
            (self.funcs.values_mut()).flat_map(|f| f.blocks.values_mut().flat_map(|b| &mut b.insts))
        {
            match inst {
                Inst::Kernel { kernel, .. } => *kernel = kernels[kernel],
                Inst::Const { data: id, .. } => *id = data[id],
                _ => {}
            }
        }
        kernels
    }
}

/// Returns the new numbers of the remaining items.
fn keep<I: relax_base::Id + Eq + std::hash::Hash, T: Clone>(
    items: &mut Arena<I, T>,
    stays: impl Fn(I) -> bool,
) -> FxHashMap<I, I> {
    let old = std::mem::take(items);
    let stay = old.iter().filter(|(id, _)| stays(*id));
    stay.map(|(id, item)| (id, items.push(item.clone())))
        .collect()
}
