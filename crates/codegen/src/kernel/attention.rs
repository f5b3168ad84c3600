//! Two products with a softmax between them, through the runtime's kernel for attention.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::Buf;
use relax_loops::attention::{Attention, Masking};
use relax_loops::fits;
use relax_runtime::kernels::attention::{self as kernel, RxAttentionF32};
use relax_runtime::{abi, field, fields};

use super::{Kernel, Result};

impl Kernel<'_, '_, '_> {
    /// Emits the stages of an attention as one call of the fused kernel.
    pub(super) fn attention(&mut self, a: &Attention) -> Result<()> {
        self.place(a.out)?;
        // The axes of the key and value positions, and of their elements.
        let (key, depth) = if a.keys_in_rows { (1, 2) } else { (2, 1) };
        let (value, width) = if a.values_in_rows { (1, 2) } else { (2, 1) };
        self.require_fits(fits::of_attention(self.program, a))?;
        let f = self.structure::<RxAttentionF32>();
        let (out, shape) = self.of(a.out);
        let [(q, q_of), (k, k_of), (v, v_of)] = [a.q, a.k, a.v].map(|b| self.of(b));
        let one = self.b.ins().iconst(types::I64, 1);
        let strides = |axis: usize, last: Value| if axis == 1 { (last, one) } else { (one, last) };
        let (k_rs, k_cs) = strides(depth, k_of[2]);
        let (v_rs, v_cs) = strides(value, v_of[2]);
        let steps = [a.q, a.k, a.v].map(|b| self.batch_step(b));
        self.put(
            &f,
            fields!(RxAttentionF32 {
                batch: shape[0],
                rows: shape[1],
                keys: k_of[key],
                depth: q_of[2],
                width: v_of[width],
                q: q,
                q_step: steps[0],
                k: k,
                k_step: steps[1],
                k_rs: k_rs,
                k_cs: k_cs,
                v: v,
                v_step: steps[2],
                v_rs: v_rs,
                v_cs: v_cs,
                out: out,
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
                field!(RxAttentionF32, mask_rs),
                field!(RxAttentionF32, mask_cs),
            ];
            for (field, axis) in steps.into_iter().zip(mask.axes) {
                let Some(axis) = axis else { continue };
                let step = self.product(&extents[axis + 1..]);
                self.put(&f, [(field, step)]);
            }
        }
        let scale = self.b.ins().f32const(a.scale);
        self.put(&f, fields!(RxAttentionF32 { scale: scale }));
        self.run_with(abi::rx_attention_f32, f);
        Ok(())
    }

    /// The step from one batch of an operand to the next; 0 where all batches share it.
    pub(super) fn batch_step(&mut self, buf: Buf) -> Value {
        let (_, extents) = self.of(buf);
        let size = self.product(&extents[1..]);
        let zero = self.b.ins().iconst(types::I64, 0);
        let one = self.b.ins().icmp_imm_s(IntCC::Equal, extents[0], 1);
        self.b.ins().select(one, zero, size)
    }
}
