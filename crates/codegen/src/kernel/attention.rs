//! Two products with a softmax between them, through the runtime's kernel for attention.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::attention::{Attention, Masking, Operand};
use relax_loops::{Buf, Seen, fits};
use relax_runtime::kernels::attention::{self as kernel, RxAttentionF32};
use relax_runtime::{abi, field, fields};

use super::{Kernel, Result};

impl Kernel<'_, '_, '_> {
    /// Emits the stages of an attention as one call of the fused kernel.
    pub(super) fn attention(&mut self, a: &Attention) -> Result<()> {
        let Attention { out, q, k, v, .. } = *a;
        self.place(out.buf)?;
        self.require_fits(fits::of_attention(self.program, a))?;
        let f = self.structure::<RxAttentionF32>();
        let data = [q, k, v, out].map(|o| self.of(o.buf).0);
        let steps = [q, k, v, out].map(|o| self.steps(&o));
        let sizes = [
            out.batch.map(|axis| (out, axis)),
            Some((out, out.head)),
            Some((out, out.position)),
            Some((k, k.position)),
            Some((q, q.feature)),
            Some((v, v.feature)),
        ];
        let [batch, heads, rows, keys, depth, width] = sizes.map(|at| match at {
            Some((of, axis)) => self.of(of.buf).1[axis],
            None => self.b.ins().iconst(types::I64, 1),
        });
        let (first, last) = self.edges(a.seen, rows, keys);
        self.put(
            &f,
            fields!(RxAttentionF32 {
                batch: batch,
                heads: heads,
                rows: rows,
                keys: keys,
                depth: depth,
                width: width,
                q: data[0],
                q_step: steps[0][0],
                q_head: steps[0][1],
                q_rs: steps[0][2],
                k: data[1],
                k_step: steps[1][0],
                k_head: steps[1][1],
                k_rs: steps[1][3],
                k_cs: steps[1][2],
                v: data[2],
                v_step: steps[2][0],
                v_head: steps[2][1],
                v_rs: steps[2][2],
                v_cs: steps[2][3],
                out: data[3],
                out_step: steps[3][0],
                out_head: steps[3][1],
                out_rs: steps[3][2],
                first: first,
                last: last,
            }),
        );
        self.put_ints(
            &f,
            fields!(RxAttentionF32 {
                k_share: k.share,
                v_share: v.share,
            }),
        );
        if let Some(mask) = &a.mask {
            let (data, extents) = self.of(mask.buf);
            self.put(&f, fields!(RxAttentionF32 { mask: data }));
            let (kind, fill) = match mask.how {
                Masking::Add => (kernel::Masking::Add, 0.0),
                Masking::Keep(fill) => (kernel::Masking::Keep, fill),
                Masking::Replace(fill) => (kernel::Masking::Replace, fill),
            };
            self.put_ints(
                &f,
                fields!(RxAttentionF32 {
                    mask_kind: kind as i64
                }),
            );
            let fill = self.b.ins().f32const(fill);
            self.put(&f, fields!(RxAttentionF32 { fill: fill }));
            let steps = [
                field!(RxAttentionF32, mask_step),
                field!(RxAttentionF32, mask_head),
                field!(RxAttentionF32, mask_rs),
                field!(RxAttentionF32, mask_cs),
            ];
            for (field, axis) in steps.into_iter().zip(mask.axes) {
                let Some(axis) = axis else { continue };
                let mut step = self.product(&extents[axis + 1..]);
                if mask.spread {
                    step = self.unless_one(extents[axis], step);
                }
                self.put(&f, [(field, step)]);
            }
        }
        let scale = self.b.ins().f32const(a.scale);
        self.put(&f, fields!(RxAttentionF32 { scale: scale }));
        self.run_with(abi::rx_attention_f32, f);
        Ok(())
    }

    /// The steps along an operand's batches, heads, positions and features.
    fn steps(&mut self, o: &Operand) -> [Value; 4] {
        let (_, extents) = self.of(o.buf);
        let step = |k: &mut Self, axis: usize| k.product(&extents[axis + 1..]);
        let batch = match o.batch {
            Some(axis) => step(self, axis),
            None => self.b.ins().iconst(types::I64, 0),
        };
        let head = step(self, o.head);
        let head = self.unless_one(extents[o.head], head);
        [batch, head, step(self, o.position), step(self, o.feature)]
    }

    /// Where the keys that a query sees begin and end, before its own index is added.
    fn edges(&mut self, seen: Seen, rows: Value, keys: Value) -> (Value, Value) {
        /// Further than all keys.
        const FAR: i64 = 1 << 60;
        let own = if seen.at_end {
            self.b.ins().isub(keys, rows)
        } else {
            self.b.ins().iconst(types::I64, 0)
        };
        let first = match seen.window {
            Some(window) => self.b.ins().iadd_imm_s(own, 1 - window),
            None => self.b.ins().iconst(types::I64, -FAR),
        };
        let last = if seen.causal {
            self.b.ins().iadd_imm_s(own, 1)
        } else {
            self.b.ins().iconst(types::I64, FAR)
        };
        (first, last)
    }

    /// The step from one batch of an operand to the next; 0 where all batches share it.
    pub(super) fn batch_step(&mut self, buf: Buf) -> Value {
        let (_, extents) = self.of(buf);
        let size = self.product(&extents[1..]);
        self.unless_one(extents[0], size)
    }

    fn unless_one(&mut self, extent: Value, step: Value) -> Value {
        let zero = self.b.ins().iconst(types::I64, 0);
        let one = self.b.ins().icmp_imm_s(IntCC::Equal, extent, 1);
        self.b.ins().select(one, zero, step)
    }
}
