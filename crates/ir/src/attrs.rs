//! Attributes of calls and functions.

use std::sync::Arc;

use relax_base::Symbol;
use relax_sym::Dim;
use relax_tensor::DType;

relax_base::define_id! {
    /// Attributes of a call; `AttrsId(0)` is the empty list.
    pub struct AttrsId("a");
}

impl AttrsId {
    /// No attributes.
    pub const NONE: AttrsId = AttrsId(0);
}

impl Default for AttrsId {
    fn default() -> Self {
        AttrsId::NONE
    }
}

/// A value of an attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum AttrValue {
    /// `None`.
    None,
    /// `True`, `False`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(Arc<str>),
    /// An element type; printed as a string.
    DType(DType),
    /// A symbolic dimension; `?` is `Dim` any. A constant is an [`AttrValue::Int`], unless it is
    /// spelled with 64 bits ([`Dim::is_wide`]).
    Dim(Dim),
    /// A list.
    Array(Arc<[AttrValue]>),
    /// A map, in order.
    Dict(Arc<[(Symbol, AttrValue)]>),
    /// `meta[Key][index]`: an object of the metadata section kept as it is.
    Meta(Symbol, u32),
}

impl AttrValue {
    /// A list.
    pub fn array(items: impl IntoIterator<Item = AttrValue>) -> AttrValue {
        AttrValue::Array(items.into_iter().collect())
    }
    /// A list of integers.
    pub fn ints(items: &[i64]) -> AttrValue {
        AttrValue::array(items.iter().map(|&i| AttrValue::Int(i)))
    }
    /// A dimension.
    pub fn dim(dim: Dim) -> AttrValue {
        match dim.as_const() {
            Some(value) if !dim.is_wide() => AttrValue::Int(value),
            _ => AttrValue::Dim(dim),
        }
    }
    /// The integer; a `bool` counts as 0 or 1.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            AttrValue::Int(i) => Some(*i),
            AttrValue::Bool(b) => Some((*b).into()),
            AttrValue::Dim(d) => d.as_const(),
            _ => None,
        }
    }
    /// The dimension: an integer or a symbolic one.
    pub fn as_dim(&self) -> Option<Dim> {
        match self {
            AttrValue::Int(i) => Some(Dim::from(*i)),
            AttrValue::Dim(d) => Some(d.clone()),
            _ => None,
        }
    }
    /// The number, as a float.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            AttrValue::Float(x) => Some(*x),
            other => other.as_int().map(|i| i as f64),
        }
    }
    /// The truth value; an integer counts by being other than 0.
    pub fn as_bool(&self) -> Option<bool> {
        self.as_int().map(|i| i != 0)
    }
    /// The string.
    pub fn as_str(&self) -> Option<&str> {
        if let AttrValue::Str(s) = self {
            Some(s)
        } else {
            None
        }
    }
    /// The list's items.
    pub fn as_array(&self) -> Option<&[AttrValue]> {
        if let AttrValue::Array(a) = self {
            Some(a)
        } else {
            None
        }
    }
    /// The list's items, all integers.
    pub fn as_ints(&self) -> Option<Vec<i64>> {
        self.as_array()?.iter().map(AttrValue::as_int).collect()
    }
    /// The list's items, all pairs of integers (`pad_width=[[0, 0], [1, 1]]`).
    pub fn as_int_pairs(&self) -> Option<Vec<(i64, i64)>> {
        let pair = |v: &AttrValue| match v.as_ints()?[..] {
            [a, b] => Some((a, b)),
            _ => None,
        };
        self.as_array()?.iter().map(pair).collect()
    }
    /// Returns whether two values are the same and spelled the same: `3` is not `3i64` here, nor is
    /// `0f` `-0f`. Values nest little: the resolver refuses those that do not.
    pub fn same_spelling(&self, other: &AttrValue) -> bool {
        match (self, other) {
            (AttrValue::Float(a), AttrValue::Float(b)) => a.to_bits() == b.to_bits(),
            (AttrValue::Dim(a), AttrValue::Dim(b)) => {
                a == b && a.is_wide() == b.is_wide() && a.mark() == b.mark()
            }
            (AttrValue::Array(a), AttrValue::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.same_spelling(b))
            }
            (AttrValue::Dict(a), AttrValue::Dict(b)) => same_items(a, b),
            _ => self == other,
        }
    }
    /// Returns whether this is `None`.
    pub fn is_none(&self) -> bool {
        matches!(self, AttrValue::None)
    }
}

fn same_items(a: &[(Symbol, AttrValue)], b: &[(Symbol, AttrValue)]) -> bool {
    let mut pairs = a.iter().zip(b);
    a.len() == b.len() && pairs.all(|(a, b)| a.0 == b.0 && a.1.same_spelling(&b.1))
}

/// A list of named values.
///
/// Invariant: the attributes of a call to a registered operator stand in the order of its schema
/// and are complete: what the text leaves out has its default value here.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Attrs {
    items: Vec<(Symbol, AttrValue)>,
}

impl Attrs {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }
    /// The value under `name`.
    pub fn get(&self, name: &str) -> Option<&AttrValue> {
        self.items.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
    /// Sets or adds a value.
    pub fn set(&mut self, name: impl Into<Symbol>, value: AttrValue) {
        let name = name.into();
        match self.items.iter_mut().find(|(n, _)| *n == name) {
            Some((_, v)) => *v = value,
            None => self.items.push((name, value)),
        }
    }
    /// Takes a value out.
    pub fn remove(&mut self, name: &str) -> Option<AttrValue> {
        let i = self.items.iter().position(|(n, _)| n == name)?;
        Some(self.items.remove(i).1)
    }
    /// The same with one value changed.
    pub fn with(mut self, name: impl Into<Symbol>, value: AttrValue) -> Self {
        self.set(name, value);
        self
    }
    /// All, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (Symbol, AttrValue)> {
        self.items.iter()
    }
    /// Returns whether two lists are the same and spelled the same.
    pub fn same_spelling(&self, other: &Attrs) -> bool {
        same_items(&self.items, &other.items)
    }
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.items.len()
    }
}

impl FromIterator<(Symbol, AttrValue)> for Attrs {
    fn from_iter<T: IntoIterator<Item = (Symbol, AttrValue)>>(iter: T) -> Self {
        Attrs {
            items: iter.into_iter().collect(),
        }
    }
}
