//! Error paths: release the function's owned references and return null.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use relax_lower::lir::Inst;
use relax_runtime::abi;

use super::Emit;
use super::objects::at;
use crate::unwind;

impl Emit<'_, '_, '_, '_> {
    /// Continues only if the condition holds; `message` is emitted on the failing path.
    pub(super) fn require(&mut self, cond: Value, message: impl FnOnce(&mut Self)) {
        let (ok, bad) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(cond, ok, &[], bad, &[]);
        self.b.switch_to_block(bad);
        message(self);
        let cleanup = self.cleanup();
        self.b.ins().jump(cleanup, &[]);
        self.b.switch_to_block(ok);
    }

    /// Returns the block for errors at this point: it releases what the function owns here, and
    /// returns null.
    pub(super) fn cleanup(&mut self) -> Block {
        let Emit {
            b,
            owned,
            regs,
            closure,
            fail,
            pads,
            ..
        } = self;
        owned.chain(*fail, &mut |r, rest| {
            let value = match r {
                unwind::CLOSURE => closure.expect("the function has one"),
                r => regs[r].expect("registers are written before they are owned"),
            };
            let block = b.create_block();
            b.set_cold_block(block);
            pads.push((block, value, rest));
            block
        })
    }

    /// Emits the code of the blocks that [`Self::cleanup`] returned.
    pub(super) fn emit_cleanups(&mut self) {
        for (block, value, rest) in std::mem::take(&mut self.pads) {
            self.b.switch_to_block(block);
            self.call(abi::rx_release, &[self.ctx, value]);
            self.b.ins().jump(rest, &[]);
        }
    }

    /// Checks a pointer that is null if an error has been recorded.
    pub(super) fn checked(&mut self, pointer: Value) -> Value {
        let cleanup = self.cleanup();
        let ok = self.b.create_block();
        self.b.ins().brif(pointer, ok, &[], cleanup, &[]);
        self.b.switch_to_block(ok);
        pointer
    }

    /// Like [`Self::checked`], after a call that has consumed the instruction's operands.
    pub(super) fn checked_after(&mut self, inst: &Inst, pointer: Value) -> Value {
        let consumed = inst.consumes();
        consumed.iter().for_each(|&r| self.owned.give(r));
        let pointer = self.checked(pointer);
        consumed.iter().for_each(|&r| self.owned.take(r));
        pointer
    }

    /// Checks a status that is 0 on success.
    pub(super) fn checked_status(&mut self, status: Value) {
        let cleanup = self.cleanup();
        let ok = self.b.create_block();
        self.b.ins().brif(status, cleanup, &[], ok, &[]);
        self.b.switch_to_block(ok);
    }

    pub(super) fn check_stack(&mut self) {
        let limit = self.load(self.ctx, at::STACK_LIMIT);
        let sp = self.b.ins().get_stack_pointer(types::I64);
        let fine = self
            .b
            .ins()
            .icmp(IntCC::UnsignedGreaterThanOrEqual, sp, limit);
        let place = self.place();
        self.require(fine, |e| {
            let place = e.text(&place);
            e.call(abi::rx_fail_stack, &[e.ctx, place]);
        });
    }

    /// Returns the function's name in error messages.
    pub(super) fn place(&self) -> String {
        let name = self.f.name;
        match self.f.place.as_str() {
            "" => format!("@{name}"),
            at => format!("{at}: @{name}"),
        }
    }
}
