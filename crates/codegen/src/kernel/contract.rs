//! Sums of products of two arrays, of any form and element type, through `rx_contract`:
//! convolutions of any rank over padded data, transposed or grouped, `einsum`, batched products. A
//! stage is recognised by its expression, not by the operator that it comes from.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::select::contraction;
use relax_loops::{Buf, Compute, Ex, Var};
use relax_runtime::kernels::contract::{AXES, RxContract};
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::{abi, fields};

use super::encoding::kind;
use super::strips::{Input, affine};
use super::{Kernel, Result, digits};
use crate::scalar::words;

/// The kernel's description of the operands.
struct Walked {
    extents: Vec<Value>,
    /// The first element of each operand, and its steps along all axes.
    operands: [(Value, Vec<Value>); 2],
    /// The result's steps.
    out: Vec<Value>,
}

impl Kernel<'_, '_, '_> {
    /// Emits a contraction; `false` when its operands are not read with constant strides.
    pub(super) fn contraction(&mut self, c: &Compute) -> Result<bool> {
        let Some([a, b]) = contraction::factors(c) else {
            return Ok(false);
        };
        let of = |b: Buf| kind(self.program.bufs[b].dtype);
        let (Some(ka), Some(kb), Some(kc)) = (of(a.0), of(b.0), of(c.out)) else {
            return Ok(false);
        };
        let axes = self.program.loops(c);
        if axes.len() > AXES {
            return Ok(false);
        }
        // Values are memoised by the address of their expression: those created here are temporary.
        self.memo.push(Default::default());
        let done = self.emit_contraction(c, &axes, [a, b], [ka, kb, kc]);
        self.memo.pop();
        done
    }

    fn emit_contraction(
        &mut self,
        c: &Compute,
        axes: &[(Var, Ex)],
        factors: [(Buf, &[Ex]); 2],
        kinds: [Kind; 3],
    ) -> Result<bool> {
        let walked = match self.walked_by_digits(c, axes, factors)? {
            Some(walked) => walked,
            None => match self.walked_by_steps(c, axes, factors)? {
                Some(walked) => walked,
                None => return Ok(false),
            },
        };
        let out = self.places[&c.out].data;
        let f = self.structure::<RxContract>();
        let rank = walked.extents.len();
        self.put_ints(
            &f,
            fields!(RxContract {
                axes: rank as i64,
                a_type: kinds[0] as i64,
                b_type: kinds[1] as i64,
                c_type: kinds[2] as i64,
            }),
        );
        let [(a, of_a), (b, of_b)] = walked.operands;
        let steps = [of_a, of_b, walked.out].concat();
        let (extents, steps) = (words(self.b, &walked.extents), words(self.b, &steps));
        self.put(
            &f,
            fields!(RxContract {
                extents: extents,
                steps: steps,
                a: a,
                b: b,
                c: out,
            }),
        );
        self.run_with(abi::rx_contract, f);
        Ok(true)
    }

    /// For constant sizes; divisions in indices split axes.
    fn walked_by_digits(
        &mut self,
        c: &Compute,
        axes: &[(Var, Ex)],
        factors: [(Buf, &[Ex]); 2],
    ) -> Result<Option<Walked>> {
        let known = |shape: &[Ex]| -> Option<Vec<i64>> { shape.iter().map(Ex::as_int).collect() };
        let vars: Vec<Var> = axes.iter().map(|a| a.0).collect();
        let Some(extents) = axes
            .iter()
            .map(|a| a.1.as_int())
            .collect::<Option<Vec<i64>>>()
        else {
            return Ok(None);
        };
        let mut loads = Vec::new();
        for (buf, index) in factors {
            let Some(shape) = known(&self.program.bufs[buf].shape) else {
                return Ok(None);
            };
            loads.push((index, shape));
        }
        let Some(walks) = digits::walks(&vars, &extents, &loads) else {
            return Ok(None);
        };
        self.place(c.out)?;
        let number = |k: &mut Self, n: i64| k.b.ins().iconst(types::I64, n);
        let mut out = vec![0i64; walks.digits.len()];
        let mut step = 1;
        for (to, &(axis, extent)) in out.iter_mut().zip(&walks.digits).rev() {
            if axis < c.axes.len() {
                *to = step;
                step *= extent;
            }
        }
        let mut operands = Vec::new();
        for (k, (buf, _)) in factors.into_iter().enumerate() {
            let (steps, first) = &walks.loads[k];
            let size = self.program.bufs[buf].dtype.size() as i64;
            let data = self.places[&buf].data;
            let data = self.b.ins().iadd_imm_s(data, first * size);
            operands.push((data, steps.iter().map(|&s| number(self, s)).collect()));
        }
        let [a, b]: [(Value, Vec<Value>); 2] = operands.try_into().expect("two factors");
        Ok(Some(Walked {
            extents: walks.digits.iter().map(|d| number(self, d.1)).collect(),
            operands: [a, b],
            out: out.into_iter().map(|s| number(self, s)).collect(),
        }))
    }

    /// For any sizes; indices that are not proven in bounds are checked.
    fn walked_by_steps(
        &mut self,
        c: &Compute,
        axes: &[(Var, Ex)],
        factors: [(Buf, &[Ex]); 2],
    ) -> Result<Option<Walked>> {
        let vars: Vec<Var> = axes.iter().map(|a| a.0).collect();
        let mut inputs = Vec::new();
        for (buf, index) in factors {
            let index = index.iter().map(|i| affine(i, &vars, 16));
            let Some(index) = index.collect::<Option<Vec<_>>>() else {
                return Ok(None);
            };
            let sure = false;
            inputs.push(Input { buf, index, sure });
        }
        self.place(c.out)?;
        let extents: Vec<Value> = (axes.iter())
            .map(|(_, e)| self.eval(e))
            .collect::<Result<_>>()?;
        let mut checks = Vec::new();
        let mut operands = Vec::new();
        for input in &inputs {
            operands.push(self.input_steps(input, axes, &extents, &mut checks)?);
        }
        if !checks.is_empty() {
            self.check_box(&extents, &checks);
        }
        let zero = self.b.ins().iconst(types::I64, 0);
        let mut out = vec![zero; axes.len()];
        let mut step = self.b.ins().iconst(types::I64, 1);
        for k in (0..c.axes.len()).rev() {
            out[k] = step;
            step = self.b.ins().imul(step, extents[k]);
        }
        let [a, b]: [(Value, Vec<Value>); 2] = operands.try_into().expect("two factors");
        Ok(Some(Walked {
            extents,
            operands: [a, b],
            out,
        }))
    }
}
