//! Memory of a kernel's buffers: outputs that are given or allocated, temporaries from the heap,
//! local buffers on the stack.
//!
//! Memory is uninitialised. Where a buffer is not proven to be entirely written first, it is set to
//! 0, as in reference execution.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};
use relax_loops::{Buf, Ex, Program, Role, interval};
use relax_runtime::abi::{self, Function};
use relax_tensor::DType;

use super::{DATA, ERR_MEMORY, Kernel, NBYTES, Place, Result, dl_dtype};
use crate::scalar::words;
use crate::settle::constant;

/// Local buffers of constant size up to this many bytes live on the stack,
const STACK_BYTES: i64 = 16 * 1024;
/// while all of a program together have no more than this: threads' stacks are small.
const FRAME_BYTES: i64 = 128 * 1024;

impl Kernel<'_, '_, '_> {
    /// Allocates memory for a buffer that outlives its stage.
    pub(super) fn place(&mut self, buf: Buf) -> Result<()> {
        let role = self.program.bufs[buf].role;
        if self.places.contains_key(&buf) || role == Role::Local {
            return Ok(());
        }
        let shape = self.program.bufs[buf].shape.clone();
        let dtype = self.program.bufs[buf].dtype;
        let extents: Vec<Value> = shape.iter().map(|e| self.eval(e)).collect::<Result<_>>()?;
        let data = match role {
            Role::Output => self.output(buf, dtype, &extents),
            _ => self.scratch(buf, &extents).0,
        };
        self.settle(buf, data, extents);
        Ok(())
    }

    /// Allocates a local buffer here.
    pub(super) fn alloc_local(&mut self, buf: Buf, scratch: &mut Vec<usize>) -> Result<()> {
        let shape = self.program.bufs[buf].shape.clone();
        let extents: Vec<Value> = shape.iter().map(|e| self.eval(e)).collect::<Result<_>>()?;
        let data = match local_bytes(self.program, buf) {
            Some(n) => {
                let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, n.max(8) as u32, 4);
                let slot = self.b.create_sized_stack_slot(slot);
                self.b.ins().stack_addr(types::I64, slot, 0)
            }
            None => {
                let (data, kept) = self.scratch(buf, &extents);
                scratch.push(kept);
                data
            }
        };
        self.settle(buf, data, extents);
        Ok(())
    }

    /// Heap memory for a buffer, and the word that keeps it until it is freed.
    fn scratch(&mut self, buf: Buf, extents: &[Value]) -> (Value, usize) {
        let bytes = self.scratch_size(buf, extents);
        let data = self.scalars_call(abi::rx_scratch_alloc, &[bytes], true);
        self.fail_if_null(data);
        (data, self.keep(Some(buf), data))
    }

    /// Records the address of a buffer, zeroed where it may be read before it is written.
    fn settle(&mut self, buf: Buf, data: Value, extents: Vec<Value>) {
        if self.unwritten.contains(&buf) {
            let bytes = self.byte_size(self.program.bufs[buf].dtype, &extents);
            self.zero(data, bytes);
        }
        self.places.insert(buf, Place { data, extents });
    }

    /// Emits a check that a call of a runtime kernel stays within the available memory.
    pub(super) fn check_reach(&mut self, function: Function, args: &[Value]) {
        let mut words_of = Vec::with_capacity(args.len());
        for &v in args {
            words_of.push(match self.b.func.dfg.value_type(v) {
                types::I64 => v,
                types::I32 => self.b.ins().sextend(types::I64, v),
                // Numbers unrelated to memory.
                _ => continue,
            });
        }
        let mut bufs: Vec<Buf> = self.places.keys().copied().collect();
        bufs.sort();
        let mut arrays = Vec::with_capacity(2 * bufs.len());
        for buf in bufs {
            let Place { data, extents } = self.places[&buf].clone();
            let bytes = match self.sizes.get(&buf) {
                Some(&bytes) => bytes,
                None => self.byte_size(self.program.bufs[buf].dtype, &extents),
            };
            arrays.extend([data, bytes]);
        }
        let name = self.text(function.name);
        let count = |k: &mut Self, n: usize| k.b.ins().iconst(types::I32, n as i64);
        let (n, m) = (count(self, words_of.len()), count(self, arrays.len() / 2));
        let (words_of, arrays) = (words(self.b, &words_of), words(self.b, &arrays));
        let status = self.scalars_call(abi::rx_check_reach, &[name, words_of, n, arrays, m], true);
        self.fail_unless_zero(status);
    }

    /// Records a tensor's size in bytes by its own description.
    pub(super) fn note_size(&mut self, buf: Buf, tensor: Value) {
        if self.env.checks {
            let bytes = self.word(tensor, NBYTES);
            self.sizes.insert(buf, bytes);
        }
    }

    fn zero(&mut self, data: Value, bytes: Value) {
        let zero = self.b.ins().iconst(types::I32, 0);
        self.scalars()
            .call(crate::outside::memset, &[data, zero, bytes]);
    }

    /// The size of a buffer in bytes, saturated.
    fn byte_size(&mut self, dtype: DType, extents: &[Value]) -> Value {
        let (mut known, mut others) = (dtype.size() as i64, Vec::new());
        for &e in extents {
            let n = constant(self.b.func, e).filter(|&n| n >= 0);
            match n.and_then(|n| known.checked_mul(n)) {
                Some(n) => known = n,
                None => others.push(e),
            }
        }
        let mut bytes = self.b.ins().iconst(types::I64, known);
        if known == 0 || others.is_empty() {
            return bytes;
        }
        let mut carried = self.b.ins().iconst(types::I64, 0);
        for &e in &others {
            let more = self.b.ins().umulhi(bytes, e);
            carried = self.b.ins().bor(carried, more);
            bytes = self.b.ins().imul(bytes, e);
        }
        let all = self.b.ins().iconst(types::I64, i64::MAX);
        let over = self.b.ins().icmp_imm_s(IntCC::NotEqual, carried, 0);
        let large = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, bytes, 0);
        let over = self.b.ins().bor(over, large);
        let bytes = self.b.ins().select(over, all, bytes);
        if others.len() == 1 {
            return bytes;
        }
        // An extent of 0 makes an earlier overflow irrelevant.
        let mut empty = self.b.ins().iconst(types::I8, 0);
        for &e in &others {
            let none = self.b.ins().icmp_imm_s(IntCC::Equal, e, 0);
            empty = self.b.ins().bor(empty, none);
        }
        let zero = self.b.ins().iconst(types::I64, 0);
        self.b.ins().select(empty, zero, bytes)
    }

    /// The same for memory that the kernel allocates: the program fails where an extent is
    /// negative.
    fn scratch_size(&mut self, buf: Buf, extents: &[Value]) -> Value {
        let info = &self.program.bufs[buf];
        let constant = (info.shape.iter())
            .try_fold(info.dtype.size() as i64, |n, e| n.checked_mul(e.as_int()?));
        if let Some(n) = constant.filter(|&n| n >= 0) {
            return self.b.ins().iconst(types::I64, n);
        }
        let range = |v| self.ranges.get(&v).copied();
        if info.shape.iter().any(|e| interval(e, &range).lo < 0) {
            let mut sign = self.b.ins().iconst(types::I64, 0);
            for &e in extents {
                sign = self.b.ins().bor(sign, e);
            }
            let fine = self
                .b
                .ins()
                .icmp_imm_s(IntCC::SignedGreaterThanOrEqual, sign, 0);
            let [ok, bad] = [(); 2].map(|()| self.b.create_block());
            self.b.set_cold_block(bad);
            self.b.ins().brif(fine, ok, &[], bad, &[]);
            self.b.switch_to_block(bad);
            let at = self.iteration();
            self.only_once(at);
            let holes = vec!["{}"; extents.len()].join(", ");
            let text = format!(
                "tensor program `{}`: `{}` cannot be made with extents [{holes}]",
                self.program.name, info.name
            );
            self.fail_showing(ERR_MEMORY, None, &text, extents);
            self.b.switch_to_block(ok);
        }
        self.byte_size(info.dtype, extents)
    }

    fn output(&mut self, buf: Buf, dtype: DType, extents: &[Value]) -> Value {
        let index = self
            .program
            .outputs
            .iter()
            .position(|&o| o == buf)
            .expect("an output");
        let offset = 8 * index as i32;
        let given = self.word(self.outputs, offset);
        let [have, need, done] = [(); 3].map(|()| self.b.create_block());
        self.b.append_block_param(done, types::I64);
        self.b.ins().brif(given, have, &[], need, &[]);
        self.b.switch_to_block(have);
        self.check_given(buf, given, extents);
        self.b.ins().jump(done, &[given.into()]);
        self.b.switch_to_block(need);
        let dims = self.scalars().numbers(extents);
        let code = self.b.ins().iconst(types::I32, dl_dtype(dtype));
        let rank = self.b.ins().iconst(types::I32, extents.len() as i64);
        let made = self.scalars_call(abi::rx_alloc_tensor, &[code, rank, dims], true);
        self.fail_if_null(made);
        self.b
            .ins()
            .store(MemFlagsData::trusted(), made, self.outputs, offset);
        self.b.ins().jump(done, &[made.into()]);
        self.b.switch_to_block(done);
        let tensor = self.b.block_params(done)[0];
        self.note_size(buf, tensor);
        self.word(tensor, DATA)
    }

    /// Stores a buffer's memory (that of tables for `None`) in its word of the frame, and returns
    /// the word's number.
    pub(super) fn keep(&mut self, buf: Option<Buf>, data: Value) -> usize {
        let slot = match self.temps.iter().position(|&t| t == buf) {
            Some(slot) => slot,
            None => {
                self.temps.push(buf);
                self.temps.len() - 1
            }
        };
        self.b
            .ins()
            .stack_store(types::I64, data, self.frame, 8 * slot as i32);
        slot
    }

    /// Frees the memory in a word of the frame, if any.
    pub(super) fn free_slot(&mut self, slot: usize) {
        let at = 8 * slot as i32;
        let pointer = self
            .b
            .ins()
            .stack_load(types::I64, types::I64, self.frame, at);
        let [free, next] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(pointer, free, &[], next, &[]);
        self.b.switch_to_block(free);
        let f = self.env.import(abi::rx_scratch_free, self.b.func);
        self.b.ins().call(f, &[self.ctx, pointer]);
        let null = self.b.ins().iconst(types::I64, 0);
        self.b.ins().stack_store(types::I64, null, self.frame, at);
        self.b.ins().jump(next, &[]);
        self.b.switch_to_block(next);
    }
}

/// The size of a local buffer on the stack; `None` for larger ones, and for sizes known only at run
/// time.
pub(super) fn local_bytes(program: &Program, buf: Buf) -> Option<i64> {
    let size = |b: Buf| {
        let b = &program.bufs[b];
        (b.shape.iter())
            .try_fold(b.dtype.size() as i64, |n, e: &Ex| {
                n.checked_mul(e.as_int()?)
            })
            .filter(|n| b.role == Role::Local && (0..=STACK_BYTES).contains(n))
    };
    let own = size(buf)?;
    // Small ones, which fit registers and cache lines, always do.
    let before = || {
        program
            .bufs
            .ids()
            .take_while(|&b| b != buf)
            .filter_map(size)
    };
    (own <= 64 || before().sum::<i64>() + own <= FRAME_BYTES).then_some(own)
}
