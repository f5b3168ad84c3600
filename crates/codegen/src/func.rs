//! Functions: control flow over values.
//!
//! A function of the module is `value (ctx, args…)`, a closure's code `value (ctx, closure, args…)`,
//! both in Cranelift's tail-call convention. They own the closure and their arguments, but for those that are
//! lent, and return an owned value, or null after an error was recorded in the context. Tensors of rank 0 may
//! be handed over as scalars; a function with such a result returns whether all went well, and the scalar.
//! See `docs/values.md`.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, FuncRef, InstBuilder, MemFlagsData, Signature, StackSlotData,
    StackSlotKind, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Switch};
use cranelift_module::{DataId as ClifData, FuncId as ClifFunc, Module};
use relax_base::{SideTable, Symbol};
use relax_loops::{Ex, ExKind, visit_expr};
use relax_lower::lir::{self, FnId, Hold, Inst, LFunc, Reg, Term};
use relax_runtime::context::Status;
use relax_runtime::object::Kind;
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use crate::env::Env;
use crate::kernel::{Unsupported, dl_dtype};
use crate::profile;
use crate::scalar::{Scalars, register};
use crate::unwind::{self, Owned};

/// Offsets in runtime objects, as `docs/values.md` gives them.
mod at {
    use relax_runtime::object::{RxClosure, RxFields, RxObject, RxTensor};
    use std::mem::offset_of;

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
const KIND_TENSOR: i64 = Kind::Tensor as i64;
const KIND_TUPLE: i64 = Kind::Tuple as i64;
const KIND_ADT: i64 = Kind::Adt as i64;
const KIND_SHAPE: i64 = Kind::Shape as i64;
const ERR_SHAPE: i64 = Status::Shape as i64;
const ERR_DTYPE: i64 = Status::Dtype as i64;

/// What code of a function refers to: other functions, kernels, objects in read-only data.
pub(crate) struct Program<'a> {
    pub lowered: &'a lir::Lowered,
    /// The code of each function, and its C entry for closures.
    pub funcs: FxHashMap<FnId, ClifFunc>,
    pub entries: FxHashMap<FnId, ClifFunc>,
    pub kernels: FxHashMap<lir::KernelId, ClifFunc>,
    /// Tensor objects of constants.
    pub tensors: FxHashMap<lir::DataId, ClifData>,
    /// Immortal objects: constructors without fields, closures without captures, texts.
    pub ctors: FxHashMap<u32, ClifData>,
    pub closures: FxHashMap<FnId, ClifData>,
    pub texts: FxHashMap<Symbol, ClifData>,
    /// Whether calls of kernels are measured.
    pub profile: bool,
}

/// The signature of a function's code.
pub(crate) fn signature(f: &LFunc) -> Signature {
    let mut sig = Signature::new(CallConv::Tail);
    let hidden = 1 + usize::from(f.captures.is_some());
    sig.params
        .extend((0..hidden).map(|_| AbiParam::new(types::I64)));
    let params = f.params.iter().map(|&r| AbiParam::new(held(f.hold(r))));
    sig.params.extend(params);
    sig.returns.push(AbiParam::new(types::I64));
    sig.returns
        .extend(f.result.map(|d| AbiParam::new(register(d))));
    sig
}

/// The type of a register.
fn held(hold: Hold) -> cranelift_codegen::ir::Type {
    match hold {
        Hold::Value | Hold::Lent | Hold::Dim => types::I64,
        Hold::Scalar(dtype) => register(dtype),
    }
}

/// The signature of a closure's code with `args` arguments.
fn closure_signature(args: usize) -> Signature {
    let mut sig = Signature::new(CallConv::Tail);
    sig.params
        .extend((0..args + 2).map(|_| AbiParam::new(types::I64)));
    sig.returns.push(AbiParam::new(types::I64));
    sig
}

struct Emit<'a, 'f, 'm, 'p> {
    b: &'a mut FunctionBuilder<'f>,
    env: &'a mut Env<'m>,
    program: &'a Program<'p>,
    f: &'a LFunc,
    ctx: Value,
    closure: Option<Value>,
    regs: SideTable<Reg, Option<Value>>,
    blocks: FxHashMap<lir::BlockId, Block>,
    /// Returns null.
    fail: Block,
    /// What has to be released after an error.
    owned: Owned,
    /// Blocks that release a value and go on at another.
    pads: Vec<(Block, Value, Block)>,
}

/// Emits `f` as the body of the function that `b` builds.
pub(crate) fn emit(
    b: &mut FunctionBuilder<'_>,
    env: &mut Env<'_>,
    program: &Program<'_>,
    f: &LFunc,
) -> Result<(), Unsupported> {
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let given = b.block_params(entry).to_vec();
    let hidden = 1 + usize::from(f.captures.is_some());
    let fail = b.create_block();
    b.set_cold_block(fail);
    let mut regs: SideTable<Reg, Option<Value>> = SideTable::default();
    for (&r, &v) in f.params.iter().zip(&given[hidden..]) {
        regs.set(r, Some(v));
    }
    let mut blocks = FxHashMap::default();
    for (id, block) in f.blocks.iter() {
        let clif = b.create_block();
        for &p in &block.params {
            let v = b.append_block_param(clif, held(f.hold(p)));
            regs.set(p, Some(v));
        }
        blocks.insert(id, clif);
    }
    let closure = f.captures.is_some().then(|| given[1]);
    let mut e = Emit {
        b,
        env,
        program,
        f,
        ctx: given[0],
        closure,
        regs,
        blocks,
        fail,
        owned: Owned::new(f),
        pads: Vec::new(),
    };
    let starts = unwind::at_starts(f, &mut e.owned);
    e.owned.restart(&f.params);
    if e.closure.is_some() {
        e.owned.take(unwind::CLOSURE);
    }
    e.check_stack();
    e.unpack_closure();
    let first = e.blocks[&lir::BlockId(0)];
    e.b.ins().jump(first, &[]);
    for id in f.blocks.ids() {
        e.b.switch_to_block(e.blocks[&id]);
        // A block that nothing goes to owns nothing.
        e.owned.restart(starts.get(&id).map_or(&[][..], |s| &s[..]));
        for inst in &f.blocks[id].insts {
            e.inst(inst)?;
            unwind::step(&mut e.owned, inst);
        }
        e.term(&f.blocks[id].term);
    }
    e.emit_cleanups();
    e.b.switch_to_block(e.fail);
    // What failed without a place of its own (an allocation) failed in this function.
    let place = e.place();
    let (place, also) = (e.text(&place), e.int32(0));
    e.call("rx_fail_at", &[e.ctx, place, also]);
    let mut nothing = vec![e.b.ins().iconst(types::I64, 0)];
    if let Some(dtype) = f.result {
        nothing.push(e.scalars().int(dtype, 0));
    }
    e.b.ins().return_(&nothing);
    Ok(())
}

impl<'f, 'm> Emit<'_, 'f, 'm, '_> {
    fn scalars(&mut self) -> Scalars<'_, 'f, 'm> {
        Scalars {
            b: self.b,
            env: self.env,
        }
    }

    /// The value of an expression over scalar registers.
    fn scalar(&mut self, root: &Ex) -> Result<Value, Unsupported> {
        let mut parts: Vec<&Ex> = Vec::new();
        visit_expr(root, |e| parts.push(e));
        let mut known: FxHashMap<usize, Value> = FxHashMap::default();
        for e in parts {
            let v = match e.kind() {
                ExKind::Var(v) => self.reg(Reg(v.0)),
                _ => self.scalars().node(e, &|part| known[&part.addr()])?,
            };
            known.insert(e.addr(), v);
        }
        Ok(known[&root.addr()])
    }

    /// A new tensor of rank 0.
    fn boxed(&mut self, dtype: DType, v: Value) -> Value {
        let (code, rank) = (self.int32(dl_dtype(dtype)), self.int32(0));
        let none = self.b.ins().iconst(types::I64, 0);
        let t = self.value_of("rx_alloc_tensor", &[self.ctx, code, rank, none]);
        let t = self.checked(t);
        let data = self.load(t, at::DATA);
        self.scalars().store(dtype, v, data);
        t
    }

    fn reg(&self, r: Reg) -> Value {
        self.regs[r].expect("registers are written before they are read")
    }

    fn set(&mut self, r: Reg, v: Value) {
        self.regs.set(r, Some(v));
    }

    fn load(&mut self, base: Value, offset: i32) -> Value {
        self.b
            .ins()
            .load(types::I64, MemFlagsData::trusted(), base, offset)
    }

    fn load32(&mut self, base: Value, offset: i32) -> Value {
        self.b
            .ins()
            .load(types::I32, MemFlagsData::trusted(), base, offset)
    }

    fn store(&mut self, v: Value, base: Value, offset: i32) {
        self.b.ins().store(MemFlagsData::trusted(), v, base, offset);
    }

    fn int32(&mut self, v: i64) -> Value {
        self.b.ins().iconst(types::I32, v)
    }

    fn call(&mut self, name: &'static str, args: &[Value]) -> Option<Value> {
        let f = self.env.import(name, self.b.func);
        let call = self.b.ins().call(f, args);
        self.b.inst_results(call).first().copied()
    }

    fn value_of(&mut self, name: &'static str, args: &[Value]) -> Value {
        self.call(name, args).expect("returns a value")
    }

    fn text(&mut self, text: &str) -> Value {
        let gv = self.env.text(text, self.b.func);
        self.b.ins().symbol_value(types::I64, gv)
    }

    fn object(&mut self, id: ClifData) -> Value {
        let gv = self.env.module.declare_data_in_func(id, self.b.func);
        self.b.ins().symbol_value(types::I64, gv)
    }

    fn func(&mut self, id: ClifFunc) -> FuncRef {
        self.env.module.declare_func_in_func(id, self.b.func)
    }

    /// Goes on only when the condition holds; `message` is emitted on the other way, which fails.
    fn require(&mut self, cond: Value, message: impl FnOnce(&mut Self)) {
        let (ok, bad) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(cond, ok, &[], bad, &[]);
        self.b.switch_to_block(bad);
        message(self);
        let cleanup = self.cleanup();
        self.b.ins().jump(cleanup, &[]);
        self.b.switch_to_block(ok);
    }

    /// Where an error goes: a block that releases what the function owns here, and returns null.
    fn cleanup(&mut self) -> Block {
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
    fn emit_cleanups(&mut self) {
        for (block, value, rest) in std::mem::take(&mut self.pads) {
            self.b.switch_to_block(block);
            self.call("rx_release", &[self.ctx, value]);
            self.b.ins().jump(rest, &[]);
        }
    }

    /// A pointer that is null when the error is recorded already.
    fn checked(&mut self, pointer: Value) -> Value {
        let cleanup = self.cleanup();
        let ok = self.b.create_block();
        self.b.ins().brif(pointer, ok, &[], cleanup, &[]);
        self.b.switch_to_block(ok);
        pointer
    }

    /// As [`Self::checked`], after a call that has taken over what the instruction consumes.
    fn checked_after(&mut self, inst: &Inst, pointer: Value) -> Value {
        let consumed = inst.consumes();
        consumed.iter().for_each(|&r| self.owned.give(r));
        let pointer = self.checked(pointer);
        consumed.iter().for_each(|&r| self.owned.take(r));
        pointer
    }

    /// A status that is 0 when all is well.
    fn checked_status(&mut self, status: Value) {
        let cleanup = self.cleanup();
        let ok = self.b.create_block();
        self.b.ins().brif(status, cleanup, &[], ok, &[]);
        self.b.switch_to_block(ok);
    }

    fn check_stack(&mut self) {
        let limit = self.load(self.ctx, 0);
        let sp = self.b.ins().get_stack_pointer(types::I64);
        let fine = self
            .b
            .ins()
            .icmp(IntCC::UnsignedGreaterThanOrEqual, sp, limit);
        let place = self.place();
        self.require(fine, |e| {
            let place = e.text(&place);
            e.call("rx_fail_stack", &[e.ctx, place]);
        });
    }

    /// How errors name this function.
    fn place(&self) -> String {
        let name = self.f.name;
        match self.f.place.as_str() {
            "" => format!("@{name}"),
            at => format!("{at}: @{name}"),
        }
    }

    /// Reads the captured values at the start, so that the closure can be given up before the body
    /// runs: the body may end in a tail call.
    fn unpack_closure(&mut self) {
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

    fn retain(&mut self, v: Value) {
        let refs = self.load32(v, 0);
        let counted = self
            .b
            .ins()
            .icmp_imm_s(IntCC::SignedGreaterThanOrEqual, refs, 0);
        let (more, done) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(counted, more, &[], done, &[]);
        self.b.switch_to_block(more);
        let new = self.b.ins().iadd_imm_s(refs, 1);
        self.store(new, v, 0);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    fn release(&mut self, v: Value) {
        let refs = self.load32(v, 0);
        let last = self.b.ins().icmp_imm_s(IntCC::Equal, refs, 1);
        let [drop, shared, less, done] = [(); 4].map(|()| self.b.create_block());
        self.b.ins().brif(last, drop, &[], shared, &[]);
        self.b.switch_to_block(drop);
        self.call("rx_drop", &[self.ctx, v]);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(shared);
        let counted = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, refs, 0);
        self.b.ins().brif(counted, less, &[], done, &[]);
        self.b.switch_to_block(less);
        let new = self.b.ins().iadd_imm_s(refs, -1);
        self.store(new, v, 0);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    /// The values in memory, one word each.
    fn words(&mut self, values: &[Value]) -> Value {
        let size = 8 * values.len().max(1) as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        for (i, &v) in values.iter().enumerate() {
            self.b.ins().stack_store(types::I64, v, slot, 8 * i as i32);
        }
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// A dimension expression. Expressions come from dimensions, which nest at most 64 deep.
    fn dim(&mut self, e: &Ex) -> Value {
        match e.kind() {
            ExKind::Int(v) => self.b.ins().iconst(types::I64, *v),
            ExKind::Var(v) => self.reg(Reg(v.0)),
            ExKind::Binary(op, a, b) => {
                let (a, b) = (self.dim(a), self.dim(b));
                let r = self.scalars().binary(*op, DType::I64, a, b);
                r.expect("dimension arithmetic is on integers")
            }
            other => unreachable!("{other:?} in a dimension"),
        }
    }

    /// A new tensor of the given extents, or a dead one in its place, for a call at `place` (the function's where it is not known).
    fn tensor(&mut self, out: &lir::Alloc, place: Option<Symbol>) -> Value {
        if let Some(place) = out.place {
            let tensor = self.reg(place);
            self.retain(tensor);
            return tensor;
        }
        let extents: Vec<Value> = out.dims.iter().map(|d| self.dim(d)).collect();
        let rank = self.int32(extents.len() as i64);
        let dims = self.words(&extents);
        let code = self.int32(dl_dtype(out.dtype));
        let t = match out.reuse {
            None => self.value_of("rx_alloc_tensor", &[self.ctx, code, rank, dims]),
            Some(dead) => {
                let dead = self.reg(dead);
                let name = if out.grows {
                    "rx_grow_tensor"
                } else {
                    "rx_reuse_tensor"
                };
                self.value_of(name, &[self.ctx, dead, code, rank, dims])
            }
        };
        let Some(place) = place else {
            return self.checked(t);
        };
        self.require(t, |e| {
            let (at, also) = (e.text(place.as_str()), e.int32(0));
            e.call("rx_fail_at", &[e.ctx, at, also]);
        });
        t
    }

    fn inst(&mut self, inst: &Inst) -> Result<(), Unsupported> {
        match inst {
            Inst::Scalar { dst, value } => {
                let v = self.scalar(value)?;
                self.set(*dst, v);
            }
            Inst::Unbox { dst, src } => {
                let tensor = self.reg(*src);
                let data = self.load(tensor, at::DATA);
                let Hold::Scalar(dtype) = self.f.hold(*dst) else {
                    unreachable!("an element is a scalar")
                };
                let v = self.scalars().load(dtype, data);
                self.set(*dst, v);
            }
            Inst::Box { dst, src } => {
                let Hold::Scalar(dtype) = self.f.hold(*src) else {
                    unreachable!("tensors of rank 0 are made of scalars")
                };
                let v = self.reg(*src);
                let t = self.boxed(dtype, v);
                self.set(*dst, t);
            }
            Inst::Const { dst, data } => {
                let v = self.object(self.program.tensors[data]);
                self.set(*dst, v);
            }
            Inst::Kernel {
                dsts,
                kernel,
                args,
                given,
                place,
            } => {
                let inputs: Vec<Value> = args.iter().map(|&r| self.reg(r)).collect();
                let tensors = inputs;
                let inputs = self.words(&tensors);
                let mut outs = Vec::with_capacity(dsts.len());
                for (g, &dst) in given.iter().zip(dsts) {
                    outs.push(match g {
                        Some(out) => {
                            let t = self.tensor(out, Some(*place));
                            // Owned from here on, if only the next allocation fails.
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
                let outs = self.words(&outs);
                let start =
                    (self.program.profile).then(|| self.value_of("rx_profile_begin", &[self.ctx]));
                let f = self.func(self.program.kernels[kernel]);
                let call = self.b.ins().call(f, &[self.ctx, inputs, outs]);
                let status = self.b.inst_results(call)[0];
                if let Some(start) = start {
                    let program = &self.program.lowered.kernels[*kernel].program;
                    let flops = profile::flops(self.b, self.env, program, &tensors);
                    let index = self.int32(i64::from(kernel.0));
                    let n = self.int32(tensors.len() as i64);
                    let m = self.int32(dsts.len() as i64);
                    let args = [self.ctx, index, start, inputs, n, outs, m, flops];
                    self.call("rx_profile_end", &args);
                }
                let (ok, bad) = (self.b.create_block(), self.b.create_block());
                self.b.set_cold_block(bad);
                self.b.ins().brif(status, bad, &[], ok, &[]);
                self.b.switch_to_block(bad);
                // A program written by hand names its own line, and where it was called.
                let by_hand = self.program.lowered.kernels[*kernel].by_hand;
                let (at, also) = (self.text(place.as_str()), self.int32(by_hand.into()));
                self.call("rx_fail_at", &[self.ctx, at, also]);
                for i in 0..dsts.len() {
                    // What was given, and what the kernel had allocated by then; null else.
                    let v = self.load(outs, 8 * i as i32);
                    self.call("rx_release", &[self.ctx, v]);
                }
                let cleanup = self.cleanup();
                self.b.ins().jump(cleanup, &[]);
                self.b.switch_to_block(ok);
                for (i, (&dst, given)) in dsts.iter().zip(given).enumerate() {
                    let v = self.load(outs, 8 * i as i32);
                    if let Some(out) = given
                        && out.grows
                    {
                        // The kernel still read the argument's extents.
                        let extents: Vec<Value> = out.dims.iter().map(|d| self.dim(d)).collect();
                        let dims = self.words(&extents);
                        self.call("rx_tensor_grown", &[v, dims]);
                    }
                    self.set(dst, v);
                }
            }
            Inst::Tuple { dst, fields } => {
                let v = if fields.is_empty() {
                    self.value_of("rx_unit", &[])
                } else {
                    let n = self.int32(fields.len() as i64);
                    let v = self.value_of("rx_alloc_tuple", &[self.ctx, n]);
                    self.checked(v)
                };
                self.fill(v, at::FIELDS, fields);
                self.set(*dst, v);
            }
            Inst::Adt { dst, tag, fields } => {
                let v = if fields.is_empty() {
                    self.object(self.program.ctors[tag])
                } else {
                    let (t, n) = (self.int32(i64::from(*tag)), self.int32(fields.len() as i64));
                    let v = self.value_of("rx_alloc_adt", &[self.ctx, t, n]);
                    self.checked(v)
                };
                self.fill(v, at::FIELDS, fields);
                self.set(*dst, v);
            }
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
            } => {
                let v = self.closure(*func, captures);
                self.set(*dst, v);
            }
            // Read where the function starts.
            Inst::Capture { .. } | Inst::This { .. } => {}
            Inst::Call {
                dst, func, args, ..
            } => {
                let mut all = vec![self.ctx];
                all.extend(args.iter().map(|&r| self.reg(r)));
                let f = self.func(self.program.funcs[func]);
                let call = self.b.ins().call(f, &all);
                let results = self.b.inst_results(call).to_vec();
                self.checked_after(inst, results[0]);
                self.set(*dst, results[results.len() - 1]);
            }
            Inst::CallClosure { dst, callee, args } => {
                let (sig, code, all) = self.closure_call(*callee, args);
                let call = self.b.ins().call_indirect(sig, code, &all);
                let v = self.b.inst_results(call)[0];
                let v = self.checked_after(inst, v);
                self.set(*dst, v);
            }
            Inst::CallPacked { dst, name, args } => {
                let values: Vec<Value> = args.iter().map(|&r| self.reg(r)).collect();
                let args_at = self.words(&values);
                let zero = self.b.ins().iconst(types::I64, 0);
                let out = self.words(&[zero]);
                let (name, n) = (self.text(name.as_str()), self.int32(args.len() as i64));
                let status = self.value_of("rx_call_packed", &[self.ctx, name, args_at, n, out]);
                self.checked_status(status);
                let v = self.load(out, 0);
                self.set(*dst, v);
            }
            Inst::CallDps {
                dsts,
                name,
                args,
                given,
            } => {
                let mut values: Vec<Value> = args.iter().map(|&r| self.reg(r)).collect();
                for (out, &dst) in given.iter().zip(dsts) {
                    let t = self.tensor(out, None);
                    self.set(dst, t);
                    self.owned.take(dst);
                    values.push(t);
                }
                let n = self.int32(values.len() as i64);
                let (args_at, name) = (self.words(&values), self.text(name.as_str()));
                let status = self.value_of("rx_call_dps_packed", &[self.ctx, name, args_at, n]);
                self.checked_status(status);
                dsts.iter().for_each(|&dst| self.owned.give(dst));
            }
            Inst::Storage { dst, bytes } => {
                let block = lir::Alloc {
                    dtype: DType::U8,
                    dims: vec![bytes.clone()],
                    reuse: None,
                    grows: false,
                    place: None,
                };
                let v = self.tensor(&block, None);
                self.set(*dst, v);
            }
            Inst::Place {
                dst,
                storage,
                offset,
                tensor,
            } => {
                let extents: Vec<Value> = tensor.dims.iter().map(|d| self.dim(d)).collect();
                let rank = self.int32(extents.len() as i64);
                let (dims, offset) = (self.words(&extents), self.dim(offset));
                let code = self.int32(dl_dtype(tensor.dtype));
                let storage = self.reg(*storage);
                let args = [self.ctx, storage, offset, code, rank, dims];
                let v = self.value_of("rx_place_tensor", &args);
                let v = self.checked(v);
                self.set(*dst, v);
            }
            Inst::Kill { .. } => {}
            Inst::RefNew { dst, value } => {
                let value = self.reg(*value);
                let v = self.value_of("rx_alloc_ref", &[self.ctx, value]);
                let v = self.checked_after(inst, v);
                self.set(*dst, v);
            }
            Inst::RefWrite { cell, value } => {
                let (cell, value) = (self.reg(*cell), self.reg(*value));
                self.call("rx_ref_set", &[self.ctx, cell, value]);
            }
            Inst::Shape { dst, dims } => {
                let n = self.int32(dims.len() as i64);
                let v = self.value_of("rx_alloc_shape", &[self.ctx, n]);
                let v = self.checked(v);
                for (i, d) in dims.iter().enumerate() {
                    let d = self.dim(d);
                    self.store(d, v, at::FIELDS + 8 * i as i32);
                }
                self.set(*dst, v);
            }
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
            Inst::CheckKind { src, kind, place } => {
                let v = self.reg(*src);
                let found = self
                    .b
                    .ins()
                    .uload8(types::I32, MemFlagsData::trusted(), v, at::KIND);
                let (code, fields, what) = match kind {
                    lir::Kind::Tensor => (KIND_TENSOR, None, "is no tensor".to_owned()),
                    lir::Kind::Shape => (KIND_SHAPE, None, "is no shape".to_owned()),
                    lir::Kind::Adt => (KIND_ADT, None, "is no instance of a data type".to_owned()),
                    lir::Kind::Tuple(n) => {
                        (KIND_TUPLE, Some(*n), format!("is no tuple of {n} fields"))
                    }
                };
                let mut fine = self.b.ins().icmp_imm_s(IntCC::Equal, found, code);
                if let Some(n) = fields {
                    let count = self.load32(v, at::COUNT);
                    let same = self.b.ins().icmp_imm_s(IntCC::Equal, count, i64::from(n));
                    fine = self.b.ins().band(fine, same);
                }
                self.require(fine, |e| {
                    let status = e.int32(ERR_DTYPE);
                    let (place, what) = (e.text(place.as_str()), e.text(&what));
                    e.call("rx_fail", &[e.ctx, status, place, what]);
                });
            }
            Inst::CheckDims {
                a,
                b,
                or_one,
                place,
                message,
            } => {
                let (a, b) = (self.dim(a), self.dim(b));
                let mut fine = self.b.ins().icmp(IntCC::Equal, a, b);
                if *or_one {
                    let least = self.b.ins().smin(a, b);
                    let one = self.b.ins().icmp_imm_s(IntCC::Equal, least, 1);
                    fine = self.b.ins().bor(fine, one);
                }
                self.require(fine, |e| {
                    let (place, text) = (e.text(place.as_str()), e.text(message.as_str()));
                    let (status, values, n) = (e.int32(ERR_SHAPE), e.words(&[a, b]), e.int32(2));
                    e.call("rx_fail_values", &[e.ctx, status, place, text, values, n]);
                });
            }
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

    fn fill(&mut self, object: Value, offset: i32, fields: &[Reg]) {
        for (i, &r) in fields.iter().enumerate() {
            let v = self.reg(r);
            self.store(v, object, offset + 8 * i as i32);
        }
    }

    fn closure(&mut self, func: FnId, captures: &[Reg]) -> Value {
        if captures.is_empty() {
            return self.object(self.program.closures[&func]);
        }
        let arity = self.program.lowered.funcs[func].params.len() as i64;
        let (arity, n) = (self.int32(arity), self.int32(captures.len() as i64));
        let v = self.value_of("rx_alloc_closure", &[self.ctx, arity, n]);
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
        v
    }

    fn closure_call(
        &mut self,
        callee: Reg,
        args: &[Reg],
    ) -> (cranelift_codegen::ir::SigRef, Value, Vec<Value>) {
        let closure = self.reg(callee);
        let mut all = vec![self.ctx, closure];
        all.extend(args.iter().map(|&r| self.reg(r)));
        let sig = self.b.import_signature(closure_signature(args.len()));
        let code = self.load(closure, at::CODE);
        (sig, code, all)
    }

    /// Whether a value is a tensor (else a shape), and its rank.
    fn rank_of(&mut self, v: Value) -> (Value, Value) {
        let kind = self
            .b
            .ins()
            .uload8(types::I32, MemFlagsData::trusted(), v, at::KIND);
        let is_tensor = self.b.ins().icmp_imm_s(IntCC::Equal, kind, KIND_TENSOR);
        let ndim = self.load32(v, at::NDIM);
        let count = self.load32(v, at::COUNT);
        (is_tensor, self.b.ins().select(is_tensor, ndim, count))
    }

    fn extent(&mut self, src: Reg, axis: u32) -> Value {
        let v = self.reg(src);
        let kind = self
            .b
            .ins()
            .uload8(types::I32, MemFlagsData::trusted(), v, at::KIND);
        let is_tensor = self.b.ins().icmp_imm_s(IntCC::Equal, kind, KIND_TENSOR);
        let [tensor, shape, done] = [(); 3].map(|()| self.b.create_block());
        let base = self.b.append_block_param(done, types::I64);
        self.b.ins().brif(is_tensor, tensor, &[], shape, &[]);
        self.b.switch_to_block(tensor);
        let dims = self.load(v, at::SHAPE);
        self.b.ins().jump(done, &[BlockArg::Value(dims)]);
        self.b.switch_to_block(shape);
        let dims = self.b.ins().iadd_imm_s(v, i64::from(at::FIELDS));
        self.b.ins().jump(done, &[BlockArg::Value(dims)]);
        self.b.switch_to_block(done);
        self.load(base, 8 * axis as i32)
    }

    fn check_tensor(&mut self, src: Reg, rank: Option<u32>, dtype: Option<DType>, place: Symbol) {
        let v = self.reg(src);
        if let Some(rank) = rank {
            let (_, found) = self.rank_of(v);
            let same = self
                .b
                .ins()
                .icmp_imm_s(IntCC::Equal, found, i64::from(rank));
            self.require(same, |e| {
                let wide = e.b.ins().sextend(types::I64, found);
                let expected = e.b.ins().iconst(types::I64, i64::from(rank));
                let (place, what) = (e.text(place.as_str()), e.text("the rank"));
                e.call("rx_fail_dim", &[e.ctx, place, what, expected, wide]);
            });
        }
        if let Some(dtype) = dtype {
            let found = self.load32(v, at::DTYPE);
            let same = self
                .b
                .ins()
                .icmp_imm_s(IntCC::Equal, found, dl_dtype(dtype));
            self.require(same, |e| {
                let status = e.int32(ERR_DTYPE);
                let what = e.text(&format!("the element type is not {dtype}"));
                let place = e.text(place.as_str());
                e.call("rx_fail", &[e.ctx, status, place, what]);
            });
        }
    }

    fn term(&mut self, term: &Term) {
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
                self.call("rx_fail_match", &[self.ctx, place]);
                let cleanup = self.cleanup();
                self.b.ins().jump(cleanup, &[]);
            }
        }
    }
}
