//! The translator's view of a node.

use relax_tensor::Tensor;

use crate::kind::Kind;
use crate::proto::{AttributeProto, GraphProto, NodeProto};
use crate::tensor;
use crate::value::{Elem, Val, Value};

/// The reason why a node cannot be translated.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is not supported; a sentence without a full stop.
    Unsupported(String),
    /// The model is invalid.
    Invalid(String),
    /// One of its inputs could not be translated, which was reported.
    Follows,
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault::Invalid(text)
    }
}
impl From<&str> for Fault {
    fn from(text: &str) -> Fault {
        Fault::Invalid(text.into())
    }
}

/// The result of a translation.
pub type R<T> = Result<T, Fault>;

/// Returns an error about an unsupported feature.
pub fn unsupported<T>(text: impl Into<String>) -> R<T> {
    Err(Fault::Unsupported(text.into()))
}

/// A node with the values of its inputs.
pub struct Node<'a> {
    /// The node.
    pub proto: &'a NodeProto,
    /// The inputs.
    pub inputs: Vec<Value>,
    /// The operator set version of its domain.
    pub opset: i64,
}

impl Node<'_> {
    /// Returns a required input.
    pub fn value(&self, i: usize) -> R<Value> {
        match self.inputs.get(i) {
            Some(Value::Failed) => Err(Fault::Follows),
            Some(Value::Nothing) | None => Err(format!("input {i} is missing").into()),
            Some(v) => Ok(v.clone()),
        }
    }
    /// Returns a required tensor input.
    pub fn t(&self, i: usize) -> R<Val> {
        match self.value(i)? {
            Value::Tensor(v) => Ok(v),
            Value::Other(_, kind) if matches!(*kind, Kind::Tensor(..) | Kind::Fewer(..)) => {
                unsupported(format!(
                    "the rank of input {i} is not known before run time"
                ))
            }
            _ => Err(format!("input {i} is no tensor").into()),
        }
    }
    /// Returns an optional input.
    pub fn opt(&self, i: usize) -> R<Option<Val>> {
        match self.inputs.get(i) {
            None | Some(Value::Nothing) => Ok(None),
            _ => self.t(i).map(Some),
        }
    }
    /// Returns the element type of an input.
    pub fn elem_of(&self, i: usize) -> R<Elem> {
        match self.value(i)? {
            Value::Other(_, kind) => match &*kind {
                Kind::Tensor(elem, _) | Kind::Fewer(elem, _) => Ok(*elem),
                _ => Err(format!("input {i} is no tensor").into()),
            },
            _ => Ok(self.t(i)?.elem),
        }
    }
    /// Returns whether an output is used.
    pub fn wants(&self, i: usize) -> bool {
        self.proto.output.get(i).is_some_and(|o| !o.is_empty())
    }
    /// Returns an attribute.
    pub fn attr(&self, name: &str) -> Option<&AttributeProto> {
        self.proto.attribute.iter().find(|a| a.name == name)
    }
    /// Returns an integer attribute.
    pub fn int(&self, name: &str, otherwise: i64) -> i64 {
        self.attr(name).map_or(otherwise, |a| a.i)
    }
    /// Returns a boolean attribute.
    pub fn flag(&self, name: &str) -> bool {
        self.int(name, 0) != 0
    }
    /// Returns a list of integers.
    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attr(name).map(|a| a.ints.clone())
    }
    /// Returns a float attribute.
    pub fn float(&self, name: &str, otherwise: f64) -> f64 {
        self.attr(name).map_or(otherwise, |a| f64::from(a.f))
    }
    /// Returns a list of floats.
    pub fn floats(&self, name: &str) -> Option<Vec<f64>> {
        self.attr(name)
            .map(|a| a.floats.iter().map(|&f| f.into()).collect())
    }
    /// Returns a string attribute.
    pub fn str(&self, name: &str, otherwise: &str) -> String {
        match self.attr(name) {
            Some(a) => String::from_utf8_lossy(&a.s).into_owned(),
            None => otherwise.into(),
        }
    }
    /// Returns a list of strings.
    pub fn strs(&self, name: &str) -> Option<Vec<String>> {
        let text = |s: &bytes::Bytes| String::from_utf8_lossy(s).into_owned();
        self.attr(name)
            .map(|a| a.strings.iter().map(text).collect())
    }
    /// Returns an element type attribute.
    pub fn elem(&self, name: &str) -> Option<Elem> {
        let n = self.int(name, 0);
        (n != 0).then(|| Elem(i32::try_from(n).unwrap_or(0)))
    }
    /// Returns a tensor attribute.
    pub fn tensor(&self, name: &str) -> R<Option<(Tensor, Elem)>> {
        match self.attr(name).and_then(|a| a.t.as_ref()) {
            Some(t) => Ok(Some(tensor::inline(t)?)),
            None => Ok(None),
        }
    }
    /// Returns a graph attribute.
    pub fn graph(&self, name: &str) -> R<&GraphProto> {
        let graph = self.attr(name).and_then(|a| a.g.as_ref());
        graph.ok_or_else(|| format!("attribute `{name}` must be a graph").into())
    }
}
