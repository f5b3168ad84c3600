//! Attributes of calls and functions.

use std::sync::Arc;

use relax_base::Symbol;
use relax_sym::Dim;
use relax_tensor::DType;

relax_base::define_id! {
    /// Attributes of a call in the module's table; `AttrsId(0)` is the empty list.
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

/// An attribute value.
#[derive(Clone, PartialEq, Debug)]
pub enum AttrValue {
    /// `None`.
    None,
    /// A boolean: `True`, `False`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(Arc<str>),
    /// An element type; printed as a string.
    DType(DType),
    /// A symbolic dimension; `?` is the unknown `Dim`. A constant is stored as [`AttrValue::Int`],
    /// unless it is spelled with 64 bits ([`Dim::is_wide`]).
    Dim(Dim),
    /// A list.
    Array(Arc<[AttrValue]>),
    /// A map, in insertion order.
    Dict(Arc<[(Symbol, AttrValue)]>),
    /// `meta[Key][index]`: a reference to an object of the metadata section that is preserved as it
    /// is.
    Meta(Symbol, u32),
    /// Inside a `grad` item: the attribute of this name of the call that is differentiated.
    Attr(Symbol),
}

impl AttrValue {
    /// Creates a list.
    pub fn array(items: impl IntoIterator<Item = AttrValue>) -> AttrValue {
        AttrValue::Array(items.into_iter().collect())
    }
    /// Creates a list of integers.
    pub fn ints(items: &[i64]) -> AttrValue {
        AttrValue::array(items.iter().map(|&i| AttrValue::Int(i)))
    }
    /// Creates a dimension, normalised to an integer if it is constant.
    pub fn dim(dim: Dim) -> AttrValue {
        match dim.as_const() {
            Some(value) if !dim.is_wide() => AttrValue::Int(value),
            _ => AttrValue::Dim(dim),
        }
    }
    /// Returns the integer; a `bool` counts as 0 or 1.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            AttrValue::Int(i) => Some(*i),
            AttrValue::Bool(b) => Some((*b).into()),
            AttrValue::Dim(d) => d.as_const(),
            _ => None,
        }
    }
    /// Returns the dimension: an integer or a symbolic one.
    pub fn as_dim(&self) -> Option<Dim> {
        match self {
            AttrValue::Int(i) => Some(Dim::from(*i)),
            AttrValue::Dim(d) => Some(d.clone()),
            _ => None,
        }
    }
    /// Returns the number, as a float.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            AttrValue::Float(x) => Some(*x),
            other => other.as_int().map(|i| i as f64),
        }
    }
    /// Returns the boolean; a nonzero integer counts as true.
    pub fn as_bool(&self) -> Option<bool> {
        self.as_int().map(|i| i != 0)
    }
    /// Returns the string.
    pub fn as_str(&self) -> Option<&str> {
        if let AttrValue::Str(s) = self {
            Some(s)
        } else {
            None
        }
    }
    /// Returns the list's items.
    pub fn as_array(&self) -> Option<&[AttrValue]> {
        if let AttrValue::Array(a) = self {
            Some(a)
        } else {
            None
        }
    }
    /// Returns the list's items, if all are integers.
    pub fn as_ints(&self) -> Option<Vec<i64>> {
        self.as_array()?.iter().map(AttrValue::as_int).collect()
    }
    /// Returns the list's items, if all are pairs of integers (`pad_width=[[0, 0], [1, 1]]`).
    pub fn as_int_pairs(&self) -> Option<Vec<(i64, i64)>> {
        let pair = |v: &AttrValue| match v.as_ints()?[..] {
            [a, b] => Some((a, b)),
            _ => None,
        };
        self.as_array()?.iter().map(pair).collect()
    }
    /// Returns whether two values are equal and spelled the same: `3` differs from `3i64` here, and
    /// `0f` from `-0f`. The recursion is bounded, as the resolver rejects deeply nested values.
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

/// A list of named attribute values.
///
/// Invariant: the attributes of a call to a registered operator are complete and in the order of
/// its schema: what the text leaves out is filled in with its default.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Attrs {
    items: Vec<(Symbol, AttrValue)>,
}

impl Attrs {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }
    /// Returns the value named `name`.
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
    /// Removes a value and returns it.
    pub fn remove(&mut self, name: &str) -> Option<AttrValue> {
        let i = self.items.iter().position(|(n, _)| n == name)?;
        Some(self.items.remove(i).1)
    }
    /// Returns the list with one value set.
    pub fn with(mut self, name: impl Into<Symbol>, value: AttrValue) -> Self {
        self.set(name, value);
        self
    }
    /// Iterates over all attributes in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (Symbol, AttrValue)> {
        self.items.iter()
    }
    /// Returns whether two lists are equal and spelled the same.
    pub fn same_spelling(&self, other: &Attrs) -> bool {
        same_items(&self.items, &other.items)
    }
    /// Returns whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Returns the number of attributes.
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
