//! Two products with a softmax between them, through the runtime's kernel for attention.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::Buf;
use relax_loops::attention::{Attention, Masking};
use relax_loops::fits;

use super::{Kernel, Result};

impl Kernel<'_, '_, '_> {
    /// Emits the stages of an attention as a call of the kernel that does them at once.
    pub(super) fn attention(&mut self, a: &Attention) -> Result<()> {
        self.place(a.out)?;
        // Axes of a key's and a value's number, and of their elements.
        let (key, depth) = if a.keys_in_rows { (1, 2) } else { (2, 1) };
        let (value, width) = if a.values_in_rows { (1, 2) } else { (2, 1) };
        self.require_fits(fits::of_attention(self.program, a))?;
        let f = self.structure(176);
        let (out, shape) = self.of(a.out);
        let [(q, q_of), (k, k_of), (v, v_of)] = [a.q, a.k, a.v].map(|b| self.of(b));
        let one = self.b.ins().iconst(types::I64, 1);
        let strides = |axis: usize, last: Value| if axis == 1 { (last, one) } else { (one, last) };
        let (k_rs, k_cs) = strides(depth, k_of[2]);
        let (v_rs, v_cs) = strides(value, v_of[2]);
        let steps = [a.q, a.k, a.v].map(|b| self.batch_step(b));
        for (at, value) in [
            (0, shape[0]),
            (8, shape[1]),
            (16, k_of[key]),
            (24, q_of[2]),
            (32, v_of[width]),
            (40, q),
            (48, steps[0]),
            (56, k),
            (64, steps[1]),
            (72, k_rs),
            (80, k_cs),
            (88, v),
            (96, steps[2]),
            (104, v_rs),
            (112, v_cs),
            (152, out),
        ] {
            self.put(&f, at, value);
        }
        if let Some(mask) = &a.mask {
            let (data, extents) = self.of(mask.buf);
            self.put(&f, 120, data);
            let (kind, fill) = match mask.how {
                Masking::Add => (0, 0.0),
                Masking::Keep(fill) => (1, fill),
                Masking::Replace(fill) => (2, fill),
            };
            self.put_int32(&f, 164, kind);
            let fill = self.b.ins().f32const(fill);
            self.put(&f, 168, fill);
            for (i, axis) in mask.axes.iter().enumerate() {
                let Some(axis) = *axis else { continue };
                let step = self.product(&extents[axis + 1..]);
                self.put(&f, 128 + 8 * i as i32, step);
            }
        }
        let scale = self.b.ins().f32const(a.scale);
        self.put(&f, 160, scale);
        self.run_with("rx_attention_f32", &[f]);
        Ok(())
    }

    /// From one batch of an operand to the next; 0 where it has one for all.
    pub(super) fn batch_step(&mut self, buf: Buf) -> Value {
        let (_, extents) = self.of(buf);
        let size = self.product(&extents[1..]);
        let zero = self.b.ins().iconst(types::I64, 0);
        let one = self.b.ins().icmp_imm_s(IntCC::Equal, extents[0], 1);
        self.b.ins().select(one, zero, size)
    }
}
