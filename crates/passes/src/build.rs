//! [`Build`] over an [`Edit`]: the interface in which operators' own rewrites are written.

use relax_base::Span;
use relax_ir::{AttrValue, Expr, ExprId, Type};
use relax_ops::{Build, InferenceFn, Site};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use crate::edit::Edit;

/// Builds nodes at a source location.
pub(crate) struct At<'e, 'm> {
    /// The module being rewritten.
    pub edit: &'e mut Edit<'m>,
    /// The source location of new nodes.
    pub span: Span,
}

/// Returns a call of a built-in operator in the form that operators' own functions inspect.
pub(crate) fn site(edit: &Edit<'_>, call: ExprId) -> Option<Site> {
    let parts = edit.op_call(call)?;
    Some(Site {
        call,
        attrs: edit.m.attrs(parts.attrs).clone(),
        args: parts.args,
    })
}

/// Rewrites a call by an operator's own function; `None` where that does not apply.
pub(crate) fn form(edit: &mut Edit<'_>, call: ExprId, write: InferenceFn) -> Option<ExprId> {
    let site = site(edit, call)?;
    let span = edit.m.span(call);
    write(&mut At { edit, span }, &site)
}

/// Returns the gradients of a call's arguments, where `grad` is that of its result; `None` where
/// the operator has none, or none in this form.
///
/// A sum in a wider type than that of the operands (`out_dtype`) has the gradient of the same call
/// on operands of that type, cast back to theirs.
pub(crate) fn gradients(
    edit: &mut Edit<'_>,
    call: ExprId,
    grad: ExprId,
    span: Span,
) -> Option<Vec<ExprId>> {
    let parts = edit.op_call(call)?;
    let gradient = parts.def.hooks.gradient?;
    let mut site = site(edit, call)?;
    let wide = edit
        .dtype(call)
        .filter(|_| parts.def.hooks.result_dtype.is_some());
    if let Some(wide) = wide {
        for arg in &mut site.args {
            if edit.dtype(*arg).is_some() {
                *arg = edit.cast(*arg, wide, span);
            }
        }
    }
    let grads = gradient(&mut At { edit, span }, &site, grad)?;
    let back = |(grad, &arg): (ExprId, &ExprId)| match edit.dtype(arg).filter(|_| wide.is_some()) {
        Some(own) => edit.cast(grad, own, span),
        None => grad,
    };
    let grads: Vec<ExprId> = grads.into_iter().zip(&parts.args).map(back).collect();
    (grads.len() == parts.args.len()).then_some(grads)
}

impl Build for At<'_, '_> {
    fn call(&mut self, op: &'static str, args: &[ExprId], attrs: &[(&str, AttrValue)]) -> ExprId {
        self.edit.call(op, args, attrs, self.span)
    }
    fn again(&mut self, site: &Site, args: &[ExprId], attrs: &[(&str, AttrValue)]) -> ExprId {
        let parts = self.edit.op_call(site.call).expect("a site is a call");
        let mut all = site.attrs.clone();
        for (name, value) in attrs {
            all.set(*name, value.clone());
        }
        self.edit.recall(&parts, args, all, self.span)
    }
    fn constant(&mut self, value: Tensor) -> ExprId {
        self.edit.constant(value, self.span)
    }
    fn tuple(&mut self, fields: &[ExprId]) -> ExprId {
        self.edit.tuple(fields, self.span)
    }
    fn field(&mut self, tuple: ExprId, index: u32) -> ExprId {
        self.edit.field(tuple, index, self.span)
    }
    fn extents(&self, e: ExprId) -> Option<Vec<i64>> {
        self.edit.extents(e)
    }
    fn rank(&self, e: ExprId) -> Option<usize> {
        Some(self.edit.dims(e)?.len())
    }
    fn dtype(&self, e: ExprId) -> Option<DType> {
        self.edit.dtype(e)
    }
    fn value(&self, e: ExprId) -> Option<Tensor> {
        self.edit.constant_value(e).cloned()
    }
    fn same(&self, a: ExprId, b: ExprId) -> bool {
        self.edit.same(a, b)
    }
    fn given(&self, e: ExprId) -> bool {
        matches!(self.edit.m.exprs[e], Expr::Const(_) | Expr::Var(_))
    }
    fn field_extents(&self, e: ExprId) -> Option<Vec<Vec<i64>>> {
        let types = &self.edit.m.types;
        let Type::Tuple(fields) = &types[self.edit.ty(e)] else {
            return None;
        };
        let extents = |f: &relax_ir::TypeId| {
            types
                .as_tensor(*f)?
                .shape
                .dims()?
                .iter()
                .map(Dim::as_const)
                .collect()
        };
        fields.iter().map(extents).collect()
    }
}
