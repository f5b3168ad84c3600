//! Stages of any element type through `rx_sweep`: the stage's expression becomes a list of vector
//! operations.
//!
//! Elements that are not read with constant strides, and selections where speculative evaluation of
//! a side is unsafe, are left to loops.

use cranelift_codegen::ir::Value;
use relax_loops::extents::elements;
use relax_loops::{Combiner, Compute, Ex, Var, visit_expr};
use relax_runtime::kernels::combiner::Combiner as How;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::sweep::{AXES, INDEX, RxSweep, RxSweepOp};
use relax_runtime::{abi, fields};

use super::encoding::{combiner, kind};
use super::nest::side_by_side;
use super::strips::inside;
use super::translate::{self, Read, Sweep, is_half};
use super::{Kernel, Result};
use crate::scalar::words;

/// Elements below which a call does not pay.
const FEW: i64 = 64;
/// Elements of a result's reduction below which folding vectors costs more than a loop.
const SHORT: i64 = 64;
/// The same for narrow floats, and the number of adjacent results for which vectors pay.
const WIDE: i64 = 8;

/// The number of reduced elements from which a sweep pays, for a result of type `out` over `axes`.
fn least(c: &Compute, out: Kind, axes: &[(Var, Ex)]) -> i64 {
    let mut halves = is_half(out);
    visit_expr(&c.value, |e| halves |= kind(e.dtype()).is_some_and(is_half));
    // Loops convert narrow floats one by one, which takes longer than all overhead of a sweep.
    match halves {
        true if axes.last().and_then(|a| a.1.as_int()) >= Some(WIDE) => 0,
        true => WIDE,
        false => SHORT,
    }
}

impl Kernel<'_, '_, '_> {
    /// Emits a stage as a sweep; `false` when it does not fit.
    pub(super) fn sweep(&mut self, c: &Compute) -> Result<bool> {
        let Some(out) = kind(self.program.bufs[c.out].dtype) else {
            return Ok(false);
        };
        let axes = self.program.loops(c);
        let result_axes = c.axes.len();
        let reduced = axes.len() - result_axes;
        if result_axes > AXES || reduced > AXES || (c.reduce.is_some() && reduced == 0) {
            return Ok(false);
        }
        let arithmetic = c
            .reduce
            .as_ref()
            .is_some_and(|r| matches!(r.combiner, Combiner::Sum | Combiner::Prod));
        let bitwise = c
            .reduce
            .as_ref()
            .is_some_and(|r| matches!(r.combiner, Combiner::And | Combiner::Or));
        let float = matches!(out, Kind::F16 | Kind::BF16 | Kind::F32 | Kind::F64);
        if arithmetic && out == Kind::Bool || bitwise && float {
            return Ok(false);
        }
        let known = elements(axes.iter().map(|a| &a.1));
        if known.is_some_and(|n| n < FEW) {
            return Ok(false);
        }
        let folded = &axes[result_axes..];
        let folded = elements(folded.iter().map(|a| &a.1));
        let beside = side_by_side(c, self.program.bufs[c.out].dtype);
        if reduced > 0 && !beside && folded.is_some_and(|n| n < least(c, out, &axes[..result_axes]))
        {
            return Ok(false);
        }
        let cut = self.cut(c, &axes);
        let result_axes = cut.as_ref().map_or(result_axes, |c| c.result_axes);
        let axes = cut.as_ref().map_or(axes, |c| c.axes.clone());
        if result_axes > AXES || axes.len() - result_axes > AXES {
            return Ok(false);
        }
        for (var, extent) in &axes {
            self.runs_over(*var, extent);
        }
        let Some(sweep) = translate::sweep(self, &c.value, &axes, cut.as_ref()) else {
            return Ok(false);
        };
        let placed = |r: &Read| match r {
            Read::Memory(input) => self.places.contains_key(&input.buf),
            Read::Index(..) => true,
        };
        if !sweep.inputs.iter().all(placed) {
            return Ok(false);
        }
        // Values are memoised by the address of their expression: those created here are temporary.
        self.memo.push(Default::default());
        let done = self.emit_sweep(c, &axes, result_axes, &sweep, out);
        self.memo.pop();
        done.map(|()| true)
    }

    fn emit_sweep(
        &mut self,
        c: &Compute,
        axes: &[(Var, Ex)],
        result_axes: usize,
        sweep: &Sweep,
        out_kind: Kind,
    ) -> Result<()> {
        self.place(c.out)?;
        let out = self.places[&c.out].data;
        let extents: Vec<Value> = (axes.iter())
            .map(|(_, e)| self.eval(e))
            .collect::<Result<_>>()?;
        let (mut data, mut steps, mut kinds, mut checks) = (vec![], vec![], vec![], vec![]);
        for read in &sweep.inputs {
            match read {
                Read::Memory(input) => {
                    let (first, along) = self.input_steps(input, axes, &extents, &mut checks)?;
                    data.push(first);
                    steps.extend(along);
                    let kind = kind(self.program.bufs[input.buf].dtype);
                    kinds.push(kind.map_or(INDEX, |k| k as i32));
                }
                Read::Index(along, rest) => {
                    data.push(self.eval(rest)?);
                    for step in along {
                        steps.push(self.eval(step)?);
                    }
                    kinds.push(INDEX);
                }
            }
        }
        if !checks.is_empty() {
            self.check_box(&extents, &checks);
        }
        let values: Vec<u8> = (sweep.constants.iter())
            .flat_map(|c| c.0.to_le_bytes())
            .collect();
        let (ops, temps) = sweep.program();
        let numbers = |o: &RxSweepOp| {
            [
                o.code, o.kind, o.to, o.dst, o.args[0], o.args[1], o.args[2], o.args[3],
            ]
        };
        let code: Vec<u8> = (ops.iter())
            .flat_map(numbers)
            .flat_map(i32::to_le_bytes)
            .collect();
        let kinds: Vec<u8> = kinds.into_iter().flat_map(i32::to_le_bytes).collect();
        let [values, code, kinds] = [values, code, kinds].map(|bytes| self.constant(&bytes));
        let [extents, data, steps] = [extents, data, steps].map(|x| words(self.b, &x));
        let f = self.structure::<RxSweep>();
        self.put_ints(
            &f,
            fields!(RxSweep {
                axes: result_axes as i64,
                reduced: (axes.len() - result_axes) as i64,
                inputs: sweep.inputs.len() as i64,
                constants: sweep.constants.len() as i64,
                ops: ops.len() as i64,
                temps: temps as i64,
                combiner: c.reduce.as_ref().map_or(How::Sum, |r| combiner(r.combiner)) as i64,
                out_type: out_kind as i64,
            }),
        );
        self.put(
            &f,
            fields!(RxSweep {
                extents: extents,
                data: data,
                kinds: kinds,
                strides: steps,
                values: values,
                program: code,
                out: out,
            }),
        );
        self.run_with(abi::rx_sweep, f);
        Ok(())
    }

    /// Returns whether all indices of a strided load are proven in bounds.
    pub(super) fn surely_inside(
        &self,
        index: &[(Vec<Ex>, Ex)],
        shape: &[Ex],
        axes: &[(Var, Ex)],
    ) -> bool {
        (index.iter().zip(shape)).all(|(i, extent)| inside(i, extent, axes))
    }
}
