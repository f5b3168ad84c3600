//! Scalar operations in Cranelift IR.
//!
//! Integers live in registers of their storage width, `bool` as 0 or 1 in eight bits. `float16` and
//! `bfloat16` are held as `f32`, rounded to their precision after every operation, which gives the
//! same results as computing in the narrow type.

mod cast;

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Type, Value, types,
};
use cranelift_frontend::FunctionBuilder;
use relax_loops::{BinOp, Ex, ExKind, Libm, UnOp};
use relax_runtime::abi::{self, Function};
use relax_tensor::{DType, TypeCode};

use crate::env::Env;
use crate::error::Unsupported;
use crate::outside::{self, libm};

/// The register type of an element type.
pub(crate) fn register(dtype: DType) -> Type {
    match (dtype.code, dtype.size()) {
        (TypeCode::Float, 8) => types::F64,
        (TypeCode::Float | TypeCode::BFloat, _) => types::F32,
        (_, 1) => types::I8,
        (_, 2) => types::I16,
        (_, 4) => types::I32,
        _ => types::I64,
    }
}

pub(crate) fn is_f16(dtype: DType) -> bool {
    dtype.code == TypeCode::Float && dtype.bits == 16
}

pub(crate) fn is_bf16(dtype: DType) -> bool {
    dtype.code == TypeCode::BFloat
}

/// Returns whether integers of this type are compared, divided and extended as signed numbers.
fn signed(dtype: DType) -> bool {
    dtype.is_int()
}

/// A binary function as one instruction, on scalars or on the lanes of vectors: comparisons (to a
/// truth value, or a mask), integer arithmetic with wrapping, float arithmetic without rounding to
/// a narrower type. `None` for what takes more.
pub(crate) fn instruction(
    b: &mut FunctionBuilder<'_>,
    op: BinOp,
    dtype: DType,
    x: Value,
    y: Value,
) -> Option<Value> {
    let s = signed(dtype);
    if dtype.is_float() {
        let cc = match op {
            BinOp::Eq => FloatCC::Equal,
            BinOp::Ne => FloatCC::NotEqual,
            BinOp::Lt => FloatCC::LessThan,
            BinOp::Le => FloatCC::LessThanOrEqual,
            BinOp::Gt => FloatCC::GreaterThan,
            BinOp::Ge => FloatCC::GreaterThanOrEqual,
            BinOp::Add => return Some(b.ins().fadd(x, y)),
            BinOp::Sub => return Some(b.ins().fsub(x, y)),
            BinOp::Mul => return Some(b.ins().fmul(x, y)),
            BinOp::Div => return Some(b.ins().fdiv(x, y)),
            _ => return None,
        };
        return Some(b.ins().fcmp(cc, x, y));
    }
    let cc = match op {
        BinOp::Eq => IntCC::Equal,
        BinOp::Ne => IntCC::NotEqual,
        BinOp::Lt if s => IntCC::SignedLessThan,
        BinOp::Le if s => IntCC::SignedLessThanOrEqual,
        BinOp::Gt if s => IntCC::SignedGreaterThan,
        BinOp::Ge if s => IntCC::SignedGreaterThanOrEqual,
        BinOp::Lt => IntCC::UnsignedLessThan,
        BinOp::Le => IntCC::UnsignedLessThanOrEqual,
        BinOp::Gt => IntCC::UnsignedGreaterThan,
        BinOp::Ge => IntCC::UnsignedGreaterThanOrEqual,
        BinOp::Add => return Some(b.ins().iadd(x, y)),
        BinOp::Sub => return Some(b.ins().isub(x, y)),
        BinOp::Mul => return Some(b.ins().imul(x, y)),
        BinOp::Min if s => return Some(b.ins().smin(x, y)),
        BinOp::Max if s => return Some(b.ins().smax(x, y)),
        BinOp::Min => return Some(b.ins().umin(x, y)),
        BinOp::Max => return Some(b.ins().umax(x, y)),
        BinOp::And => return Some(b.ins().band(x, y)),
        BinOp::Or => return Some(b.ins().bor(x, y)),
        BinOp::Xor => return Some(b.ins().bxor(x, y)),
        _ => return None,
    };
    Some(b.ins().icmp(cc, x, y))
}

/// Returns whether the minimum or maximum of two floats is the first: the second where either is
/// NaN.
pub(crate) fn takes_first(b: &mut FunctionBuilder<'_>, op: BinOp, x: Value, y: Value) -> Value {
    let cc = match op {
        BinOp::Min => FloatCC::LessThan,
        _ => FloatCC::GreaterThan,
    };
    b.ins().fcmp(cc, x, y)
}

/// The bits of dividends and divisors that [`Scalars::divided`] takes.
pub(crate) const DIVIDED_BITS: u32 = 31;

/// Returns the factor and the shift that divide a number of [`DIVIDED_BITS`] bits by one that is no
/// power of two: `x / by` is `x * factor >> shift`, which does not overflow.
///
/// The factor is by less than one larger than `2^shift / by`, so that the product is by less than
/// `2^shift / by` too large for any such number.
fn reciprocal(by: i64) -> (i64, u32) {
    let shift = DIVIDED_BITS + (64 - (by - 1).leading_zeros());
    ((1 << shift) / by + 1, shift)
}

/// The address of values in memory, one word each.
pub(crate) fn words(b: &mut FunctionBuilder<'_>, values: &[Value]) -> Value {
    let size = 8 * values.len().max(1) as u32;
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
    let slot = b.create_sized_stack_slot(slot);
    // One address for all: each store to a slot would compute its own.
    let to = b.ins().stack_addr(types::I64, slot, 0);
    for (i, &v) in values.iter().enumerate() {
        b.ins().store(MemFlagsData::trusted(), v, to, 8 * i as i32);
    }
    to
}

/// Emits scalar operations into one function.
pub(crate) struct Scalars<'a, 'f, 'm> {
    pub b: &'a mut FunctionBuilder<'f>,
    pub env: &'a mut Env<'m>,
}

impl Scalars<'_, '_, '_> {
    /// The address of read-only numbers, one word each: in read-only data where all are constants.
    pub fn numbers(&mut self, values: &[Value]) -> Value {
        let known: Option<Vec<i64>> = (values.iter())
            .map(|&v| crate::settle::constant(self.b.func, v))
            .collect();
        match known {
            Some(known) if !known.is_empty() => {
                let bytes = known.iter().flat_map(|n| n.to_le_bytes()).collect();
                let gv = self.env.numbers(bytes, self.b.func);
                self.b.ins().symbol_value(types::I64, gv)
            }
            _ => words(self.b, values),
        }
    }

    /// Calls an imported function that returns one value.
    pub fn call(&mut self, function: Function, args: &[Value]) -> Value {
        let f = self.env.import(function, self.b.func);
        let call = self.b.ins().call(f, args);
        self.b.inst_results(call)[0]
    }

    fn math(&mut self, dtype: DType, function: Libm, args: &[Value]) -> Value {
        let function = libm(function, register(dtype) == types::F64);
        let v = self.call(function, args);
        self.rounded(dtype, v)
    }

    /// Rounds an `f32` that holds a narrower float, and wraps integers narrower than their storage;
    /// other values are unchanged.
    pub fn rounded(&mut self, dtype: DType, v: Value) -> Value {
        if is_f16(dtype) || is_bf16(dtype) {
            return self.short_rounded(dtype, v);
        }
        let width = 8 * dtype.size() as i64;
        let spare = width - i64::from(dtype.bits);
        if dtype.is_float() || dtype.is_bool() || spare == 0 {
            return v;
        }
        let up = self.b.ins().ishl_imm_s(v, spare);
        if signed(dtype) {
            self.b.ins().sshr_imm_s(up, spare)
        } else {
            self.b.ins().ushr_imm_s(up, spare)
        }
    }

    /// Reads an element.
    pub fn load(&mut self, dtype: DType, address: Value) -> Value {
        let flags = MemFlagsData::trusted();
        if is_f16(dtype) || is_bf16(dtype) {
            let bits = self.b.ins().uload16(types::I32, flags, address, 0);
            return self.of_short_bits(dtype, bits);
        }
        let v = self.b.ins().load(register(dtype), flags, address, 0);
        self.truth(dtype, v)
    }

    /// Normalises a truth value to 0 or 1, since external memory may hold other bytes and interval
    /// analysis relies on it. Other values are unchanged.
    fn truth(&mut self, dtype: DType, v: Value) -> Value {
        if dtype.is_bool() {
            return self.b.ins().icmp_imm_s(IntCC::NotEqual, v, 0);
        }
        v
    }

    /// Writes an element.
    pub fn store(&mut self, dtype: DType, value: Value, address: Value) {
        let flags = MemFlagsData::trusted();
        if is_f16(dtype) || is_bf16(dtype) {
            let bits = self.short_bits(dtype, value);
            self.b.ins().istore16(flags, bits, address, 0);
        } else {
            self.b.ins().store(flags, value, address, 0);
        }
    }

    /// An integer constant of an element type.
    pub fn int(&mut self, dtype: DType, v: i64) -> Value {
        match register(dtype) {
            types::F32 => self.b.ins().f32const(v as f32),
            types::F64 => self.b.ins().f64const(v as f64),
            ty => {
                let bits = 64 - ty.bits();
                self.b.ins().iconst(ty, ((v as u64) << bits >> bits) as i64)
            }
        }
    }

    /// A float constant of an element type.
    pub fn float(&mut self, dtype: DType, v: f64) -> Value {
        if register(dtype) == types::F64 {
            self.b.ins().f64const(v)
        } else {
            self.b.ins().f32const(v as f32)
        }
    }

    /// One node of an expression, whose children have the values that `get` returns. Variables and
    /// elements of buffers are left to the caller.
    pub fn node(&mut self, e: &Ex, get: &dyn Fn(&Ex) -> Value) -> Result<Value, Unsupported> {
        let dtype = e.dtype();
        Ok(match e.kind() {
            ExKind::Int(v) => self.int(dtype, *v),
            ExKind::Float(v) => self.float(dtype, *v),
            ExKind::Var(_) | ExKind::Load(..) => unreachable!("the caller's"),
            ExKind::Unary(op, a) => (self.unary(*op, a.dtype(), get(a)))
                .ok_or_else(|| Unsupported(format!("{op:?} of {}", a.dtype())))?,
            ExKind::Binary(op, a, b) => (self.binary(*op, a.dtype(), get(a), get(b)))
                .ok_or_else(|| Unsupported(format!("{op:?} of {}", a.dtype())))?,
            ExKind::Select(c, a, b) => self.b.ins().select(get(c), get(a), get(b)),
            ExKind::Cast(a) => self.cast(a.dtype(), dtype, get(a)),
            ExKind::Reinterpret(a) => self.reinterpret(a, e, get(a))?,
        })
    }

    /// A unary function; `None` where it is not defined on the type.
    pub fn unary(&mut self, op: UnOp, dtype: DType, v: Value) -> Option<Value> {
        let float = dtype.is_float();
        let r = match op {
            UnOp::Neg if float => self.b.ins().fneg(v),
            UnOp::Neg if dtype.is_bool() => v,
            UnOp::Neg => self.b.ins().ineg(v),
            UnOp::Abs if float => self.b.ins().fabs(v),
            UnOp::Abs if signed(dtype) => self.b.ins().iabs(v),
            UnOp::Abs => v,
            UnOp::Not if dtype.is_bool() => self.b.ins().bxor_imm_s(v, 1),
            UnOp::Not if !float => self.b.ins().bnot(v),
            UnOp::Popcount if !float => self.b.ins().popcnt(v),
            UnOp::Clz if !float => {
                let n = self.b.ins().clz(v);
                let spare = 8 * dtype.size() as i64 - i64::from(dtype.bits);
                self.b.ins().iadd_imm_s(n, -spare)
            }
            UnOp::Floor | UnOp::Ceil | UnOp::Trunc | UnOp::Round | UnOp::RoundEven if !float => v,
            UnOp::IsNan | UnOp::IsInf if !float => self.b.ins().iconst(types::I8, 0),
            UnOp::IsFinite if !float => self.b.ins().iconst(types::I8, 1),
            _ if !float => return None,
            UnOp::IsNan => self.b.ins().fcmp(FloatCC::Unordered, v, v),
            UnOp::IsInf | UnOp::IsFinite => {
                let a = self.b.ins().fabs(v);
                let inf = self.float(dtype, f64::INFINITY);
                let cc = if op == UnOp::IsInf {
                    FloatCC::Equal
                } else {
                    FloatCC::LessThan
                };
                self.b.ins().fcmp(cc, a, inf)
            }
            UnOp::Sqrt => self.b.ins().sqrt(v),
            UnOp::Rsqrt => {
                let root = self.b.ins().sqrt(v);
                let one = self.float(dtype, 1.0);
                self.b.ins().fdiv(one, root)
            }
            UnOp::Sigmoid => {
                let n = self.b.ins().fneg(v);
                let exp = if register(dtype) == types::F64 {
                    outside::exp
                } else {
                    outside::expf
                };
                let e = self.call(exp, &[n]);
                let one = self.float(dtype, 1.0);
                let d = self.b.ins().fadd(one, e);
                self.b.ins().fdiv(one, d)
            }
            UnOp::Floor => self.b.ins().floor(v),
            UnOp::Ceil => self.b.ins().ceil(v),
            UnOp::Trunc => self.b.ins().trunc(v),
            UnOp::RoundEven => self.b.ins().nearest(v),
            op => return op.libm().map(|f| self.math(dtype, f, &[v])),
        };
        let kept = matches!(op, UnOp::IsNan | UnOp::IsInf | UnOp::IsFinite);
        Some(if kept { r } else { self.rounded(dtype, r) })
    }

    /// A binary function; `None` where it is not defined on the type.
    pub fn binary(&mut self, op: BinOp, dtype: DType, a: Value, b: Value) -> Option<Value> {
        let one = instruction(self.b, op, dtype, a, b);
        if op.is_comparison() {
            return one;
        }
        let r = if let Some(r) = one {
            // Arithmetic on truth values yields truth values: nonzero is true.
            match op {
                BinOp::Add | BinOp::Sub => self.truth(dtype, r),
                _ => r,
            }
        } else if dtype.is_float() {
            self.float_binary(op, dtype, a, b)?
        } else {
            self.int_binary(op, dtype, a, b)?
        };
        Some(self.rounded(dtype, r))
    }

    fn float_binary(&mut self, op: BinOp, dtype: DType, a: Value, b: Value) -> Option<Value> {
        Some(match op {
            BinOp::FloorDiv => {
                let q = self.b.ins().fdiv(a, b);
                let q = self.rounded(dtype, q);
                self.b.ins().floor(q)
            }
            BinOp::FloorMod => {
                let q = self.b.ins().fdiv(a, b);
                let q = self.rounded(dtype, q);
                let q = self.b.ins().floor(q);
                let p = self.b.ins().fmul(q, b);
                let p = self.rounded(dtype, p);
                self.b.ins().fsub(a, p)
            }
            BinOp::Min | BinOp::Max => {
                let first = takes_first(self.b, op, a, b);
                self.b.ins().select(first, a, b)
            }
            op => self.math(dtype, op.libm()?, &[a, b]),
        })
    }

    fn int_binary(&mut self, op: BinOp, dtype: DType, a: Value, b: Value) -> Option<Value> {
        Some(match op {
            BinOp::Div | BinOp::FloorDiv | BinOp::FloorMod | BinOp::Rem => {
                self.divide(op, dtype, a, b)
            }
            BinOp::Shl | BinOp::Shr => self.shift(op, dtype, a, b),
            BinOp::Pow => {
                let (x, y) = (
                    self.widen(dtype, a, types::I64),
                    self.widen(dtype, b, types::I64),
                );
                let r = self.call(abi::rx_ipow, &[x, y]);
                let ty = register(dtype);
                if ty == types::I64 {
                    r
                } else {
                    let r = self.b.ins().ireduce(ty, r);
                    self.truth(dtype, r)
                }
            }
            _ => return None,
        })
    }

    fn shift(&mut self, op: BinOp, dtype: DType, a: Value, b: Value) -> Value {
        let (s, bits) = (signed(dtype), i64::from(dtype.bits));
        let inside = self.b.ins().icmp_imm_s(IntCC::UnsignedLessThan, b, bits);
        let zero = self.int(dtype, 0);
        if op == BinOp::Shl {
            let v = self.b.ins().ishl(a, b);
            return self.b.ins().select(inside, v, zero);
        }
        if !s {
            let v = self.b.ins().ushr(a, b);
            return self.b.ins().select(inside, v, zero);
        }
        let last = self.int(dtype, bits - 1);
        let count = self.b.ins().select(inside, b, last);
        self.b.ins().sshr(a, count)
    }

    /// The quotient or the remainder of a number in `0..=most` and a positive constant, both of at
    /// most [`DIVIDED_BITS`] bits.
    pub fn divided(&mut self, op: BinOp, x: Value, by: i64, most: i64) -> Value {
        let quotient = matches!(op, BinOp::Div | BinOp::FloorDiv);
        if most < by {
            return match quotient {
                true => self.b.ins().iconst(types::I64, 0),
                false => x,
            };
        }
        if by & (by - 1) == 0 {
            return match quotient {
                true => self.b.ins().ushr_imm_s(x, i64::from(by.trailing_zeros())),
                false => self.b.ins().band_imm_s(x, by - 1),
            };
        }
        let (factor, shift) = reciprocal(by);
        let product = self.b.ins().imul_imm_s(x, factor);
        let whole = self.b.ins().ushr_imm_s(product, i64::from(shift));
        if quotient {
            return whole;
        }
        let product = self.b.ins().imul_imm_s(whole, by);
        self.b.ins().isub(x, product)
    }

    /// Integer division and remainder, never trapping: division by zero gives 0, and the least
    /// integer by -1 wraps.
    fn divide(&mut self, op: BinOp, dtype: DType, a: Value, b: Value) -> Value {
        let ty = register(dtype);
        let wide = if ty.bits() < 32 { types::I32 } else { ty };
        let (x, y) = (self.widen(dtype, a, wide), self.widen(dtype, b, wide));
        let is_zero = self.b.ins().icmp_imm_s(IntCC::Equal, y, 0);
        let one = self.b.ins().iconst(wide, 1);
        let zero = self.b.ins().iconst(wide, 0);
        let quotient = matches!(op, BinOp::Div | BinOp::FloorDiv);
        let r = if !signed(dtype) {
            let y = self.b.ins().select(is_zero, one, y);
            if quotient {
                self.b.ins().udiv(x, y)
            } else {
                self.b.ins().urem(x, y)
            }
        } else {
            let is_minus = self.b.ins().icmp_imm_s(IntCC::Equal, y, -1);
            let special = self.b.ins().bor(is_zero, is_minus);
            let safe = self.b.ins().select(special, one, y);
            let (q, rem) = (self.b.ins().sdiv(x, safe), self.b.ins().srem(x, safe));
            let neg = self.b.ins().ineg(x);
            let q = self.b.ins().select(is_minus, neg, q);
            match op {
                BinOp::Div => q,
                BinOp::Rem => rem,
                _ => {
                    // Where the remainder is nonzero and its sign differs from the divisor's,
                    // adjust by one.
                    let crossed = self.b.ins().bxor(rem, safe);
                    let crossed = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, crossed, 0);
                    let rest = self.b.ins().icmp_imm_s(IntCC::NotEqual, rem, 0);
                    let step = self.b.ins().band(crossed, rest);
                    if op == BinOp::FloorDiv {
                        let down = self.b.ins().iadd_imm_s(q, -1);
                        self.b.ins().select(step, down, q)
                    } else {
                        let up = self.b.ins().iadd(rem, safe);
                        self.b.ins().select(step, up, rem)
                    }
                }
            }
        };
        let r = self.b.ins().select(is_zero, zero, r);
        if wide == ty {
            r
        } else {
            self.b.ins().ireduce(ty, r)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide_exactly() {
        let most = (1i64 << DIVIDED_BITS) - 1;
        let divisors = (3..2000).chain((10..DIVIDED_BITS).flat_map(|k| {
            let near = 1i64 << k;
            [near - 1, near + 1, near + near / 3]
        }));
        for by in divisors.chain([most]).filter(|by| by & (by - 1) != 0) {
            let (factor, shift) = reciprocal(by);
            let quotient = |x: i64| x.checked_mul(factor).expect("fits 64 bits") >> shift;
            let ends = [1, 2, most / by / 2, most / by].map(|k| k * by);
            let near = ends.iter().flat_map(|end| [end - 1, *end, end + 1]);
            for x in near
                .chain([0, most - 1, most])
                .filter(|x| (0..=most).contains(x))
            {
                assert_eq!(quotient(x), x / by, "{x} / {by}");
            }
        }
    }
}
