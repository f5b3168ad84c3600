//! Printing of constants: literals for scalars, references into the metadata section for other
//! tensors.

use relax_base::Symbol;
use relax_ir::ConstId;
use relax_syntax::Style;
use relax_syntax::ast::{self, ExprKind, NumSuffix};
use relax_tensor::{DType, Tensor, TypeCode};

use super::{NO, Printer};

/// The key of constants in the metadata section.
pub(super) const CONSTANT: &str = "relay.Constant";

impl Printer<'_> {
    /// Prints a constant.
    pub(super) fn constant(&mut self, id: ConstId) -> ast::ExprId {
        if let Some(index) = self.m.metadata.stub(id) {
            return self.reference(id, index);
        }
        let tvm = self.mode.style == Style::Tvm;
        // If the text had no suffix, the element type may still be inferred from the context.
        let bare = !tvm && self.m.literals.get(&id).copied().unwrap_or(false);
        if let Some(kind) = scalar(&self.m.consts[id], bare, tvm) {
            return self.out.expr(kind, NO);
        }
        let elided = self
            .mode
            .elide
            .is_some_and(|most| self.m.consts[id].len() > most);
        let index = self.meta.constant(id, elided);
        if elided {
            return self.reference(id, index);
        }
        let key = CONSTANT.into();
        self.out.expr(ExprKind::Meta { key, index }, NO)
    }

    /// Prints a reference to a constant that is not in the text, with its type.
    fn reference(&mut self, id: ConstId, index: u32) -> ast::ExprId {
        let (dtype, shape) = (self.m.consts[id].dtype(), self.m.consts[id].shape());
        let key = CONSTANT.into();
        let node = self.out.expr(ExprKind::Meta { key, index }, NO);
        let dtype = self.out.type_name(Symbol::new(&dtype.to_string()), NO);
        let ty = if shape.is_empty() {
            dtype
        } else {
            let int = |value| ast::TypeExprKind::Int {
                value,
                suffix: NumSuffix::None,
            };
            let dims: Vec<_> = shape.iter().map(|&d| self.out.ty(int(d), NO)).collect();
            let dims = self.out.type_tuple(dims, NO);
            self.out.type_apply("Tensor".into(), [dims, dtype], NO)
        };
        self.out.expr_types.set(node, Some(ty));
        node
    }
}

/// Returns the literal of a scalar, if its element type has literals; `bare` ones have no suffix.
pub(super) fn scalar(t: &Tensor, bare: bool, tvm: bool) -> Option<ExprKind> {
    if !t.is_scalar() {
        return None;
    }
    let dtype = t.dtype();
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
        // Literals are limited to `i64`.
        _ if dtype.code == TypeCode::UInt && t.get_i64(0) >= 0 => match dtype.bits {
            8 | 16 | 32 | 64 => int(NumSuffix::U(dtype.bits)),
            _ => None,
        },
        _ => None,
    }
}
