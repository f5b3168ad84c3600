//! Element types of `op` items that are type parameters.
//!
//! In the computation such a type is a [`DType::param`]. What a parameter may stand for is not
//! declared: it is any type for which every part of the computation has a meaning.

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{DTy, Kind, TypeParamId, UserOp};
use relax_loops::Program;
use relax_tensor::DType;

use super::Resolver;
use super::scope::TypeName;
use crate::codes;

/// The element types of the `op` item that is resolved.
#[derive(Default)]
pub(super) struct Elements {
    /// The type parameters that are element types.
    params: Vec<TypeParamId>,
    /// The type of a number that meets no other one, where the result's elements are a parameter.
    number: Option<DType>,
}

impl Resolver<'_> {
    /// Begins the computation of an item; returns whether it may have so many parameters.
    pub(super) fn enter_elements(&mut self, user: &UserOp) -> bool {
        let params: Vec<TypeParamId> = user.element_params(&self.module.types).collect();
        let few = u8::try_from(params.len()).is_ok();
        let number = None;
        self.elements = Elements { params, number };
        few
    }

    /// Returns an element type as programs have it; `None` where it is not known.
    pub(super) fn program_element(&self, dtype: DTy) -> Option<DType> {
        match dtype {
            DTy::Known(dtype) => Some(dtype),
            DTy::Param(p) => {
                let index = self.elements.params.iter().position(|&q| q == p)?;
                Some(DType::param(u8::try_from(index).ok()?))
            }
            DTy::Infer(_) | DTy::Unknown => None,
        }
    }

    /// Gives numbers that meet no other type that of the result's elements, if it is a parameter.
    pub(super) fn numbers_like(&mut self, result: DType) {
        self.elements.number = result.as_param().map(|_| result);
    }

    /// Returns the type of a number that meets no other one, which otherwise is `default`.
    pub(super) fn own_number(&self, default: DType) -> DType {
        self.elements.number.unwrap_or(default)
    }

    /// Returns the element type that a name denotes in a conversion, `t(…)`.
    pub(super) fn conversion(&mut self, name: Symbol) -> Option<DType> {
        if let Some(TypeName::Param(p)) = self.scopes.type_name(name)
            && self.module.types.params[p].kind == Kind::BaseType
        {
            return self.program_element(DTy::Param(p));
        }
        self.dtype(name).filter(|d| d.lanes == 1)
    }

    /// Returns an element type's name in the text.
    pub(super) fn element_name(&self, dtype: DType) -> String {
        match dtype.as_param() {
            Some(index) => {
                let p = self.elements.params[usize::from(index)];
                self.module.types.params[p].name.to_string()
            }
            None => dtype.to_string(),
        }
    }

    /// Reports the parameters that are no operand's element type, so that a call does not determine
    /// them, and those that can stand for no type; returns whether there are none.
    pub(super) fn check_elements(&mut self, program: &Program, span: Span) -> bool {
        let mut sound = true;
        for index in 0..self.elements.params.len() as u8 {
            let (param, name) = (DType::param(index), self.element_name(DType::param(index)));
            let given = (program.inputs.iter()).any(|&b| program.bufs[b].dtype == param);
            let one = program.unfit(index, DType::F32);
            let d = if !given {
                let message = format!("no operand of this operator has elements of type `{name}`");
                Diagnostic::error(codes::PROGRAM_TYPE, span, message)
                    .note("a call determines an element type by its operands")
            } else if let Some(float) = one
                && let Some(int) = program.unfit(index, DType::I32)
                && program.unfit(index, DType::BOOL).is_some()
                && program.unfit(index, DType::U64).is_some()
            {
                let message = format!("this computation is for no element type `{name}`");
                Diagnostic::error(codes::PROGRAM_TYPE, span, message)
                    .note(format!("of float32: {float}"))
                    .note(format!("of int32: {int}"))
            } else {
                continue;
            };
            self.error(d);
            sound = false;
        }
        sound
    }
}
