//! Runtime objects: reference counting, allocation, initialisation.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_base::Symbol;
use relax_loops::Ex;
use relax_lower::lir::{self, Alloc, FnId, Hold, Inst, Reg};
use relax_runtime::abi;
use relax_tensor::DType;

use super::Emit;
use crate::kernel::dl_dtype;

/// Offsets in runtime objects, as `docs/values.md` gives them.
pub(super) mod at {
    use relax_runtime::context::RxContext;
    use relax_runtime::object::{RxClosure, RxFields, RxObject, RxTensor};
    use std::mem::offset_of;

    pub const REFS: i32 = offset_of!(RxObject, refs) as i32;
    pub const STACK_LIMIT: i32 = offset_of!(RxContext, stack_limit) as i32;
    pub const KIND: i32 = offset_of!(RxObject, kind) as i32;
    pub const TAG: i32 = offset_of!(RxObject, tag) as i32;
    pub const COUNT: i32 = offset_of!(RxObject, count) as i32;
    pub const FIELDS: i32 = offset_of!(RxFields, fields) as i32;
    pub const DTYPE: i32 = offset_of!(RxTensor, dtype) as i32;
    pub const NDIM: i32 = offset_of!(RxTensor, ndim) as i32;
    pub const DATA: i32 = offset_of!(RxTensor, data) as i32;
    pub const SHAPE: i32 = offset_of!(RxTensor, shape) as i32;
    pub const CODE: i32 = offset_of!(RxClosure, code) as i32;
    pub const ENTRY: i32 = offset_of!(RxClosure, entry) as i32;
    pub const CAPTURES: i32 = offset_of!(RxClosure, captures) as i32;
}
impl Emit<'_, '_, '_, '_> {
    /// Increments the reference count; immortal objects are not counted.
    pub(super) fn retain(&mut self, v: Value) {
        if self.brief {
            self.call(abi::rx_retain, &[v]);
            return;
        }
        let refs = self.load32(v, at::REFS);
        let counted = self
            .b
            .ins()
            .icmp_imm_s(IntCC::SignedGreaterThanOrEqual, refs, 0);
        let (more, done) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(counted, more, &[], done, &[]);
        self.b.switch_to_block(more);
        let new = self.b.ins().iadd_imm_s(refs, 1);
        self.store(new, v, at::REFS);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    /// Decrements the reference count, and frees the object at zero.
    pub(super) fn release(&mut self, v: Value) {
        if self.brief {
            self.call(abi::rx_release, &[self.ctx, v]);
            return;
        }
        let refs = self.load32(v, at::REFS);
        let last = self.b.ins().icmp_imm_s(IntCC::Equal, refs, 1);
        let [drop, shared, less, done] = [(); 4].map(|()| self.b.create_block());
        self.b.ins().brif(last, drop, &[], shared, &[]);
        self.b.switch_to_block(drop);
        self.call(abi::rx_drop, &[self.ctx, v]);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(shared);
        let counted = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, refs, 0);
        self.b.ins().brif(counted, less, &[], done, &[]);
        self.b.switch_to_block(less);
        let new = self.b.ins().iadd_imm_s(refs, -1);
        self.store(new, v, at::REFS);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    /// Reads the element of a tensor of rank 0.
    pub(super) fn unbox(&mut self, dst: Reg, src: Reg) {
        let tensor = self.reg(src);
        let data = self.load(tensor, at::DATA);
        let Hold::Scalar(dtype) = self.f.hold(dst) else {
            unreachable!("an element is a scalar")
        };
        let v = self.scalars().load(dtype, data);
        self.set(dst, v);
    }

    /// A new tensor of rank 0 of a scalar.
    pub(super) fn boxed(&mut self, dst: Reg, src: Reg) {
        let Hold::Scalar(dtype) = self.f.hold(src) else {
            unreachable!("tensors of rank 0 are made of scalars")
        };
        let v = self.reg(src);
        let (code, rank) = (self.int32(dl_dtype(dtype)), self.int32(0));
        let none = self.b.ins().iconst(types::I64, 0);
        let t = self.value_of(abi::rx_alloc_tensor, &[self.ctx, code, rank, none]);
        let t = self.checked(t);
        let data = self.load(t, at::DATA);
        self.scalars().store(dtype, v, data);
        self.set(dst, t);
    }

    /// A new tensor of the given extents, or a dead one in its place, for a call at `place` (the
    /// function's where it is not known).
    pub(super) fn tensor(&mut self, out: &Alloc, place: Option<Symbol>) -> Value {
        if let Some(place) = out.place {
            let tensor = self.reg(place);
            self.retain(tensor);
            return tensor;
        }
        let (rank, dims) = self.extents(&out.dims);
        let code = self.int32(dl_dtype(out.dtype));
        // A tensor that grows keeps its old extents until it is written, which a checked kernel
        // rejects.
        let reuse = out.reuse.filter(|_| !(out.grows && self.env.checks));
        let t = match reuse {
            None => self.value_of(abi::rx_alloc_tensor, &[self.ctx, code, rank, dims]),
            Some(dead) => {
                let dead = self.reg(dead);
                let name = if out.grows {
                    abi::rx_grow_tensor
                } else {
                    abi::rx_reuse_tensor
                };
                self.value_of(name, &[self.ctx, dead, code, rank, dims])
            }
        };
        let Some(place) = place else {
            return self.checked(t);
        };
        self.require(t, |e| {
            let (at, also) = (e.text(place.as_str()), e.int32(0));
            e.call(abi::rx_fail_at, &[e.ctx, at, also]);
        });
        t
    }

    /// A result that lies in the memory of an argument, with extents of its own.
    pub(super) fn view(&mut self, dst: Reg, out: &Alloc, of: Reg) {
        let (rank, dims) = self.extents(&out.dims);
        let of = self.reg(of);
        // The call takes a reference, which the view keeps.
        self.retain(of);
        let v = self.value_of(abi::rx_tensor_reshape, &[self.ctx, of, rank, dims]);
        let v = self.checked(v);
        self.set(dst, v);
    }

    /// A new block of memory: a tensor of bytes.
    pub(super) fn storage(&mut self, dst: Reg, bytes: &Ex) {
        let block = Alloc {
            dtype: DType::U8,
            dims: vec![bytes.clone()],
            reuse: None,
            grows: false,
            view: None,
            place: None,
        };
        let v = self.tensor(&block, None);
        self.set(dst, v);
    }

    /// A new tensor whose elements lie in a block of memory.
    pub(super) fn place_tensor(&mut self, dst: Reg, storage: Reg, offset: &Ex, tensor: &Alloc) {
        let ((rank, dims), offset) = (self.extents(&tensor.dims), self.dim(offset));
        let code = self.int32(dl_dtype(tensor.dtype));
        let storage = self.reg(storage);
        let args = [self.ctx, storage, offset, code, rank, dims];
        let v = self.value_of(abi::rx_place_tensor, &args);
        let v = self.checked(v);
        self.set(dst, v);
    }

    /// A new shape value.
    pub(super) fn shape(&mut self, dst: Reg, dims: &[Ex]) {
        let n = self.int32(dims.len() as i64);
        let v = self.value_of(abi::rx_alloc_shape, &[self.ctx, n]);
        let v = self.checked(v);
        for (i, d) in dims.iter().enumerate() {
            let d = self.dim(d);
            self.store(d, v, at::FIELDS + 8 * i as i32);
        }
        self.set(dst, v);
    }

    /// A tuple of registers, which it takes over.
    pub(super) fn tuple(&mut self, dst: Reg, fields: &[Reg]) {
        let v = if fields.is_empty() {
            self.value_of(abi::rx_unit, &[])
        } else {
            let n = self.int32(fields.len() as i64);
            let v = self.value_of(abi::rx_alloc_tuple, &[self.ctx, n]);
            self.checked(v)
        };
        self.fill(v, at::FIELDS, fields);
        self.set(dst, v);
    }

    /// An ADT instance of registers, which it takes over.
    pub(super) fn adt(&mut self, dst: Reg, tag: u32, fields: &[Reg]) {
        let v = if fields.is_empty() {
            self.object(self.program.ctors[&tag])
        } else {
            let (t, n) = (self.int32(i64::from(tag)), self.int32(fields.len() as i64));
            let v = self.value_of(abi::rx_alloc_adt, &[self.ctx, t, n]);
            self.checked(v)
        };
        self.fill(v, at::FIELDS, fields);
        self.set(dst, v);
    }

    /// Moves registers into the fields of a new object.
    fn fill(&mut self, object: Value, offset: i32, fields: &[Reg]) {
        for (i, &r) in fields.iter().enumerate() {
            let v = self.reg(r);
            self.store(v, object, offset + 8 * i as i32);
        }
    }

    /// A closure over registers, which it takes over.
    pub(super) fn closure(&mut self, dst: Reg, func: FnId, captures: &[Reg]) {
        if captures.is_empty() {
            let v = self.object(self.program.closures[&func]);
            return self.set(dst, v);
        }
        let arity = self.program.lowered.funcs[func].params.len() as i64;
        let (arity, n) = (self.int32(arity), self.int32(captures.len() as i64));
        let v = self.value_of(abi::rx_alloc_closure, &[self.ctx, arity, n]);
        let v = self.checked(v);
        for (id, offset) in [
            (self.program.funcs[&func], at::CODE),
            (self.program.entries[&func], at::ENTRY),
        ] {
            let f = self.func(id);
            let address = self.b.ins().func_addr(types::I64, f);
            self.store(address, v, offset);
        }
        self.fill(v, at::CAPTURES, captures);
        self.set(dst, v);
    }

    /// Reads the captured values at the start, so that the closure can be released before the body
    /// runs: the body may end in a tail call.
    pub(super) fn unpack_closure(&mut self) {
        let Some(closure) = self.closure else { return };
        let block = &self.f.blocks[lir::BlockId(0)];
        for inst in &block.insts {
            match inst {
                Inst::Capture { dst, index } => {
                    let v = self.load(closure, at::CAPTURES + 8 * *index as i32);
                    self.retain(v);
                    self.set(*dst, v);
                }
                Inst::This { dst } => {
                    self.retain(closure);
                    self.set(*dst, closure);
                }
                _ => {}
            }
        }
        self.release(closure);
    }
}
