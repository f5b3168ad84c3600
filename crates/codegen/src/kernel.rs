//! A tensor program as one function: `int32_t kernel(ctx, inputs, outputs)`.
//!
//! `inputs` points at the input tensors, borrowed. `outputs` points at one word per output: null, to
//! have the kernel allocate it (its extents may be known only after some stages), or a tensor to
//! write into. The result is 0 or a status with the message in the context; outputs that the
//! kernel had allocated by then stay in `outputs`, the caller releases them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockArg, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value,
    types,
};
use cranelift_frontend::{FunctionBuilder, Variable};
use relax_loops::{Buf, Combiner, Compute, Ex, Program, Role, Stage, Stmt, Var};
use relax_tensor::{DType, TypeCode};
use rustc_hash::FxHashMap;

use crate::env::Env;
use crate::scalar::{Scalars, register};

mod copies;
mod eval;
mod strips;
pub(crate) mod tuned;

/// Offsets in `RxTensor`.
const DATA: i32 = 24;
const SHAPE: i32 = 32;
/// Status codes of the runtime.
const ERR_MEMORY: i64 = 1;
const ERR_ARGUMENT: i64 = 7;
/// Local buffers of constant size up to this many bytes live on the stack.
const STACK_BYTES: i64 = 16 * 1024;

/// Why a program has no code: it asks for something that the back end does not do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsupported(pub String);

type Result<T> = std::result::Result<T, Unsupported>;

/// Where a buffer is.
#[derive(Clone)]
struct Place {
    data: Value,
    extents: Vec<Value>,
}

/// Emits one program into one function.
struct Kernel<'a, 'f, 'm> {
    b: &'a mut FunctionBuilder<'f>,
    env: &'a mut Env<'m>,
    program: &'a Program,
    /// Inputs that come packed, in the form of the kernel that reads them.
    packed: &'a [Buf],
    ctx: Value,
    outputs: Value,
    places: FxHashMap<Buf, Place>,
    vars: FxHashMap<Var, Value>,
    /// The extents that loop variables run over, as written.
    over: FxHashMap<Var, Ex>,
    /// Bounds of variables, for proofs that an index is inside.
    ranges: FxHashMap<Var, (i64, i64)>,
    /// Values of expressions by address, one layer per block that dominates what follows.
    memo: Vec<FxHashMap<usize, Value>>,
    /// Temporary buffers to free, one word each; null until allocated.
    frame: StackSlot,
    temps: Vec<Buf>,
    /// Ends the kernel with a status.
    fail: Block,
    /// For each buffer, where an index outside goes (the index is its parameter).
    outside: FxHashMap<Buf, Block>,
}

/// Emits `program` as the body of the function that `b` builds, which has the signature `ppp>i`.
pub(crate) fn emit(
    b: &mut FunctionBuilder<'_>,
    env: &mut Env<'_>,
    program: &Program,
    packed: &[Buf],
) -> Result<()> {
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let [ctx, inputs, outputs] = [0, 1, 2].map(|i| b.block_params(entry)[i]);
    let temps: Vec<Buf> = program
        .bufs
        .iter()
        .filter(|(_, x)| x.role == Role::Temp)
        .map(|(id, _)| id)
        .collect();
    let size = 8 * temps.len().max(1) as u32;
    let frame = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3));
    let fail = b.create_block();
    b.append_block_param(fail, types::I32);
    let mut k = Kernel {
        b,
        env,
        program,
        packed,
        ctx,
        outputs,
        places: FxHashMap::default(),
        vars: FxHashMap::default(),
        over: FxHashMap::default(),
        ranges: FxHashMap::default(),
        memo: vec![FxHashMap::default()],
        frame,
        temps,
        fail,
        outside: FxHashMap::default(),
    };
    let null = k.b.ins().iconst(types::I64, 0);
    for i in 0..k.temps.len() {
        k.b.ins().stack_store(types::I64, null, frame, 8 * i as i32);
    }
    k.bind(inputs)?;
    let needed = tuned::needed(program);
    // A product with an epilogue runs where its epilogue stands: what that reads is ready there.
    let mut fused = relax_loops::epilogue::find(program);
    fused.retain(|f| {
        needed[f.consumer]
            && matches!(&program.stages[f.producer],
                Stage::Compute(c) if tuned::hint_of(program, c).is_some())
    });
    for (i, stage) in program.stages.iter().enumerate() {
        if !needed[i] || fused.iter().any(|f| f.producer == i) {
            continue;
        }
        match stage {
            Stage::Compute(c) => {
                let taken = match fused.iter().find(|f| f.consumer == i) {
                    None => k.tuned(c, None)?,
                    Some(f) => {
                        let Stage::Compute(sums) = &program.stages[f.producer] else {
                            unreachable!("hints are about computations")
                        };
                        k.tuned(sums, Some((c.out, &f.epilogue)))?
                    }
                };
                if !taken {
                    k.compute(c)?;
                }
            }
            Stage::Nest(stmts) => {
                for buf in written(stmts) {
                    k.place(buf)?;
                }
                k.block(stmts)?;
            }
        }
    }
    for &buf in &program.outputs {
        k.place(buf)?;
    }
    k.finish();
    Ok(())
}

/// Buffers that outlive the statements and are stored to in them.
fn written(stmts: &[Stmt]) -> Vec<Buf> {
    let mut found = Vec::new();
    let mut work: Vec<&Stmt> = stmts.iter().collect();
    while let Some(s) = work.pop() {
        match s {
            Stmt::Store { buf, .. } => found.push(*buf),
            Stmt::For { body, .. } | Stmt::While { body, .. } | Stmt::Init { body, .. } => {
                work.extend(body)
            }
            Stmt::If {
                then, otherwise, ..
            } => work.extend(then.iter().chain(otherwise)),
            Stmt::Let { .. } | Stmt::Alloc { .. } | Stmt::Assert { .. } => {}
        }
    }
    found.sort();
    found.dedup();
    found
}

impl<'f, 'm> Kernel<'_, 'f, 'm> {
    fn scalars(&mut self) -> Scalars<'_, 'f, 'm> {
        Scalars {
            b: self.b,
            env: self.env,
        }
    }

    /// Binds dimension variables from the inputs' shapes and checks all other extents.
    fn bind(&mut self, inputs: Value) -> Result<()> {
        let program = self.program;
        let mut checks = Vec::new();
        for (i, &buf) in program.inputs.iter().enumerate() {
            let tensor = self.word(inputs, 8 * i as i32);
            let extents = if self.packed.contains(&buf) {
                // The panels have another shape; the weight's own is constant.
                let shape = &program.bufs[buf].shape;
                let constant = |e: &Ex| e.as_int().unwrap_or_default();
                (shape.iter())
                    .map(|e| self.b.ins().iconst(types::I64, constant(e)))
                    .collect()
            } else {
                self.read_extents(tensor, buf, &mut checks)
            };
            let data = self.word(tensor, DATA);
            self.places.insert(buf, Place { data, extents });
        }
        for (i, &buf) in program.outputs.iter().enumerate() {
            let unbound = |e: &Ex, vars: &FxHashMap<Var, Value>| {
                matches!(e.kind(), relax_loops::ExKind::Var(v)
                    if program.dims.contains(v) && !vars.contains_key(v))
            };
            if program.bufs[buf]
                .shape
                .iter()
                .any(|e| unbound(e, &self.vars))
            {
                let tensor = self.word(self.outputs, 8 * i as i32);
                self.fail_if_null(tensor);
                self.read_extents(tensor, buf, &mut checks);
            }
        }
        for (buf, axis, found) in checks {
            let expected = self.eval(&program.bufs[buf].shape[axis])?;
            let same = self.b.ins().icmp(IntCC::Equal, expected, found);
            let (ok, bad) = (self.b.create_block(), self.b.create_block());
            self.b.set_cold_block(bad);
            self.b.ins().brif(same, ok, &[], bad, &[]);
            self.b.switch_to_block(bad);
            let place = self.text(&program.name.to_string());
            let what = self.text(&format!("axis {axis} of `{}`", program.bufs[buf].name));
            let args = [self.ctx, place, what, expected, found];
            let status = self.scalars().call("rx_fail_dim", &args);
            self.b.ins().jump(self.fail, &[BlockArg::Value(status)]);
            self.b.switch_to_block(ok);
        }
        Ok(())
    }

    /// The extents of a tensor; new dimension variables are bound, others queued for a check.
    fn read_extents(
        &mut self,
        tensor: Value,
        buf: Buf,
        checks: &mut Vec<(Buf, usize, Value)>,
    ) -> Vec<Value> {
        let shape = &self.program.bufs[buf].shape;
        let pointer = if shape.is_empty() {
            None
        } else {
            Some(self.word(tensor, SHAPE))
        };
        let mut extents = Vec::new();
        for (axis, e) in shape.iter().enumerate() {
            let found = self.word(pointer.expect("read above"), 8 * axis as i32);
            match e.kind() {
                relax_loops::ExKind::Var(v) if !self.vars.contains_key(v) => {
                    self.vars.insert(*v, found);
                    self.ranges.insert(*v, (0, i64::MAX >> 16));
                    extents.push(found);
                }
                relax_loops::ExKind::Int(n) => {
                    checks.push((buf, axis, found));
                    extents.push(self.b.ins().iconst(types::I64, *n));
                }
                _ => {
                    checks.push((buf, axis, found));
                    extents.push(found);
                }
            }
        }
        extents
    }

    fn word(&mut self, base: Value, offset: i32) -> Value {
        self.b
            .ins()
            .load(types::I64, MemFlagsData::trusted(), base, offset)
    }

    fn text(&mut self, text: &str) -> Value {
        let gv = self.env.text(text, self.b.func);
        self.b.ins().symbol_value(types::I64, gv)
    }

    fn fail_if_null(&mut self, pointer: Value) {
        let (ok, bad) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(pointer, ok, &[], bad, &[]);
        self.b.switch_to_block(bad);
        // The allocator has recorded its error; a status is all that is left to hand on.
        let status = self.b.ins().iconst(types::I32, ERR_MEMORY);
        self.b.ins().jump(self.fail, &[BlockArg::Value(status)]);
        self.b.switch_to_block(ok);
    }

    fn fail_unless_zero(&mut self, status: Value) {
        let (ok, bad) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(status, bad, &[], ok, &[]);
        self.b.switch_to_block(bad);
        self.b.ins().jump(self.fail, &[BlockArg::Value(status)]);
        self.b.switch_to_block(ok);
    }

    /// Makes sure that a buffer that outlives its stage has memory.
    fn place(&mut self, buf: Buf) -> Result<()> {
        let role = self.program.bufs[buf].role;
        if self.places.contains_key(&buf) || role == Role::Local {
            return Ok(());
        }
        let shape = self.program.bufs[buf].shape.clone();
        let dtype = self.program.bufs[buf].dtype;
        let extents: Vec<Value> = shape.iter().map(|e| self.eval(e)).collect::<Result<_>>()?;
        let data = match role {
            Role::Output => self.output(buf, dtype, &extents),
            _ => {
                let bytes = self.byte_size(dtype, &extents);
                let data = self.scalars_call("rx_scratch_alloc", &[bytes], true);
                self.fail_if_null(data);
                let slot = self
                    .temps
                    .iter()
                    .position(|&t| t == buf)
                    .expect("temps are listed");
                self.b
                    .ins()
                    .stack_store(types::I64, data, self.frame, 8 * slot as i32);
                data
            }
        };
        self.places.insert(buf, Place { data, extents });
        Ok(())
    }

    fn scalars_call(&mut self, name: &'static str, args: &[Value], with_ctx: bool) -> Value {
        let mut all = if with_ctx { vec![self.ctx] } else { vec![] };
        all.extend(args);
        self.scalars().call(name, &all)
    }

    /// Extents that a program computes are taken as 0 where they come out negative.
    fn byte_size(&mut self, dtype: DType, extents: &[Value]) -> Value {
        let mut bytes = self.b.ins().iconst(types::I64, dtype.size() as i64);
        for &e in extents {
            bytes = self.b.ins().imul(bytes, e);
        }
        let zero = self.b.ins().iconst(types::I64, 0);
        self.b.ins().smax(bytes, zero)
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
        let (have, need) = (self.b.create_block(), self.b.create_block());
        self.b.append_block_param(have, types::I64);
        self.b
            .ins()
            .brif(given, have, &[BlockArg::Value(given)], need, &[]);
        self.b.switch_to_block(need);
        let size = 8 * extents.len().max(1) as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        for (k, &e) in extents.iter().enumerate() {
            self.b.ins().stack_store(types::I64, e, slot, 8 * k as i32);
        }
        let dims = self.b.ins().stack_addr(types::I64, slot, 0);
        let code = self.b.ins().iconst(types::I32, dl_dtype(dtype));
        let rank = self.b.ins().iconst(types::I32, extents.len() as i64);
        let made = self.scalars_call("rx_alloc_tensor", &[code, rank, dims], true);
        self.fail_if_null(made);
        self.b
            .ins()
            .store(MemFlagsData::trusted(), made, self.outputs, offset);
        self.b.ins().jump(have, &[BlockArg::Value(made)]);
        self.b.switch_to_block(have);
        let tensor = self.b.block_params(have)[0];
        self.word(tensor, DATA)
    }

    /// The successful end, and the failing one; both free the temporary buffers.
    fn finish(&mut self) {
        let ok = self.b.ins().iconst(types::I32, 0);
        let end = self.b.create_block();
        self.b.append_block_param(end, types::I32);
        self.b.ins().jump(end, &[BlockArg::Value(ok)]);
        let outside: Vec<(Buf, Block)> = {
            let mut all: Vec<_> = self.outside.iter().map(|(b, k)| (*b, *k)).collect();
            all.sort_by_key(|x| x.0);
            all
        };
        for (buf, block) in outside {
            self.b.switch_to_block(block);
            let index = self.b.block_params(block)[0];
            let status = self.b.ins().iconst(types::I32, ERR_ARGUMENT);
            let place = self.text(&self.program.name.to_string());
            let what = self.text(&format!(
                "index out of bounds of `{}`",
                self.program.bufs[buf].name
            ));
            let status = self.scalars_call("rx_fail_int", &[status, place, what, index], true);
            self.b.ins().jump(self.fail, &[BlockArg::Value(status)]);
        }
        self.b.switch_to_block(self.fail);
        let status = self.b.block_params(self.fail)[0];
        self.b.ins().jump(end, &[BlockArg::Value(status)]);
        self.b.switch_to_block(end);
        let status = self.b.block_params(end)[0];
        for i in 0..self.temps.len() {
            let pointer = self
                .b
                .ins()
                .stack_load(types::I64, types::I64, self.frame, 8 * i as i32);
            let (free, next) = (self.b.create_block(), self.b.create_block());
            self.b.ins().brif(pointer, free, &[], next, &[]);
            self.b.switch_to_block(free);
            let f = self.env.import("rx_scratch_free", self.b.func);
            self.b.ins().call(f, &[self.ctx, pointer]);
            self.b.ins().jump(next, &[]);
            self.b.switch_to_block(next);
        }
        self.b.ins().return_(&[status]);
    }

    /// `for var in 0..extent`, with `body` emitted inside.
    fn for_loop(
        &mut self,
        var: Var,
        extent: &Ex,
        body: &mut dyn FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let end = self.eval(extent)?;
        let range = match extent.as_int() {
            Some(n) => (0, (n - 1).max(0)),
            None => (0, self.interval(extent).hi.saturating_sub(1).max(0)),
        };
        let (head, inside, done) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let i = self.b.append_block_param(head, types::I64);
        let zero = self.b.ins().iconst(types::I64, 0);
        self.b.ins().jump(head, &[BlockArg::Value(zero)]);
        self.b.switch_to_block(head);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, i, end);
        self.b.ins().brif(more, inside, &[], done, &[]);
        self.b.switch_to_block(inside);
        let old = (self.vars.insert(var, i), self.ranges.insert(var, range));
        self.over.insert(var, extent.clone());
        self.memo.push(FxHashMap::default());
        body(self)?;
        self.memo.pop();
        if let (Some(v), Some(r)) = old {
            self.vars.insert(var, v);
            self.ranges.insert(var, r);
        }
        let next = self.b.ins().iadd_imm_s(i, 1);
        self.b.ins().jump(head, &[BlockArg::Value(next)]);
        self.b.switch_to_block(done);
        Ok(())
    }

    /// Loops nested over `axes`, the innermost holding `body`.
    fn loops(
        &mut self,
        axes: &[(Var, Ex)],
        body: &mut dyn FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        match axes.split_first() {
            None => body(self),
            Some(((var, extent), rest)) => {
                self.for_loop(*var, extent, &mut |k| k.loops(rest, body))
            }
        }
    }

    /// A computation over indices: loops over the output, a loop over the reduction inside.
    fn compute(&mut self, c: &Compute) -> Result<()> {
        if self.copies(c)? || self.strips(c)? {
            return Ok(());
        }
        self.place(c.out)?;
        let shape = self.program.bufs[c.out].shape.clone();
        let dtype = self.program.bufs[c.out].dtype;
        let axes: Vec<(Var, Ex)> = c.axes.iter().copied().zip(shape).collect();
        let index: Vec<Ex> = c.axes.iter().map(|&v| Ex::var(v, DType::I64)).collect();
        self.loops(&axes, &mut |k| {
            let value = match &c.reduce {
                None => k.eval(&c.value)?,
                Some(reduce) => {
                    let acc = k.b.declare_var(register(dtype));
                    let start = k.neutral(reduce.combiner, dtype);
                    k.b.def_var(acc, start);
                    k.loops(&reduce.axes, &mut |k| {
                        k.combine(reduce.combiner, dtype, acc, &c.value)
                    })?;
                    let total = k.b.use_var(acc);
                    k.scalars().rounded(dtype, total)
                }
            };
            let address = k.address(c.out, &index)?;
            k.scalars().store(dtype, value, address);
            Ok(())
        })
    }

    fn neutral(&mut self, combiner: Combiner, dtype: DType) -> Value {
        let limit = |low: bool| {
            dtype
                .int_range()
                .map(|(a, b)| if low { a } else { b } as i64)
        };
        let mut s = self.scalars();
        match combiner {
            Combiner::Sum | Combiner::Or => s.int(dtype, 0),
            Combiner::Prod => s.int(dtype, 1),
            Combiner::And if dtype.is_bool() => s.int(dtype, 1),
            Combiner::And => s.int(dtype, -1),
            Combiner::Max => match limit(true) {
                Some(v) => s.int(dtype, v),
                None => s.float(dtype, f64::NEG_INFINITY),
            },
            Combiner::Min => match limit(false) {
                Some(v) => s.int(dtype, v),
                None => s.float(dtype, f64::INFINITY),
            },
        }
    }

    /// One step of a reduction. Narrow floats are summed in `f32` and rounded at the end.
    fn combine(
        &mut self,
        combiner: Combiner,
        dtype: DType,
        acc: Variable,
        value: &Ex,
    ) -> Result<()> {
        use relax_loops::BinOp;
        let v = self.eval(value)?;
        let a = self.b.use_var(acc);
        let op = match combiner {
            Combiner::Sum => BinOp::Add,
            Combiner::Prod => BinOp::Mul,
            Combiner::Max => BinOp::Max,
            Combiner::Min => BinOp::Min,
            Combiner::And => BinOp::And,
            Combiner::Or => BinOp::Or,
        };
        let wide = if register(dtype) == types::F32 {
            DType::F32
        } else {
            dtype
        };
        let r = self.scalars().binary(op, wide, a, v);
        let r = r.ok_or_else(|| Unsupported(format!("a {combiner:?} reduction of {dtype}")))?;
        self.b.def_var(acc, r);
        Ok(())
    }

    fn block(&mut self, stmts: &[Stmt]) -> Result<()> {
        let mut scratch = Vec::new();
        for s in stmts {
            self.stmt(s, &mut scratch)?;
        }
        for pointer in scratch {
            let f = self.env.import("rx_scratch_free", self.b.func);
            self.b.ins().call(f, &[self.ctx, pointer]);
        }
        Ok(())
    }

    fn nested(&mut self, stmts: &[Stmt]) -> Result<()> {
        self.memo.push(FxHashMap::default());
        let result = self.block(stmts);
        self.memo.pop();
        result
    }

    fn stmt(&mut self, s: &Stmt, scratch: &mut Vec<Value>) -> Result<()> {
        match s {
            Stmt::For {
                var,
                extent,
                mark: _,
                body,
            } => {
                self.forget_loads();
                self.for_loop(*var, extent, &mut |k| k.block(body))?;
                self.forget_loads();
            }
            Stmt::While { cond, body } => {
                self.forget_loads();
                let [head, inside, done] = [(); 3].map(|()| self.b.create_block());
                self.b.ins().jump(head, &[]);
                self.b.switch_to_block(head);
                self.memo.push(FxHashMap::default());
                let c = self.eval(cond)?;
                self.b.ins().brif(c, inside, &[], done, &[]);
                self.b.switch_to_block(inside);
                self.nested(body)?;
                self.memo.pop();
                self.b.ins().jump(head, &[]);
                self.b.switch_to_block(done);
                self.forget_loads();
            }
            Stmt::If {
                cond,
                then,
                otherwise,
            } => {
                let c = self.eval(cond)?;
                let [yes, no, done] = [(); 3].map(|()| self.b.create_block());
                self.b.ins().brif(c, yes, &[], no, &[]);
                for (block, body) in [(yes, then), (no, otherwise)] {
                    self.b.switch_to_block(block);
                    self.nested(body)?;
                    self.b.ins().jump(done, &[]);
                }
                self.b.switch_to_block(done);
                self.forget_loads();
            }
            Stmt::Store { buf, index, value } => {
                let v = self.eval(value)?;
                let address = self.address(*buf, index)?;
                let dtype = self.program.bufs[*buf].dtype;
                self.scalars().store(dtype, v, address);
                self.forget_loads();
            }
            Stmt::Let { var, value } => {
                let v = self.eval(value)?;
                let i = self.interval(value);
                if i.exact {
                    self.ranges.insert(*var, (i.lo, i.hi));
                }
                self.vars.insert(*var, v);
            }
            Stmt::Alloc { buf } => self.alloc_local(*buf, scratch)?,
            Stmt::Init { over, body } => {
                let mut first = self.b.ins().iconst(types::I8, 1);
                for v in over {
                    let at_zero = self.b.ins().icmp_imm_s(IntCC::Equal, self.vars[v], 0);
                    first = self.b.ins().band(first, at_zero);
                }
                let [yes, done] = [(); 2].map(|()| self.b.create_block());
                self.b.ins().brif(first, yes, &[], done, &[]);
                self.b.switch_to_block(yes);
                self.nested(body)?;
                self.b.ins().jump(done, &[]);
                self.b.switch_to_block(done);
                self.forget_loads();
            }
            Stmt::Assert { cond, message } => {
                let c = self.eval(cond)?;
                let [ok, bad] = [(); 2].map(|()| self.b.create_block());
                self.b.set_cold_block(bad);
                self.b.ins().brif(c, ok, &[], bad, &[]);
                self.b.switch_to_block(bad);
                let status = self.b.ins().iconst(types::I32, ERR_ARGUMENT);
                let place = self.text(&self.program.name.to_string());
                let what = self.text(message);
                let status = self.scalars_call("rx_fail", &[status, place, what], true);
                self.b.ins().jump(self.fail, &[BlockArg::Value(status)]);
                self.b.switch_to_block(ok);
            }
        }
        Ok(())
    }

    fn alloc_local(&mut self, buf: Buf, scratch: &mut Vec<Value>) -> Result<()> {
        let shape = self.program.bufs[buf].shape.clone();
        let dtype = self.program.bufs[buf].dtype;
        let extents: Vec<Value> = shape.iter().map(|e| self.eval(e)).collect::<Result<_>>()?;
        let count: Option<i64> = shape
            .iter()
            .try_fold(1i64, |n, e| n.checked_mul(e.as_int()?));
        let bytes = count.and_then(|n| n.checked_mul(dtype.size() as i64));
        let data = match bytes.filter(|&n| (0..=STACK_BYTES).contains(&n)) {
            Some(n) => {
                let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, n.max(8) as u32, 4);
                let slot = self.b.create_sized_stack_slot(slot);
                self.b.ins().stack_addr(types::I64, slot, 0)
            }
            None => {
                let bytes = self.byte_size(dtype, &extents);
                let data = self.scalars_call("rx_scratch_alloc", &[bytes], true);
                self.fail_if_null(data);
                scratch.push(data);
                data
            }
        };
        self.places.insert(buf, Place { data, extents });
        Ok(())
    }

    /// After a store, elements read before may have changed.
    fn forget_loads(&mut self) {
        for layer in &mut self.memo {
            layer.clear();
        }
    }
}

/// DLPack's dtype as the four bytes that the C interface takes.
pub(crate) fn dl_dtype(dtype: DType) -> i64 {
    let (code, bits): (i64, i64) = match dtype.code {
        TypeCode::UInt if dtype.bits == 1 => (6, 8),
        code => (code as i64, dtype.bits.into()),
    };
    code | bits << 8 | i64::from(dtype.lanes) << 16
}
