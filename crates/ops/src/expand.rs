//! Calls rewritten as other calls: the interface that operators' gradients and inference forms are
//! built with.

use relax_ir::{AttrValue, Attrs, ExprId};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

/// Builds typed expressions.
pub trait Build {
    /// Creates a call of a built-in operator; attributes that are not given have their defaults.
    fn call(&mut self, op: &'static str, args: &[ExprId], attrs: &[(&str, AttrValue)]) -> ExprId;
    /// Creates the same call with other arguments and some other attributes.
    fn again(&mut self, site: &Site, args: &[ExprId], attrs: &[(&str, AttrValue)]) -> ExprId;
    /// A constant.
    fn constant(&mut self, value: Tensor) -> ExprId;
    /// A tuple.
    fn tuple(&mut self, fields: &[ExprId]) -> ExprId;
    /// A field of a tuple.
    fn field(&mut self, tuple: ExprId, index: u32) -> ExprId;
    /// Returns the extents of a tensor, when all are known.
    fn extents(&self, e: ExprId) -> Option<Vec<i64>>;
    /// Returns the dimensions of a tensor of known rank.
    fn dims(&self, e: ExprId) -> Option<Vec<Dim>>;
    /// Returns the number of axes of a tensor, when it is known.
    fn rank(&self, e: ExprId) -> Option<usize>;
    /// Returns the element type of a tensor.
    fn dtype(&self, e: ExprId) -> Option<DType>;
    /// Returns the value of a constant.
    fn value(&self, e: ExprId) -> Option<Tensor>;
    /// Returns whether two expressions are the same value, as far as that is seen at once.
    fn same(&self, a: ExprId, b: ExprId) -> bool;
    /// Returns whether it is a constant or a parameter.
    fn given(&self, e: ExprId) -> bool;
    /// Returns the extents of the fields of a tuple of tensors.
    fn field_extents(&self, e: ExprId) -> Option<Vec<Vec<i64>>>;
}

/// A call to be rewritten.
#[derive(Clone, Debug)]
pub struct Site {
    /// The call itself.
    pub call: ExprId,
    /// Its arguments.
    pub args: Vec<ExprId>,
    /// Its attributes, complete.
    pub attrs: Attrs,
}

impl Site {
    /// An integer attribute.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.attrs.get(name)?.as_int()
    }
    /// A truth value; absent counts as false.
    pub fn flag(&self, name: &str) -> bool {
        self.attrs
            .get(name)
            .and_then(AttrValue::as_bool)
            .unwrap_or(false)
    }
    /// A number.
    pub fn float(&self, name: &str) -> Option<f64> {
        self.attrs.get(name)?.as_float()
    }
    /// Returns an attribute as it is; `None` for an absent one.
    pub fn value(&self, name: &str) -> AttrValue {
        self.attrs.get(name).cloned().unwrap_or(AttrValue::None)
    }
}

/// Builds the gradients of the arguments from the gradient of the result.
pub type GradientFn = fn(&mut dyn Build, &Site, ExprId) -> Option<Vec<ExprId>>;
/// Builds the replacement of a call outside of training; for an operator with several results, that
/// of the first.
pub type InferenceFn = fn(&mut dyn Build, &Site) -> Option<ExprId>;
