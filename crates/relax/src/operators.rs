//! The operator registry, for code that builds calls.

use relax_ops::{Arity, AttrTy, Default as Given};

/// An operator.
///
/// ```
/// let all = relax::operators();
/// let concatenate = all.iter().find(|o| o.name == "concatenate").expect("it is there");
/// assert_eq!(concatenate.attributes[0].name, "axis");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operator {
    /// The name, such as `nn.dense`.
    pub name: &'static str,
    /// A description of what it computes.
    pub doc: &'static str,
    /// The names and descriptions of its inputs.
    pub inputs: Vec<(&'static str, &'static str)>,
    /// Whether the operator is variadic: a call may have more arguments than named inputs.
    pub more: bool,
    /// The attributes.
    pub attributes: Vec<Attribute>,
}

/// An attribute of an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attribute {
    /// The name.
    pub name: &'static str,
    /// The type of its values: `int`, `float`, `bool`, `str`, `dtype`, `ints`, `floats`, `dims`,
    /// `int lists`, `strs`, `int or ints`, `any`.
    pub kind: &'static str,
    /// The default in the text format's syntax; `None` if the attribute is required.
    pub default: Option<String>,
    /// A description.
    pub doc: &'static str,
}

/// Returns all built-in operators, sorted by name.
///
/// ```
/// let all = relax::operators();
/// let dense = all.iter().find(|o| o.name == "nn.dense").expect("it is there");
/// assert_eq!(dense.inputs.len(), 2);
/// assert!(dense.attributes.iter().any(|a| a.name == "units"));
/// ```
#[must_use]
pub fn operators() -> Vec<Operator> {
    let all = relax_ops::registry().iter();
    all.map(|(_, op)| Operator {
        name: op.name,
        doc: op.doc,
        inputs: op.inputs.iter().map(|i| (i.name, i.doc)).collect(),
        more: op.arity == Arity::AtLeast,
        attributes: op.attrs.iter().map(attribute).collect(),
    })
    .collect()
}

fn attribute(a: &relax_ops::AttrDef) -> Attribute {
    Attribute {
        name: a.name,
        kind: kind(a.ty),
        default: default(a.default),
        doc: a.doc,
    }
}

fn kind(ty: AttrTy) -> &'static str {
    match ty {
        AttrTy::Int => "int",
        AttrTy::Float => "float",
        AttrTy::Bool => "bool",
        AttrTy::Str => "str",
        AttrTy::DType => "dtype",
        AttrTy::DTypes => "dtype or dtypes",
        AttrTy::Ints => "ints",
        AttrTy::Floats => "floats",
        AttrTy::Dims => "dims",
        AttrTy::IntLists => "int lists",
        AttrTy::Strs => "strs",
        AttrTy::IntOrInts => "int or ints",
        AttrTy::Any => "any",
    }
}

fn default(default: Given) -> Option<String> {
    Some(match default {
        Given::Required => return None,
        Given::None => "None".to_owned(),
        Given::Int(v) => v.to_string(),
        Given::Float(v) => format!("{v:?}"),
        Given::Bool(true) => "True".to_owned(),
        Given::Bool(false) => "False".to_owned(),
        Given::Str(v) | Given::DType(v) => format!("{v:?}"),
        Given::Ints(v) => format!("{v:?}"),
        Given::Floats(v) => format!("{v:?}"),
    })
}
