//! Attributes: evaluation of values, and checking against an operator's schema.

use std::rc::Rc;
use std::sync::Arc;

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{AttrValue, Attrs, AttrsId, OpId};
use relax_ops::{AttrTy, Default as AttrDefault};
use relax_sym::Dim;
use relax_syntax::ast::{self, BinOp, ExprKind};

use super::Resolver;
use super::former::Given;
use super::scope::TypeName;
use crate::codes;

/// The attributes of an operator, prepared for lookup.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The attributes, in the order of the operator's declaration.
    pub(crate) attrs: Vec<SchemaAttr>,
}

/// An attribute of a schema.
#[derive(Debug)]
pub(crate) struct SchemaAttr {
    pub(crate) name: Symbol,
    pub(crate) ty: AttrTy,
    /// The default; `None` if the attribute is required.
    pub(crate) default: Option<AttrValue>,
}

/// The value of each attribute of a schema, with its span.
type Values = Vec<Option<(AttrValue, Span)>>;

/// Returns the value of a declared default.
fn default_value(default: AttrDefault) -> Option<AttrValue> {
    Some(match default {
        AttrDefault::Required => return None,
        AttrDefault::None => AttrValue::None,
        AttrDefault::Int(v) => AttrValue::Int(v),
        AttrDefault::Float(v) => AttrValue::Float(v),
        AttrDefault::Bool(v) => AttrValue::Bool(v),
        AttrDefault::Str(v) => AttrValue::Str(v.into()),
        AttrDefault::DType(v) => v.parse().map_or(AttrValue::None, AttrValue::DType),
        AttrDefault::Ints(v) => AttrValue::ints(v),
        AttrDefault::Floats(v) => AttrValue::array(v.iter().map(|&x| AttrValue::Float(x))),
    })
}

/// Returns the name of an attribute type for messages.
fn type_name(ty: AttrTy) -> &'static str {
    match ty {
        AttrTy::Int => "an integer",
        AttrTy::Float => "a number",
        AttrTy::Bool => "`True` or `False`",
        AttrTy::Str => "a string",
        AttrTy::DType => "an element type, written as a string",
        AttrTy::DTypes => "an element type, written as a string, or a list of element types",
        AttrTy::Ints => "a list of integers",
        AttrTy::Floats => "a list of numbers",
        AttrTy::Dims => "a list of dimensions",
        AttrTy::IntLists => "a list of lists of integers",
        AttrTy::Strs => "a list of strings",
        AttrTy::IntOrInts => "an integer or a list of integers",
        AttrTy::Any => "a value",
    }
}

/// Synonyms of attribute names, here and in other frameworks.
const SAME: &[&[&str]] = &[
    &["axis", "axes", "dim", "dims", "dimension", "dimensions"],
    &["keepdims", "keepdim", "keep_dims"],
    &["newshape", "shape", "new_shape", "size"],
    &["strides", "stride", "step", "steps"],
    &["padding", "pad", "pads", "pad_width"],
    &["dilation", "dilations", "rate"],
    &["kernel_size", "pool_size", "kernel", "window"],
    &["units", "out_features", "channels", "filters"],
    &["epsilon", "eps"],
    &["dtype", "out_dtype", "type"],
    &[
        "indices_or_sections",
        "sections",
        "num_split",
        "num_outputs",
    ],
    &["a_min", "min", "low"],
    &["a_max", "max", "high"],
    &["groups", "group"],
    &["begin", "start", "starts"],
    &["end", "stop", "ends"],
];

/// Returns the first candidate that is a synonym of an unknown name.
fn same_thing<'n>(name: &str, names: impl Iterator<Item = &'n str> + Clone) -> Option<&'n str> {
    let lower = name.to_ascii_lowercase();
    let row = SAME.iter().find(|row| row.contains(&lower.as_str()))?;
    row.iter()
        .find_map(|same| names.clone().find(|n| n == same))
}

fn is_dim(v: &AttrValue) -> bool {
    matches!(
        v,
        AttrValue::Dim(_) | AttrValue::Meta(..) | AttrValue::Attr(_)
    ) || v.as_int().is_some()
}

/// Converts the value to an integer; booleans become 0 and 1.
fn int(v: AttrValue) -> AttrValue {
    match v {
        AttrValue::Bool(b) => AttrValue::Int(b.into()),
        other => other,
    }
}

/// Applies `f` to each item of a list; any other value counts as a one-element list.
fn list(v: AttrValue, f: impl Fn(AttrValue) -> Option<AttrValue>) -> Option<AttrValue> {
    match v {
        AttrValue::None => Some(AttrValue::None),
        AttrValue::Array(items) => {
            if items.iter().all(|i| f(i.clone()).as_ref() == Some(i)) {
                return Some(AttrValue::Array(items));
            }
            let items: Option<Arc<[AttrValue]>> = items.iter().cloned().map(f).collect();
            items.map(AttrValue::Array)
        }
        one => Some(AttrValue::Array(Arc::new([f(one)?]))),
    }
}

/// Converts a value to an attribute's declared type; `None` if it does not fit.
pub fn fit(v: AttrValue, ty: AttrTy) -> Option<AttrValue> {
    // Objects of the metadata section are preserved opaquely, and so is what is not known yet.
    if matches!(v, AttrValue::Meta(..) | AttrValue::Attr(_)) {
        return Some(v);
    }
    let dims = |v: AttrValue| is_dim(&v).then(|| int(v));
    match ty {
        AttrTy::Any => Some(v),
        AttrTy::Int => match v {
            AttrValue::Dim(ref d) if d.as_const().is_none() => Some(v),
            _ => v.as_int().map(AttrValue::Int),
        },
        AttrTy::Float => v.as_float().map(AttrValue::Float),
        // As in TVM, 0 and 1 are accepted as booleans; other numbers are errors.
        AttrTy::Bool => match v.as_int() {
            Some(n @ (0 | 1)) => Some(AttrValue::Bool(n == 1)),
            _ => None,
        },
        AttrTy::Str => match v {
            AttrValue::Str(_) => Some(v),
            AttrValue::DType(d) => Some(AttrValue::Str(d.to_string().into())),
            _ => None,
        },
        AttrTy::DType => match v {
            AttrValue::DType(_) => Some(v),
            AttrValue::Str(s) => s.parse().ok().map(AttrValue::DType),
            _ => None,
        },
        AttrTy::DTypes => match v {
            AttrValue::Array(_) => list(v, |item| fit(item, AttrTy::DType)),
            one => fit(one, AttrTy::DType),
        },
        AttrTy::Ints | AttrTy::Dims => list(v, dims),
        AttrTy::Floats => list(v, |v| v.as_float().map(AttrValue::Float)),
        AttrTy::Strs => list(v, |v| v.as_str().is_some().then_some(v)),
        AttrTy::IntLists => match v {
            AttrValue::None => Some(v),
            AttrValue::Array(_) => list(v, |row| match row {
                AttrValue::Array(_) => list(row, dims),
                _ => None,
            }),
            _ => None,
        },
        AttrTy::IntOrInts => match v {
            AttrValue::Array(_) => list(v, dims),
            v => match v.as_int() {
                Some(i) => Some(AttrValue::Int(i)),
                None => is_dim(&v).then_some(v),
            },
        },
    }
}

/// The maximum nesting depth of values: they own their parts, and comparing, printing or dropping
/// them recurses.
const DEEPEST: u32 = 64;

/// A step of the traversal of an attribute value, with its depth.
enum Step {
    Look(ast::ExprId, u32),
    Finish(ast::ExprId, usize),
}

impl Resolver<'_> {
    /// Returns the schema of an operator.
    pub(crate) fn schema(&mut self, op: OpId) -> Rc<Schema> {
        if let Some(schema) = self.schemas.get(&op) {
            return schema.clone();
        }
        let attrs = match (self.registry.get(op), self.module.user_op(op)) {
            (Some(def), _) => (def.attrs.iter())
                .map(|a| SchemaAttr {
                    name: Symbol::new(a.name),
                    ty: a.ty,
                    default: default_value(a.default),
                })
                .collect(),
            (None, Some(user)) => (user.attrs.iter())
                .map(|(name, ty, default)| SchemaAttr {
                    name: *name,
                    ty: super::attr_type::attr_type(*ty).unwrap_or(AttrTy::Any),
                    default: default.clone(),
                })
                .collect(),
            (None, None) => Vec::new(),
        };
        let schema = Rc::new(Schema { attrs });
        self.schemas.insert(op, schema.clone());
        schema
    }

    /// Returns the attributes of a call without explicit ones, shared by all such calls of an
    /// operator.
    pub(crate) fn default_attrs(&mut self, op: OpId) -> AttrsId {
        if let Some(&id) = self.default_attrs.get(&op) {
            return id;
        }
        let schema = self.schema(op);
        let attrs: Attrs = (schema.attrs.iter())
            .map(|a| (a.name, a.default.clone().unwrap_or(AttrValue::None)))
            .collect();
        let id = self.module.make_attrs(attrs);
        self.default_attrs.insert(op, id);
        id
    }

    /// Checks and completes the attributes of an operator call.
    pub(crate) fn op_attrs(
        &mut self,
        op: OpId,
        given: ast::List<ast::AttrId>,
        shape: Option<(Symbol, Box<[Dim]>)>,
        call: Span,
        name: &str,
    ) -> AttrsId {
        let schema = self.schema(op);
        if given.is_empty() && shape.is_none() {
            let missing = schema.attrs.iter().find(|a| a.default.is_none());
            if let Some(missing) = missing {
                self.missing_attr(missing.name, call, name);
            }
            return self.default_attrs(op);
        }
        let ast = self.ast;
        let mut values = self.shape_values(&schema, shape, call);
        let mut known = true;
        for a in ast.list(given) {
            let ast::Attr { key, value, span } = ast.attrs[a];
            let place = ast.exprs[value].span;
            known &= self.give(&schema, &mut values, (key, span), name, |r| {
                (r.attr_value(value), place)
            });
        }
        self.complete_attrs(op, &schema, values, known, (call, name))
    }

    /// Like [`Self::op_attrs`], for attributes that were already evaluated.
    pub(crate) fn former_attrs(
        &mut self,
        op: OpId,
        given: Vec<Given>,
        shape: Option<(Symbol, Box<[Dim]>)>,
        call: Span,
        name: &str,
    ) -> AttrsId {
        let schema = self.schema(op);
        let mut values = self.shape_values(&schema, shape, call);
        let mut known = true;
        for g in given {
            let Given {
                key,
                value,
                span,
                place,
            } = g;
            known &= self.give(&schema, &mut values, (key, span), name, |_| (value, place));
        }
        self.complete_attrs(op, &schema, values, known, (call, name))
    }

    /// Returns the values of a schema, with those implied by a `shape(…)` argument.
    fn shape_values(
        &self,
        schema: &Schema,
        shape: Option<(Symbol, Box<[Dim]>)>,
        call: Span,
    ) -> Values {
        let mut values: Values = vec![None; schema.attrs.len()];
        if let Some((key, dims)) = shape {
            let at = |key: &str| schema.attrs.iter().position(|s| s.name == key);
            // In a shape, 0 is an ordinary extent.
            if let Some(i) = at("allowzero").filter(|_| dims.contains(&Dim::ZERO)) {
                values[i] = Some((AttrValue::Bool(true), call));
            }
            if let Some(i) = at(key.as_str()) {
                values[i] = Some((
                    AttrValue::array(dims.iter().cloned().map(AttrValue::dim)),
                    call,
                ));
            }
        }
        values
    }

    /// Adds one attribute; returns whether the operator has it.
    fn give(
        &mut self,
        schema: &Schema,
        values: &mut Values,
        (key, span): (Symbol, Span),
        name: &str,
        value: impl FnOnce(&mut Self) -> (Option<AttrValue>, Span),
    ) -> bool {
        let Some(i) = schema.attrs.iter().position(|s| s.name == key) else {
            // TVM's printer adds the name of the attributes' type if it does not know the operator.
            if key != "attrs_type_key" {
                self.unknown_attr(schema, key, span, name);
                return false;
            }
            return true;
        };
        if let Some((_, first)) = &values[i] {
            let message = format!("attribute `{key}` is given twice");
            let first = *first;
            let d = Diagnostic::error(codes::ATTR_PLACE, span, message);
            self.error(d.label(first, "first here"));
            return true;
        }
        let wanted = &schema.attrs[i];
        let (value, place) = value(self);
        let Some(value) = value else {
            values[i] = Some((AttrValue::None, span));
            return true;
        };
        let none_fits = value.is_none()
            && (wanted.default.as_ref().is_some_and(AttrValue::is_none)
                || !matches!(wanted.ty, AttrTy::Float | AttrTy::Bool));
        let fitted = if none_fits {
            Some(value)
        } else {
            fit(value, wanted.ty)
        };
        let fitted = fitted.filter(|v| self.referred_fit(v, wanted.ty));
        if fitted.is_none() {
            let message = format!(
                "attribute `{key}` of `{name}` must be {}",
                type_name(wanted.ty)
            );
            self.error(Diagnostic::error(codes::ATTR_TYPE, place, message));
        }
        values[i] = Some((fitted.unwrap_or(AttrValue::None), span));
        true
    }

    /// Completes the attributes of a call with defaults.
    fn complete_attrs(
        &mut self,
        op: OpId,
        schema: &Schema,
        values: Values,
        known: bool,
        (call, name): (Span, &str),
    ) -> AttrsId {
        // The call is the next node: its callee and arguments already exist.
        let call_id = self.module.exprs.next_id();
        for (a, value) in schema.attrs.iter().zip(&values) {
            if let Some((_, place)) = value {
                self.module.attr_spans.push((call_id, a.name, *place));
            }
        }
        let mut attrs = Vec::with_capacity(values.len());
        for (a, value) in schema.attrs.iter().zip(values) {
            let value = match (value, &a.default) {
                (Some((value, _)), _) => value,
                (None, Some(default)) => default.clone(),
                (None, None) => {
                    // An unknown attribute may be a misspelling of this one.
                    if known {
                        self.missing_attr(a.name, call, name);
                    }
                    AttrValue::None
                }
            };
            attrs.push((a.name, value));
        }
        let attrs: Attrs = attrs.into_iter().collect();
        // Equal attributes are shared between calls: often those of the previous call.
        let last = self.last_attrs.entry(op).or_insert(AttrsId::NONE);
        if !self.module.attrs(*last).same_spelling(&attrs) {
            *last = self.module.make_attrs(attrs);
        }
        *last
    }

    fn missing_attr(&mut self, attr: Symbol, call: Span, name: &str) {
        let message = format!("`{name}` needs the attribute `{attr}`");
        let d = Diagnostic::error(codes::MISSING_ATTR, call, message)
            .primary(format!("`{attr}=…` is missing among the arguments"));
        self.error(d);
    }

    pub(crate) fn unknown_attr(&mut self, schema: &Schema, key: Symbol, span: Span, name: &str) {
        let place = Span::new(span.start, span.start + key.as_str().len() as u32);
        let message = format!("`{name}` has no attribute `{key}`");
        let d = Diagnostic::error(codes::UNKNOWN_ATTR, place, message);
        let names = || schema.attrs.iter().map(|a| a.name.as_str());
        let near = same_thing(key.as_str(), names()).or_else(|| self.near(key, names()));
        let d = if let Some(near) = near {
            d.suggest(format!("did you mean `{near}`?"), place, near)
        } else if schema.attrs.is_empty() {
            d.note("it has no attributes")
        } else {
            let list: Vec<&str> = names().collect();
            d.note(format!("it has {}", list.join(", ")))
        };
        self.error(d);
    }

    /// Evaluates attributes without a schema (of functions, of calls to functions).
    pub(crate) fn free_attrs(&mut self, given: ast::List<ast::AttrId>) -> Attrs {
        let ast = self.ast;
        if given.is_empty() {
            return Attrs::new();
        }
        let mut out: Vec<(Symbol, AttrValue)> = Vec::with_capacity(given.len());
        for a in ast.list(given) {
            let ast::Attr { key, value, span } = ast.attrs[a];
            if out.iter().any(|o| o.0 == key) {
                let message = format!("attribute `{key}` is given twice");
                self.error(Diagnostic::error(codes::ATTR_PLACE, span, message));
                continue;
            }
            if let Some(value) = self.attr_value(value) {
                out.push((key, value));
            }
        }
        out.into_iter().collect()
    }

    /// Evaluates an attribute value; `None` after an error.
    pub(crate) fn attr_value(&mut self, e: ast::ExprId) -> Option<AttrValue> {
        let mut good = true;
        if let Some(v) = self.flat_attr(e, &mut good) {
            return good.then_some(v);
        }
        let ast = self.ast;
        let mut steps = vec![Step::Look(e, 0)];
        let mut done: Vec<AttrValue> = Vec::new();
        while let Some(step) = steps.pop() {
            match step {
                Step::Look(e, depth) => {
                    if let Some(v) = self.flat_attr(e, &mut good) {
                        done.push(v);
                        continue;
                    }
                    if depth > DEEPEST {
                        good = false;
                        done.push(AttrValue::None);
                        let (span, message) = (
                            ast.exprs[e].span,
                            "the lists of an attribute nest too deeply",
                        );
                        self.error(Diagnostic::error(codes::ATTR_TYPE, span, message));
                        continue;
                    }
                    let look = |e| Step::Look(e, depth + 1);
                    match ast.exprs[e].kind {
                        ExprKind::Paren(inner, _) => steps.push(Step::Look(inner, depth)),
                        ExprKind::List(items) | ExprKind::Tuple(items) => {
                            steps.push(Step::Finish(e, done.len()));
                            steps.extend(ast.list(items).rev().map(look));
                        }
                        ExprKind::Map(items) => {
                            steps.push(Step::Finish(e, done.len()));
                            steps.extend((ast.list(items).rev()).map(|a| look(ast.attrs[a].value)));
                        }
                        ExprKind::Binary { lhs, rhs, .. } => {
                            steps.push(Step::Finish(e, done.len()));
                            // The chain yields a single value, however long it is.
                            steps.push(Step::Look(rhs, depth));
                            steps.push(Step::Look(lhs, depth));
                        }
                        _ => unreachable!("only forms with parts have parts"),
                    }
                }
                Step::Finish(e, base) => {
                    let v = match ast.exprs[e].kind {
                        ExprKind::Map(items) => {
                            let keys = ast.list(items).map(|a| ast.attrs[a].key);
                            AttrValue::Dict(keys.zip(done.drain(base..)).collect())
                        }
                        ExprKind::Binary { op, .. } => {
                            let v = self.attr_arith(op, &done[base..], ast.exprs[e].span);
                            good &= v.is_some();
                            done.truncate(base);
                            v.unwrap_or(AttrValue::None)
                        }
                        _ => AttrValue::Array(done.drain(base..).collect()),
                    };
                    done.push(v);
                }
            }
        }
        done.pop().filter(|_| good)
    }

    /// Evaluates arithmetic on dimensions, `newshape=[n * 2, 4]`.
    fn attr_arith(&mut self, op: BinOp, parts: &[AttrValue], span: Span) -> Option<AttrValue> {
        let value = match (parts[0].as_dim(), parts[1].as_dim(), op) {
            (Some(a), Some(b), BinOp::Add) => Some(&a + &b),
            (Some(a), Some(b), BinOp::Sub) => Some(&a - &b),
            (Some(a), Some(b), BinOp::Mul) => Some(&a * &b),
            (Some(a), Some(b), BinOp::FloorDiv) => Some(a.floordiv(&b)),
            (Some(a), Some(b), BinOp::Mod) => Some(a.modulo(&b)),
            _ => None,
        };
        let value = value.filter(|d| d.error().is_none());
        if value.is_none() {
            let message = "this is no dimension: attributes know `+ - * // %` on dimensions";
            self.error(Diagnostic::error(codes::ATTR_TYPE, span, message));
        }
        value.map(AttrValue::dim)
    }

    /// Evaluates a value without parts; `None` for composite values.
    fn flat_attr(&mut self, e: ast::ExprId, good: &mut bool) -> Option<AttrValue> {
        let ast::Expr { kind, span } = self.ast.exprs[e];
        Some(match kind {
            ExprKind::Int {
                value,
                suffix: ast::NumSuffix::I(64),
            } => AttrValue::Dim(Dim::wide(value)),
            ExprKind::Int { value, .. } => AttrValue::Int(value),
            ExprKind::Float { value, .. } => AttrValue::Float(value),
            ExprKind::Bool(b) => AttrValue::Bool(b),
            ExprKind::Str(s) => AttrValue::Str(s.as_str().into()),
            ExprKind::Meta { key, index } => self.meta_attr(key, index, span, good),
            ExprKind::Name(name) => {
                match name.as_str() {
                    "None" | "nullptr" => AttrValue::None,
                    "?" => AttrValue::Dim(Dim::ANY),
                    _ => {
                        if let Some(TypeName::Dim(var)) = self.scopes.type_name(name) {
                            AttrValue::Dim(Dim::var(var))
                        } else if self.referred(name).is_some() {
                            AttrValue::Attr(name)
                        } else if let Some(dtype) = self.dtype(name) {
                            AttrValue::DType(dtype)
                        } else {
                            *good = false;
                            if self.first_report('n', name) {
                                let message = format!("`{name}` is no value of an attribute");
                                let d = Diagnostic::error(codes::ATTR_TYPE, span, message)
                                .note("names here are dimension variables, element types and `None`")
                                .suggest("a string", span, format!("\"{name}\""));
                                self.error(d);
                            }
                            AttrValue::None
                        }
                    }
                }
            }
            ExprKind::Paren(..)
            | ExprKind::List(_)
            | ExprKind::Tuple(_)
            | ExprKind::Map(_)
            | ExprKind::Binary { .. } => return None,
            ExprKind::Error => {
                *good = false;
                AttrValue::None
            }
            _ => {
                *good = false;
                let message =
                    "attributes are constants: numbers, strings, lists, dimensions, element types";
                self.error(Diagnostic::error(codes::ATTR_TYPE, span, message));
                AttrValue::None
            }
        })
    }
}
