//! A tensor program as one function: `int32_t kernel(ctx, inputs, outputs)`.
//!
//! `inputs` points to the borrowed input tensors. `outputs` points to one word per output: null,
//! for the kernel to allocate it (its extents may be known only after some stages), or a tensor to
//! write into. The result is 0 or a status with the message in the context; outputs already
//! allocated then stay in `outputs`, and the caller releases them.

use cranelift_codegen::ir::{
    Block, BlockArg, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value,
    types,
};
use cranelift_frontend::FunctionBuilder;
use relax_loops::select::moves::Moves;
use relax_loops::select::{self, Alone, Selection, Step, Weights, Work};
use relax_loops::{Buf, Compute, Ex, Program, Role, Stage, Var};
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
mod boxes;
mod bytes;
mod clip;
mod contract;
mod copies;
mod draft;
mod encoding;
mod eval;
mod gathered;
mod invariant;
mod lanes;
mod lines;
mod lookup;
mod memory;
mod moved;
mod nest;
mod picks;
mod products;
mod share;
mod spread;
mod strided;
mod tables;
pub(crate) mod tuned;
mod vector;
mod vectors;
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

/// The memory of a buffer.
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
    /// Inputs that are passed packed, in the form of the kernel that reads them.
    packed: &'a [Buf],
    ctx: Value,
    outputs: Value,
    places: FxHashMap<Buf, Place>,
    /// The sizes in bytes of tensors by their own descriptions; only in checked code.
    sizes: FxHashMap<Buf, Value>,
    vars: FxHashMap<Var, Value>,
    /// The extents of loop variables, as written.
    over: FxHashMap<Var, Ex>,
    /// Bounds of variables, to prove that an index is in bounds.
    ranges: FxHashMap<Var, (i64, i64)>,
    /// Values of expressions by address, one layer per block that dominates the code emitted next.
    memo: Vec<FxHashMap<usize, Value>>,
    /// Expressions created here, kept alive since values are known by address.
    held: Vec<Ex>,
    /// Words for heap buffers and the memory of tables; null while not allocated.
    frame: StackSlot,
    temps: Vec<Option<Buf>>,
    /// The tables of the current computation.
    tables: Option<tables::Tables>,
    /// Descriptors for the runtime that have not been written yet.
    drafts: FxHashMap<StackSlot, draft::Draft>,
    /// Buffers that are zero-initialised, since a read before the first write is possible.
    unwritten: &'a FxHashSet<Buf>,
    /// Whether the program has no schedule, so that loop strategies are chosen here.
    auto: bool,
    /// In a vector loop: its lanes.
    group: Option<vector::Group>,
    /// In a loop whose iterations are shared among threads: that loop.
    shared: Option<share::Shared>,
    /// The block that ends the kernel with a status.
    fail: Block,
    /// For each access, the block for an index out of bounds.
    outside: FxHashMap<Access, Block>,
}

/// An axis of an access, for messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Access {
    buf: Buf,
    axis: u32,
    /// Its number among the accesses whose source locations are known.
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
    let Selection { program, steps } = select::select(program, Weights::Packed(packed));
    let program = &*program;
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    // The entry is filled in at the end, when the words of the frame are known.
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
        auto: !relax_loops::has_marks(program),
        group: None,
        shared: None,
        fail,
        outside: FxHashMap::default(),
    };
    k.bind(inputs, outputs)?;
    for step in &steps {
        k.step(step)?;
    }
    for &buf in &program.outputs {
        k.place(buf)?;
    }
    k.finish(entry, body);
    Ok(())
}

impl<'f, 'm> Kernel<'_, 'f, 'm> {
    /// Emits a step of the selection.
    fn step(&mut self, step: &Step) -> Result<()> {
        let stage = &self.program.stages[step.stage];
        match (&step.work, stage) {
            (Work::Hinted(h), _) => self.tuned(h),
            (Work::Lines(nest), _) => self.lines(nest),
            (Work::QuantizedProduct(f), _) => self.fused_bytes(f),
            (Work::PooledConvolution(p, epilogue), _) => self.pooled(p, epilogue),
            (Work::Attention(a), _) => self.attention(a),
            (Work::Alone(alone), Stage::Compute(c)) => self.computed(alone, c),
            (Work::Statements(_), Stage::Compute(c)) => self.compute(c),
            (work, Stage::Nest(stmts)) => {
                for buf in stage.written() {
                    self.place(buf)?;
                }
                let works = match work {
                    Work::Statements(works) => works.as_slice(),
                    _ => &[],
                };
                self.nests(stmts, works)
            }
        }
    }

    /// Emits a stage alone.
    fn computed(&mut self, work: &Alone, c: &Compute) -> Result<()> {
        match work {
            Alone::Copy(Moves::Copies(found)) => self.temporary(|k| k.copies(c, found)),
            Alone::Copy(Moves::Picks(groups)) => self.picks(c, groups),
            Alone::Contraction(found) => self.temporary(|k| k.contraction(c, found)),
            Alone::Vectors(found) => self.temporary(|k| k.vectors(c, found)),
            Alone::Lookup(found) => self.lookup(c, *found),
            Alone::Boxes(found) => self.boxes(c, found),
            Alone::Gathered(found) => self.gathered(c, found),
            Alone::Code => self.temporary(|k| k.compute(c)),
        }
    }

    /// Emits what evaluates expressions that do not outlive it: values are memoised by the address
    /// of their expression.
    fn temporary(&mut self, emit: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.memo.push(FxHashMap::default());
        let done = emit(self);
        self.memo.pop();
        done
    }

    fn scalars(&mut self) -> Scalars<'_, 'f, 'm> {
        Scalars {
            b: self.b,
            env: self.env,
        }
    }

    /// Ends the kernel with a message in which each `{}` is replaced by the next of `values`. Where
    /// it has no source location of its own, the caller adds that of the call.
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
        // The allocator has recorded its error; only the status remains to be returned.
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

    /// Emits the failing blocks of bounds checks.
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

    /// The source location of the operator in a fused group whose indices into a buffer depend on
    /// data. Where several do, it could be any of them: the failure is reported for the group.
    fn part_reading(&self, buf: Buf) -> Option<relax_base::Symbol> {
        let mut readers = (self.program.readers.iter()).filter(|r| r.0 == buf);
        let part = readers.next()?.1;
        let one = readers.all(|r| r.1 == part);
        (self.def.parts.get(part as usize).copied()).filter(|_| one)
    }

    /// Emits the exits for success and failure, which both free what is left in the frame, then the
    /// entry, which clears it and jumps to the body.
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
