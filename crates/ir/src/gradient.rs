//! `grad` items: the gradients of an operator as an expression over its operands, its result and the
//! gradient of the result.
//!
//! An item stands for itself: it refers to nothing of the module around it but to operators, so that
//! passes that rewrite the module's functions need not know of it.

use relax_base::{Span, Symbol};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use crate::{AttrValue, Attrs, OpId};

/// A part of the expression of a [`GradItem`]. Parts are numbered, and those it consists of come
/// before it; one that several refer to is computed once.
#[derive(Clone, PartialEq, Debug)]
pub enum GradNode {
    /// The operand with this index.
    Operand(u32),
    /// The operator's result.
    Result,
    /// The gradient of the result.
    Gradient,
    /// An attribute of the call, a number of the gradient's element type.
    Attr(Symbol),
    /// A number.
    Const {
        /// The number.
        value: Tensor,
        /// Whether it has no suffix: then it is of the gradient's element type.
        plain: bool,
    },
    /// A call of an operator.
    Call {
        /// The operator.
        op: OpId,
        /// The arguments.
        args: Vec<u32>,
        /// The attributes; [`AttrValue::Attr`] stands for those of the call that is differentiated.
        attrs: Attrs,
    },
    /// A tuple.
    Tuple(Vec<u32>),
    /// A field of a tuple.
    Field {
        /// The tuple.
        tuple: u32,
        /// The index of the field.
        index: u32,
    },
}

impl GradNode {
    /// Returns the parts that it consists of.
    pub fn parts(&self) -> &[u32] {
        match self {
            GradNode::Call { args, .. } => args,
            GradNode::Tuple(fields) => fields,
            GradNode::Field { tuple, .. } => std::slice::from_ref(tuple),
            _ => &[],
        }
    }
}

/// A `grad` item: `grad name(%x, axis) -> (%result, %gradient) { … }`.
#[derive(Clone, PartialEq, Debug)]
pub struct GradItem {
    /// The operator that it is about.
    pub op: OpId,
    /// The operator's name.
    pub name: Symbol,
    /// The names of the operands.
    pub operands: Vec<Symbol>,
    /// The attributes that it refers to, and those that it is only about with the given value.
    pub attrs: Vec<(Symbol, Option<AttrValue>)>,
    /// The names of the result and of its gradient.
    pub bound: [Symbol; 2],
    /// The parts of the expression.
    pub nodes: Vec<GradNode>,
    /// The names that the text gives parts: `let %name = …;`.
    pub names: Vec<Option<Symbol>>,
    /// The spans of the parts.
    pub spans: Vec<Span>,
    /// The whole expression: the gradient of the operand, or a tuple of those of all operands.
    pub body: u32,
    /// The span of the operator's name.
    pub span: Span,
}

impl GradItem {
    /// Returns whether it is about calls with this number of arguments and these attributes.
    pub fn is_about(&self, op: OpId, args: usize, attrs: &Attrs) -> bool {
        self.op == op
            && self.operands.len() == args
            && (self.attrs.iter()).all(|(name, only)| match only {
                Some(value) => attrs.get(name.as_str()) == Some(value),
                None => true,
            })
    }

    /// Returns the gradient of each operand.
    ///
    /// Invariant: for another number of operands than one, the whole is a tuple with as many fields.
    pub fn gradients(&self) -> &[u32] {
        match &self.nodes[self.body as usize] {
            GradNode::Tuple(fields) if self.operands.len() != 1 => fields,
            _ => std::slice::from_ref(&self.body),
        }
    }

    /// Returns whether two items say the same, wherever they stand; `ops` says whether two operators
    /// are the same.
    pub fn same(&self, other: &GradItem, ops: &dyn Fn(OpId, OpId) -> bool) -> bool {
        let attrs = |i: &GradItem| {
            let mut all = i.attrs.clone();
            all.sort_by_key(|a| a.0.as_str());
            all
        };
        self.name == other.name
            && self.operands.len() == other.operands.len()
            && attrs(self) == attrs(other)
            && self.same_value(other, ops)
    }

    /// Returns whether two expressions are the same graph; the order of their parts does not matter.
    fn same_value(&self, other: &GradItem, ops: &dyn Fn(OpId, OpId) -> bool) -> bool {
        let (mut there, mut back) = (FxHashMap::default(), FxHashMap::default());
        let mut work = vec![(self.body, other.body)];
        while let Some((a, b)) = work.pop() {
            match (there.insert(a, b), back.insert(b, a)) {
                (Some(known), _) if known != b => return false,
                (_, Some(known)) if known != a => return false,
                (Some(_), _) => continue,
                _ => {}
            }
            let (x, y) = (&self.nodes[a as usize], &other.nodes[b as usize]);
            let same = match (x, y) {
                (
                    GradNode::Call { op, attrs, .. },
                    GradNode::Call {
                        op: op2,
                        attrs: attrs2,
                        ..
                    },
                ) => ops(*op, *op2) && attrs == attrs2,
                (GradNode::Tuple(_), GradNode::Tuple(_)) => true,
                (GradNode::Field { index, .. }, GradNode::Field { index: i, .. }) => index == i,
                _ => x == y,
            };
            if !same || x.parts().len() != y.parts().len() {
                return false;
            }
            work.extend(x.parts().iter().copied().zip(y.parts().iter().copied()));
        }
        true
    }
}

impl AttrValue {
    /// Returns the value where each [`AttrValue::Attr`] is the attribute of that name. The recursion
    /// is bounded, as the resolver rejects deeply nested values.
    pub fn with_attrs(&self, attrs: &Attrs) -> AttrValue {
        match self {
            AttrValue::Attr(name) => {
                let found = attrs.get(name.as_str()).cloned();
                found.unwrap_or(AttrValue::None)
            }
            AttrValue::Array(items) => {
                AttrValue::array(items.iter().map(|item| item.with_attrs(attrs)))
            }
            other => other.clone(),
        }
    }
}
