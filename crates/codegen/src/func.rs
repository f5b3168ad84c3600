//! Functions: control flow over values.
//!
//! A function of the module is `value (ctx, args…)`, a closure's code
//! `value (ctx, closure, args…)`, both in Cranelift's tail-call convention. They own the closure
//! and their arguments, but for those that are lent, and return an owned value, or null after an
//! error was recorded in the context. Tensors of rank 0 may be handed over as scalars; a function
//! with such a result returns whether all went well, and the scalar. See `docs/values.md`.

use cranelift_codegen::ir::{AbiParam, Block, InstBuilder, Signature, Value, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use cranelift_module::{DataId as ClifData, FuncId as ClifFunc};
use relax_base::{SideTable, Symbol};
use relax_lower::lir::{self, FnId, Hold, LFunc, Reg};
use relax_runtime::abi;
use rustc_hash::FxHashMap;

use crate::env::Env;
use crate::kernel::Unsupported;
use crate::scalar::register;
use crate::unwind::{self, Owned};

mod calls;
mod checks;
mod fail;
mod inst;
mod launch;
mod objects;
mod values;

/// The entities that a function's code refers to: other functions, kernels, objects in read-only
/// data.
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
    /// The addresses of values' extents, as far as the current block has loaded them.
    shapes: FxHashMap<Value, Value>,
    /// Whether reference counting is left to the runtime: a function that mainly calls many kernels
    /// spends its time there, and its code is large enough without it.
    brief: bool,
    /// Returns null.
    fail: Block,
    /// The references to be released after an error.
    owned: Owned,
    /// Blocks that release a value and continue at another.
    pads: Vec<(Block, Value, Block)>,
}

/// The number of kernel calls above which a function's reference counting is left to the runtime.
const MANY: usize = 16;

/// Number of calls of kernels in a function.
fn kernels(f: &LFunc) -> usize {
    let insts = f.blocks.values().flat_map(|b| &b.insts);
    insts
        .filter(|i| matches!(i, lir::Inst::Kernel { .. }))
        .count()
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
        shapes: FxHashMap::default(),
        brief: kernels(f) > MANY,
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
        e.shapes.clear();
        // A block without predecessors owns nothing.
        e.owned.restart(starts.get(&id).map_or(&[][..], |s| &s[..]));
        let mut rest = &f.blocks[id].insts[..];
        while let Some((inst, after)) = rest.split_first() {
            // A call releases the arguments that die with it.
            let (released, done) = e.released(inst, after);
            e.inst(inst, released)?;
            let (with, after) = after.split_at(done);
            for inst in std::iter::once(inst).chain(with) {
                unwind::step(&mut e.owned, inst);
            }
            rest = after;
        }
        e.term(&f.blocks[id].term);
    }
    e.emit_cleanups();
    e.b.switch_to_block(e.fail);
    // A failure without a source location of its own (an allocation) is reported for this function.
    let place = e.place();
    let (place, also) = (e.text(&place), e.int32(0));
    e.call(abi::rx_fail_at, &[e.ctx, place, also]);
    let mut nothing = vec![e.b.ins().iconst(types::I64, 0)];
    if let Some(dtype) = f.result {
        nothing.push(e.scalars().int(dtype, 0));
    }
    e.b.ins().return_(&nothing);
    Ok(())
}
