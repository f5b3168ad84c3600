//! [`Build`] over an [`Edit`]: the interface in which operators' own rewrites are written.

use std::sync::Arc;

use relax_base::Span;
use relax_ir::{AttrValue, Attrs, Expr, ExprId, GradItem, GradNode, OpId, Type};
use relax_ops::{Build, InferenceFn, Site, registry};
use relax_resolve::prelude_gradients;
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

/// Why a call has no gradients.
pub(crate) enum NoGradient {
    /// The operator has none.
    Never,
    /// This call has none: its attributes or types are of another form.
    Form,
    /// The text says something else than a gradient.
    Mistake(Span, String),
}

impl NoGradient {
    /// Returns the place and the reason, in words that follow "there is no gradient here: ".
    pub(crate) fn reason(self, edit: &Edit<'_>, call: ExprId) -> (Span, String) {
        let name = edit.operator(call).map_or("it", |o| o.name());
        match self {
            NoGradient::Never => (edit.m.span(call), format!("`{name}` has none")),
            NoGradient::Form => (edit.m.span(call), format!("`{name}` has none in this form")),
            NoGradient::Mistake(span, message) => (span, message),
        }
    }
}

/// Returns whether some calls of an operator have gradients: by a `grad` item of the text or of the
/// prelude, or by a function of the operator's own.
fn differentiable(edit: &Edit<'_>, op: OpId) -> bool {
    edit.m.grads.iter().any(|item| item.op == op)
        || !prelude_gradients(op).is_empty()
        || registry()
            .get(op)
            .is_some_and(|def| def.hooks.gradient.is_some())
}

/// Returns the gradients of a call's arguments, where `grad` is that of its result.
///
/// A sum in a wider type than that of the operands (`out_dtype`) has the gradient of the same call
/// on operands of that type, cast back to theirs.
///
/// # Errors
/// The operator has none, or none in this form.
pub(crate) fn gradients(
    edit: &mut Edit<'_>,
    call: ExprId,
    grad: ExprId,
    span: Span,
) -> Result<Vec<ExprId>, NoGradient> {
    let Some((op, args, attrs)) = edit.applied(call) else {
        return Err(NoGradient::Never);
    };
    let args = args.to_vec();
    let mut site = Site {
        call,
        args: args.clone(),
        attrs: edit.m.attrs(attrs).clone(),
    };
    let def = registry().get(op);
    let wide = edit
        .dtype(call)
        .filter(|_| def.is_some_and(|def| def.hooks.result_dtype.is_some()));
    if let Some(wide) = wide {
        for arg in &mut site.args {
            if edit.dtype(*arg).is_some() {
                *arg = edit.cast(*arg, wide, span);
            }
        }
    }
    let about = |items: &[Arc<GradItem>]| {
        let found = items
            .iter()
            .find(|i| i.is_about(op, args.len(), &site.attrs));
        found.cloned()
    };
    let grads = match about(&edit.m.grads).or_else(|| about(prelude_gradients(op))) {
        Some(item) => written(edit, &item, &site, grad, span)?,
        None => match def.and_then(|def| def.hooks.gradient) {
            Some(gradient) => {
                let grads = gradient(&mut At { edit, span }, &site, grad);
                grads.ok_or(NoGradient::Form)?
            }
            None if differentiable(edit, op) => return Err(NoGradient::Form),
            None => return Err(NoGradient::Never),
        },
    };
    if grads.len() != args.len() {
        return Err(NoGradient::Form);
    }
    let back = |(grad, &arg): (ExprId, &ExprId)| match edit.dtype(arg).filter(|_| wide.is_some()) {
        Some(own) => edit.cast(grad, own, span),
        None => grad,
    };
    Ok(grads.into_iter().zip(&args).map(back).collect())
}

/// Creates the gradients that a `grad` item describes.
fn written(
    edit: &mut Edit<'_>,
    item: &GradItem,
    site: &Site,
    grad: ExprId,
    span: Span,
) -> Result<Vec<ExprId>, NoGradient> {
    // A number without an element type of its own has the gradient's.
    let dtype = edit.dtype(grad);
    let number = |value: f64, place: Span| match dtype {
        Some(dtype) => Ok(scalar(dtype, value)),
        None if place.is_none() => Err(NoGradient::Form),
        None => {
            let message =
                "the gradient has no one element type that this number could have: write a suffix";
            Err(NoGradient::Mistake(place, message.into()))
        }
    };
    let mut made: Vec<ExprId> = Vec::with_capacity(item.nodes.len());
    for (node, &place) in item.nodes.iter().zip(&item.spans) {
        let parts: Vec<ExprId> = node.parts().iter().map(|&p| made[p as usize]).collect();
        made.push(match node {
            GradNode::Operand(i) => site.args[*i as usize],
            GradNode::Result => site.call,
            GradNode::Gradient => grad,
            GradNode::Attr(name) => {
                let value = site.float(name.as_str()).ok_or(NoGradient::Form)?;
                edit.constant(number(value, place)?, span)
            }
            GradNode::Const { value, plain: true } => {
                edit.constant(number(value.get_f64(0), place)?, span)
            }
            GradNode::Const { value, .. } => edit.constant(value.clone(), span),
            GradNode::Call { op, attrs, .. } => {
                let attrs: Attrs = (attrs.iter())
                    .map(|(name, value)| (*name, value.with_attrs(&site.attrs)))
                    .collect();
                let callee = match registry().get(*op) {
                    Some(def) => edit.op(def.name),
                    None => edit.m.add(Expr::Op(*op), Span::NONE),
                };
                let e = edit.call_with(callee, &parts, attrs, span);
                if !edit.typed(e) && parts.iter().all(|&p| edit.typed(p)) {
                    let message = "the operands have no types here that this operator takes";
                    let known = parts.iter().all(|&p| edit.extents(p).is_some());
                    if known && !place.is_none() {
                        return Err(NoGradient::Mistake(place, message.into()));
                    }
                }
                e
            }
            GradNode::Tuple(_) => edit.tuple(&parts, span),
            GradNode::Field { index, .. } => {
                let tuple = &edit.m.types[edit.ty(parts[0])];
                let is = match tuple {
                    Type::Tuple(fields) => (*index as usize) < fields.len(),
                    other => *other == Type::Error,
                };
                if !is {
                    let message = "there is no such field here";
                    return Err(NoGradient::Mistake(place, message.into()));
                }
                edit.field(parts[0], *index, span)
            }
        });
    }
    let grads = item.gradients();
    for (i, &at) in grads.iter().enumerate() {
        let (found, wanted) = (made[at as usize], site.args[i]);
        if !item.span.is_none() && differ(edit, found, wanted) {
            let place = item.spans[at as usize];
            let message = format!(
                "the gradient of `%{}` is of another type than the operand",
                item.operands[i]
            );
            let place = if place.is_none() { item.span } else { place };
            return Err(NoGradient::Mistake(place, message));
        }
    }
    Ok(grads.iter().map(|&at| made[at as usize]).collect())
}

fn scalar(dtype: DType, value: f64) -> Tensor {
    match dtype.is_float() {
        true => Tensor::scalar_f64(dtype, value),
        false => Tensor::scalar_i64(dtype, value as i64),
    }
}

/// Returns whether two values certainly have different types.
fn differ(edit: &Edit<'_>, a: ExprId, b: ExprId) -> bool {
    let tensor = |e| edit.m.types.as_tensor(edit.ty(e)).is_some();
    let extents = edit.extents(a).zip(edit.extents(b));
    let dtypes = edit.dtype(a).zip(edit.dtype(b));
    edit.typed(a) && edit.typed(b) && tensor(a) != tensor(b)
        || extents.is_some_and(|(a, b)| a != b)
        || dtypes.is_some_and(|(a, b)| a != b)
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
    fn dims(&self, e: ExprId) -> Option<Vec<Dim>> {
        self.edit.dims(e)
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
