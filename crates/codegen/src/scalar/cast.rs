//! Conversion between element types.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use relax_loops::Ex;
use relax_tensor::DType;

use super::{Scalars, register, signed};
use crate::error::Unsupported;

impl Scalars<'_, '_, '_> {
    /// Conversion between element types.
    pub fn cast(&mut self, from: DType, to: DType, v: Value) -> Value {
        let (rf, rt) = (register(from), register(to));
        if to.is_bool() {
            return if from.is_float() {
                let zero = self.float(from, 0.0);
                self.b.ins().fcmp(FloatCC::NotEqual, v, zero)
            } else {
                self.b.ins().icmp_imm_s(IntCC::NotEqual, v, 0)
            };
        }
        match (from.is_float(), to.is_float()) {
            (true, true) => {
                let v = match (rf, rt) {
                    (types::F32, types::F64) => self.b.ins().fpromote(types::F64, v),
                    (types::F64, types::F32) => self.b.ins().fdemote(types::F32, v),
                    _ => v,
                };
                self.rounded(to, v)
            }
            (false, true) => {
                let wide = self.widen(
                    from,
                    v,
                    if rf == types::I64 {
                        types::I64
                    } else {
                        types::I32
                    },
                );
                let v = if signed(from) {
                    self.b.ins().fcvt_from_sint(rt, wide)
                } else {
                    self.b.ins().fcvt_from_uint(rt, wide)
                };
                self.rounded(to, v)
            }
            (true, false) => {
                let wide = if rt == types::I64 {
                    types::I64
                } else {
                    types::I32
                };
                if !signed(to) {
                    let v = self.b.ins().fcvt_to_uint_sat(wide, v);
                    return self.clamp(to, wide, v);
                }
                let v = self.b.ins().fcvt_to_sint_sat(wide, v);
                self.clamp(to, wide, v)
            }
            (false, false) => {
                let v = if rt.bits() > rf.bits() {
                    self.widen(from, v, rt)
                } else if rt.bits() < rf.bits() {
                    self.b.ins().ireduce(rt, v)
                } else {
                    v
                };
                self.rounded(to, v)
            }
        }
    }

    pub(super) fn widen(&mut self, from: DType, v: Value, to: Type) -> Value {
        if self.b.func.dfg.value_type(v) == to {
            v
        } else if signed(from) {
            self.b.ins().sextend(to, v)
        } else {
            self.b.ins().uextend(to, v)
        }
    }

    /// Saturates a wide integer to the range of `to` and narrows it.
    pub(super) fn clamp(&mut self, to: DType, wide: Type, v: Value) -> Value {
        let Some((least, most)) = to.int_range().filter(|_| u32::from(to.bits) < wide.bits())
        else {
            return v;
        };
        let most = self.b.ins().iconst(wide, most as i64);
        let v = if signed(to) {
            let least = self.b.ins().iconst(wide, least as i64);
            let v = self.b.ins().smax(v, least);
            self.b.ins().smin(v, most)
        } else {
            self.b.ins().umin(v, most)
        };
        let narrow = register(to);
        if narrow == wide {
            v
        } else {
            self.b.ins().ireduce(narrow, v)
        }
    }

    /// The bits of a value as another type.
    pub fn reinterpret(&mut self, from: &Ex, to: &Ex, v: Value) -> Result<Value, Unsupported> {
        let (f, t) = (register(from.dtype()), register(to.dtype()));
        if from.dtype().size() == 2 && to.dtype().size() == 2 {
            let bits = self.short_bits(from.dtype(), v);
            return Ok(self.of_short_bits(to.dtype(), bits));
        }
        if from.dtype().size() != to.dtype().size() {
            let text = format!("the bits of {} as {}", from.dtype(), to.dtype());
            return Err(Unsupported(text));
        }
        Ok(if f == t {
            v
        } else {
            self.b.ins().bitcast(t, MemFlagsData::new(), v)
        })
    }
}
