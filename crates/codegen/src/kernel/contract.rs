//! Sums of products of two arrays, of any form and element type, through `rx_contract`:
//! convolutions of any rank over padded data, transposed or grouped, `einsum`, batched products. A
//! stage is recognised by its expression, not by the operator that it comes from.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::{BinOp, Buf, Combiner, Compute, Ex, ExKind, Var};
use relax_runtime::kernels::contract::{AXES, RxContract};
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::{abi, fields};

use super::encoding::kind;
use super::strips::{Input, affine};
use super::{Kernel, Result, digits};
use crate::scalar::words;

/// Multiplications below which a call does not pay.
const FEW: i64 = 512;

/// A factor of the products: elements of a buffer, perhaps converted to a wider type.
fn factor(e: &Ex) -> Option<(Buf, &[Ex])> {
    match e.kind() {
        ExKind::Load(buf, index) => Some((*buf, index)),
        ExKind::Cast(inner) => match inner.kind() {
            ExKind::Load(buf, index) => Some((*buf, index)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether elements of one type may be multiplied and summed as those of another: the sums
/// lose no precision.
fn widens(from: Kind, to: Kind) -> bool {
    let float = |k: Kind| matches!(k, Kind::F16 | Kind::BF16 | Kind::F32 | Kind::F64);
    match (float(from), float(to)) {
        (false, false) => true,
        // Narrow integers are exact as floats; others would be rounded to the narrow type first.
        (false, true) => matches!(to, Kind::F32 | Kind::F64),
        (true, false) => false,
        (true, true) => {
            let narrow = matches!(from, Kind::F16 | Kind::BF16) && to == Kind::F32;
            from == to || narrow || (from, to) == (Kind::F32, Kind::F64)
        }
    }
}

/// The kernel's description of the operands.
struct Walked {
    extents: Vec<Value>,
    /// The first element of each operand, and its steps along all axes.
    operands: [(Value, Vec<Value>); 2],
    /// The result's steps.
    out: Vec<Value>,
}

impl Kernel<'_, '_, '_> {
    /// Emits a stage as a contraction; `false` when it is none, or too small.
    pub(super) fn contraction(&mut self, c: &Compute) -> Result<bool> {
        let Some(reduce) = &c.reduce else {
            return Ok(false);
        };
        let ExKind::Binary(BinOp::Mul, x, y) = c.value.kind() else {
            return Ok(false);
        };
        let (Some(a), Some(b)) = (factor(x), factor(y)) else {
            return Ok(false);
        };
        let of = |b: Buf| kind(self.program.bufs[b].dtype);
        let (Some(ka), Some(kb), Some(kc)) = (of(a.0), of(b.0), of(c.out)) else {
            return Ok(false);
        };
        let placed = [a.0, b.0].iter().all(|b| self.places.contains_key(b));
        let sums = reduce.combiner == Combiner::Sum && kc != Kind::Bool && !reduce.axes.is_empty();
        if !sums || !placed || !widens(ka, kc) || !widens(kb, kc) {
            return Ok(false);
        }
        let shape = self.program.bufs[c.out].shape.clone();
        let mut axes: Vec<(Var, Ex)> = c.axes.iter().copied().zip(shape).collect();
        axes.extend(reduce.axes.iter().cloned());
        let known = (axes.iter()).try_fold(1i64, |n, a| n.checked_mul(a.1.as_int()?));
        if known.is_some_and(|n| n < FEW) || axes.len() > AXES {
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
