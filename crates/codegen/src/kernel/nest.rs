//! Loops of a kernel: those over the elements of a computation, and loop nests as written.
//!
//! A loop runs in one of four ways: in order, several iterations at a time in vectors
//! ([`super::vector`]), on several threads ([`super::share`]), or unrolled. The marks of a schedule
//! decide which; without marks, loops with provably independent iterations run in vectors and on
//! threads where that pays. A mark that dependences between iterations forbid is ignored. Each
//! element is computed by the same operations in the same order in all four ways.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::Variable;
use relax_loops::{
    Buf, Combiner, Compute, Ex, ExKind, Mark, Stmt, Var, schedule, statements, visit_expr,
};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::clip::clipped;
use super::{ERR_ASSERTION, ERR_SHAPE, Kernel, Result, Unsupported};
use crate::scalar::register;

/// The maximum number of statements of an unrolled loop.
const MOST_WRITTEN: i64 = 512;

/// The body of a loop.
#[derive(Clone, Copy)]
pub(super) enum Body<'p> {
    /// Statements.
    Stmts(&'p [Stmt]),
    /// The elements of a computation, from this axis of its output inwards.
    Elements(&'p Compute, usize),
}

impl Kernel<'_, '_, '_> {
    /// The loop over `var` from 0 to `extent` (exclusive).
    pub(super) fn looped(
        &mut self,
        var: Var,
        extent: &Ex,
        mark: Mark,
        body: Body<'_>,
    ) -> Result<()> {
        if self.group.is_some() {
            return self.serial(var, extent, body);
        }
        let shared = match mark {
            Mark::Parallel => true,
            Mark::Serial => self.auto,
            _ => false,
        };
        if shared && self.share(var, extent, body)? {
            return Ok(());
        }
        if mark == Mark::Unroll
            && let Some(n) = extent.as_int().filter(|&n| n <= schedule::MOST_UNROLLED)
            && n * size(body) <= MOST_WRITTEN
        {
            return self.written_out(var, extent, n, body);
        }
        let (zero, end) = (self.b.ins().iconst(types::I64, 0), self.eval(extent)?);
        self.range(var, extent, (zero, end), mark, body)
    }

    /// A part of a loop's range, in order or in vectors.
    pub(super) fn range(
        &mut self,
        var: Var,
        extent: &Ex,
        (from, to): (Value, Value),
        mark: Mark,
        body: Body<'_>,
    ) -> Result<()> {
        if let Some(width) = self.vector_width(var, extent, mark, body) {
            return self.in_vectors(var, extent, (from, to), width, body);
        }
        self.in_order(var, extent, (from, to), &mut |k| k.body(body))
    }

    fn serial(&mut self, var: Var, extent: &Ex, body: Body<'_>) -> Result<()> {
        let (zero, end) = (self.b.ins().iconst(types::I64, 0), self.eval(extent)?);
        self.in_order(var, extent, (zero, end), &mut |k| k.body(body))
    }

    /// One iteration of a loop; in a vector loop, those of all lanes.
    pub(super) fn body(&mut self, body: Body<'_>) -> Result<()> {
        match body {
            Body::Stmts(stmts) if self.group.is_some() => self.vector_stmts(stmts),
            Body::Stmts(stmts) => self.block(stmts),
            Body::Elements(c, axis) => match c.axes.get(axis) {
                Some(&var) => {
                    let extent = self.program.bufs[c.out].shape[axis].clone();
                    self.invariants(c, axis)?;
                    self.looped(var, &extent, Mark::Serial, Body::Elements(c, axis + 1))
                }
                None if self.group.is_some() => self.vector_element(c),
                None => self.element(c),
            },
        }
    }

    /// Records what holds for a loop's variable inside the loop.
    pub(super) fn enter(&mut self, var: Var, extent: &Ex, value: Value) {
        self.runs_over(var, extent);
        self.vars.insert(var, value);
    }

    /// Records the range of an axis.
    pub(super) fn runs_over(&mut self, var: Var, extent: &Ex) {
        let most = match extent.as_int() {
            Some(n) => n - 1,
            None => self.interval(extent).hi.saturating_sub(1),
        };
        self.ranges.insert(var, (0, most.max(0)));
        self.over.insert(var, extent.clone());
    }

    /// Emits the iterations in order, with `body` inside.
    pub(super) fn in_order(
        &mut self,
        var: Var,
        extent: &Ex,
        (from, to): (Value, Value),
        body: &mut dyn FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        // One jump for each iteration: whether there is another one is asked at its end. What is
        // named last follows in the code.
        let [inside, done] = [(); 2].map(|()| self.b.create_block());
        let i = self.b.append_block_param(inside, types::I64);
        let none = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, from, to);
        let first = [BlockArg::Value(from)];
        self.b.ins().brif(none, done, &[], inside, &first);
        self.b.switch_to_block(inside);
        let old = (self.vars.get(&var).copied(), self.ranges.get(&var).copied());
        self.enter(var, extent, i);
        self.push_memo();
        body(self)?;
        self.pop_memo();
        if let (Some(v), Some(r)) = old {
            self.vars.insert(var, v);
            self.ranges.insert(var, r);
        }
        let next = self.b.ins().iadd_imm_s(i, 1);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, next, to);
        let again = [BlockArg::Value(next)];
        self.b.ins().brif(more, inside, &again, done, &[]);
        self.b.switch_to_block(done);
        Ok(())
    }

    /// Unrolls a loop.
    fn written_out(&mut self, var: Var, extent: &Ex, n: i64, body: Body<'_>) -> Result<()> {
        for k in 0..n {
            let i = self.b.ins().iconst(types::I64, k);
            self.enter(var, extent, i);
            self.ranges.insert(var, (k, k));
            // Memoised values of the previous iteration, in any layer, do not hold in this one.
            let outer = std::mem::replace(&mut self.memo, vec![FxHashMap::default()]);
            let done = self.body(body);
            self.memo = outer;
            done?;
        }
        self.forget_loads();
        Ok(())
    }

    /// Loops nested over `axes`, the innermost holding `body`.
    pub(super) fn loops(
        &mut self,
        axes: &[(Var, Ex)],
        body: &mut dyn FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        match axes.split_first() {
            None => body(self),
            Some(((var, extent), rest)) => {
                let (zero, end) = (self.b.ins().iconst(types::I64, 0), self.eval(extent)?);
                self.in_order(*var, extent, (zero, end), &mut |k| k.loops(rest, body))
            }
        }
    }

    /// Emits a computation over indices: loops over the output, around those of the reduction.
    pub(super) fn compute(&mut self, c: &Compute) -> Result<()> {
        self.place(c.out)?;
        let tables = self.tabulate(c)?;
        self.body(Body::Elements(c, 0))?;
        self.tables = None;
        if let Some(slot) = tables {
            self.free_slot(slot);
        }
        Ok(())
    }

    /// Emits the element of a computation at the loop variables.
    fn element(&mut self, c: &Compute) -> Result<()> {
        let dtype = self.program.bufs[c.out].dtype;
        let index: Vec<Ex> = c.axes.iter().map(|&v| Ex::var(v, DType::I64)).collect();
        self.held.extend(index.iter().cloned());
        let value = match &c.reduce {
            None => return self.store_element(c.out, &index, &c.value),
            Some(reduce) => {
                let acc = self.b.declare_var(register(dtype));
                self.invariants(c, c.axes.len())?;
                let start = self.neutral(reduce.combiner, dtype);
                self.b.def_var(acc, start);
                let clipped = clipped(reduce, &c.value, dtype, acc);
                self.held.push(clipped.value.clone());
                self.reduced(&reduce.axes, &clipped)?;
                let total = self.b.use_var(acc);
                self.scalars().rounded(dtype, total)
            }
        };
        let address = self.address(c.out, &index)?;
        self.scalars().store(dtype, value, address);
        Ok(())
    }

    /// Writes an element.
    fn store_element(&mut self, buf: Buf, index: &[Ex], value: &Ex) -> Result<()> {
        let dtype = self.program.bufs[buf].dtype;
        if let Some(bits) = self.moved(dtype, value)? {
            let address = self.address(buf, index)?;
            let flags = MemFlagsData::trusted();
            self.b.ins().store(flags, bits, address, 0);
            return Ok(());
        }
        let v = self.eval(value)?;
        let address = self.address(buf, index)?;
        self.scalars().store(dtype, v, address);
        Ok(())
    }

    /// Returns what a reduction starts from.
    pub(super) fn neutral(&mut self, combiner: Combiner, dtype: DType) -> Value {
        let identity = combiner.identity(dtype);
        let mut s = self.scalars();
        match identity.kind() {
            ExKind::Float(v) => s.float(dtype, *v),
            // The all-ones identity of a truth value is 1.
            ExKind::Int(v) if dtype.is_bool() => s.int(dtype, *v & 1),
            ExKind::Int(v) => s.int(dtype, *v),
            other => unreachable!("{other:?} as a neutral element"),
        }
    }

    /// One step of a reduction. Narrow floats are summed in `f32` and rounded at the end.
    pub(super) fn combine(
        &mut self,
        combiner: Combiner,
        dtype: DType,
        acc: Variable,
        v: Value,
    ) -> Result<()> {
        let a = self.b.use_var(acc);
        let wide = if register(dtype) == types::F32 {
            DType::F32
        } else {
            dtype
        };
        let r = self.scalars().binary(combiner.op(), wide, a, v);
        let r = r.ok_or_else(|| Unsupported(format!("a {combiner:?} reduction of {dtype}")))?;
        self.b.def_var(acc, r);
        Ok(())
    }

    pub(super) fn block(&mut self, stmts: &[Stmt]) -> Result<()> {
        let mut scratch = Vec::new();
        for s in stmts {
            self.stmt(s, &mut scratch)?;
        }
        for slot in scratch {
            self.free_slot(slot);
        }
        Ok(())
    }

    fn nested(&mut self, stmts: &[Stmt]) -> Result<()> {
        self.push_memo();
        let result = self.block(stmts);
        self.pop_memo();
        result
    }

    pub(super) fn stmt(&mut self, s: &Stmt, scratch: &mut Vec<usize>) -> Result<()> {
        match s {
            Stmt::For {
                var,
                extent,
                mark,
                body,
            } => {
                self.forget_loads();
                self.looped(*var, extent, *mark, Body::Stmts(body))?;
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
                self.two_ways(c, &mut |k| k.nested(then), &mut |k| k.nested(otherwise))?;
            }
            Stmt::Store { buf, index, value } => {
                self.store_element(*buf, index, value)?;
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
                let first = self.at_start(over);
                self.two_ways(first, &mut |k| k.nested(body), &mut |_| Ok(()))?;
            }
            Stmt::Assert {
                cond,
                message,
                values,
                part,
            } => {
                let c = self.eval(cond)?;
                let [ok, bad] = [(); 2].map(|()| self.b.create_block());
                self.b.set_cold_block(bad);
                self.b.ins().brif(c, ok, &[], bad, &[]);
                self.b.switch_to_block(bad);
                let at = self.iteration();
                self.only_once(at);
                // Only the failing path needs them: they do not dominate the code emitted next.
                self.memo.push(FxHashMap::default());
                let shown = values
                    .iter()
                    .map(|v| self.shown(v))
                    .collect::<Result<Vec<_>>>();
                self.memo.pop();
                let place = self.def.parts.get(*part as usize).copied();
                // An operator's message about its operands starts with the operator.
                let text = match self.def.by_hand {
                    true => format!("tensor program `{}`: {message}", self.program.name),
                    false => message.clone(),
                };
                let mut of_extents = !self.def.by_hand;
                visit_expr(cond, |x| {
                    of_extents &= !matches!(x.kind(), ExKind::Load(..))
                });
                let status = if of_extents { ERR_SHAPE } else { ERR_ASSERTION };
                self.fail_showing(status, place, &text, &shown?);
                self.b.switch_to_block(ok);
            }
        }
        Ok(())
    }

    /// A number for an error message.
    fn shown(&mut self, e: &Ex) -> Result<Value> {
        let v = self.eval(e)?;
        Ok(self.scalars().cast(e.dtype(), DType::I64, v))
    }

    /// Returns whether all these loops are in their first iteration.
    pub(super) fn at_start(&mut self, over: &[Var]) -> Value {
        let mut first = self.b.ins().iconst(types::I8, 1);
        for v in over {
            let at_zero = self.b.ins().icmp_imm_s(IntCC::Equal, self.vars[v], 0);
            first = self.b.ins().band(first, at_zero);
        }
        first
    }

    /// Emits both branches of a condition.
    pub(super) fn two_ways(
        &mut self,
        cond: Value,
        then: &mut dyn FnMut(&mut Self) -> Result<()>,
        otherwise: &mut dyn FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let [yes, no, done] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().brif(cond, yes, &[], no, &[]);
        self.b.switch_to_block(yes);
        then(self)?;
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(no);
        otherwise(self)?;
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        self.forget_loads();
        Ok(())
    }

    /// After a store, memoised loads are invalid.
    pub(super) fn forget_loads(&mut self) {
        for layer in &mut self.memo {
            layer.clear();
        }
        if let Some(group) = &mut self.group {
            group.memo.iter_mut().for_each(FxHashMap::clear);
        }
    }

    /// Starts a layer of memoised values, which lasts until [`Self::pop_memo`].
    pub(super) fn push_memo(&mut self) {
        self.memo.push(FxHashMap::default());
        if let Some(group) = &mut self.group {
            group.memo.push(FxHashMap::default());
        }
    }

    pub(super) fn pop_memo(&mut self) {
        self.memo.pop();
        if let Some(group) = &mut self.group {
            group.memo.pop();
        }
    }
}

/// The approximate number of statements and operations of a loop's body.
fn size(body: Body<'_>) -> i64 {
    let mut n = 1;
    let mut count = |e: &Ex| visit_expr(e, |_| n += 1);
    match body {
        Body::Elements(c, _) => count(&c.value),
        // The extents' cost is counted by the caller.
        Body::Stmts(stmts) => statements(stmts)
            .filter(|s| !matches!(s, Stmt::For { .. }))
            .flat_map(Stmt::exprs)
            .for_each(count),
    }
    n
}
