//! Stages that select elements of one array axis by axis: padding of all modes, gathering of rows,
//! mirroring, repeating.
//!
//! Where each index, and each condition for the fill value, depends on few axes, offsets are
//! tabulated once for every group of such axes, and `rx_pick` adds them up. An index that is not
//! proven in bounds is checked while the tables are made; if one is out of bounds, the stage is
//! computed element by element, which reports it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use relax_loops::select::chosen::{Chosen, chosen};
use relax_loops::select::picks::{self, Group};
use relax_loops::{Compute, Ex, Var};
use relax_runtime::kernels::pick::{AXES, RxPick};
use relax_runtime::{abi, field, fields};

use super::nest::Body;
use super::{Kernel, Result};

const _: () = assert!(picks::AXES <= AXES);

impl Kernel<'_, '_, '_> {
    /// Emits a stage that moves elements with tables.
    pub(super) fn picks(&mut self, c: &Compute, groups: &[Group]) -> Result<()> {
        let shape = self.program.bufs[c.out].shape.clone();
        let Some(chosen) = chosen(&c.value, &c.axes) else {
            return self.compute(c);
        };
        for (&var, extent) in c.axes.iter().zip(&shape) {
            self.runs_over(var, extent);
        }
        // Tables are also made for indices at which nothing may be read: in checked code, where
        // nothing counts as proven, only what reads no elements is tabulated.
        let all = (chosen.conditions.iter())
            .chain(chosen.index)
            .chain(chosen.fill);
        match all.into_iter().all(|e| self.harmless(e)) {
            true => self.emit_picks(c, &shape, &chosen, groups),
            false => self.compute(c),
        }
    }

    fn emit_picks(
        &mut self,
        c: &Compute,
        shape: &[Ex],
        chosen: &Chosen<'_>,
        groups: &[Group],
    ) -> Result<()> {
        self.place(c.out)?;
        let extents = self.of(c.out).1;
        let [some, done] = [(); 2].map(|()| self.b.create_block());
        let count = self.product(&extents);
        self.b.ins().brif(count, some, &[], done, &[]);
        self.b.switch_to_block(some);
        // Values memoised from here on do not dominate the code emitted next.
        self.push_memo();
        let emitted = self.by_tables(c, shape, chosen, groups, &extents);
        self.pop_memo();
        emitted?;
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        self.forget_loads();
        Ok(())
    }

    /// Emits the tables and the call.
    fn by_tables(
        &mut self,
        c: &Compute,
        shape: &[Ex],
        chosen: &Chosen<'_>,
        groups: &[Group],
        extents: &[Value],
    ) -> Result<()> {
        let of_groups: Vec<Value> = (groups.iter())
            .map(|g| self.product(&extents[g.axes.clone()]))
            .collect();
        let mut numbers = self.b.ins().iconst(types::I64, 0);
        for &n in &of_groups {
            numbers = self.b.ins().iadd(numbers, n);
        }
        let bytes = self.b.ins().imul_imm_s(numbers, 8);
        let tables = self.scalars_call(abi::rx_scratch_alloc, &[bytes], true);
        self.fail_if_null(tables);
        let outside = self.b.declare_var(types::I8);
        let none = self.b.ins().iconst(types::I8, 0);
        self.b.def_var(outside, none);
        let mut compared = false;
        let mut table = tables;
        for (group, &n) in groups.iter().zip(&of_groups) {
            let axes: Vec<(Var, Ex)> = (group.axes.clone())
                .map(|k| (c.axes[k], shape[k].clone()))
                .collect();
            let extents = extents[group.axes.clone()].to_vec();
            self.loops(&axes, &mut |k| {
                let mut at = k.b.ins().iconst(types::I64, 0);
                for ((var, _), &n) in axes.iter().zip(&extents) {
                    at = k.b.ins().imul(at, n);
                    at = k.b.ins().iadd(at, k.vars[var]);
                }
                let (offset, bad) = k.offset(chosen, group)?;
                if let Some(bad) = bad {
                    compared = true;
                    let before = k.b.use_var(outside);
                    let bad = k.b.ins().bor(before, bad);
                    k.b.def_var(outside, bad);
                }
                let at = k.b.ins().imul_imm_s(at, 8);
                let to = k.b.ins().iadd(table, at);
                k.b.ins().store(MemFlagsData::trusted(), offset, to, 0);
                Ok(())
            })?;
            let bytes = self.b.ins().imul_imm_s(n, 8);
            table = self.b.ins().iadd(table, bytes);
        }
        // The loops are over; a shared loop would capture every variable that has a value.
        for var in &c.axes {
            self.vars.remove(var);
        }
        if !compared {
            return self.call_pick(c, chosen, &of_groups, tables);
        }
        let [again, fine, done] = [(); 3].map(|()| self.b.create_block());
        self.b.set_cold_block(again);
        let outside = self.b.use_var(outside);
        self.b.ins().brif(outside, again, &[], fine, &[]);
        self.b.switch_to_block(again);
        self.free_tables(tables);
        self.push_memo();
        let emitted = self.body(Body::Elements(c, 0));
        self.pop_memo();
        emitted?;
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(fine);
        self.push_memo();
        let emitted = self.call_pick(c, chosen, &of_groups, tables);
        self.pop_memo();
        emitted?;
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        self.forget_loads();
        Ok(())
    }

    /// Returns the contribution of a group's axes to the offset, or -1; and whether an index is out
    /// of bounds, where that is not proven.
    fn offset(&mut self, chosen: &Chosen<'_>, group: &Group) -> Result<(Value, Option<Value>)> {
        let place = self.places[&chosen.buf].clone();
        let shape = self.program.bufs[chosen.buf].shape.clone();
        let mut offset = self.b.ins().iconst(types::I64, 0);
        let mut inside: Option<Value> = None;
        for &k in &group.index {
            let index = self.eval(&chosen.index[k])?;
            let step = self.product(&place.extents[k + 1..]);
            let scaled = self.b.ins().imul(index, step);
            offset = self.b.ins().iadd(offset, scaled);
            if !self.inside(&chosen.index[k], &shape[k]) {
                let fine = self
                    .b
                    .ins()
                    .icmp(IntCC::UnsignedLessThan, index, place.extents[k]);
                inside = Some(match inside {
                    Some(all) => self.b.ins().band(all, fine),
                    None => fine,
                });
            }
        }
        let mut holds: Option<Value> = None;
        for e in &group.conditions {
            let truth = self.eval(e)?;
            let truth = self.b.ins().icmp_imm_s(IntCC::NotEqual, truth, 0);
            holds = Some(match holds {
                Some(all) => self.b.ins().band(all, truth),
                None => truth,
            });
        }
        let hole = self.b.ins().iconst(types::I64, -1);
        if let Some(holds) = holds {
            offset = self.b.ins().select(holds, offset, hole);
        }
        let bad = inside.map(|inside| {
            let bad = self.b.ins().bxor_imm_s(inside, 1);
            match holds {
                Some(holds) => self.b.ins().band(bad, holds),
                None => bad,
            }
        });
        Ok((offset, bad))
    }

    fn call_pick(
        &mut self,
        c: &Compute,
        chosen: &Chosen<'_>,
        extents: &[Value],
        tables: Value,
    ) -> Result<()> {
        let dtype = self.program.bufs[c.out].dtype;
        let f = self.structure::<RxPick>();
        let mut fills = None;
        if let Some(fill) = chosen.fill {
            let fill = self.eval(fill)?;
            fills = Some(fill);
        }
        self.put_ints(
            &f,
            fields!(RxPick {
                axes: extents.len() as i64,
                size: dtype.size() as i64,
            }),
        );
        let (x, out) = (self.places[&chosen.buf].data, self.places[&c.out].data);
        let extents = self.scalars().numbers(extents);
        self.put(
            &f,
            fields!(RxPick {
                extents: extents,
                tables: tables,
                x: x,
                out: out,
            }),
        );
        let f = self.address_of(&f);
        if let Some(fill) = fills {
            let at = (self.b.ins()).iadd_imm_s(f, field!(RxPick, fill).offset as i64);
            self.scalars().store(dtype, fill, at);
        }
        if self.env.checks {
            self.check_reach(abi::rx_pick, &[f]);
        }
        let status = self.scalars_call(abi::rx_pick, &[f], true);
        self.free_tables(tables);
        self.fail_unless_zero(status);
        Ok(())
    }

    pub(super) fn free_tables(&mut self, tables: Value) {
        let f = self.env.import(abi::rx_scratch_free, self.b.func);
        self.b.ins().call(f, &[self.ctx, tables]);
    }
}
