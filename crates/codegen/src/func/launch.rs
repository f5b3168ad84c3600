//! Calls of kernels that read-only data describes, which the runtime makes.

use std::mem::offset_of;

use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use cranelift_module::{DataDescription, DataId, FuncId};
use relax_lower::lir::{Alloc, Inst};
use relax_runtime::abi;
use relax_runtime::launch::{BY_KERNEL, RxLaunch, word_of};

use super::Emit;
use crate::env::{Env, put};
use crate::kernel::dl_dtype;
use crate::scalar::words;

/// Inputs that a call can release: the bits of `RxLaunch::released`.
const MOST_RELEASED: usize = 64;

/// Returns the word of a result, without its extents.
fn word(given: Option<&Alloc>) -> i64 {
    given.map_or(BY_KERNEL, |out| {
        let (dtype, rank) = (dl_dtype(out.dtype) as u32, out.dims.len() as u16);
        word_of(dtype, rank, out.reuse.is_some())
    })
}

/// `RxLaunch` of the runtime: a call of a kernel at a place in the source.
fn described(
    env: &mut Env<'_>,
    (kernel, place): (FuncId, &str),
    (also, results, released): (bool, usize, u64),
) -> DataId {
    let mut bytes = vec![0; size_of::<RxLaunch>()];
    for (at, number) in [
        (offset_of!(RxLaunch, also), i32::from(also)),
        (offset_of!(RxLaunch, results), results as i32),
    ] {
        put(&mut bytes, at, number.to_le_bytes());
    }
    let at = offset_of!(RxLaunch, released);
    put(&mut bytes, at, released.to_le_bytes());
    let place = env.text_data(place);
    let mut data = DataDescription::new();
    data.define(bytes.into());
    data.set_align(8);
    let f = env.module.declare_func_in_data(kernel, &mut data);
    data.write_function_addr(offset_of!(RxLaunch, kernel) as u32, f);
    let gv = env.module.declare_data_in_data(place, &mut data);
    data.write_data_addr(offset_of!(RxLaunch, place) as u32, gv, 0);
    env.launch_count += 1;
    let name = format!("relax.launch.{}", env.launch_count);
    env.fresh(&name, false, &data)
}

impl Emit<'_, '_, '_, '_> {
    /// Returns whether the runtime makes the call: results that grow in place or lie in a block of
    /// memory need code of their own, as does measuring.
    pub(super) fn launches(&self, inst: &Inst) -> bool {
        let Inst::Kernel { given, .. } = inst else {
            return false;
        };
        let plain = |out: &Alloc| {
            !out.grows
                && out.place.is_none()
                && out.view.is_none()
                && out.dims.len() <= usize::from(u16::MAX)
        };
        !self.program.profile && given.iter().flatten().all(plain)
    }

    /// Returns which arguments a call releases: those that the next instructions release, and how
    /// many of these instructions that makes unnecessary.
    pub(super) fn released(&self, inst: &Inst, after: &[Inst]) -> (u64, usize) {
        let Inst::Kernel { args, .. } = inst else {
            return (0, 0);
        };
        if !self.launches(inst) {
            return (0, 0);
        }
        let (mut released, mut done) = (0u64, 0);
        for inst in after {
            let Inst::Release(r) = inst else { break };
            if !self.owned.is_uncounted(*r) {
                let fresh = |k: usize| released & (1 << k) == 0;
                let at = (args.iter().take(MOST_RELEASED).enumerate())
                    .find(|(k, arg)| *arg == r && fresh(*k));
                let Some((k, _)) = at else { break };
                released |= 1 << k;
            }
            done += 1;
        }
        (released, done)
    }

    /// A call by the runtime.
    pub(super) fn launch(&mut self, inst: &Inst, released: u64) {
        let Inst::Kernel {
            dsts,
            kernel,
            args,
            given,
            place,
        } = inst
        else {
            return;
        };
        let tensors: Vec<Value> = args.iter().map(|&r| self.reg(r)).collect();
        let inputs = words(self.b, &tensors);
        let size = 8 * dsts.len().max(1) as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        let outs = self.b.ins().stack_addr(types::I64, slot, 0);
        for (i, out) in given.iter().enumerate() {
            if let Some(dead) = out.as_ref().and_then(|out| out.reuse) {
                let dead = self.reg(dead);
                self.store(dead, outs, 8 * i as i32);
            }
        }
        let mut all = Vec::new();
        for out in given {
            all.push(self.b.ins().iconst(types::I64, word(out.as_ref())));
            let dims = out.iter().flat_map(|out| &out.dims);
            all.extend(dims.map(|d| self.dim(d)));
        }
        let all = self.scalars().numbers(&all);
        let by_hand = self.program.lowered.kernels[*kernel].by_hand;
        let call = (self.program.kernels[kernel], place.as_str());
        let launch = described(self.env, call, (by_hand, dsts.len(), released));
        let launch = self.object(launch);
        let args = [self.ctx, launch, inputs, outs, all];
        let status = self.value_of(abi::rx_launch, &args);
        self.checked_status(status);
        for (i, &dst) in dsts.iter().enumerate() {
            let v = self.load(outs, 8 * i as i32);
            self.set(dst, v);
        }
    }
}
