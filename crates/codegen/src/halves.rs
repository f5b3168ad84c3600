//! 16-bit floats in registers: to `f32` and back by operations on integers and floats, without a
//! call.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    InstBuilder, InstructionData, MemFlagsData, Opcode, Value, ValueDef, types,
};
use relax_tensor::DType;

use crate::scalar::{Scalars, is_bf16, is_f16};

/// The bits of the float32 2^`n`.
const fn power(n: i32) -> u32 {
    ((127 + n) as u32) << 23
}

impl Scalars<'_, '_, '_> {
    /// The bits of a two-byte value, zero-extended.
    pub(crate) fn short_bits(&mut self, dtype: DType, v: Value) -> Value {
        match dtype {
            // To round once is enough.
            d if is_f16(d) => self.f16_bits(self.unrounded(v).unwrap_or(v)),
            d if is_bf16(d) => self.bf16_bits(v),
            _ => self.b.ins().uextend(types::I32, v),
        }
    }

    /// The two-byte value with these bits.
    pub(crate) fn of_short_bits(&mut self, dtype: DType, bits: Value) -> Value {
        match dtype {
            d if is_f16(d) => self.of_f16_bits(bits),
            d if is_bf16(d) => {
                let wide = self.b.ins().ishl_imm_s(bits, 16);
                self.b.ins().bitcast(types::F32, MemFlagsData::new(), wide)
            }
            _ => self.b.ins().ireduce(types::I16, bits),
        }
    }

    /// The upper half of an `f32`, rounded to nearest even, as i32; NaN stays NaN.
    fn bf16_bits(&mut self, v: Value) -> Value {
        let bits = self.b.ins().bitcast(types::I32, MemFlagsData::new(), v);
        let odd = self.b.ins().ushr_imm_s(bits, 16);
        let odd = self.b.ins().band_imm_s(odd, 1);
        let bump = self.b.ins().iadd_imm_s(odd, 0x7fff);
        let sum = self.b.ins().iadd(bits, bump);
        let up = self.b.ins().ushr_imm_s(sum, 16);
        let nan = self.b.ins().fcmp(FloatCC::Unordered, v, v);
        let quiet = self.b.ins().ushr_imm_s(bits, 16);
        let quiet = self.b.ins().bor_imm_s(quiet, 0x40);
        self.b.ins().select(nan, quiet, up)
    }

    /// An `f32` as a float of two bytes holds it.
    pub(crate) fn short_rounded(&mut self, dtype: DType, v: Value) -> Value {
        if is_f16(dtype) {
            return self.f16_rounded(v);
        }
        let bits = self.short_bits(dtype, v);
        self.of_short_bits(dtype, bits)
    }

    /// An `f32` as `float16` holds it: a sum with a power of two that is 13 bits above the number
    /// has no more bits than that keeps; small numbers all meet the same one. What is too large
    /// becomes infinite by way of the largest exponent.
    fn f16_rounded(&mut self, v: Value) -> Value {
        let flags = MemFlagsData::new();
        let bits = self.b.ins().bitcast(types::I32, flags, v);
        let own = self.b.ins().band_imm_s(bits, 0x7f80_0000);
        let least = self.b.ins().iconst(types::I32, i64::from(power(-14)));
        let most = self.b.ins().iconst(types::I32, i64::from(power(16)));
        let own = self.b.ins().smax(own, least);
        let own = self.b.ins().smin(own, most);
        let above = self.b.ins().iadd_imm_s(own, 13 << 23);
        let above = self.b.ins().bitcast(types::F32, flags, above);
        let size = self.b.ins().fabs(v);
        let sum = self.b.ins().fadd(size, above);
        let size = self.b.ins().fsub(sum, above);
        let up = self.b.ins().f32const(f32::from_bits(power(112)));
        let down = self.b.ins().f32const(f32::from_bits(power(-112)));
        let size = self.b.ins().fmul(size, up);
        let size = self.b.ins().fmul(size, down);
        self.b.ins().fcopysign(size, v)
    }

    /// The number that [`Self::f16_rounded`] rounded, where a value is its result: what it emits is
    /// recognised by all of its operations on floats.
    fn unrounded(&self, v: Value) -> Option<Value> {
        let dfg = &self.b.func.dfg;
        let made = |v: Value| match dfg.value_def(dfg.resolve_aliases(v)) {
            ValueDef::Result(inst, 0) => Some(inst),
            _ => None,
        };
        let of = |v: Value, opcode: Opcode| {
            made(v)
                .filter(|&inst| dfg.insts[inst].opcode() == opcode)
                .map(|inst| dfg.inst_args(inst))
        };
        let is_power = |v: Value, n: i32| match made(v).map(|inst| &dfg.insts[inst]) {
            Some(InstructionData::UnaryIeee32 { imm, .. }) => imm.bits() == power(n),
            _ => false,
        };
        let &[size, number] = of(v, Opcode::Fcopysign)? else {
            return None;
        };
        let &[size, down] = of(size, Opcode::Fmul)? else {
            return None;
        };
        let &[size, up] = of(size, Opcode::Fmul)? else {
            return None;
        };
        let &[sum, above] = of(size, Opcode::Fsub)? else {
            return None;
        };
        let &[size, added] = of(sum, Opcode::Fadd)? else {
            return None;
        };
        let &[given] = of(size, Opcode::Fabs)? else {
            return None;
        };
        let same = given == number && added == above && of(above, Opcode::Bitcast).is_some();
        (same && is_power(down, -112) && is_power(up, 112)).then_some(number)
    }

    /// The nearest `float16` to an `f32`, ties to even, as i32; NaN stays NaN.
    ///
    /// Rounds by adding a power of two: its exponent is a fixed distance above the number's, so
    /// that the sum keeps as many bits as `float16` does. All small numbers get the same one, which
    /// drops the bits that subnormals lack.
    fn f16_bits(&mut self, v: Value) -> Value {
        let flags = MemFlagsData::new();
        let bits = self.b.ins().bitcast(types::I32, flags, v);
        let sign = self.b.ins().ushr_imm_s(bits, 16);
        let sign = self.b.ins().band_imm_s(sign, 0x8000);
        // Too large magnitudes become infinite; other numbers are left as they were.
        let size = self.b.ins().fabs(v);
        let up = self.b.ins().f32const(f32::from_bits((127 + 112) << 23));
        let down = self.b.ins().f32const(f32::from_bits((127 - 110) << 23));
        let size = self.b.ins().fmul(size, up);
        let size = self.b.ins().fmul(size, down);
        let doubled = self.b.ins().ishl_imm_s(bits, 1);
        let exponent = self.b.ins().band_imm_s(doubled, -0x0100_0000);
        let least = self.b.ins().iconst(types::I32, 0x7100_0000);
        let exponent = self.b.ins().umax(exponent, least);
        let above = self.b.ins().ushr_imm_s(exponent, 1);
        let above = self.b.ins().iadd_imm_s(above, 0x0780_0000);
        let above = self.b.ins().bitcast(types::F32, flags, above);
        let sum = self.b.ins().fadd(above, size);
        let sum = self.b.ins().bitcast(types::I32, flags, sum);
        let high = self.b.ins().ushr_imm_s(sum, 13);
        let high = self.b.ins().band_imm_s(high, 0x7c00);
        let low = self.b.ins().band_imm_s(sum, 0xfff);
        let number = self.b.ins().iadd(high, low);
        let nan = self.b.ins().fcmp(FloatCC::Unordered, v, v);
        let told = self.b.ins().ushr_imm_s(bits, 13);
        let told = self.b.ins().band_imm_s(told, 0x3ff);
        let told = self.b.ins().bor_imm_s(told, 0x7e00);
        let number = self.b.ins().select(nan, told, number);
        self.b.ins().bor(sign, number)
    }

    /// The `f32` of a `float16` whose bits are zero-extended to i32.
    fn of_f16_bits(&mut self, bits: Value) -> Value {
        let flags = MemFlagsData::new();
        let sign = self.b.ins().band_imm_s(bits, 0x8000);
        let sign = self.b.ins().ishl_imm_s(sign, 16);
        let size = self.b.ins().band_imm_s(bits, 0x7fff);
        // The exponent's bias is 112 less than that of `f32`; infinities and NaN have the largest
        // exponent in both.
        let moved = self.b.ins().ishl_imm_s(size, 13);
        let wide = self.b.ins().iadd_imm_s(moved, 0xe0 << 23);
        let wide = self.b.ins().bitcast(types::F32, flags, wide);
        let scale = self.b.ins().f32const(f32::from_bits((127 - 112) << 23));
        let normal = self.b.ins().fmul(wide, scale);
        // Subnormal numbers are integer multiples of 2^-24.
        let steps = self.b.ins().fcvt_from_sint(types::F32, size);
        let step = self.b.ins().f32const(f32::from_bits((127 - 24) << 23));
        let small = self.b.ins().fmul(steps, step);
        let few = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, size, 0x400);
        let value = self.b.ins().select(few, small, normal);
        let value = self.b.ins().bitcast(types::I32, flags, value);
        let value = self.b.ins().bor(value, sign);
        self.b.ins().bitcast(types::F32, flags, value)
    }
}
