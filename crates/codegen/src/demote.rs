//! Spills values of very large functions to the stack between blocks, as LLVM's pass reg2mem does.
//!
//! The time of Cranelift's register allocation grows with the number of blocks times the values
//! live across each, in its single-pass allocator too. Extreme cases are sums of thousands of
//! parameters that are unpacked first, or tuples of thousands of fields, whose values all live
//! across all checks. Such a function spends its run time in its callees. Here a value that another
//! block uses is stored at its definition and loaded at its uses, so that nothing is live across
//! blocks.
//!
//! Invariant: the function's behaviour is unchanged. A value's definition comes before each of its
//! uses, so each load reads what was stored.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{
    Block, Function, InstBuilder, InstructionData, MemFlagsData, Opcode, StackSlot, StackSlotData,
    StackSlotKind, Value, ValueDef, types,
};
use rustc_hash::FxHashMap;

/// Bytes per value in the stack slot: the size and alignment of the widest type.
const STRIDE: u32 = 16;

/// Stores the values that are used outside the block that defines them, and loads them at their
/// uses.
pub(crate) fn demote(f: &mut Function) {
    f.dfg.resolve_all_aliases();
    let mut places: FxHashMap<Value, u32> = FxHashMap::default();
    let mut stored: Vec<Value> = Vec::new();
    for block in f.layout.blocks() {
        for inst in f.layout.block_insts(block) {
            for v in f.dfg.inst_values(inst) {
                if lives_across(f, v, block) {
                    places.entry(v).or_insert_with(|| {
                        stored.push(v);
                        STRIDE * (stored.len() as u32 - 1)
                    });
                }
            }
        }
    }
    if stored.is_empty() {
        return;
    }
    let size = STRIDE * stored.len() as u32;
    let align = STRIDE.trailing_zeros() as u8;
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, align);
    let slot = f.create_sized_stack_slot(slot);
    // Uses first: the stores added below are uses in the defining block.
    let blocks: Vec<Block> = f.layout.blocks().collect();
    for block in blocks {
        load_uses(f, block, &places, slot);
    }
    for v in stored {
        store(f, v, places[&v], slot);
    }
}

/// Returns whether a value is defined in another block than the user's. Constants are
/// rematerialised at each use anyway.
fn lives_across(f: &Function, v: Value, user: Block) -> bool {
    match f.dfg.value_def(v) {
        ValueDef::Result(inst, _) => {
            let constant = matches!(
                f.dfg.insts[inst],
                InstructionData::UnaryImm {
                    opcode: Opcode::Iconst,
                    ..
                }
            );
            !constant && f.layout.inst_block(inst) != Some(user)
        }
        ValueDef::Param(block, _) => block != user,
        ValueDef::Union(..) => false,
    }
}

/// Loads the values of other blocks that a block uses, before their first use there.
fn load_uses(f: &mut Function, block: Block, places: &FxHashMap<Value, u32>, slot: StackSlot) {
    let mut loaded: FxHashMap<Value, Value> = FxHashMap::default();
    let mut next = f.layout.first_inst(block);
    while let Some(inst) = next {
        next = f.layout.next_inst(inst);
        let used: Vec<Value> = f.dfg.inst_values(inst).collect();
        for v in used {
            let Some(&place) = places.get(&v) else {
                continue;
            };
            if loaded.contains_key(&v) || !lives_across(f, v, block) {
                continue;
            }
            let ty = f.dfg.value_type(v);
            let mut at = FuncCursor::new(f).at_inst(inst);
            let address = at.ins().stack_addr(types::I64, slot, place as i32);
            let flags = MemFlagsData::trusted();
            loaded.insert(v, at.ins().load(ty, flags, address, 0));
        }
        f.dfg
            .map_inst_values(inst, |v| loaded.get(&v).copied().unwrap_or(v));
    }
}

/// Stores a value after its definition.
fn store(f: &mut Function, v: Value, place: u32, slot: StackSlot) {
    let mut at = match f.dfg.value_def(v) {
        ValueDef::Result(inst, _) => FuncCursor::new(f).after_inst(inst),
        ValueDef::Param(block, _) => FuncCursor::new(f).at_first_insertion_point(block),
        ValueDef::Union(..) => return,
    };
    let address = at.ins().stack_addr(types::I64, slot, place as i32);
    at.ins().store(MemFlagsData::trusted(), v, address, 0);
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::{settings, verify_function};

    use super::*;
    use crate::testing::function;

    #[test]
    fn nothing_lives_across_a_block() {
        let params = [types::I64, types::F32, types::I8];
        let mut f = function(&params, types::F32, |b, params| {
            let [yes, no, end] = [(); 3].map(|()| b.create_block());
            let joined = b.append_block_param(end, types::F32);
            let [n, x, c] = [0, 1, 2].map(|k| params[k]);
            let m = b.ins().iadd(n, n);
            b.ins().brif(c, yes, &[], no, &[]);
            b.switch_to_block(yes);
            let y = b.ins().fcvt_from_sint(types::F32, m);
            let z = b.ins().fadd(y, x);
            b.ins().jump(end, &[z.into()]);
            b.switch_to_block(no);
            b.ins().jump(end, &[x.into()]);
            b.switch_to_block(end);
            b.ins().fmul(joined, x)
        });
        demote(&mut f);
        let flags = settings::Flags::new(settings::builder());
        verify_function(&f, &flags).unwrap_or_else(|e| panic!("{e}\n{f}"));
        for block in f.layout.blocks() {
            for inst in f.layout.block_insts(block) {
                let mut used = f.dfg.inst_values(inst);
                assert!(!used.any(|v| lives_across(&f, v, block)), "{f}");
            }
        }
        // The second parameter and the sum; the others are used in the block that defines them.
        assert_eq!(f.to_string().matches("store").count(), 2, "{f}");
    }
}
