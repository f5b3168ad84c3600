//! Arrays that are read with constant strides: where the first element lies, the steps along the
//! axes, and the checks of indices that are not proven in bounds.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use relax_loops::select::strided::{Strided, inside};
use relax_loops::{Ex, Var};

use super::{Access, Kernel, Result};

/// More elements than any memory holds.
const FARTHEST: i64 = 1 << 56;

impl Kernel<'_, '_, '_> {
    /// The address of an input's first element and its steps along all axes, in elements; indices
    /// that are not proven in bounds remain to be checked.
    pub(super) fn input_steps(
        &mut self,
        input: &Strided,
        axes: &[(Var, Ex)],
        extents: &[Value],
        checks: &mut Vec<(Access, (Value, Value), Value)>,
    ) -> Result<(Value, Vec<Value>)> {
        let place = self.places[&input.buf].clone();
        let mut offset = self.b.ins().iconst(types::I64, 0);
        let mut along = vec![offset; axes.len()];
        let mut size = self.b.ins().iconst(types::I64, 1);
        let program = self.program;
        let buffer = &program.bufs[input.buf];
        for (k, (index, rest)) in input.index.iter().enumerate().rev() {
            let rest = self.eval(rest)?;
            let scaled = self.b.ins().imul(rest, size);
            offset = self.b.ins().iadd(offset, scaled);
            let mut bounds = (rest, rest);
            for (j, step) in index.iter().enumerate() {
                if step.as_int() == Some(0) {
                    continue;
                }
                let step = self.eval(step)?;
                let scaled = self.b.ins().imul(step, size);
                along[j] = self.b.ins().iadd(along[j], scaled);
                bounds = self.widened(bounds, step, extents[j]);
            }
            if !input.sure && !inside(&input.index[k], &buffer.shape[k], axes) {
                let access = Access {
                    buf: input.buf,
                    axis: k as u32,
                    place: None,
                };
                checks.push((access, bounds, place.extents[k]));
            }
            size = self.b.ins().imul(size, place.extents[k]);
        }
        let bytes = self.b.ins().imul_imm_s(offset, buffer.dtype.size() as i64);
        Ok((self.b.ins().iadd(place.data, bytes), along))
    }

    /// The least and the greatest index after moving each by `step` in every but the first of
    /// `extent` iterations.
    pub(super) fn widened(
        &mut self,
        (low, high): (Value, Value),
        step: Value,
        extent: Value,
    ) -> (Value, Value) {
        let last = self.b.ins().iadd_imm_s(extent, -1);
        let reach = self.b.ins().imul(step, last);
        // Offsets beyond any memory count as out of bounds: sums of them might wrap to valid
        // numbers.
        let high_word = self.b.ins().smulhi(step, last);
        let sign = self.b.ins().sshr_imm_s(reach, 63);
        let over = self.b.ins().icmp(IntCC::NotEqual, high_word, sign);
        let far = self.b.ins().iadd_imm_s(reach, FARTHEST);
        let most = self.b.ins().iconst(types::I64, 2 * FARTHEST);
        let far = self.b.ins().icmp(IntCC::UnsignedGreaterThan, far, most);
        let over = self.b.ins().bor(over, far);
        let least = self.b.ins().iconst(types::I64, i64::MIN);
        let zero = self.b.ins().iconst(types::I64, 0);
        let down = self.b.ins().smin(reach, zero);
        let down = self.b.ins().select(over, least, down);
        let up = self.b.ins().smax(reach, zero);
        (self.b.ins().iadd(low, down), self.b.ins().iadd(high, up))
    }

    /// Checks the least and the greatest index of every axis, unless there are no iterations.
    pub(super) fn check_box(
        &mut self,
        extents: &[Value],
        checks: &[(Access, (Value, Value), Value)],
    ) {
        let (some, done) = (self.b.create_block(), self.b.create_block());
        let mut any = self.b.ins().iconst(types::I8, 1);
        for &n in extents {
            let positive = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, n, 0);
            any = self.b.ins().band(any, positive);
        }
        self.b.ins().brif(any, some, &[], done, &[]);
        self.b.switch_to_block(some);
        for &(access, (low, high), extent) in checks {
            self.check(access, low, extent);
            self.check(access, high, extent);
        }
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
    }

    /// The address of read-only bytes.
    pub(super) fn constant(&mut self, bytes: &[u8]) -> Value {
        if bytes.is_empty() {
            return self.b.ins().iconst(types::I64, 0);
        }
        let id = self.env.data("strips", bytes, 8);
        let gv = self.env.module.declare_data_in_func(id, self.b.func);
        self.b.ins().symbol_value(types::I64, gv)
    }
}
