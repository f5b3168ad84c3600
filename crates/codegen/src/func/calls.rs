//! Calls: of kernels, of functions of the host, of closures.

use cranelift_codegen::ir::{InstBuilder, SigRef, Value, types};
use relax_base::Symbol;
use relax_lower::lir::{Alloc, FnId, Inst, KernelId, Reg};
use relax_runtime::abi;

use super::objects::at;
use super::{Emit, closure_signature};
use crate::profile;
use crate::scalar::words;

impl Emit<'_, '_, '_, '_> {
    /// A kernel call: given outputs are allocated first, the others by the kernel.
    pub(super) fn kernel(
        &mut self,
        dsts: &[Reg],
        kernel: KernelId,
        args: &[Reg],
        given: &[Option<Alloc>],
        place: Symbol,
    ) {
        let tensors: Vec<Value> = args.iter().map(|&r| self.reg(r)).collect();
        let inputs = words(self.b, &tensors);
        let mut outs = Vec::with_capacity(dsts.len());
        for (g, &dst) in given.iter().zip(dsts) {
            outs.push(match g {
                Some(out) => {
                    let t = self.tensor(out, Some(place));
                    // Owned from here on, so that it is released if only the next allocation fails.
                    self.set(dst, t);
                    self.owned.take(dst);
                    t
                }
                None => self.b.ins().iconst(types::I64, 0),
            });
        }
        for (g, &dst) in given.iter().zip(dsts) {
            if g.is_some() {
                self.owned.give(dst);
            }
        }
        let outs = words(self.b, &outs);
        let start =
            (self.program.profile).then(|| self.value_of(abi::rx_profile_begin, &[self.ctx]));
        let f = self.func(self.program.kernels[&kernel]);
        let call = self.b.ins().call(f, &[self.ctx, inputs, outs]);
        let status = self.b.inst_results(call)[0];
        if let Some(start) = start {
            let program = &self.program.lowered.kernels[kernel].program;
            let flops = profile::flops(self.b, self.env, program, &tensors);
            let index = self.int32(i64::from(kernel.0));
            let n = self.int32(tensors.len() as i64);
            let m = self.int32(dsts.len() as i64);
            let args = [self.ctx, index, start, inputs, n, outs, m, flops];
            self.call(abi::rx_profile_end, &args);
        }
        let (ok, bad) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(status, bad, &[], ok, &[]);
        self.b.switch_to_block(bad);
        // A hand-written program reports its own line, and the location of its call.
        let by_hand = self.program.lowered.kernels[kernel].by_hand;
        let (at, also) = (self.text(place.as_str()), self.int32(by_hand.into()));
        self.call(abi::rx_fail_at, &[self.ctx, at, also]);
        for i in 0..dsts.len() {
            // The given output, or what the kernel had allocated before it failed; else null.
            let v = self.load(outs, 8 * i as i32);
            self.call(abi::rx_release, &[self.ctx, v]);
        }
        let cleanup = self.cleanup();
        self.b.ins().jump(cleanup, &[]);
        self.b.switch_to_block(ok);
        for (i, (&dst, given)) in dsts.iter().zip(given).enumerate() {
            let v = self.load(outs, 8 * i as i32);
            if let Some(out) = given
                && out.grows
                && !self.env.checks
            {
                // The kernel read the argument's old extents.
                let extents: Vec<Value> = out.dims.iter().map(|d| self.dim(d)).collect();
                let dims = words(self.b, &extents);
                self.call(abi::rx_tensor_grown, &[v, dims]);
            }
            self.set(dst, v);
        }
    }

    /// A call of a function of the program.
    pub(super) fn call_function(&mut self, dst: Reg, func: FnId, args: &[Reg], inst: &Inst) {
        let mut all = vec![self.ctx];
        all.extend(args.iter().map(|&r| self.reg(r)));
        let f = self.func(self.program.funcs[&func]);
        let call = self.b.ins().call(f, &all);
        let results = self.b.inst_results(call).to_vec();
        self.checked_after(inst, results[0]);
        self.set(dst, results[results.len() - 1]);
    }

    /// A call of a closure.
    pub(super) fn call_closure(&mut self, dst: Reg, callee: Reg, args: &[Reg], inst: &Inst) {
        let (sig, code, all) = self.closure_call(callee, args);
        let call = self.b.ins().call_indirect(sig, code, &all);
        let v = self.b.inst_results(call)[0];
        let v = self.checked_after(inst, v);
        self.set(dst, v);
    }

    /// A call of a function of the host that returns its result.
    pub(super) fn call_packed(&mut self, dst: Reg, name: Symbol, args: &[Reg]) {
        let values: Vec<Value> = args.iter().map(|&r| self.reg(r)).collect();
        let args_at = words(self.b, &values);
        let zero = self.b.ins().iconst(types::I64, 0);
        let out = words(self.b, &[zero]);
        let (name, n) = (self.text(name.as_str()), self.int32(args.len() as i64));
        let status = self.value_of(abi::rx_call_packed, &[self.ctx, name, args_at, n, out]);
        self.checked_status(status);
        let v = self.load(out, 0);
        self.set(dst, v);
    }

    /// A call of a function of the host that writes into tensors.
    pub(super) fn call_dps(&mut self, dsts: &[Reg], name: Symbol, args: &[Reg], given: &[Alloc]) {
        let mut values: Vec<Value> = args.iter().map(|&r| self.reg(r)).collect();
        for (out, &dst) in given.iter().zip(dsts) {
            let t = self.tensor(out, None);
            self.set(dst, t);
            self.owned.take(dst);
            values.push(t);
        }
        let n = self.int32(values.len() as i64);
        let (args_at, name) = (words(self.b, &values), self.text(name.as_str()));
        let status = self.value_of(abi::rx_call_dps_packed, &[self.ctx, name, args_at, n]);
        self.checked_status(status);
        dsts.iter().for_each(|&dst| self.owned.give(dst));
    }

    /// Returns the parts of a closure call: its signature, its code, and all arguments.
    pub(super) fn closure_call(
        &mut self,
        callee: Reg,
        args: &[Reg],
    ) -> (SigRef, Value, Vec<Value>) {
        let closure = self.reg(callee);
        let mut all = vec![self.ctx, closure];
        all.extend(args.iter().map(|&r| self.reg(r)));
        let sig = self.b.import_signature(closure_signature(args.len()));
        let code = self.load(closure, at::CODE);
        (sig, code, all)
    }
}
