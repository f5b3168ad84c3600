//! The operators, for those who build calls of them.

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
    /// Its name, `nn.dense`.
    pub name: &'static str,
    /// What it computes.
    pub doc: &'static str,
    /// The names of its inputs, and what they mean.
    pub inputs: Vec<(&'static str, &'static str)>,
    /// Whether a call takes more arguments than inputs are named.
    pub more: bool,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// An attribute of an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attribute {
    /// Its name.
    pub name: &'static str,
    /// The type of its values in a word or two: `int`, `float`, `bool`, `str`, `dtype`, `ints`,
    /// `floats`, `dims`, `int lists`, `strs`, `int or ints`, `any`.
    pub kind: &'static str,
    /// Its default as the language writes it; `None` where a value must be given.
    pub default: Option<String>,
    /// What it means.
    pub doc: &'static str,
}

/// All built-in operators, sorted by name.
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
