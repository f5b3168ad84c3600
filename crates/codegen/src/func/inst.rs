//! Instructions and terminators.

use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, types};
use cranelift_frontend::Switch;
use relax_lower::lir::{Alloc, Hold, Inst, Reg, Term};
use relax_runtime::abi;

use super::Emit;
use super::objects::at;
use crate::kernel::Unsupported;

impl Emit<'_, '_, '_, '_> {
    /// An instruction; a call of a kernel that data describes releases the arguments `released`.
    pub(super) fn inst(&mut self, inst: &Inst, released: u64) -> Result<(), Unsupported> {
        match inst {
            Inst::Scalar { dst, value } => {
                let v = self.scalar(value)?;
                self.set(*dst, v);
            }
            Inst::Unbox { dst, src } => self.unbox(*dst, *src),
            Inst::Box { dst, src } => self.boxed(*dst, *src),
            Inst::Const { dst, data } => {
                let v = self.object(self.program.tensors[data]);
                self.set(*dst, v);
            }
            Inst::Kernel { dsts, given, .. } if let Some((out, of)) = viewed(given) => {
                self.view(dsts[0], out, of);
            }
            Inst::Kernel { .. } if self.launches(inst) => self.launch(inst, released),
            Inst::Kernel {
                dsts,
                kernel,
                args,
                given,
                place,
            } => self.kernel(dsts, *kernel, args, given, *place),
            Inst::Tuple { dst, fields } => self.tuple(*dst, fields),
            Inst::Adt { dst, tag, fields } => self.adt(*dst, *tag, fields),
            Inst::Field { dst, src, index } => {
                let whole = self.reg(*src);
                let v = self.load(whole, at::FIELDS + 8 * *index as i32);
                if self.f.is_counted(*dst) {
                    self.retain(v);
                }
                self.set(*dst, v);
            }
            Inst::RefRead { dst, cell } => {
                let cell = self.reg(*cell);
                let v = self.load(cell, at::FIELDS);
                self.retain(v);
                self.set(*dst, v);
            }
            Inst::Closure {
                dst,
                func,
                captures,
            } => self.closure(*dst, *func, captures),
            // Read where the function starts.
            Inst::Capture { .. } | Inst::This { .. } => {}
            Inst::Call {
                dst, func, args, ..
            } => self.call_function(*dst, *func, args, inst),
            Inst::CallClosure { dst, callee, args } => self.call_closure(*dst, *callee, args, inst),
            Inst::CallPacked { dst, name, args } => self.call_packed(*dst, *name, args),
            Inst::CallDps {
                dsts,
                name,
                args,
                given,
            } => self.call_dps(dsts, *name, args, given),
            Inst::Storage { dst, bytes } => self.storage(*dst, bytes),
            Inst::Place {
                dst,
                storage,
                offset,
                tensor,
            } => self.place_tensor(*dst, *storage, offset, tensor),
            Inst::Kill { .. } => {}
            Inst::RefNew { dst, value } => {
                let value = self.reg(*value);
                let v = self.value_of(abi::rx_alloc_ref, &[self.ctx, value]);
                let v = self.checked_after(inst, v);
                self.set(*dst, v);
            }
            Inst::RefWrite { cell, value } => {
                let (cell, value) = (self.reg(*cell), self.reg(*value));
                self.call(abi::rx_ref_set, &[self.ctx, cell, value]);
            }
            Inst::Shape { dst, dims } => self.shape(*dst, dims),
            Inst::Text { dst, text } => {
                let v = self.object(self.program.texts[text]);
                self.set(*dst, v);
            }
            Inst::Dim { dst, src, axis } => {
                let v = self.extent(*src, *axis);
                self.set(*dst, v);
            }
            Inst::CheckTensor {
                src,
                rank,
                dtype,
                place,
            } => self.check_tensor(*src, *rank, *dtype, *place),
            Inst::CheckKind { src, kind, place } => self.check_kind(*src, *kind, *place),
            Inst::CheckValue {
                src,
                described,
                place,
            } => self.check_value(*src, described, *place),
            Inst::CheckDims {
                a,
                b,
                or_one,
                place,
                message,
            } => self.check_dims((a, b), *or_one, *place, *message),
            Inst::Retain(r) | Inst::Release(r) if self.owned.is_uncounted(*r) => {}
            Inst::Retain(r) => {
                let v = self.reg(*r);
                self.retain(v);
            }
            Inst::Release(r) => {
                let v = self.reg(*r);
                self.release(v);
            }
        }
        Ok(())
    }

    pub(super) fn term(&mut self, term: &Term) {
        match term {
            Term::Return(r) => {
                let v = self.reg(*r);
                if self.f.result.is_some() {
                    let well = self.b.ins().iconst(types::I64, 1);
                    self.b.ins().return_(&[well, v]);
                } else {
                    self.b.ins().return_(&[v]);
                }
            }
            Term::Jump(to, args) => {
                let args: Vec<BlockArg> =
                    args.iter().map(|&r| BlockArg::Value(self.reg(r))).collect();
                let to = self.blocks[to];
                self.b.ins().jump(to, &args);
            }
            Term::If {
                cond,
                then,
                otherwise,
            } => {
                let mut c = self.reg(*cond);
                if !matches!(self.f.hold(*cond), Hold::Scalar(_)) {
                    let data = self.load(c, at::DATA);
                    let flags = MemFlagsData::trusted();
                    c = self.b.ins().load(types::I8, flags, data, 0);
                }
                let (then, otherwise) = (self.blocks[then], self.blocks[otherwise]);
                self.b.ins().brif(c, then, &[], otherwise, &[]);
            }
            Term::Switch {
                src,
                cases,
                default,
            } => {
                let v = self.reg(*src);
                let tag = self.load32(v, at::TAG);
                let mut switch = Switch::new();
                for (tag, block) in cases {
                    switch.set_entry(u128::from(*tag), self.blocks[block]);
                }
                let default = self.blocks[default];
                switch.emit(self.b, tag, default);
            }
            Term::TailCall { func, args, .. } => {
                let mut all = vec![self.ctx];
                all.extend(args.iter().map(|&r| self.reg(r)));
                let f = self.func(self.program.funcs[func]);
                self.b.ins().return_call(f, &all);
            }
            Term::TailClosure { callee, args } => {
                let (sig, code, all) = self.closure_call(*callee, args);
                self.b.ins().return_call_indirect(sig, code, &all);
            }
            Term::NoMatch(place) => {
                let place = self.text(place.as_str());
                self.call(abi::rx_fail_match, &[self.ctx, place]);
                let cleanup = self.cleanup();
                self.b.ins().jump(cleanup, &[]);
            }
        }
    }
}

/// The result of a kernel that is a view instead, and of what.
fn viewed(given: &[Option<Alloc>]) -> Option<(&Alloc, Reg)> {
    let [Some(out)] = given else { return None };
    Some((out, out.view?))
}
