//! Writing of attributes of operators and functions.

use std::sync::LazyLock;

use relax_base::{Span, Symbol};
use relax_ir::{AttrValue, Attrs, Expr, ExprId, OpId};
use relax_ops::registry;
use rustc_hash::FxHashMap;

use super::{Node, Writer};
use crate::kinds::{Form, Kind};

/// The key of a device among attributes.
const DEVICE: &str = "virtual_device";

/// The kinds of operators' attributes, by operator name.
static KINDS: LazyLock<FxHashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let lines = include_str!("../../data/attrs.txt").lines();
    let lines = lines.filter(|l| !l.starts_with('#'));
    let of_line = |line: &'static str| {
        let mut words = line.split_ascii_whitespace();
        let kind = words.next().unwrap_or_default();
        words.map(move |op| (op, kind))
    };
    lines.flat_map(of_line).collect()
});

/// The key of constants in the metadata section.
const CONSTANT: &str = "relay.Constant";

impl Writer<'_> {
    /// Writes the attributes of an operator call.
    pub(super) fn op_attrs(&mut self, op: OpId, attrs: &Attrs, args: &[ExprId], span: Span) -> u32 {
        let Some(def) = registry().get(op) else {
            self.refuse(span, "an operator that the text defines");
            return 0;
        };
        let told = |(name, value): &&(Symbol, AttrValue)| {
            let of = def.attrs.iter().find(|a| *name == a.name);
            of.and_then(|a| a.default.value()).as_ref() != Some(value)
        };
        let Some(name) = def.meta_attrs.or_else(|| KINDS.get(def.name).copied()) else {
            if let Some((lost, _)) = attrs.iter().find(told) {
                self.refuse(span, &format!("`{lost}` of `{}`", def.name));
            }
            return 0;
        };
        let kind = Kind::new(name);
        let Some(fields) = kind.fields else {
            self.refuse(span, &format!("the attributes of `{}`", def.name));
            return 0;
        };
        let mut node = Node::of(name);
        for field in fields.names() {
            let Some(form) = fields.form(field, self.release) else {
                continue;
            };
            let value = attrs.get(field);
            let input = def.inputs.iter().position(|i| i.name == field);
            let text = match (value, input.and_then(|i| args.get(i))) {
                // The operator also has the value as an argument.
                (Some(AttrValue::Meta(key, _)), Some(&arg)) if *key == CONSTANT => {
                    let arg = self.behind(arg);
                    self.expr(arg).to_string()
                }
                (value, _) => self.field(form, value, span),
            };
            node = node.plain(field, text);
        }
        let known = |name: Symbol| fields.form(name.as_str(), self.release).is_some();
        let lost = attrs.iter().find(|a| !known(a.0) && told(a));
        if let Some((lost, _)) = lost {
            let minor = self.release.0;
            let what = format!("`{lost}` of `{}` in version 0.{minor}", def.name);
            self.refuse(span, &what);
        }
        self.push(node)
    }

    /// Follows variables to the value they are ultimately bound to; any other expression is
    /// returned unchanged.
    fn behind(&mut self, mut e: ExprId) -> ExprId {
        const MOST: usize = 16;
        let module = self.module;
        let bound = self.bound.get_or_insert_with(|| {
            let lets = module.exprs.values().filter_map(|e| match e {
                Expr::Let { var, value, .. } => Some((*var, *value)),
                _ => None,
            });
            lets.collect()
        });
        for _ in 0..MOST {
            let Expr::Var(v) = module.exprs[e] else { break };
            let Some(&value) = bound.get(&v) else { break };
            e = value;
        }
        e
    }

    /// Writes a field in its encoding.
    fn field(&mut self, form: Form, value: Option<&AttrValue>, span: Span) -> String {
        let value = value.unwrap_or(&AttrValue::None);
        match form {
            Form::Node => self.value(value, span).to_string(),
            Form::Int => value.as_int().unwrap_or(0).to_string(),
            Form::Bool => i64::from(value.as_bool().unwrap_or(false)).to_string(),
            Form::Float => float(value.as_float().unwrap_or(0.0)),
            Form::Str => match value {
                AttrValue::DType(d) => d.to_string(),
                value => value.as_str().unwrap_or_default().to_owned(),
            },
            Form::DType => match value {
                AttrValue::DType(d) if d.is_void() => String::new(),
                AttrValue::DType(d) => d.to_string(),
                value => value.as_str().unwrap_or_default().to_owned(),
            },
            Form::Tensor => "0".to_owned(),
        }
    }

    /// Writes a value as an object.
    pub(super) fn value(&mut self, value: &AttrValue, span: Span) -> u32 {
        match value {
            AttrValue::None => 0,
            AttrValue::Bool(b) => {
                let node = Node::of("IntImm").plain("dtype", "bool");
                let node = node.plain("value", i64::from(*b));
                self.push(node.with(&[("span", 0)]))
            }
            AttrValue::Int(i) => self.int(*i, false),
            AttrValue::Float(x) => {
                let node = Node::of("FloatImm").plain("dtype", "float32");
                self.push(node.plain("value", float(*x)).with(&[("span", 0)]))
            }
            AttrValue::Str(s) => self.text(s),
            AttrValue::DType(d) => self.text(&d.to_string()),
            AttrValue::Dim(d) if d.as_atom().is_some() => {
                self.refuse(span, "an attribute with a variable extent");
                0
            }
            AttrValue::Dim(d) => self.dim(d),
            // The nesting depth of lists is bounded by the reader.
            AttrValue::Array(items) => {
                let items = items.iter().map(|v| self.value(v, span)).collect();
                self.array(items)
            }
            AttrValue::Dict(items) => {
                let pair =
                    |(n, v): &(Symbol, AttrValue)| (n.as_str().to_owned(), self.value(v, span));
                let items = items.iter().map(pair).collect();
                self.map(items)
            }
            AttrValue::Meta(key, index) => self.object(*key, *index, span),
            AttrValue::Attr(_) => {
                self.refuse(span, "an attribute that stands for another one");
                0
            }
        }
    }

    /// Writes the attributes of a function, except for its device.
    pub(super) fn dict_attrs(&mut self, attrs: &Attrs, span: Span) -> u32 {
        let own: Vec<_> = attrs.iter().filter(|(n, _)| *n != DEVICE).collect();
        if own.is_empty() {
            return 0;
        }
        if own.iter().any(|(_, v)| names_dtype(v)) {
            self.refuse(span, "an attribute of a function that is an element type");
        }
        let items = own.into_iter();
        let items = items
            .map(|(n, v)| (n.as_str().to_owned(), self.value(v, span)))
            .collect();
        let items = self.map(items);
        self.push(Node::of("DictAttrs").with(&[("__dict__", items)]))
    }

    /// Writes the device in the attributes, or the default device.
    pub(super) fn device(&mut self, attrs: Option<&Attrs>, span: Span) -> u32 {
        if let Some(device) = attrs.and_then(|a| a.get(DEVICE)) {
            let device = device.clone();
            return self.value(&device, span);
        }
        if let Some(known) = self.anywhere {
            return known;
        }
        let scope = self.text("");
        let node = Node::of("VirtualDevice").plain("device_type_int", -1);
        let node = node.plain("virtual_device_id", -1);
        let at = self.push(node.with(&[("memory_scope", scope), ("target", 0)]));
        self.anywhere = Some(at);
        at
    }
}

/// Formats a float exactly, in C++ syntax.
fn float(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    format!("{x:?}")
}

/// Returns whether an attribute without a type of its own holds an element type, which graphs could
/// only give as a string.
fn names_dtype(value: &AttrValue) -> bool {
    match value {
        AttrValue::DType(_) => true,
        AttrValue::Array(items) => items.iter().any(names_dtype),
        AttrValue::Dict(items) => items.iter().any(|(_, v)| names_dtype(v)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_of_this_house() {
        for (op, kind) in KINDS.iter() {
            assert!(registry().find(op).is_some(), "{op}");
            assert!(Kind::new(kind).fields.is_some(), "{kind}");
        }
    }
}
