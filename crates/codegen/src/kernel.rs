//! A tensor program as one function: `int32_t kernel(ctx, inputs, outputs)`.
//!
//! `inputs` points at the input tensors, borrowed. `outputs` points at one word per output: null,
//! to have the kernel allocate it (its extents may be known only after some stages), or a tensor to
//! write into. The result is 0 or a status with the message in the context; outputs that the kernel
//! had allocated by then stay in `outputs`, the caller releases them.

use cranelift_codegen::ir::{
    Block, BlockArg, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value,
    types,
};
use cranelift_frontend::FunctionBuilder;
use relax_loops::{Buf, Ex, Program, Role, Stage, Stmt, Var, statements};
use relax_lower::lir::KernelDef;
use relax_runtime::abi::{self, Function};
use relax_runtime::context::Status;
use relax_runtime::object::RxTensor;
use relax_tensor::{DType, TypeCode};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::env::Env;
pub use crate::error::Unsupported;
use crate::scalar::{Scalars, words};
use memory::local_bytes;

mod attention;
mod bind;
mod clip;
mod contract;
mod copies;
mod cut;
mod digits;
mod draft;
mod encoding;
mod eval;
mod lanes;
mod lines;
mod memory;
mod moved;
mod nest;
mod picks;
mod share;
mod spread;
mod strips;
mod sweep;
mod tables;
mod translate;
pub(crate) mod tuned;
mod vector;
pub(crate) mod windows;

/// Offsets in `RxTensor`.
const DATA: i32 = std::mem::offset_of!(RxTensor, data) as i32;
const SHAPE: i32 = std::mem::offset_of!(RxTensor, shape) as i32;
const NBYTES: i32 = std::mem::offset_of!(RxTensor, nbytes) as i32;
/// Status codes of the runtime.
const ERR_MEMORY: i64 = Status::Memory as i64;
const ERR_SHAPE: i64 = Status::Shape as i64;
const ERR_EXTENT: i64 = Status::Extent as i64;
const ERR_ARGUMENT: i64 = Status::Argument as i64;
const ERR_BOUNDS: i64 = Status::Bounds as i64;
const ERR_ASSERTION: i64 = Status::Assertion as i64;

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
    def: &'a KernelDef,
    program: &'a Program,
    /// Inputs that come packed, in the form of the kernel that reads them.
    packed: &'a [Buf],
    ctx: Value,
    outputs: Value,
    places: FxHashMap<Buf, Place>,
    /// The bytes of tensors, by what they say themselves; of code that is checked.
    sizes: FxHashMap<Buf, Value>,
    vars: FxHashMap<Var, Value>,
    /// The extents that loop variables run over, as written.
    over: FxHashMap<Var, Ex>,
    /// Bounds of variables, for proofs that an index is inside.
    ranges: FxHashMap<Var, (i64, i64)>,
    /// Values of expressions by address, one layer per block that dominates what follows.
    memo: Vec<FxHashMap<usize, Value>>,
    /// Expressions that are made here and evaluated: values are known by address.
    held: Vec<Ex>,
    /// Buffers from the heap that were taken, and the memory of tables, one word each; null while
    /// there is none.
    frame: StackSlot,
    temps: Vec<Option<Buf>>,
    /// What the computation at hand looks up.
    tables: Option<tables::Tables>,
    /// Structures for the runtime that are not written yet.
    drafts: FxHashMap<StackSlot, draft::Draft>,
    /// Buffers whose elements are 0 where no statement writes them first.
    unwritten: &'a FxHashSet<Buf>,
    /// Whether nobody has scheduled the program, so that its loops run as seems best.
    auto: bool,
    /// In a vector loop: its lanes.
    group: Option<vector::Group>,
    /// In a loop whose iterations are shared among threads.
    shared: Option<share::Shared>,
    /// Ends the kernel with a status.
    fail: Block,
    /// For each access, where an index outside goes.
    outside: FxHashMap<Access, Block>,
}

/// An axis of an access, for messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Access {
    buf: Buf,
    axis: u32,
    /// Its number among the accesses whose places are known.
    place: Option<u32>,
}

/// Emits the program of `def` as the body of the function that `b` builds, which has the signature
/// `ppp>i`.
pub(crate) fn emit(
    b: &mut FunctionBuilder<'_>,
    env: &mut Env<'_>,
    def: &KernelDef,
    packed: &[Buf],
) -> Result<()> {
    let unwritten = &relax_loops::unwritten(&def.program);
    let program = relax_loops::with_starts(&def.program);
    let program = relax_loops::quantised::hint_requantised(program);
    let program = &*relax_loops::shorten_round_trips(program);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    // What the entry does is known at the end: which words of the frame there are.
    b.func.layout.append_block(entry);
    let body = b.create_block();
    b.switch_to_block(body);
    let [ctx, inputs, outputs] = [0, 1, 2].map(|i| b.block_params(entry)[i]);
    let from_heap = (program.bufs.iter()).filter(|(id, x)| match x.role {
        Role::Temp => true,
        Role::Local => local_bytes(program, *id).is_none(),
        Role::Input | Role::Output => false,
    });
    let size = 8 * (from_heap.count() + 1) as u32;
    let frame = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3));
    let fail = b.create_block();
    b.append_block_param(fail, types::I32);
    let mut k = Kernel {
        b,
        env,
        def,
        program,
        packed,
        ctx,
        outputs,
        places: FxHashMap::default(),
        sizes: FxHashMap::default(),
        vars: FxHashMap::default(),
        over: FxHashMap::default(),
        ranges: FxHashMap::default(),
        memo: vec![FxHashMap::default()],
        held: Vec::new(),
        frame,
        temps: Vec::new(),
        drafts: FxHashMap::default(),
        tables: None,
        unwritten,
        auto: !nest::has_marks(program),
        group: None,
        shared: None,
        fail,
        outside: FxHashMap::default(),
    };
    k.bind(inputs, outputs)?;
    let attention = relax_loops::attention::find(program);
    let needed = tuned::needed(program, &attention);
    // A product with an epilogue runs where its epilogue stands: what that reads is ready there.
    let mut fused = relax_loops::epilogue::find(program);
    let of_attention = |k: usize| matches!(&program.stages[k], Stage::Compute(c) if attention.iter().any(|a| a.out == c.out));
    fused.retain(|f| {
        needed[f.consumer]
            && !of_attention(f.producer)
            && matches!(&program.stages[f.producer],
                Stage::Compute(c) if tuned::hint_of(program, c).is_some())
    });
    let mut pooled = relax_loops::pooled::find(program, &fused);
    pooled.retain(|p| needed[p.pool]);
    for (i, stage) in program.stages.iter().enumerate() {
        let later = fused.iter().any(|f| f.producer == i) || pooled.iter().any(|p| p.last == i);
        if !needed[i] || later {
            continue;
        }
        if let Some(p) = pooled.iter().find(|p| p.pool == i) {
            let epilogue = fused.iter().find(|f| f.consumer == p.last);
            let epilogue = epilogue.map(|f| f.epilogue.clone()).unwrap_or_default();
            k.pooled(p, &epilogue)?;
            continue;
        }
        match stage {
            Stage::Compute(c) => {
                if let Some(a) = attention.iter().find(|a| a.out == c.out) {
                    k.attention(a)?;
                    continue;
                }
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
                if k.lines(stmts)? {
                    continue;
                }
                for buf in written(stmts) {
                    k.place(buf)?;
                }
                k.nests(stmts)?;
            }
        }
    }
    for &buf in &program.outputs {
        k.place(buf)?;
    }
    k.finish(entry, body);
    Ok(())
}

/// Buffers that outlive the statements and are stored to in them.
fn written(stmts: &[Stmt]) -> Vec<Buf> {
    let mut found: Vec<Buf> = (statements(stmts))
        .filter_map(|s| match s {
            Stmt::Store { buf, .. } => Some(*buf),
            _ => None,
        })
        .collect();
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

    /// Ends the kernel with a message in which each `{}` stands for the next of `values`. Where no
    /// place of its own is known, the caller adds that of the call.
    fn fail_showing(
        &mut self,
        status: i64,
        place: Option<relax_base::Symbol>,
        text: &str,
        values: &[Value],
    ) {
        let slot = words(self.b, values);
        let n = self.b.ins().iconst(types::I32, values.len() as i64);
        let status = self.b.ins().iconst(types::I32, status);
        let place = match place {
            Some(p) => self.text(p.as_str()),
            None => self.b.ins().iconst(types::I64, 0),
        };
        let text = self.text(text);
        let args = [status, place, text, slot, n];
        let status = self.scalars_call(abi::rx_fail_values, &args, true);
        self.b.ins().jump(self.fail, &[BlockArg::Value(status)]);
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

    fn scalars_call(&mut self, function: Function, args: &[Value], with_ctx: bool) -> Value {
        let mut all = if with_ctx { vec![self.ctx] } else { vec![] };
        all.extend(args);
        self.scalars().call(function, &all)
    }

    /// The ends of checks that failed.
    fn fail_outside(&mut self) {
        let mut outside: Vec<(Access, Block)> = self.outside.drain().collect();
        outside.sort_by_key(|x| x.0);
        for (access, block) in outside {
            self.b.switch_to_block(block);
            let [index, at, extent] = [0, 1, 2].map(|i| self.b.block_params(block)[i]);
            self.only_once(at);
            let text = format!(
                "tensor program `{}`: index {{}} of axis {} is outside `{}`, whose extent there is {{}}",
                self.program.name, access.axis, self.program.bufs[access.buf].name
            );
            let place = match access.place {
                Some(k) => self.def.accesses.get(k as usize).copied(),
                None => self.part_reading(access.buf),
            };
            self.fail_showing(ERR_BOUNDS, place, &text, &[index, extent]);
        }
    }

    /// The place of the operator of a fused group whose indices into a buffer depend on data. Where
    /// several are, it could be any of them: the failure is the group's.
    fn part_reading(&self, buf: Buf) -> Option<relax_base::Symbol> {
        let mut readers = (self.program.readers.iter()).filter(|r| r.0 == buf);
        let part = readers.next()?.1;
        let one = readers.all(|r| r.1 == part);
        (self.def.parts.get(part as usize).copied()).filter(|_| one)
    }

    /// The successful end, and the failing one; both free what is left in the frame. Then the
    /// entry, which clears it and goes to the body.
    fn finish(&mut self, entry: Block, body: Block) {
        let ok = self.b.ins().iconst(types::I32, 0);
        let end = self.b.create_block();
        self.b.append_block_param(end, types::I32);
        self.b.ins().jump(end, &[BlockArg::Value(ok)]);
        self.fail_outside();
        self.b.switch_to_block(self.fail);
        let status = self.b.block_params(self.fail)[0];
        self.b.ins().jump(end, &[BlockArg::Value(status)]);
        self.b.switch_to_block(end);
        let status = self.b.block_params(end)[0];
        if !self.temps.is_empty() {
            let frame = self.b.ins().stack_addr(types::I64, self.frame, 0);
            let n = self.b.ins().iconst(types::I64, self.temps.len() as i64);
            let free = self.env.import(abi::rx_scratch_free_all, self.b.func);
            self.b.ins().call(free, &[self.ctx, frame, n]);
        }
        self.b.ins().return_(&[status]);
        self.b.switch_to_block(entry);
        let null = self.b.ins().iconst(types::I64, 0);
        for i in 0..self.temps.len() {
            self.b
                .ins()
                .stack_store(types::I64, null, self.frame, 8 * i as i32);
        }
        self.b.ins().jump(body, &[]);
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
