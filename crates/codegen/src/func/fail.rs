//! Where errors go: what the function owns is released, and it returns null.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use relax_lower::lir::Inst;
use relax_runtime::abi;

use super::Emit;
use super::objects::at;
use crate::unwind;

impl Emit<'_, '_, '_, '_> {
    /// Goes on only when the condition holds; `message` is emitted on the other way, which fails.
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

    /// Returns where an error goes: a block that releases what the function owns here, and returns
    /// null.
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

    /// The code behind the blocks that [`Self::cleanup`] handed out.
    pub(super) fn emit_cleanups(&mut self) {
        for (block, value, rest) in std::mem::take(&mut self.pads) {
            self.b.switch_to_block(block);
            self.call(abi::rx_release, &[self.ctx, value]);
            self.b.ins().jump(rest, &[]);
        }
    }

    /// A pointer that is null when the error is recorded already.
    pub(super) fn checked(&mut self, pointer: Value) -> Value {
        let cleanup = self.cleanup();
        let ok = self.b.create_block();
        self.b.ins().brif(pointer, ok, &[], cleanup, &[]);
        self.b.switch_to_block(ok);
        pointer
    }

    /// As [`Self::checked`], after a call that has taken over what the instruction consumes.
    pub(super) fn checked_after(&mut self, inst: &Inst, pointer: Value) -> Value {
        let consumed = inst.consumes();
        consumed.iter().for_each(|&r| self.owned.give(r));
        let pointer = self.checked(pointer);
        consumed.iter().for_each(|&r| self.owned.take(r));
        pointer
    }

    /// A status that is 0 when all is well.
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

    /// Returns how errors name this function.
    pub(super) fn place(&self) -> String {
        let name = self.f.name;
        match self.f.place.as_str() {
            "" => format!("@{name}"),
            at => format!("{at}: @{name}"),
        }
    }
}
