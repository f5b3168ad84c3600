//! Scalars of TensorIR: an expression, and its type in TensorIR.

use relax_loops::{BinOp, Ex, ExKind, UnOp};
use relax_tensor::{DType, TypeCode};

use super::Out;

/// A scalar. Loop variables, dimensions and computations over them are `int64` here; where TensorIR
/// has 32 bits (`ty`), they are converted only when they are used outside of an index.
#[derive(Clone, Debug)]
pub(super) struct Sc {
    pub ex: Ex,
    pub ty: DType,
}

/// Returns an element type that programs can compute with.
pub(super) fn element(name: &str) -> Out<DType> {
    let dtype: DType = name
        .parse()
        .map_err(|_| "an element type without values here")?;
    let computes = dtype.lanes == 1
        && match dtype.code {
            TypeCode::Int | TypeCode::UInt => matches!(dtype.bits, 1 | 8 | 16 | 32 | 64),
            TypeCode::Float => matches!(dtype.bits, 16 | 32 | 64),
            TypeCode::BFloat => dtype.bits == 16,
            TypeCode::Handle | TypeCode::Param => false,
        };
    if computes {
        Ok(dtype)
    } else {
        Err("an element type without values here")
    }
}

impl Sc {
    pub fn of(ex: Ex) -> Sc {
        let ty = ex.dtype();
        Sc { ex, ty }
    }
    /// Returns an integer literal: of `int32` if it fits, else of `int64`.
    pub fn literal(value: i64) -> Sc {
        let narrow = i32::try_from(value).is_ok();
        Sc {
            ex: Ex::idx(value),
            ty: if narrow { DType::I32 } else { DType::I64 },
        }
    }
    /// Returns the expression, converted to its type in TensorIR.
    pub fn real(&self) -> Ex {
        self.ex.cast(self.ty)
    }
    /// Returns the expression as an index.
    pub fn index(&self) -> Out<Ex> {
        if self.ty.is_float() {
            return Err("an index that is no integer");
        }
        Ok(self.ex.cast(DType::I64))
    }
    /// Returns the expression as a condition.
    pub fn condition(&self) -> Ex {
        if self.ty.is_bool() {
            self.real()
        } else {
            let e = self.real();
            let zero = Ex::int(e.dtype(), 0);
            e.binary(BinOp::Ne, &zero)
        }
    }
    pub fn cast(&self, dtype: DType) -> Sc {
        let wide = |d| matches!(d, DType::I64 | DType::I32);
        if self.ex.dtype() == DType::I64 && self.ty == DType::I32 && wide(dtype) {
            return Sc {
                ex: self.ex.clone(),
                ty: dtype,
            };
        }
        Sc::of(self.real().cast(dtype))
    }
    pub fn negated(&self) -> Sc {
        let ex = match self.ex.kind() {
            ExKind::Int(v) => Ex::int(self.ex.dtype(), v.wrapping_neg()),
            ExKind::Float(x) => Ex::float(self.ex.dtype(), -x),
            _ => self.ex.unary(UnOp::Neg),
        };
        Sc { ex, ty: self.ty }
    }
}

/// Converts both operands to the type that TensorIR computes in.
pub(super) fn matched(a: &Sc, b: &Sc) -> (Ex, Ex, DType) {
    if a.ty == b.ty {
        if a.ex.dtype() == b.ex.dtype() {
            return (a.ex.clone(), b.ex.clone(), a.ty);
        }
        return (a.real(), b.real(), a.ty);
    }
    let ty = common(a.ty, b.ty);
    (a.cast(ty).real(), b.cast(ty).real(), ty)
}

fn common(a: DType, b: DType) -> DType {
    match (a.is_float(), b.is_float()) {
        (true, false) => a,
        (false, true) => b,
        (true, true) => {
            if a.bits >= b.bits {
                a
            } else {
                b
            }
        }
        (false, false) if a.is_bool() => b,
        (false, false) if b.is_bool() => a,
        (false, false) => {
            let bits = a.bits.max(b.bits);
            if a.is_int() || b.is_int() {
                DType::new(TypeCode::Int, bits)
            } else {
                DType::new(TypeCode::UInt, bits)
            }
        }
    }
}

/// Applies a binary operation.
pub(super) fn binary(op: BinOp, a: &Sc, b: &Sc) -> Out<Sc> {
    let (x, y, ty) = matched(a, b);
    if ty.is_bool() && !op.is_comparison() && !matches!(op, BinOp::And | BinOp::Or | BinOp::Xor) {
        return Err("arithmetic on truth values");
    }
    if ty.is_float()
        && matches!(
            op,
            BinOp::Shl | BinOp::Shr | BinOp::And | BinOp::Or | BinOp::Xor
        )
    {
        return Err("an operation on bits of a float");
    }
    let ex = x.binary(op, &y);
    let ty = if op.is_comparison() { DType::BOOL } else { ty };
    Ok(Sc { ex, ty })
}

/// Selects one of two scalars.
pub(super) fn choose(c: &Sc, a: &Sc, b: &Sc) -> Sc {
    let (x, y, ty) = matched(a, b);
    let ex = Ex::where_(&c.condition(), &x, &y);
    Sc { ex, ty }
}
