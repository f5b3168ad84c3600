//! Registers with a place in memory: those that hold their value over very many instructions.
//!
//! Allocating registers takes time for each value that is alive in a block, at every block. In a function with thousands of
//! parameters that are checked one after the other that is the square of their number; such values lie in the frame
//! from the start, where they would end up anyway.

use cranelift_codegen::ir::{InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value, types};
use relax_base::SideTable;
use relax_lower::lir::{LFunc, Reg};

use super::{Emit, held};

/// Functions with fewer registers are left to the allocator.
const MANY: usize = 400;
/// A value is kept in memory when it is used so many instructions later.
const FAR: usize = 100;

/// Which registers have a place.
pub(super) struct Homes {
    slots: SideTable<Reg, Option<StackSlot>>,
    many: bool,
    /// How many instructions came before, ends of blocks counted too.
    pub at: usize,
}

impl Homes {
    pub(super) fn new(f: &LFunc) -> Homes {
        Homes {
            slots: SideTable::default(),
            many: f.regs.len() > MANY,
            at: 0,
        }
    }
}

/// Where a value is to be had.
#[derive(Clone, Copy)]
pub(super) enum Held {
    Value(Value),
    Home(Reg, StackSlot),
}

impl Emit<'_, '_, '_, '_> {
    /// The value of a register.
    pub(super) fn reg(&mut self, r: Reg) -> Value {
        let held = self.whereabouts(r);
        self.have(held)
    }

    /// Where the value of a register is.
    pub(super) fn whereabouts(&self, r: Reg) -> Held {
        match self.homes.slots[r] {
            Some(slot) => Held::Home(r, slot),
            None => {
                let value = self.regs[r];
                Held::Value(value.expect("registers are written before they are read"))
            }
        }
    }

    /// The value that is there.
    pub(super) fn have(&mut self, at: Held) -> Value {
        match at {
            Held::Value(v) => v,
            Held::Home(r, slot) => {
                let ty = held(self.f.hold(r));
                self.b.ins().stack_load(types::I64, ty, slot, 0)
            }
        }
    }

    /// Gives a register its value.
    pub(super) fn set(&mut self, r: Reg, v: Value) {
        self.regs.set(r, Some(v));
        if !self.homes.many {
            return;
        }
        let dies = self.owned.death(r).unwrap_or(usize::MAX);
        if self.homes.slots[r].is_none() && dies.saturating_sub(self.homes.at) > std::env::var("FAR").ok().and_then(|v| v.parse().ok()).unwrap_or(FAR) {
            let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3);
            let slot = self.b.create_sized_stack_slot(slot);
            self.homes.slots.set(r, Some(slot));
        }
        if let Some(slot) = self.homes.slots[r] {
            self.b.ins().stack_store(types::I64, v, slot, 0);
        }
    }
}
