//! Element types and combiners as the runtime's kernels number them.

use relax_loops::Combiner;
use relax_runtime::kernels::combiner::Combiner as Code;
use relax_runtime::kernels::kinds::Kind;
use relax_tensor::{DType, TypeCode};

/// Returns the kernels' code for an element type; `None` for types that they do not take.
pub(super) fn kind(dtype: DType) -> Option<Kind> {
    if dtype.lanes != 1 {
        return None;
    }
    Some(match (dtype.code, dtype.bits) {
        (TypeCode::UInt, 1) => Kind::Bool,
        (TypeCode::Int, 8) => Kind::I8,
        (TypeCode::UInt, 8) => Kind::U8,
        (TypeCode::Int, 16) => Kind::I16,
        (TypeCode::UInt, 16) => Kind::U16,
        (TypeCode::Int, 32) => Kind::I32,
        (TypeCode::UInt, 32) => Kind::U32,
        (TypeCode::Int, 64) => Kind::I64,
        (TypeCode::UInt, 64) => Kind::U64,
        (TypeCode::Float, 16) => Kind::F16,
        (TypeCode::BFloat, 16) => Kind::BF16,
        (TypeCode::Float, 32) => Kind::F32,
        (TypeCode::Float, 64) => Kind::F64,
        _ => return None,
    })
}

/// Returns the kernels' code for a combiner.
pub(super) fn combiner(c: Combiner) -> Code {
    match c {
        Combiner::Sum => Code::Sum,
        Combiner::Prod => Code::Product,
        Combiner::Max => Code::Max,
        Combiner::Min => Code::Min,
        Combiner::And => Code::And,
        Combiner::Or => Code::Or,
    }
}
