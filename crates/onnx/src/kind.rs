//! Types of values other than tensors of known rank: sequences, optionals, tensors of any rank.

use std::rc::Rc;

use relax_sym::Dim;

use crate::cx::Cx;
use crate::node::{Fault, R, unsupported};
use crate::proto::{DimensionValue, TypeProto, TypeValue};
use crate::tensor::MOST_EXTENT;
use crate::value::{Elem, Source, Val, Value};

/// The known part of a value's type. Functions here recurse over it: the protobuf reader limits the
/// nesting of types to 100.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// The bottom type: the element of an empty sequence.
    Never,
    /// A tensor, possibly of unknown rank.
    Tensor(Elem, Option<Rc<[Dim]>>),
    /// A tensor that may lack leading axes; in the text they exist with extent 1.
    Fewer(Elem, Rc<[Dim]>),
    /// A sequence.
    List(Rc<Kind>),
    /// A value that may be missing.
    Option(Rc<Kind>),
}

impl Kind {
    /// Returns the type of a tensor.
    pub fn of(v: &Val) -> Kind {
        Kind::Tensor(v.elem, Some(Rc::clone(&v.dims)))
    }
    /// Returns a list type.
    pub fn list(of: Kind) -> Kind {
        Kind::List(Rc::new(of))
    }
    /// Converts a declared type; symbolic extents become unknown.
    ///
    /// # Errors
    /// It is not made of tensors, sequences and optionals.
    pub fn declared(t: &TypeProto) -> R<Kind> {
        let inner = |t: &Option<Box<TypeProto>>| match t {
            Some(t) => Kind::declared(t).map(Rc::new),
            None => Ok(Rc::new(Kind::Never)),
        };
        match &t.value {
            Some(TypeValue::Tensor(t)) => {
                let elem = Elem(t.elem_type);
                if elem.storage().is_none() {
                    return unsupported(format!("elements of type {}", elem.name()));
                }
                let extent = |d: &crate::proto::DimensionProto| match d.value {
                    Some(DimensionValue::Value(n)) if (0..=MOST_EXTENT).contains(&n) => {
                        Dim::from(n)
                    }
                    _ => Dim::ANY,
                };
                let dims = t.shape.as_ref().map(|s| s.dim.iter().map(extent).collect());
                Ok(Kind::Tensor(elem, dims))
            }
            Some(TypeValue::Sequence(s)) => Ok(Kind::List(inner(&s.elem_type)?)),
            Some(TypeValue::Optional(o)) => Ok(Kind::Option(inner(&o.elem_type)?)),
            Some(TypeValue::Map(_)) => unsupported("maps"),
            Some(TypeValue::Sparse(_)) => unsupported("sparse tensors"),
            None => Err("a type that says nothing".into()),
        }
    }
    /// Returns the type of a value.
    ///
    /// # Errors
    /// Its parts have no common type.
    pub fn of_value(v: &Value) -> R<Kind> {
        Ok(match v {
            Value::Tensor(v) => Kind::of(v),
            Value::Seq(items) => {
                let mut all = Kind::Never;
                for v in items.iter() {
                    all = all.join(&Kind::of_value(v)?)?;
                }
                Kind::list(all)
            }
            Value::Nothing => Kind::Option(Rc::new(Kind::Never)),
            Value::Other(_, kind) => (**kind).clone(),
            Value::Failed => return Err(Fault::Follows),
        })
    }
    /// Returns the least upper bound of two types.
    ///
    /// # Errors
    /// There is none.
    pub fn join(&self, other: &Kind) -> R<Kind> {
        Ok(match (self, other) {
            (a, b) if a == b => a.clone(),
            (Kind::Never, k) | (k, Kind::Never) => k.clone(),
            (Kind::Tensor(a, x), Kind::Tensor(b, y)) => {
                if a != b {
                    let (a, b) = (a.name(), b.name());
                    return Err(format!("elements of type {a} and {b} in the same place").into());
                }
                let dims = match (x, y) {
                    (Some(x), Some(y)) if x.len() == y.len() => Some(common(x, y).into()),
                    _ => None,
                };
                Kind::Tensor(*a, dims)
            }
            (Kind::List(a), Kind::List(b)) => Kind::list(a.join(b)?),
            (Kind::Option(a), Kind::Option(b)) => Kind::Option(Rc::new(a.join(b)?)),
            (Kind::Option(a), b) | (b, Kind::Option(a)) => Kind::Option(Rc::new(a.join(b)?)),
            _ => return Err("a tensor and a sequence in the same place".into()),
        })
    }
    /// Replaces the dimension variables from index `bound` on, which are not visible outside.
    pub fn outside(self, bound: usize) -> Kind {
        match self {
            Kind::Tensor(elem, Some(dims)) => {
                let mut dims = dims.to_vec();
                for d in &mut dims {
                    if d.free_vars().iter().any(|v| v.0 as usize >= bound) {
                        *d = Dim::ANY;
                    }
                }
                Kind::Tensor(elem, Some(dims.into()))
            }
            Kind::List(k) => Kind::list((*k).clone().outside(bound)),
            Kind::Option(k) => Kind::Option(Rc::new((*k).clone().outside(bound))),
            other => other,
        }
    }
}

/// Returns the common extents of two tensors of equal rank; `?` where they differ.
fn common(a: &[Dim], b: &[Dim]) -> Vec<Dim> {
    let one = |(x, y): (&Dim, &Dim)| if x == y { x.clone() } else { Dim::ANY };
    a.iter().zip(b).map(one).collect()
}

impl Cx {
    /// Formats a type.
    pub fn show_kind(&self, kind: &Kind) -> String {
        match kind {
            Kind::Never => "Tensor[_, float32]".into(),
            Kind::Tensor(elem, Some(dims)) | Kind::Fewer(elem, dims) => {
                self.show_type(dims, Val::stored(*elem))
            }
            Kind::Tensor(elem, None) => format!("Tensor[_, {}]", Val::stored(*elem)),
            Kind::List(k) => format!("List[{}]", self.show_kind(k)),
            Kind::Option(k) => format!("Option[{}]", self.show_kind(k)),
        }
    }
    /// Creates a value for an expression of a type.
    pub fn of_kind(&self, text: Rc<str>, kind: &Kind) -> Value {
        match kind {
            Kind::Tensor(elem, Some(dims)) => self.val(text, *elem, dims).into(),
            _ => Value::Other(text, Rc::new(kind.clone())),
        }
    }
    /// Binds an expression of a type.
    pub fn line_of_kind(&mut self, text: String, kind: &Kind) -> Value {
        let text = self.bind(text);
        self.of_kind(text, kind)
    }
    /// Returns an expression for a value, converted to a compatible type.
    ///
    /// # Errors
    /// It is not compatible.
    pub fn as_kind(&mut self, v: &Value, kind: &Kind) -> R<Rc<str>> {
        match (v, kind) {
            (Value::Failed, _) => Err(Fault::Follows),
            (Value::Other(text, own), kind) if **own == *kind => Ok(Rc::clone(text)),
            (Value::Nothing, Kind::Option(_)) => Ok("None".into()),
            // An empty list has any element type.
            (Value::Other(text, own), Kind::List(_))
                if **own == Kind::List(Rc::new(Kind::Never)) =>
            {
                Ok(Rc::clone(text))
            }
            (Value::Other(text, own), Kind::Option(want)) if matches!(**own, Kind::Option(_)) => {
                let Kind::Option(own) = &**own else {
                    return Ok(Rc::clone(text));
                };
                let (id, body) = self.function(own, want)?;
                let text = format!(
                    "match ({text}) {{\nSome({}) => {{\nSome({{\n{body}}})\n}},\nNone => None,\n}}",
                    Cx::mention(id)
                );
                Ok(self.bind(text))
            }
            (v, Kind::Option(inner)) => {
                let text = self.as_kind(v, inner)?;
                Ok(self.bind(format!("Some({text})")))
            }
            (Value::Tensor(v), Kind::Tensor(_, Some(dims))) if v.rank() == dims.len() => {
                let v = self.matched(v, dims);
                Ok(self.text(&v))
            }
            (Value::Tensor(v), Kind::Tensor(elem, dims)) => {
                let text = self.text(v);
                let any = self.show_kind(&Kind::Tensor(*elem, None));
                let text = self.bind(format!("match_cast({text}, {any})"));
                match dims {
                    None => Ok(text),
                    // A different rank fails at run time.
                    Some(_) => {
                        let shown = self.show_kind(kind);
                        Ok(self.bind(format!("match_cast({text}, {shown})")))
                    }
                }
            }
            (Value::Tensor(v), Kind::Fewer(_, dims)) => {
                let mut v = v.clone();
                while v.rank() < dims.len() {
                    v = self.expand(&v, 0)?;
                }
                let v = self.matched(&v, dims);
                Ok(self.text(&v))
            }
            (Value::Other(text, own), Kind::Tensor(..))
                if matches!(**own, Kind::Tensor(_, None)) =>
            {
                let shown = self.show_kind(kind);
                Ok(self.bind(format!("match_cast({text}, {shown})")))
            }
            (Value::Seq(items), Kind::List(inner)) => {
                let mut parts = Vec::with_capacity(items.len());
                for v in items.iter() {
                    parts.push(self.as_kind(v, inner)?);
                }
                if parts.is_empty() {
                    return Ok("Nil".into());
                }
                let mut text = String::new();
                for p in &parts {
                    text.push_str(&format!("Cons({p}, "));
                }
                text.push_str("Nil");
                text.extend(std::iter::repeat_n(')', parts.len()));
                Ok(self.bind(text))
            }
            (Value::Other(text, own), Kind::List(want)) => {
                let Kind::List(own) = &**own else {
                    return Err("a sequence is wanted".into());
                };
                let (id, body) = self.function(own, want)?;
                let (from, to) = (self.show_kind(own), self.show_kind(want));
                let text = format!(
                    "@map(fn ({}: {from}) -> {to} {{\n{body}}}, {text})",
                    Cx::mention(id)
                );
                Ok(self.bind(text))
            }
            (Value::Nothing, _) => Err("the optional is empty".into()),
            _ => Err("a tensor and a sequence in the same place".into()),
        }
    }
    /// Creates a variable of one type, and the block that converts it to another.
    fn function(&mut self, from: &Kind, to: &Kind) -> R<(u32, String)> {
        let id = self.variable();
        let v = self.of_kind(Cx::mention(id).into(), from);
        self.open();
        let result = self.as_kind(&v, to);
        let body = self.close(result.as_deref().unwrap_or(""));
        result.map(|_| (id, body))
    }
    /// Names a value as in the model, if it is a variable.
    pub fn named(&mut self, value: &Value, name: &str) {
        let text = match value {
            Value::Tensor(v) => match &v.source {
                Source::Text(text) => text,
                Source::Constant(_) => return,
            },
            Value::Other(text, _) => text,
            _ => return,
        };
        let ids: Vec<u32> = crate::cx::mentioned(text).take(2).collect();
        if let [id] = ids.as_slice()
            && **text == *Cx::mention(*id)
        {
            self.call_it(*id, &crate::names::readable(name, "v"));
        }
    }
}
