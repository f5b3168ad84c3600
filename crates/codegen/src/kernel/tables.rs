//! Tables of loop-invariant expressions: what a computation derives from the last axis alone (where
//! a resized image is read, and with which weights) is the same in every row. It is computed once,
//! before the loops, and looked up in them.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use relax_loops::extents::elements;
use relax_loops::{Compute, Ex, ExKind, Mark, Var, fold_expr};
use relax_runtime::abi;
use rustc_hash::{FxHashMap, FxHashSet};

use super::nest::Body;
use super::{Kernel, Result};
use crate::scalar::register;

/// Operations of an expression below which a lookup costs as much.
const FEW: usize = 3;
/// Rows below which a table does not pay.
const ROWS: i64 = 4;
/// The maximum number of expressions in the tables of one computation.
const MOST: usize = 64;

/// The tables of a computation: for each index of the last axis, a word for each expression.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) data: Value,
    var: Var,
    /// The number of each expression, by its address.
    columns: FxHashMap<usize, usize>,
    /// The expressions, which keep their addresses.
    held: Vec<Ex>,
}

impl Tables {
    /// The same tables in another function, where they are at `data`.
    pub(super) fn at(&self, data: Value) -> Self {
        Self {
            data,
            ..self.clone()
        }
    }
}

/// The dependences of an expression.
#[derive(Clone, Copy)]
struct Seen {
    /// The variable itself,
    var: bool,
    /// and other variables or elements.
    other: bool,
    /// Operations, at most [`FEW`].
    work: usize,
}

/// The largest expressions of `var` alone that are worth a table, and whether one of them is an
/// index of a load.
fn candidates(root: &Ex, var: Var) -> (Vec<Ex>, bool) {
    let seen = fold_expr(root, |e, parts: &mut dyn Iterator<Item = Seen>| {
        let mut own = match e.kind() {
            ExKind::Var(v) => Seen {
                var: *v == var,
                other: *v != var,
                work: 0,
            },
            ExKind::Int(_) | ExKind::Float(_) => Seen {
                var: false,
                other: false,
                work: 0,
            },
            kind => Seen {
                var: false,
                other: matches!(kind, ExKind::Load(..)),
                work: 1,
            },
        };
        for part in parts {
            own.var |= part.var;
            own.other |= part.other;
            own.work = (own.work + part.work).min(FEW);
        }
        own
    });
    let (mut found, mut read) = (FxHashSet::default(), false);
    let mut order = Vec::new();
    let mut visited = FxHashSet::default();
    let mut work = vec![(root, false)];
    while let Some((e, index)) = work.pop() {
        let own = seen[&e.addr()];
        if own.var && !own.other && own.work >= FEW {
            read |= index;
            if found.insert(e.addr()) {
                order.push(e.clone());
            }
            continue;
        }
        if !visited.insert((e.addr(), index)) {
            continue;
        }
        let index = index || matches!(e.kind(), ExKind::Load(..));
        work.extend(e.children().map(|c| (c, index)));
    }
    (order, read)
}

impl Kernel<'_, '_, '_> {
    /// Emits tables for a computation that reads elements at indices of the last axis; returns the
    /// word of the frame that keeps them.
    pub(super) fn tabulate(&mut self, c: &Compute) -> Result<Option<usize>> {
        let shape = self.program.bufs[c.out].shape.clone();
        let (Some(&var), Some((extent, rows))) = (c.axes.last(), shape.split_last()) else {
            return Ok(None);
        };
        let known = elements(rows);
        if c.reduce.is_some() || known.is_some_and(|n| n < ROWS) {
            return Ok(None);
        }
        let (held, read) = candidates(&c.value, var);
        if !read || held.len() > MOST {
            return Ok(None);
        }
        // In vectors, computing an index costs a fraction of a lookup per lane.
        for (&axis, extent) in c.axes.iter().zip(&shape) {
            self.runs_over(axis, extent);
        }
        let whole = Body::Elements(c, c.axes.len());
        if (self.vector_width(var, extent, Mark::Serial, whole)).is_some() {
            return Ok(None);
        }
        let axis = (var, extent.clone());
        let extent = self.eval(extent)?;
        let row = 8 * held.len() as i64;
        let bytes = self.b.ins().imul_imm_s(extent, row);
        let data = self.scalars_call(abi::rx_scratch_alloc, &[bytes], true);
        self.fail_if_null(data);
        let slot = self.keep(None, data);
        self.loops(&[axis], &mut |k| {
            let at = k.b.ins().imul_imm_s(k.vars[&var], row);
            let at = k.b.ins().iadd(data, at);
            for (n, e) in held.iter().enumerate() {
                let v = k.eval(e)?;
                k.b.ins()
                    .store(MemFlagsData::trusted(), v, at, 8 * n as i32);
            }
            Ok(())
        })?;
        // The loop is over; a shared loop would capture every variable that has a value.
        self.vars.remove(&var);
        let columns = held.iter().enumerate().map(|(n, e)| (e.addr(), n));
        self.tables = Some(Tables {
            data,
            var,
            columns: columns.collect(),
            held,
        });
        Ok(Some(slot))
    }

    /// The value of an expression, if a table has it.
    pub(super) fn looked_up(&mut self, e: &Ex) -> Option<Value> {
        let tables = self.tables.as_ref()?;
        let n = *tables.columns.get(&e.addr())?;
        let (data, var, row) = (tables.data, tables.var, 8 * tables.held.len() as i64);
        let at = self.b.ins().imul_imm_s(*self.vars.get(&var)?, row);
        let at = self.b.ins().iadd(data, at);
        let ty = register(e.dtype());
        let flags = MemFlagsData::trusted();
        Some(self.b.ins().load(ty, flags, at, 8 * n as i32))
    }
}
