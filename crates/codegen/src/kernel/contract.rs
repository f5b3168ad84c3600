//! Sums of products of two arrays, of any form and element type, through `rx_contract`:
//! convolutions of any rank over padded data, transposed or grouped, `einsum`, batched products. A
//! stage is recognised by its expression, not by the operator that it comes from.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::select::contraction::{self, Contraction, Reads};
use relax_loops::select::digits::Walks;
use relax_loops::select::strided::Strided;
use relax_loops::{Buf, Compute};
use relax_runtime::kernels::contract::{AXES, RxContract};
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::{abi, fields};

use super::encoding::kind;
use super::{Kernel, Result};
use crate::scalar::words;

const _: () = assert!(contraction::AXES <= AXES);

/// The kernel's description of the operands.
struct Walked {
    extents: Vec<Value>,
    /// The first element of each operand, and its steps along all axes.
    operands: [(Value, Vec<Value>); 2],
    /// The result's steps.
    out: Vec<Value>,
}

impl Kernel<'_, '_, '_> {
    /// Emits a contraction.
    pub(super) fn contraction(&mut self, c: &Compute, found: &Contraction) -> Result<()> {
        let [a, b] = found.factors;
        let of = |b: Buf| kind(self.program.bufs[b].dtype).unwrap_or(Kind::F32);
        let kinds = [of(a), of(b), of(c.out)];
        self.place(c.out)?;
        let walked = match &found.reads {
            Reads::Walks(walks) => self.walked_by_digits(c, walks, found.factors),
            Reads::Steps(inputs) => self.walked_by_steps(c, inputs)?,
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
        Ok(())
    }

    /// For constant sizes; divisions in indices have split axes.
    fn walked_by_digits(&mut self, c: &Compute, walks: &Walks, factors: [Buf; 2]) -> Walked {
        let number = |k: &mut Self, n: i64| k.b.ins().iconst(types::I64, n);
        let mut out = vec![0i64; walks.digits.len()];
        let mut step = 1;
        for (to, &(axis, extent)) in out.iter_mut().zip(&walks.digits).rev() {
            if axis < c.axes.len() {
                *to = step;
                step *= extent;
            }
        }
        let operands = [0, 1].map(|k| {
            let (steps, first) = &walks.loads[k];
            let size = self.program.bufs[factors[k]].dtype.size() as i64;
            let data = self.places[&factors[k]].data;
            let data = self.b.ins().iadd_imm_s(data, first * size);
            (data, steps.iter().map(|&s| number(self, s)).collect())
        });
        Walked {
            extents: walks.digits.iter().map(|d| number(self, d.1)).collect(),
            operands,
            out: out.into_iter().map(|s| number(self, s)).collect(),
        }
    }

    /// For any sizes; indices that are not proven in bounds are checked.
    fn walked_by_steps(&mut self, c: &Compute, [a, b]: &[Strided; 2]) -> Result<Walked> {
        let axes = self.program.loops(c);
        let extents: Vec<Value> = (axes.iter())
            .map(|(_, e)| self.eval(e))
            .collect::<Result<_>>()?;
        let mut checks = Vec::new();
        let a = self.input_steps(a, &axes, &extents, &mut checks)?;
        let b = self.input_steps(b, &axes, &extents, &mut checks)?;
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
        Ok(Walked {
            extents,
            operands: [a, b],
            out,
        })
    }
}
