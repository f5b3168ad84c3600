//! Printing of attributes of calls and functions.

use relax_base::Symbol;
use relax_ir::{AttrValue, Attrs, AttrsId, Expr, ExprId, OpId};
use relax_ops::{AttrTy, Default, OpDef, registry};
use relax_sym::Dim;
use relax_syntax::Style;
use relax_syntax::ast::{self, ExprKind, NumSuffix, VERBATIM};

use super::meta::is_node;
use super::{NO, Printer};
use crate::build::attr_type::attr_type;

/// Returns the definition of a built-in operator.
pub(super) fn schema_of(op: OpId) -> Option<&'static OpDef> {
    registry().get(op)
}

/// Returns whether a value is the default, so that it can be omitted.
fn is_default(value: &AttrValue, default: Default) -> bool {
    match default {
        Default::Required => false,
        Default::None => value.is_none(),
        Default::Int(d) => *value == AttrValue::Int(d),
        Default::Float(d) => *value == AttrValue::Float(d),
        Default::Bool(d) => *value == AttrValue::Bool(d),
        Default::Str(d) => value.as_str() == Some(d),
        Default::DType(d) => match value {
            AttrValue::DType(t) => d.parse() == Ok(*t),
            _ => false,
        },
        Default::Ints(d) => value.as_ints().as_deref() == Some(d),
        Default::Floats(d) => value.as_array().is_some_and(|a| {
            a.len() == d.len() && a.iter().zip(d).all(|(v, d)| v.as_float() == Some(*d))
        }),
    }
}

impl Printer<'_> {
    /// Returns the name of an operator.
    pub(super) fn op_name(&self, op: OpId) -> Symbol {
        match (schema_of(op), self.m.user_op(op)) {
            (Some(def), _) => def.name.into(),
            (None, Some(user)) => user.name,
            (None, None) => Symbol::new(&format!("{op:?}")),
        }
    }

    /// Prints the attributes of a call; where TVM's style has a metadata reference in their place,
    /// it is appended to `args`.
    pub(super) fn call_attrs(
        &mut self,
        callee: ExprId,
        attrs: AttrsId,
        args: &mut Vec<ast::ExprId>,
    ) -> ast::List<ast::AttrId> {
        if attrs == AttrsId::NONE {
            return ast::List::EMPTY;
        }
        let m = self.m;
        let op = match m.exprs[callee] {
            Expr::Op(op) => Some(op),
            _ => None,
        };
        let def = op.and_then(schema_of);
        // What no node of the metadata can hold is written by name.
        let nodes = || m.attrs(attrs).iter().all(|(_, v)| is_node(v));
        if let (Some(op), Some(key)) = (op, def.and_then(|d| d.meta_attrs))
            && nodes()
        {
            let index = self.meta.attrs(key, op, attrs);
            let key = key.into();
            args.push(self.out.expr(ExprKind::Meta { key, index }, NO));
            return ast::List::EMPTY;
        }
        self.named_attrs(op, m.attrs(attrs))
    }

    /// Prints the attributes of a call by name, without those that have their defaults.
    pub(super) fn named_attrs(
        &mut self,
        op: Option<OpId>,
        attrs: &Attrs,
    ) -> ast::List<ast::AttrId> {
        let def = op.and_then(schema_of);
        let user = op.and_then(|op| self.m.user_op(op));
        let mut ids = Vec::new();
        for (name, value) in attrs.iter() {
            let schema = def.and_then(|d| d.attr(name.as_str()));
            let declared = user.and_then(|user| user.attrs.iter().find(|(n, ..)| n == name));
            let (omitted, ty) = match (schema, declared) {
                (Some(schema), _) => (is_default(value, schema.default), Some(schema.ty)),
                (None, Some((_, ty, default))) => (default.as_ref() == Some(value), attr_type(*ty)),
                (None, None) => (false, None),
            };
            if !omitted {
                ids.push(self.attr(*name, value, ty));
            }
        }
        self.out.make_list(ids)
    }

    /// Prints the attributes of a function or a variable: all of them, in order.
    pub(super) fn dict_attrs(&mut self, attrs: &Attrs) -> ast::List<ast::AttrId> {
        let ids: Vec<_> = attrs.iter().map(|(n, v)| self.attr(*n, v, None)).collect();
        self.out.make_list(ids)
    }

    fn attr(&mut self, name: Symbol, value: &AttrValue, ty: Option<AttrTy>) -> ast::AttrId {
        let value = self.attr_value(value, ty);
        self.out.attr(name, value, NO)
    }

    /// Prints a number, with the suffix `f` as TVM does. Attributes are wider than float32: in the
    /// pretty style, a value that is no float32 has no suffix.
    fn float_value(&self, value: f64) -> ExprKind {
        let narrow = format!("{:e}", value as f32);
        let said = !value.is_finite() || narrow.parse() == Ok(value);
        let suffix = match said || self.mode.style == Style::Tvm {
            true => NumSuffix::F,
            false => NumSuffix::None,
        };
        ExprKind::Float { value, suffix }
    }

    /// Prints an attribute value. The nesting of lists is bounded by the reader.
    pub(super) fn attr_value(&mut self, value: &AttrValue, ty: Option<AttrTy>) -> ast::ExprId {
        let kind = match value {
            AttrValue::None => ExprKind::Name("None".into()),
            AttrValue::Bool(b) => ExprKind::Bool(*b),
            AttrValue::Int(value) if matches!(ty, Some(AttrTy::Float | AttrTy::Floats)) => {
                self.float_value(*value as f64)
            }
            AttrValue::Int(value) => ExprKind::Int {
                value: *value,
                suffix: NumSuffix::None,
            },
            AttrValue::Float(value) => self.float_value(*value),
            AttrValue::Str(text) => ExprKind::Str(Symbol::new(text)),
            // Where no type of the attribute says so, a string would not read back as an element
            // type: those of a function, of any type, or in a dictionary.
            AttrValue::DType(d) if ty.is_none_or(|ty| ty == AttrTy::Any) && !d.is_void() => {
                ExprKind::Name(Symbol::new(&d.to_string()))
            }
            AttrValue::DType(d) => ExprKind::Str(Symbol::new(&d.to_string())),
            AttrValue::Dim(dim) if dim.is_wide() => ExprKind::Int {
                value: dim.as_const().unwrap_or_default(),
                suffix: if self.mode.style == Style::Tvm {
                    NumSuffix::I(64)
                } else {
                    NumSuffix::None
                },
            },
            AttrValue::Dim(dim) => return self.dim_value(dim),
            AttrValue::Array(items) => {
                let items: Vec<_> = items.iter().map(|v| self.attr_value(v, ty)).collect();
                ExprKind::List(self.out.make_list(items))
            }
            AttrValue::Dict(items) => {
                let ids: Vec<_> = items.iter().map(|(n, v)| self.attr(*n, v, None)).collect();
                ExprKind::Map(self.out.make_list(ids))
            }
            AttrValue::Attr(name) => ExprKind::Name(*name),
            AttrValue::Meta(key, VERBATIM) => ExprKind::Meta {
                key: *key,
                index: VERBATIM,
            },
            AttrValue::Meta(key, index) => ExprKind::Meta {
                key: *key,
                index: self.meta.kept(*key, *index),
            },
        };
        self.out.expr(kind, NO)
    }

    /// Prints a dimension among attribute values, where the tree has expressions and no types.
    fn dim_value(&mut self, dim: &Dim) -> ast::ExprId {
        for v in dim.free_vars() {
            self.dim_name(v);
        }
        let names = |v| self.types.dim_text(v);
        let text = dim.display(&names).to_string();
        self.name(text.as_str())
    }
}
