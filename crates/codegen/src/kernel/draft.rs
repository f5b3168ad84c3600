//! C structures on the stack, the descriptors for runtime kernels.
//!
//! A structure is drafted field by field, and written when its address is taken: constants are
//! copied from read-only data at once, the rest is stored over them.

use std::marker::PhantomData;

use cranelift_codegen::ir::{
    Function, InstBuilder, InstructionData, MemFlagsData, StackSlot, StackSlotData, StackSlotKind,
    Value, ValueDef, types,
};
use relax_runtime::abi::{CStructure, Field};

use super::Kernel;
use crate::env::clif_type;
use crate::settle::constant;

/// Words up to which each is stored individually.
const FEW: usize = 6;

/// A structure `S` of the runtime, whose fields are 0 until they are put.
pub(super) struct Descriptor<S>(StackSlot, PhantomData<S>);

/// The fields put into a structure since its address was last taken.
pub(super) struct Draft {
    /// The constant fields; `None` once they are written.
    known: Option<Vec<u8>>,
    /// The offsets and values of the other fields.
    others: Vec<(i32, Value)>,
}

impl Kernel<'_, '_, '_> {
    pub(super) fn structure<S: CStructure>(&mut self) -> Descriptor<S> {
        let bytes = size_of::<S>();
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        let known = Some(vec![0; bytes.next_multiple_of(8)]);
        let others = Vec::new();
        self.drafts.insert(slot, Draft { known, others });
        Descriptor(slot, PhantomData)
    }

    /// Puts numbers and pointers, in this order.
    ///
    /// # Panics
    /// A value's type differs from its field's.
    pub(super) fn put<S>(
        &mut self,
        f: &Descriptor<S>,
        fields: impl IntoIterator<Item = (Field<S>, Value)>,
    ) {
        for (field, v) in fields {
            let found = self.b.func.dfg.value_type(v);
            assert_eq!(clif_type(field.word), found, "a field of another type");
            self.put_at(f, field.offset as i32, v);
        }
    }

    fn put_at<S>(&mut self, f: &Descriptor<S>, at: i32, v: Value) {
        let bytes = known_bytes(self.b.func, v);
        let Some(draft) = self.drafts.get_mut(&f.0) else {
            return;
        };
        draft.others.retain(|o| o.0 != at);
        match (bytes, &mut draft.known) {
            (Some(bytes), Some(known)) => {
                known[at as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
            _ => draft.others.push((at, v)),
        }
    }

    /// Puts integers.
    pub(super) fn put_ints<S>(
        &mut self,
        f: &Descriptor<S>,
        fields: impl IntoIterator<Item = (Field<S>, i64)>,
    ) {
        for (field, n) in fields {
            let v = self.b.ins().iconst(clif_type(field.word), n);
            self.put(f, [(field, v)]);
        }
    }

    /// The address of a structure with all fields put so far.
    pub(super) fn address_of<S>(&mut self, f: &Descriptor<S>) -> Value {
        let Some(draft) = self.drafts.get_mut(&f.0) else {
            return self.b.ins().stack_addr(types::I64, f.0, 0);
        };
        let (known, others) = (draft.known.take(), std::mem::take(&mut draft.others));
        if let Some(known) = known {
            self.write_known(f, known, &others);
        }
        let to = self.b.ins().stack_addr(types::I64, f.0, 0);
        for (at, v) in others {
            self.b.ins().store(MemFlagsData::trusted(), v, to, at);
        }
        to
    }

    /// Writes the constant words, except those that are overwritten entirely.
    fn write_known<S>(&mut self, f: &Descriptor<S>, known: Vec<u8>, others: &[(i32, Value)]) {
        let dfg = &self.b.func.dfg;
        let whole =
            |at: i32| (others.iter()).any(|&(o, v)| o == at && dfg.value_type(v).bytes() == 8);
        let words: Vec<(i32, i64)> = (known.chunks_exact(8).enumerate())
            .map(|(k, w)| (8 * k as i32, w.try_into().map_or(0, i64::from_le_bytes)))
            .filter(|w| !whole(w.0))
            .collect();
        if words.len() <= FEW {
            let to = self.b.ins().stack_addr(types::I64, f.0, 0);
            for (at, word) in words {
                let word = self.b.ins().iconst(types::I64, word);
                self.b.ins().store(MemFlagsData::trusted(), word, to, at);
            }
            return;
        }
        let n = self.b.ins().iconst(types::I64, known.len() as i64);
        let from = self.env.numbers(known, self.b.func);
        let from = self.b.ins().symbol_value(types::I64, from);
        let to = self.b.ins().stack_addr(types::I64, f.0, 0);
        self.scalars().call(crate::outside::memcpy, &[to, from, n]);
    }
}

/// The bytes of a constant, in the byte order of all supported targets.
fn known_bytes(f: &Function, v: Value) -> Option<Vec<u8>> {
    let ty = f.dfg.value_type(v);
    if let Some(n) = constant(f, v) {
        return Some(n.to_le_bytes()[..ty.bytes() as usize].to_vec());
    }
    match f.dfg.value_def(f.dfg.resolve_aliases(v)) {
        ValueDef::Result(inst, _) => match f.dfg.insts[inst] {
            InstructionData::UnaryIeee32 { imm, .. } => Some(imm.bits().to_le_bytes().to_vec()),
            _ => None,
        },
        _ => None,
    }
}
