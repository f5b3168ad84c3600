//! Conversion of attributes: objects with fields, each written according to its kind.

use std::borrow::Cow;

use relax_base::Symbol;
use relax_ops::{AttrTy, OpDef, Release, registry};
use relax_syntax::ast::{self, ExprKind, List, NumSuffix};
use rustc_hash::FxHashSet;

use crate::codes;
use crate::error::Found;
use crate::graph::NodeId;
use crate::kinds::{Form, Kind, Sort};
use crate::names::attributes;
use crate::program::Builder;
use crate::types::integer;

/// The limit on attribute values of one object, nested ones counted at each occurrence.
const MOST: usize = 1 << 20;

impl Builder<'_, '_> {
    /// Converts the attributes of a call of `callee`.
    pub(crate) fn call_attrs(&mut self, call: NodeId, callee: NodeId) -> Found<List<ast::AttrId>> {
        let g = self.g;
        let id = g.refers(call, "attrs")?;
        match g.sort(id) {
            Sort::Null => return Ok(List::EMPTY),
            Sort::Dict => return self.dict_attrs(id),
            _ => {}
        }
        let op = match g.sort(callee) {
            Sort::Op => g.repr(callee),
            _ => None,
        };
        let def = op.and_then(|name| registry().get(registry().find(&name)?));
        let mut attrs = Vec::new();
        let mut fields: Vec<_> = g.fields(id).collect();
        // Graphs sort attributes by name; TVM's text has them in declaration order.
        fields.sort_by_key(|f| def.and_then(|d| d.attrs.iter().position(|a| a.name == f.0)));
        for (name, text) in fields {
            if let Some(value) = self.field_value(id, name, text, def)? {
                let span = g.span(self.start, id);
                attrs.push(self.out.attr(Symbol::new(name), value, span));
            }
        }
        // Attributes that did not exist yet in the version that wrote the graph are not written.
        let required = def.into_iter().flat_map(|d| d.attrs.iter());
        for attr in required.filter(|a| a.default == relax_ops::Default::Required) {
            if g.field(id, attr.name).is_none() {
                let span = g.span(self.start, id);
                let none = self.out.expr(ExprKind::Name("None".into()), span);
                attrs.push(self.out.attr(Symbol::new(attr.name), none, span));
            }
        }
        Ok(self.out.make_list(attrs))
    }

    /// Converts the value of an attribute field; `None` for one that is irrelevant to the operator.
    fn field_value(
        &mut self,
        id: NodeId,
        name: &str,
        text: Cow<'_, str>,
        def: Option<&OpDef>,
    ) -> Found<Option<ast::ExprId>> {
        let g = self.g;
        let declared = def.and_then(|d| d.attr(name));
        let known = g.kind(id).fields.and_then(|f| f.form(name, g.release));
        let form = match (known, declared) {
            (Some(form), _) => form,
            // The table does not know the kind in this version: the operator's schema determines
            // the form.
            (None, Some(attr)) => form_of(attr.ty),
            (None, None) => return Ok(None),
        };
        // A graph contains every field, even those the operator has no attribute for; these matter
        // only if they are set.
        let unset = match form {
            Form::Node => text == "0",
            Form::Int | Form::Bool | Form::Float => text.parse() == Ok(0.0),
            Form::Str | Form::DType => text.is_empty(),
            Form::Tensor => true,
        };
        if def.is_some() && declared.is_none() && unset {
            return Ok(None);
        }
        let span = g.span(self.start, id);
        let bad = |what: &str| {
            let message = format!("`{name}` is `{text}`, where {what} is expected");
            g.mistake(id, message)
        };
        let kind = match form {
            Form::Node => match text.parse::<usize>() {
                Ok(_) => {
                    let to = g.index(id, name, &text)?;
                    let expression = g.sort(to).is_expr();
                    if expression && declared.is_none() {
                        return Ok(None);
                    }
                    return self.object(to).map(Some);
                }
                // Inline text where a newer version has a node.
                Err(_) => ExprKind::Str(Symbol::new(&text)),
            },
            Form::Int => ExprKind::Int {
                value: text.parse().map_err(|_| bad("an integer"))?,
                suffix: NumSuffix::None,
            },
            Form::Bool => ExprKind::Bool(text.parse::<i64>().map_err(|_| bad("0 or 1"))? != 0),
            Form::Float => ExprKind::Float {
                value: text.parse().map_err(|_| bad("a number"))?,
                suffix: NumSuffix::None,
            },
            Form::Str | Form::DType => ExprKind::Str(Symbol::new(&text)),
            Form::Tensor => return Ok(None),
        };
        Ok(Some(self.out.expr(kind, span)))
    }

    /// Converts the attributes of a function or a module, which are a map.
    pub(crate) fn dict_attrs(&mut self, id: NodeId) -> Found<List<ast::AttrId>> {
        let g = self.g;
        if g.sort(id) == Sort::Null {
            return Ok(List::EMPTY);
        }
        let map = match g.sort(id) {
            Sort::Dict => g.refers(id, "__dict__")?,
            _ => return Err(g.mistake(id, "these attributes must be a map")),
        };
        let span = g.span(self.start, id);
        let mut attrs = Vec::new();
        // In file order, which is the order of TVM's text.
        for (key, &to) in attributes(g.keys(map)).into_iter().zip(g.data(map)) {
            let value = self.object(to)?;
            attrs.push(self.out.attr(key, value, span));
        }
        Ok(self.out.make_list(attrs))
    }

    /// Converts an object to a value: numbers, strings, lists and maps directly, others to
    /// references.
    fn object(&mut self, root: NodeId) -> Found<ast::ExprId> {
        let g = self.g;
        let mut steps = vec![(root, false)];
        let mut open = FxHashSet::default();
        let mut done: Vec<ast::ExprId> = Vec::new();
        let mut looked = 0;
        while let Some((id, finish)) = steps.pop() {
            let parts = match g.sort(id) {
                Sort::Array => g.data(id),
                Sort::Map if g.keys(id).next().is_some() => g.data(id),
                _ => &[],
            };
            if !finish && !parts.is_empty() {
                if !open.insert(id) {
                    return Err(g.mistake(id, "this object is a part of itself"));
                }
                looked += parts.len();
                if looked > MOST {
                    let message = "this value is too large: it repeats its parts too often";
                    return Err(g.mistake_of(codes::TOO_LARGE, id, message));
                }
                steps.push((id, true));
                steps.extend(parts.iter().rev().map(|&p| (p, false)));
                continue;
            }
            open.remove(&id);
            let items = done.split_off(done.len() - parts.len());
            let value = self.whole(id, items)?;
            done.push(value);
        }
        Ok(done.swap_remove(0))
    }

    fn whole(&mut self, id: NodeId, items: Vec<ast::ExprId>) -> Found<ast::ExprId> {
        let g = self.g;
        let span = g.span(self.start, id);
        let truth = |text: Option<Cow<'_, str>>| {
            ExprKind::Bool(!matches!(
                text.as_deref(),
                Some("0" | "false" | "False") | None
            ))
        };
        let kind = match g.sort(id) {
            Sort::Null => ExprKind::Name("None".into()),
            Sort::Int if g.field(id, "dtype").as_deref() == Some("bool") => {
                truth(g.field(id, "value"))
            }
            Sort::Bool => truth(g.repr(id).or_else(|| g.field(id, "value"))),
            Sort::Int => {
                let (value, suffix) = integer(g, id)?;
                ExprKind::Int { value, suffix }
            }
            Sort::Float => {
                let text = g.repr(id).or_else(|| g.field(id, "value"));
                let value = text.as_deref().and_then(|t| t.parse().ok());
                let value = value.ok_or_else(|| g.mistake(id, "this is no number"))?;
                ExprKind::Float {
                    value,
                    suffix: NumSuffix::None,
                }
            }
            Sort::Text => ExprKind::Str(Symbol::new(&g.text(id).unwrap_or_default())),
            Sort::AnyDim => ExprKind::Name("?".into()),
            Sort::Array => ExprKind::List(self.out.make_list(items)),
            Sort::Map if items.len() == g.data(id).len() => {
                let mut attrs = Vec::with_capacity(items.len());
                for (key, item) in attributes(g.keys(id)).into_iter().zip(items) {
                    attrs.push(self.out.attr(key, item, span));
                }
                ExprKind::Map(self.out.make_list(attrs))
            }
            Sort::Constant => {
                let index = self.constant(id, false)?;
                let key = Symbol::new(&g.kind(id).name);
                ExprKind::Meta { key, index }
            }
            _ => {
                let (key, index) = self.objects.refer(g, id);
                ExprKind::Meta { key, index }
            }
        };
        Ok(self.out.expr(kind, span))
    }
}

/// Returns whether graphs of the last release have a node index in a field rather than a value;
/// `None` for unknown fields.
pub fn is_reference(kind: &str, field: &str) -> Option<bool> {
    let form = Kind::new(kind).fields?.form(field, Release::LAST)?;
    Some(form == Form::Node)
}

/// Returns the most likely form of a field of this type.
fn form_of(ty: AttrTy) -> Form {
    match ty {
        AttrTy::Int => Form::Int,
        AttrTy::Float => Form::Float,
        AttrTy::Bool => Form::Bool,
        AttrTy::Str => Form::Str,
        AttrTy::DType | AttrTy::DTypes => Form::DType,
        _ => Form::Node,
    }
}
