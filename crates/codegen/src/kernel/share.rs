//! Loops whose iterations are shared among the context's threads.
//!
//! The loop's body becomes a function of its own, `void part(data, begin, end, worker)`, that
//! `rx_parallel_for` calls for pieces of the range. `data` points at a frame with the values that
//! the body reads from the enclosing scope:
//!
//! | word | holds |
//! |---|---|
//! | 0 | the context |
//! | 1 | the first iteration in which a check failed; all ones while there is none |
//! | 2 | 1 where a failure is to be recorded |
//! | 3 | the status of the failure that was recorded |
//! | from 4 on | data and extents of buffers, scalars |
//!
//! Errors are recorded by the context's own thread alone: a failing check on a worker only records
//! its iteration. When all pieces are done, the first of these iterations runs again on the
//! context's thread, so that the error is the same for any number of threads.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AtomicRmwOp, BlockArg, Function, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind,
    UserFuncName, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::Linkage;
use relax_loops::{
    Buf, Ex, ExKind, Mark, Stmt, UnOp, Var, schedule, simplify, statements, visit_expr,
};
use relax_runtime::abi;
use rustc_hash::{FxHashMap, FxHashSet};

use super::memory::local_bytes;
use super::nest::Body;
use super::{ERR_ARGUMENT, Kernel, Place, Result};
use crate::scalar::register;

/// Work that is surely worth a thread, in elementary operations: about the time it takes to wake
/// a sleeping worker (`cargo run --release -p relax-runtime --example bench_threads` measures
/// both).
const GRAIN: i64 = 1 << 16;
/// Loops with less work in all are not shared. At run time those up to [`GRAIN`] are timed first.
const LITTLE: i64 = GRAIN / 2;

/// The shared loop whose body is being emitted.
pub(super) struct Shared {
    /// The frame.
    data: Value,
    /// The loop's variable.
    var: Var,
}

const FIRST: i32 = 8;
const REPORT: i32 = 16;
const STATUS: i32 = 24;
const WORDS: i32 = 32;

/// The buffers and scalars that a body uses.
#[derive(Default)]
struct Uses {
    bufs: FxHashSet<Buf>,
    vars: FxHashSet<Var>,
    /// Whether it allocates from the heap, which belongs to one thread.
    heap: bool,
}

impl Uses {
    fn expr(&mut self, e: &Ex) {
        visit_expr(e, |x| match x.kind() {
            ExKind::Var(v) => {
                self.vars.insert(*v);
            }
            ExKind::Load(b, _) => {
                self.bufs.insert(*b);
            }
            _ => {}
        });
    }
}

/// The approximate number of elementary operations of an expression.
fn weight(e: &Ex) -> i64 {
    let mut n = 0;
    visit_expr(e, |x| {
        n += match x.kind() {
            ExKind::Int(_) | ExKind::Float(_) | ExKind::Var(_) => 0,
            ExKind::Unary(op, _) => match op {
                UnOp::Neg | UnOp::Abs | UnOp::Not => 1,
                UnOp::Sqrt | UnOp::Floor | UnOp::Ceil | UnOp::Trunc => 4,
                _ => 16,
            },
            _ => 1,
        }
    });
    n.max(1)
}

impl Kernel<'_, '_, '_> {
    fn uses(&self, body: Body<'_>) -> Uses {
        let mut uses = Uses::default();
        match body {
            Body::Elements(c, _) => {
                uses.bufs.insert(c.out);
                uses.vars.extend(&c.axes);
                self.program.bufs[c.out]
                    .shape
                    .iter()
                    .for_each(|e| uses.expr(e));
                uses.expr(&c.value);
                for (_, n) in c.reduce.iter().flat_map(|r| &r.axes) {
                    uses.expr(n);
                }
            }
            Body::Stmts(stmts) => {
                for s in statements(stmts) {
                    s.exprs().for_each(|e| uses.expr(e));
                    match s {
                        Stmt::Store { buf, .. } => {
                            uses.bufs.insert(*buf);
                        }
                        Stmt::Alloc { buf } => {
                            let b = &self.program.bufs[*buf];
                            uses.heap |= local_bytes(self.program, *buf).is_none();
                            b.shape.iter().for_each(|e| uses.expr(e));
                        }
                        Stmt::Init { over, .. } => uses.vars.extend(over),
                        _ => {}
                    }
                }
            }
        }
        uses
    }

    /// The approximate number of operations of one run of a body, as an expression over values
    /// known outside it.
    fn cost(&self, body: Body<'_>) -> Ex {
        // An extent that is known only inside counts as some iterations.
        let times = |e: &Ex| {
            let mut known = true;
            visit_expr(e, |x| {
                known &= match x.kind() {
                    ExKind::Var(v) => self.vars.contains_key(v),
                    ExKind::Load(..) => false,
                    _ => true,
                }
            });
            if known { e.clone() } else { Ex::idx(8) }
        };
        let total = match body {
            Body::Elements(c, axis) => {
                let shape = self.program.bufs[c.out].shape[axis..].iter();
                let sums = c.reduce.iter().flat_map(|r| &r.axes).map(|a| &a.1);
                let one = Ex::idx(weight(&c.value) + 1);
                shape.chain(sums).fold(one, |n, e| n * &times(e))
            }
            Body::Stmts(stmts) => {
                // Statements, each with the number of its repetitions.
                let mut work: Vec<(&Stmt, Ex)> = stmts.iter().map(|s| (s, Ex::idx(1))).collect();
                let mut total = Ex::idx(1);
                while let Some((s, n)) = work.pop() {
                    let own = match s {
                        Stmt::Store { value, .. } | Stmt::Let { value, .. } => 1 + weight(value),
                        _ => 1,
                    };
                    let inside = match s {
                        Stmt::For { extent, .. } => &n * &times(extent),
                        Stmt::While { .. } => &n * 8,
                        _ => n.clone(),
                    };
                    let blocks = s.bodies().into_iter().flatten();
                    work.extend(blocks.map(|s| (s, inside.clone())));
                    total = total + &(&n * own);
                }
                total
            }
        };
        simplify(&total, &|_| None)
    }

    /// Emits the loop as one shared among threads; `false` where that is impossible, or never pays.
    pub(super) fn share(&mut self, var: Var, extent: &Ex, body: Body<'_>) -> Result<bool> {
        if self.shared.is_some() || extent.as_int().is_some_and(|n| n < 2) {
            return Ok(false);
        }
        if let Body::Stmts(stmts) = body
            && schedule::independent(self.program, var, stmts).is_err()
        {
            return Ok(false);
        }
        let uses = self.uses(body);
        let cost = self.cost(body);
        let all = extent.as_int().zip(cost.as_int());
        let small = all.is_some_and(|(n, c)| n.saturating_mul(c) < LITTLE);
        if uses.heap || small {
            return Ok(false);
        }
        let end = self.eval(extent)?;
        self.held.push(cost.clone());
        let cost = self.eval(&cost)?;
        let (frame, words) = self.shared_frame(&uses, var);
        let part = self.part(var, extent, body, &words)?;

        let part = self.env.module.declare_func_in_func(part, self.b.func);
        let code = self.b.ins().func_addr(types::I64, part);
        let one = self.b.ins().iconst(types::I64, 1);
        let cost = self.b.ins().smax(cost, one);
        let least = self.b.ins().iconst(types::I64, GRAIN);
        let grain = self.b.ins().udiv(least, cost);
        let run = self.env.import(abi::rx_parallel_for, self.b.func);
        self.b.ins().call(run, &[self.ctx, end, grain, code, frame]);

        // An iteration failed: it runs again, to record its error.
        let flags = MemFlagsData::trusted();
        let first = self.b.ins().load(types::I64, flags, frame, FIRST);
        let fine = self.b.ins().icmp_imm_s(IntCC::Equal, first, -1);
        let [again, quiet, done] = [(); 3].map(|()| self.b.create_block());
        self.b.set_cold_block(again);
        self.b.set_cold_block(quiet);
        self.b.ins().brif(fine, done, &[], again, &[]);
        self.b.switch_to_block(again);
        self.b.ins().store(flags, one, frame, REPORT);
        let next = self.b.ins().iadd_imm_s(first, 1);
        let worker = self.b.ins().iconst(types::I32, 0);
        self.b.ins().call(part, &[frame, first, next, worker]);
        let status = self.b.ins().load(types::I32, flags, frame, STATUS);
        let told = [BlockArg::Value(status)];
        self.b.ins().brif(status, self.fail, &told, quiet, &[]);
        self.b.switch_to_block(quiet);
        let status = self.b.ins().iconst(types::I32, ERR_ARGUMENT);
        let place = self.text(&self.program.name.to_string());
        let what = self.text("an iteration of a parallel loop failed");
        let status = self.scalars_call(abi::rx_fail, &[status, place, what], true);
        self.b.ins().jump(self.fail, &[BlockArg::Value(status)]);
        self.b.switch_to_block(done);
        self.forget_loads();
        Ok(true)
    }

    /// The frame in memory, and the layout of its words.
    fn shared_frame(&mut self, uses: &Uses, var: Var) -> (Value, Words) {
        let mut words = Words::default();
        let mut bufs: Vec<Buf> = uses.bufs.iter().copied().collect();
        bufs.sort();
        let mut values = Vec::new();
        for buf in bufs {
            let Some(place) = self.places.get(&buf).cloned() else {
                // Allocated inside.
                continue;
            };
            let shape = &self.program.bufs[buf].shape;
            values.push(place.data);
            let fixed: Vec<Option<i64>> = shape.iter().map(Ex::as_int).collect();
            for (e, fixed) in place.extents.iter().zip(&fixed) {
                if fixed.is_none() {
                    values.push(*e);
                }
            }
            words.bufs.push((buf, fixed));
        }
        let mut vars: Vec<Var> = uses.vars.iter().copied().filter(|&v| v != var).collect();
        vars.sort();
        for v in vars {
            if let Some(&value) = self.vars.get(&v) {
                values.push(value);
                words.vars.push(v);
            }
        }
        values.extend(self.tables.as_ref().map(|t| t.data));
        let size = WORDS as u32 + 8 * values.len() as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        let frame = self.b.ins().stack_addr(types::I64, slot, 0);
        let flags = MemFlagsData::trusted();
        let (none, zero) = (
            self.b.ins().iconst(types::I64, -1),
            self.b.ins().iconst(types::I64, 0),
        );
        for (v, at) in [(self.ctx, 0), (none, FIRST), (zero, REPORT), (zero, STATUS)] {
            self.b.ins().store(flags, v, frame, at);
        }
        for (k, v) in values.into_iter().enumerate() {
            self.b.ins().store(flags, v, frame, WORDS + 8 * k as i32);
        }
        (frame, words)
    }

    /// The function that runs a part of the range.
    fn part(
        &mut self,
        var: Var,
        extent: &Ex,
        body: Body<'_>,
        words: &Words,
    ) -> Result<cranelift_module::FuncId> {
        let sig = self.env.signature("plli>");
        let name = format!("relax.part.{}", self.env.part_count);
        self.env.part_count += 1;
        let declared = self
            .env
            .module
            .declare_function(&name, Linkage::Local, &sig);
        let id = declared.expect("names with numbers are fresh");
        let mut function = Function::with_name_signature(UserFuncName::user(0, id.as_u32()), sig);
        let mut builders = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut function, &mut builders);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let [data, begin, end] = [0, 1, 2].map(|i| b.block_params(entry)[i]);
        let flags = MemFlagsData::trusted();
        let ctx = b.ins().load(types::I64, flags, data, 0);
        let (mut places, mut vars) = (FxHashMap::default(), FxHashMap::default());
        let mut at = WORDS;
        let mut next = |b: &mut FunctionBuilder<'_>, ty| {
            at += 8;
            b.ins().load(ty, flags, data, at - 8)
        };
        for (buf, fixed) in &words.bufs {
            let pointer = next(&mut b, types::I64);
            let extents = (fixed.iter())
                .map(|n| match n {
                    Some(n) => b.ins().iconst(types::I64, *n),
                    None => next(&mut b, types::I64),
                })
                .collect();
            let data = pointer;
            places.insert(*buf, Place { data, extents });
        }
        for &v in &words.vars {
            let ty = register(self.program.vars[v].dtype);
            vars.insert(v, next(&mut b, ty));
        }
        let tables = self.tables.as_ref();
        let tables = tables.map(|t| t.at(next(&mut b, types::I64)));
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3);
        let frame = b.create_sized_stack_slot(slot);
        let (fail, quit) = (b.create_block(), b.create_block());
        b.append_block_param(fail, types::I32);
        let mut k = Kernel {
            b: &mut b,
            env: self.env,
            def: self.def,
            program: self.program,
            packed: self.packed,
            ctx,
            outputs: data,
            places,
            sizes: FxHashMap::default(),
            vars,
            over: self.over.clone(),
            ranges: self.ranges.clone(),
            memo: vec![FxHashMap::default()],
            held: Vec::new(),
            frame,
            temps: Vec::new(),
            drafts: FxHashMap::default(),
            tables,
            unwritten: self.unwritten,
            auto: self.auto,
            group: None,
            shared: Some(Shared { data, var }),
            fail,
            outside: FxHashMap::default(),
        };
        let mark = if k.auto { Mark::Serial } else { Mark::Parallel };
        k.range(var, extent, (begin, end), mark, body)?;
        k.b.ins().jump(quit, &[]);
        k.fail_outside();
        k.b.switch_to_block(fail);
        let status = k.b.block_params(fail)[0];
        k.b.ins().store(flags, status, data, STATUS);
        k.b.ins().jump(quit, &[]);
        k.b.switch_to_block(quit);
        k.b.ins().return_(&[]);
        b.seal_all_blocks();
        b.finalize(self.env.module.target_config());
        self.env.parts.push((id, function));
        Ok(id)
    }

    /// The current iteration of the shared loop; 0 outside of one.
    pub(super) fn iteration(&mut self) -> Value {
        match &self.shared {
            Some(s) => self.vars[&s.var],
            None => self.b.ins().iconst(types::I64, 0),
        }
    }

    /// Called where a check has failed in iteration `at`; the code emitted next records the
    /// failure. A shared loop gets here in its second run only; in the first it records the
    /// iteration and returns.
    pub(super) fn only_once(&mut self, at: Value) {
        let Some(Shared { data, .. }) = self.shared else {
            return;
        };
        let flags = MemFlagsData::trusted();
        let report = self.b.ins().load(types::I64, flags, data, REPORT);
        let [aloud, note] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(report, aloud, &[], note, &[]);
        self.b.switch_to_block(note);
        let first = self.b.ins().iadd_imm_s(data, i64::from(FIRST));
        self.b
            .ins()
            .atomic_rmw(types::I64, flags, AtomicRmwOp::Umin, first, at);
        self.b.ins().return_(&[]);
        self.b.switch_to_block(aloud);
    }
}

/// The layout of a frame: buffers with their constant extents, scalars.
#[derive(Default)]
struct Words {
    bufs: Vec<(Buf, Vec<Option<i64>>)>,
    vars: Vec<Var>,
}
