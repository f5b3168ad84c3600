//! 16-bit floats in registers: to `f32` and back by operations on integers and floats, without a
//! call.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use relax_tensor::DType;

use crate::scalar::{Scalars, is_bf16, is_f16};

impl Scalars<'_, '_, '_> {
    /// The bits of a two-byte value, zero-extended.
    pub(crate) fn short_bits(&mut self, dtype: DType, v: Value) -> Value {
        match dtype {
            d if is_f16(d) => self.f16_bits(v),
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
        let power = |n: i64| (127 + n) << 23;
        let own = self.b.ins().band_imm_s(bits, 0x7f80_0000);
        let least = self.b.ins().iconst(types::I32, power(-14));
        let most = self.b.ins().iconst(types::I32, power(16));
        let own = self.b.ins().smax(own, least);
        let own = self.b.ins().smin(own, most);
        let above = self.b.ins().iadd_imm_s(own, 13 << 23);
        let above = self.b.ins().bitcast(types::F32, flags, above);
        let size = self.b.ins().fabs(v);
        let sum = self.b.ins().fadd(size, above);
        let size = self.b.ins().fsub(sum, above);
        let up = self.b.ins().f32const(f32::from_bits(power(112) as u32));
        let down = self.b.ins().f32const(f32::from_bits(power(-112) as u32));
        let size = self.b.ins().fmul(size, up);
        let size = self.b.ins().fmul(size, down);
        self.b.ins().fcopysign(size, v)
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
