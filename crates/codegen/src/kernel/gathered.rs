//! Sums of elements at computed places, through `rx_gathered`: places and weights are tabulated for what
//! the axes beside channels are. A place that is not proven to be in the array is checked while tables are
//! made; if one is outside, the stage is computed element by element, which reports it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use relax_loops::select::gathered::{Gathered, Pick};
use relax_loops::{BinOp, Compute, Ex, ExKind, Var};
use relax_runtime::kernels::gathered::RxGathered;
use relax_runtime::{abi, fields};

use super::encoding::kind;
use super::nest::Body;
use super::{Kernel, Result, Unsupported};

impl Kernel<'_, '_, '_> {
    /// Emits a stage that sums elements at computed places.
    pub(super) fn gathered(&mut self, c: &Compute, found: &Gathered) -> Result<()> {
        let shape = self.program.bufs[c.out].shape.clone();
        for (&var, extent) in c.axes.iter().zip(&shape) {
            self.runs_over(var, extent);
        }
        for (var, extent) in c.reduce.iter().flat_map(|r| &r.axes) {
            self.runs_over(*var, extent);
        }
        // In checked code, where nothing counts as proven, only what reads no elements is tabulated.
        let mut all = found.picks.iter().flat_map(|p| {
            let parts = p.conditions.iter().chain(&p.index);
            parts.chain([&p.weight])
        });
        match all.all(|e| self.harmless(e)) {
            true => self.emit_gathered(c, &shape, found),
            false => self.compute(c),
        }
    }

    fn emit_gathered(&mut self, c: &Compute, shape: &[Ex], found: &Gathered) -> Result<()> {
        self.place(c.out)?;
        let extents = self.of(c.out).1;
        let [some, done] = [(); 2].map(|()| self.b.create_block());
        let count = self.product(&extents);
        self.b.ins().brif(count, some, &[], done, &[]);
        self.b.switch_to_block(some);
        // Values memoised from here on do not dominate the code emitted next.
        self.push_memo();
        let emitted = self.gather_by_tables(c, shape, found, &extents);
        self.pop_memo();
        emitted?;
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        self.forget_loads();
        Ok(())
    }

    /// Emits the tables and the call.
    fn gather_by_tables(
        &mut self,
        c: &Compute,
        shape: &[Ex],
        found: &Gathered,
        extents: &[Value],
    ) -> Result<()> {
        let end = extents.len() - found.inner;
        let own: Vec<usize> = (0..end).filter(|k| !found.channels.contains(k)).collect();
        let mut axes: Vec<(Var, Ex)> = (own.iter())
            .map(|&k| (c.axes[k], shape[k].clone()))
            .collect();
        let mut sizes: Vec<Value> = own.iter().map(|&k| extents[k]).collect();
        let places = self.product(&sizes);
        let mut times = self.b.ins().iconst(types::I64, 1);
        for (var, extent) in c.reduce.iter().flat_map(|r| &r.axes) {
            let n = self.eval(extent)?;
            times = self.b.ins().imul(times, n);
            axes.push((*var, extent.clone()));
            sizes.push(n);
        }
        let part = self.b.ins().imul(places, times);
        let entries = (self.b.ins()).imul_imm_s(part, found.picks.len() as i64);
        let size = found.dtype.size() as i64;
        let bytes = self.b.ins().imul_imm_s(entries, 8 + size);
        let tables = self.scalars_call(abi::rx_scratch_alloc, &[bytes], true);
        self.fail_if_null(tables);
        let bytes = self.b.ins().imul_imm_s(entries, 8);
        let weights = self.b.ins().iadd(tables, bytes);
        let outside = self.b.declare_var(types::I8);
        let none = self.b.ins().iconst(types::I8, 0);
        self.b.def_var(outside, none);
        let mut compared = false;
        self.loops(&axes, &mut |k| {
            let mut at = [(); 2].map(|()| k.b.ins().iconst(types::I64, 0));
            for (n, ((var, _), &size)) in axes.iter().zip(&sizes).enumerate() {
                let to = &mut at[usize::from(n >= own.len())];
                *to = k.b.ins().imul(*to, size);
                *to = k.b.ins().iadd(*to, k.vars[var]);
            }
            let [place, reduced] = at;
            let first = k.b.ins().imul(reduced, places);
            let mut entry = k.b.ins().iadd(first, place);
            for pick in &found.picks {
                let (from, bad) = k.place_of(found, pick)?;
                if let Some(bad) = bad {
                    compared = true;
                    let before = k.b.use_var(outside);
                    let bad = k.b.ins().bor(before, bad);
                    k.b.def_var(outside, bad);
                }
                let weight = k.eval(&pick.weight)?;
                for (to, value, size) in [(tables, from, 8), (weights, weight, size)] {
                    let at = k.b.ins().imul_imm_s(entry, size);
                    let to = k.b.ins().iadd(to, at);
                    k.b.ins().store(MemFlagsData::trusted(), value, to, 0);
                }
                entry = k.b.ins().iadd(entry, part);
            }
            Ok(())
        })?;
        // The loops are over; a shared loop would capture every variable that has a value.
        for (var, _) in &axes {
            self.vars.remove(var);
        }
        let taps = (self.b.ins()).imul_imm_s(times, found.picks.len() as i64);
        if !compared {
            return self.call_gathered(c, found, (tables, weights, taps));
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
        let emitted = self.call_gathered(c, found, (tables, weights, taps));
        self.pop_memo();
        emitted?;
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        self.forget_loads();
        Ok(())
    }

    /// Returns the place of an element in the array without its channels, or -1; and whether an index is
    /// outside, where that is not proven.
    fn place_of(&mut self, found: &Gathered, pick: &Pick) -> Result<(Value, Option<Value>)> {
        let array = self.places[&found.buf].clone();
        let shape = self.program.bufs[found.buf].shape.clone();
        let mut place = self.b.ins().iconst(types::I64, 0);
        let mut inside: Option<Value> = None;
        let end = shape.len() - found.inner;
        for d in (0..end).filter(|d| !found.from_channels.contains(d)) {
            let index = self.eval(&pick.index[d])?;
            let scaled = self.b.ins().imul(place, array.extents[d]);
            place = self.b.ins().iadd(scaled, index);
            if !self.inside(&pick.index[d], &shape[d]) && !said(pick, &pick.index[d], &shape[d]) {
                let fine = (self.b.ins()).icmp(IntCC::UnsignedLessThan, index, array.extents[d]);
                inside = Some(match inside {
                    Some(all) => self.b.ins().band(all, fine),
                    None => fine,
                });
            }
        }
        let mut holds: Option<Value> = None;
        for e in &pick.conditions {
            let truth = self.eval(e)?;
            let truth = self.b.ins().icmp_imm_s(IntCC::NotEqual, truth, 0);
            holds = Some(match holds {
                Some(all) => self.b.ins().band(all, truth),
                None => truth,
            });
        }
        let hole = self.b.ins().iconst(types::I64, -1);
        let bad = inside.map(|inside| {
            let bad = self.b.ins().bxor_imm_s(inside, 1);
            match holds {
                Some(holds) => self.b.ins().band(bad, holds),
                None => bad,
            }
        });
        if let Some(holds) = holds {
            place = self.b.ins().select(holds, place, hole);
        }
        Ok((place, bad))
    }

    fn call_gathered(
        &mut self,
        c: &Compute,
        found: &Gathered,
        (tables, weights, taps): (Value, Value, Value),
    ) -> Result<()> {
        let dtype = self.program.bufs[c.out].dtype;
        let kinds = [dtype, self.program.bufs[found.buf].dtype].map(kind);
        let [Some(kind), Some(from_kind)] = kinds else {
            return Err(Unsupported(format!("places of {dtype}")));
        };
        let ((x, from), (out, to)) = (self.of(found.buf), self.of(c.out));
        let [before, channels, behind] = self.parts_of(&to, &found.channels, found.inner);
        let [from_before, _, from_behind] = self.parts_of(&from, &found.from_channels, found.inner);
        let inner = self.product(&to[to.len() - found.inner..]);
        let taps = self.b.ins().ireduce(types::I32, taps);
        let f = self.structure::<RxGathered>();
        self.put_ints(
            &f,
            fields!(RxGathered {
                kind: kind as i64,
                from_kind: from_kind as i64,
            }),
        );
        self.put(
            &f,
            fields!(RxGathered {
                taps: taps,
                from_before: from_before,
                before: before,
                channels: channels,
                from_behind: from_behind,
                behind: behind,
                inner: inner,
                places: tables,
                weights: weights,
                x: x,
                out: out,
            }),
        );
        let f = self.address_of(&f);
        if self.env.checks {
            self.check_reach(abi::rx_gathered, &[f]);
        }
        let status = self.scalars_call(abi::rx_gathered, &[f], true);
        self.free_tables(tables);
        self.fail_unless_zero(status);
        Ok(())
    }

    /// The elements before, in and behind some axes, without those at the end.
    fn parts_of(
        &mut self,
        extents: &[Value],
        channels: &std::ops::Range<usize>,
        inner: usize,
    ) -> [Value; 3] {
        [
            self.product(&extents[..channels.start]),
            self.product(&extents[channels.clone()]),
            self.product(&extents[channels.end..extents.len() - inner]),
        ]
    }
}

/// Returns whether a pick's conditions say that an index is in `0..extent`.
fn said(pick: &Pick, index: &Ex, extent: &Ex) -> bool {
    let compares = |op: BinOp, with: &Ex| {
        pick.conditions.iter().any(
            |e| matches!(e.kind(), ExKind::Binary(o, a, b) if *o == op && a == index && b == with),
        )
    };
    compares(BinOp::Ge, &Ex::idx(0)) && compares(BinOp::Lt, extent)
}
