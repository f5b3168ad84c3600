//! Constants: literals for scalars, references into the metadata section for the rest.

use relax_ir::ConstId;
use relax_syntax::Style;
use relax_syntax::ast::{self, ExprKind, NumSuffix};
use relax_tensor::{DType, TypeCode};

use super::{NO, Printer};

/// The key of constants in the metadata section.
pub(super) const CONSTANT: &str = "relay.Constant";

impl Printer<'_> {
    /// A constant.
    pub(super) fn constant(&mut self, id: ConstId) -> ast::ExprId {
        let kind = match self.scalar(id) {
            Some(kind) => kind,
            None => ExprKind::Meta {
                key: CONSTANT.into(),
                index: self.meta.constant(id),
            },
        };
        self.out.expr(kind, NO)
    }

    /// The literal, for scalars whose element type has one.
    fn scalar(&self, id: ConstId) -> Option<ExprKind> {
        let t = &self.m.consts[id];
        if !t.is_scalar() {
            return None;
        }
        let dtype = t.dtype();
        let tvm = self.mode.style == Style::Tvm;
        // Where the text had no suffix, the element type may still follow from the context.
        let bare = !tvm && self.m.literals.get(&id).copied().unwrap_or(false);
        let int = |suffix| {
            Some(ExprKind::Int {
                value: t.get_i64(0),
                suffix: if bare { NumSuffix::None } else { suffix },
            })
        };
        let float = |suffix| {
            Some(ExprKind::Float {
                value: t.get_f64(0),
                suffix: if bare { NumSuffix::None } else { suffix },
            })
        };
        match dtype {
            DType::BOOL => Some(ExprKind::Bool(t.get_i64(0) != 0)),
            DType::I32 => int(NumSuffix::None),
            DType::I16 | DType::I64 => int(NumSuffix::I(dtype.bits)),
            DType::F32 => float(NumSuffix::F),
            DType::F16 | DType::F64 => float(NumSuffix::Float(dtype.bits)),
            _ if tvm || dtype.lanes != 1 => None,
            DType::BF16 => float(NumSuffix::Bf16),
            DType::I8 => int(NumSuffix::I(8)),
            // A literal holds an `i64`.
            _ if dtype.code == TypeCode::UInt && t.get_i64(0) >= 0 => match dtype.bits {
                8 | 16 | 32 | 64 => int(NumSuffix::U(dtype.bits)),
                _ => None,
            },
            _ => None,
        }
    }
}
