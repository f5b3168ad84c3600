//! The metadata section: TVM's object graph as JSON, tensors in base64.
//!
//! `{"root": 1, "nodes": [{"type_key", "attrs", "keys", "data", "repr_str"}], "b64ndarrays":
//! […]}`: node 0 is null, the root a map from type keys to arrays of objects. Tensors are decoded
//! on demand.

use std::borrow::Cow;
use std::sync::Arc;

use relax_base::{Diagnostic, Severity, Span, Symbol};
use relax_ir::{AttrValue, Attrs, AttrsId, ConstId, Expr, ExprId, OpId};
use relax_ops::AttrTy;
use relax_sym::Dim;
use relax_syntax::ast::{self, ExprKind, VERBATIM};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::Resolver;
use super::absent::{fill, stub};
use super::attrs::fit;
use super::ndarray::decode_tensor;
use crate::codes;
use crate::options::Stubs;

/// The key of constants.
const CONSTANT: &str = "relay.Constant";

/// A JSON string, borrowed if it has no escapes.
#[derive(Deserialize, Debug)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize, Debug, Default)]
struct Node<'a> {
    #[serde(borrow, default)]
    type_key: Cow<'a, str>,
    #[serde(borrow, default)]
    attrs: FxHashMap<Cow<'a, str>, Text<'a>>,
    #[serde(borrow, default)]
    keys: Vec<Text<'a>>,
    #[serde(default)]
    data: Vec<usize>,
    #[serde(borrow, default)]
    repr_str: Option<Text<'a>>,
}

#[derive(Deserialize, Debug)]
struct Graph<'a> {
    root: usize,
    #[serde(borrow)]
    nodes: Vec<Node<'a>>,
    #[serde(borrow, default)]
    b64ndarrays: Vec<Text<'a>>,
}

/// The parsed metadata section of a file.
#[derive(Debug)]
pub(crate) struct MetaTable<'a> {
    graph: Graph<'a>,
    lists: FxHashMap<Symbol, Vec<usize>>,
    /// Decoded constants, by index.
    constants: FxHashMap<u32, Option<ConstId>>,
}

impl<'a> MetaTable<'a> {
    fn new(graph: Graph<'a>) -> Option<MetaTable<'a>> {
        let root = graph.nodes.get(graph.root)?;
        let mut lists = FxHashMap::default();
        for (key, &list) in root.keys.iter().zip(&root.data) {
            let list = graph.nodes.get(list)?;
            lists.insert(Symbol::new(&key.0), list.data.clone());
        }
        Some(MetaTable {
            graph,
            lists,
            constants: FxHashMap::default(),
        })
    }

    fn node(&self, key: Symbol, index: u32) -> Option<&Node<'a>> {
        let at = *self.lists.get(&key)?.get(index as usize)?;
        self.graph.nodes.get(at)
    }

    /// Decodes the tensor of a `relay.Constant`.
    fn tensor(&self, node: &Node<'a>) -> Result<Tensor, String> {
        let index: Option<usize> = node.attrs.get("data").and_then(|t| t.0.parse().ok());
        let text = index.and_then(|i| self.graph.b64ndarrays.get(i));
        let text = text.ok_or("the constant refers to no tensor of the section")?;
        decode_tensor(&text.0)
    }

    /// Returns the node that an attribute's text refers to.
    fn referred(&self, text: &str) -> Option<&Node<'a>> {
        self.graph.nodes.get(text.parse::<usize>().ok()?)
    }

    /// Converts a node to a dimension: integers and arithmetic of TIR.
    fn dim(&self, index: usize) -> Option<Dim> {
        // Operands should follow their operator, which a malicious section may violate: a step
        // budget bounds cycles.
        enum Step {
            Look(usize),
            Finish(usize),
        }
        let mut steps = vec![Step::Look(index)];
        let mut done: Vec<Dim> = Vec::new();
        let mut budget = 10_000;
        while let Some(step) = steps.pop() {
            budget -= 1;
            if budget == 0 {
                return None;
            }
            match step {
                Step::Look(i) => {
                    let node = self.graph.nodes.get(i)?;
                    match &*node.type_key {
                        "IntImm" => done.push(int_dim(node, int_imm(node)?)),
                        "tir.Any" => done.push(Dim::ANY),
                        "tir.Add" | "tir.Sub" | "tir.Mul" | "tir.FloorDiv" | "tir.FloorMod"
                        | "tir.Div" | "tir.Mod" | "tir.Min" | "tir.Max" => {
                            let operand = |k: &str| node.attrs.get(k)?.0.parse().ok();
                            steps.push(Step::Finish(i));
                            steps.push(Step::Look(operand("b")?));
                            steps.push(Step::Look(operand("a")?));
                        }
                        _ => return None,
                    }
                }
                Step::Finish(i) => {
                    let (b, a) = (done.pop()?, done.pop()?);
                    done.push(match &*self.graph.nodes.get(i)?.type_key {
                        "tir.Add" => &a + &b,
                        "tir.Sub" => &a - &b,
                        "tir.Mul" => &a * &b,
                        "tir.FloorDiv" | "tir.Div" => a.floordiv(&b),
                        "tir.FloorMod" | "tir.Mod" => a.modulo(&b),
                        "tir.Min" => a.min(&b),
                        _ => a.max(&b),
                    });
                }
            }
        }
        done.pop()
    }

    /// Returns an attribute value of an attributes object, converted to its declared type.
    /// `by_node` says whether the text is a node index, where that is known for the field.
    fn attr(
        &self,
        text: &str,
        ty: AttrTy,
        default: Option<&AttrValue>,
        by_node: Option<bool>,
    ) -> Option<AttrValue> {
        if let (Some(true), Ok(index)) = (by_node, text.parse()) {
            let value = self.object(index, 8)?;
            return if value.is_none() {
                Some(value)
            } else {
                fit(value, ty)
            };
        }
        let none = default.is_some_and(AttrValue::is_none);
        let referred = self.referred(text).filter(|_| by_node.is_none());
        let null = text == "0" && none;
        match ty {
            AttrTy::Str | AttrTy::DType | AttrTy::DTypes => {
                let text = match referred {
                    Some(n) if n.type_key == "runtime.String" => {
                        n.repr_str.as_ref().map_or("", |t| &t.0)
                    }
                    _ => text,
                };
                if ty != AttrTy::Str {
                    return text.parse().ok().map(AttrValue::DType);
                }
                Some(AttrValue::Str(text.into()))
            }
            AttrTy::Float => text.parse().ok().map(AttrValue::Float),
            AttrTy::Bool => text.parse::<i64>().ok().map(|v| AttrValue::Bool(v != 0)),
            _ if null => Some(AttrValue::None),
            AttrTy::Int => match referred {
                Some(n) if n.type_key == "IntImm" => int_imm(n).map(AttrValue::Int),
                _ => text.parse().ok().map(AttrValue::Int),
            },
            _ => self.object(text.parse().ok()?, 8),
        }
    }

    /// Converts an object to a value; `None` beyond nesting depth `depth`.
    fn object(&self, index: usize, depth: u32) -> Option<AttrValue> {
        let node = self.graph.nodes.get(index)?;
        Some(match &*node.type_key {
            "" => AttrValue::None,
            "IntImm" => {
                let v = int_imm(node)?;
                if node.attrs.get("dtype").is_some_and(|t| t.0 == "bool") {
                    AttrValue::Bool(v != 0)
                } else {
                    AttrValue::dim(int_dim(node, v))
                }
            }
            "FloatImm" => AttrValue::Float(node.attrs.get("value")?.0.parse().ok()?),
            "runtime.String" => AttrValue::Str(node.repr_str.as_ref().map_or("", |t| &t.0).into()),
            "Array" if depth > 0 => {
                let items: Option<Arc<[AttrValue]>> = node
                    .data
                    .iter()
                    .map(|&i| self.object(i, depth - 1))
                    .collect();
                AttrValue::Array(items?)
            }
            _ => AttrValue::dim(self.dim(index)?),
        })
    }
}

/// Converts an integer node, preserving its width.
fn int_dim(node: &Node<'_>, value: i64) -> Dim {
    match node.attrs.get("dtype") {
        Some(t) if t.0 == "int64" => Dim::wide(value),
        _ => Dim::from(value),
    }
}

fn int_imm(node: &Node<'_>) -> Option<i64> {
    node.attrs.get("value")?.0.parse().ok()
}

impl Resolver<'_> {
    /// Parses the file's metadata section, if it has one.
    pub(crate) fn metadata_section(&mut self) {
        let (text, span) = match (&self.ast.metadata_text, self.ast.metadata) {
            (Some(text), _) => (text.as_str(), self.file.span().at_end()),
            (None, Some(span)) => (self.file.slice(span), span),
            (None, None) => return,
        };
        let mut parser = serde_json::Deserializer::from_str(text);
        match Graph::deserialize(&mut parser) {
            Ok(graph) => match MetaTable::new(graph) {
                Some(table) => {
                    if table.lists.keys().any(|k| *k != CONSTANT) {
                        self.module.metadata.raw = Some(text.into());
                    }
                    self.meta = Some(table);
                }
                None => self.bad_metadata(span, "its root is not a map of lists"),
            },
            Err(e) => {
                let at = offset(text, e.line(), e.column());
                let at = (span.start + at).min(span.end);
                let place = Span::new(at, at);
                self.bad_metadata(place, &e.to_string());
            }
        }
    }

    fn bad_metadata(&mut self, span: Span, why: &str) {
        self.meta_failed = true;
        let d = Diagnostic::error(codes::METADATA, span, "the metadata section cannot be read");
        self.error(d.primary(why));
    }

    /// Resolves `meta[key][index]` as an expression.
    pub(crate) fn meta_expr(&mut self, key: Symbol, index: u32, span: Span) -> ExprId {
        if index == VERBATIM {
            let message = "this is the value of an attribute, not an expression";
            self.error(Diagnostic::error(codes::META_REF, span, message));
            return self.error_expr(span);
        }
        if key != CONSTANT {
            if self.meta_entry(key, index, span) {
                let message = format!("`meta[{key}][{index}]` is no expression");
                self.error(Diagnostic::error(codes::META_REF, span, message));
            }
            return self.error_expr(span);
        }
        if let Some(known) = self.given_constant(index) {
            return self.const_expr(Some(known), span);
        }
        if let Some(table) = &self.meta
            && let Some(&known) = table.constants.get(&index)
        {
            return self.const_expr(known, span);
        }
        if !self.meta_failed && self.lacks_constant(index) {
            if self.options.stub_constants.is_some() {
                return self.stub_constant(index, span);
            }
            self.missing.push(span);
            return self.error_expr(span);
        }
        if !self.meta_entry(key, index, span) {
            return self.error_expr(span);
        }
        let Some(table) = &self.meta else {
            return self.error_expr(span);
        };
        let decoded = match table.node(key, index) {
            Some(node) => table.tensor(node),
            None => Err("the section has no such node".to_owned()),
        };
        let id = match decoded {
            Ok(tensor) => Some(self.module.consts.push(tensor)),
            Err(why) => {
                let message = format!("`meta[{key}][{index}]` cannot be read");
                let d = Diagnostic::error(codes::METADATA, span, message).primary(why);
                self.error(d);
                None
            }
        };
        if let Some(table) = &mut self.meta {
            table.constants.insert(index, id);
        }
        self.const_expr(id, span)
    }

    /// Returns whether the section is missing, or has no constant at this index.
    fn lacks_constant(&self, index: u32) -> bool {
        let Some(table) = &self.meta else { return true };
        let list = table.lists.get(&Symbol::new(CONSTANT));
        list.and_then(|l| l.get(index as usize)) == Some(&0)
    }

    fn const_expr(&mut self, id: Option<ConstId>, span: Span) -> ExprId {
        match id {
            Some(id) => {
                let span = self.at(span);
                self.module.add(Expr::Const(id), span)
            }
            None => self.error_expr(span),
        }
    }

    /// Returns whether the section has this entry; reports an error otherwise.
    fn meta_entry(&mut self, key: Symbol, index: u32, span: Span) -> bool {
        if self.meta_failed {
            return false;
        }
        let message = match &self.meta {
            None => {
                let message = "this refers to a metadata section, which the file does not have";
                if self.first_report('M', key) {
                    self.error(Diagnostic::error(codes::META_REF, span, message));
                }
                return false;
            }
            Some(table) => match table.lists.get(&key) {
                None => format!("the metadata section has nothing under `{key}`"),
                Some(list) if list.len() <= index as usize => {
                    let n = super::pattern::count(list.len(), "entry");
                    let n = n.replace("entrys", "entries");
                    format!("the metadata section has only {n} under `{key}`")
                }
                Some(_) => return true,
            },
        };
        self.error(Diagnostic::error(codes::META_REF, span, message));
        false
    }

    /// Reports all constants whose section is missing in one error, or all placeholders in one
    /// note.
    pub(crate) fn missing_constants(&mut self) {
        let awaited = self.options.stub_constants == Some(Stubs::Awaited);
        if !self.module.metadata.stubs.is_empty() && !awaited {
            let count = self.module.metadata.stubs.len();
            let made = match self.options.stub_constants {
                Some(Stubs::Random(seed)) => format!("random numbers (seed {seed})"),
                _ => "zeros".to_owned(),
            };
            let message = match count {
                1 => format!("1 constant is a placeholder: {made}"),
                n => format!("{n} constants are placeholders: {made}"),
            };
            let place = self.stub_place.unwrap_or(Span::NONE);
            self.error(Diagnostic::new(
                Severity::Note,
                codes::STUBS,
                place,
                message,
            ));
        }
        let Some(&first) = self.missing.first() else {
            return;
        };
        let message = match self.missing.len() {
            1 => "this constant stands in a metadata section, which the file does not have".into(),
            n => {
                format!("{n} constants stand in a metadata section, which the file does not have")
            }
        };
        let d = Diagnostic::error(codes::META_REF, first, message).note(
            "`--stub-constants` gives such constants placeholders of zeros, typed by the comments \
             that TVM prints after them; `--params` gives them their values",
        );
        self.error(d);
    }

    /// Returns the type in the comment that TVM prints after a position:
    /// `/* ty=Tensor[(64), float32] span=conv1:0:0 */`, `# ty=int64`, `/*Tensor[(64), float32]*/`.
    pub(crate) fn type_comment(&self, end: u32) -> Option<&str> {
        let at = end.checked_sub(self.file.start)?;
        let rest = self.file.text.get(at as usize..)?;
        let text = rest.trim_start_matches([' ', '\t', '\r', '\n', ';', ',']);
        let inside = match text.strip_prefix("/*") {
            Some(rest) => rest.split_once("*/")?.0,
            None => text.strip_prefix('#')?.lines().next()?,
        };
        let inside = inside.trim();
        let ty = inside.strip_prefix("ty=");
        let plain = inside.starts_with("Tensor[").then_some(inside);
        let ty = ty.or(plain)?;
        Some(ty.split(" span=").next().unwrap_or(ty).trim())
    }

    /// Creates a placeholder for a constant whose metadata section is missing, with the type from
    /// the comment after it.
    fn stub_constant(&mut self, index: u32, span: Span) -> ExprId {
        if let Some(&known) = self.stubs.get(&index) {
            return self.const_expr(Some(known), span);
        }
        let tensor = self.type_comment(span.end).and_then(stub);
        match tensor {
            Some(mut t) => {
                if let Some(Stubs::Random(seed)) = self.options.stub_constants {
                    fill(&mut t, seed, index);
                }
                let id = self.module.consts.push(t);
                self.stubs.insert(index, id);
                self.stub_place.get_or_insert(span);
                self.module.metadata.stubs.push((index, id));
                self.const_expr(Some(id), span)
            }
            None => {
                let message = "the type of this constant cannot be told";
                let d = Diagnostic::error(codes::META_REF, span, message).note(
                    "the metadata section is missing, and no comment such as \
                     `/* ty=Tensor[(64), float32] */` follows",
                );
                self.error(d);
                self.error_expr(span)
            }
        }
    }

    /// Resolves `meta[…]` as a dimension.
    pub(crate) fn meta_dim(&mut self, e: ast::ExprId, failed: &mut bool) -> Dim {
        let ast::Expr { kind, span } = self.ast.exprs[e];
        let ExprKind::Meta { key, index } = kind else {
            *failed = true;
            return Dim::ANY;
        };
        if !self.meta_entry(key, index, span) {
            *failed = true;
            return Dim::ANY;
        }
        let found = self.meta.as_ref().and_then(|table| {
            let at = *table.lists.get(&key)?.get(index as usize)?;
            table.dim(at)
        });
        if found.as_ref().is_some_and(Dim::is_any) {
            let marks = &mut self.module.meta_dims;
            marks.push((key, index));
            return Dim::marked_any(marks.len() as u32);
        }
        found.unwrap_or_else(|| {
            *failed = true;
            let message = format!("`meta[{key}][{index}]` is no dimension");
            self.error(Diagnostic::error(codes::META_REF, span, message));
            Dim::ANY
        })
    }

    /// Resolves `meta[…]` as an attribute value: a string, number or list; other objects by
    /// reference.
    pub(crate) fn meta_attr(
        &mut self,
        key: Symbol,
        index: u32,
        span: Span,
        good: &mut bool,
    ) -> AttrValue {
        if key == CONSTANT
            && let Some(given) = self.given_attr(key, index)
        {
            return given;
        }
        // Opaque objects, and references into a missing section, are preserved as they are. If the
        // module was read without its section, a section printed later holds only the supplied
        // constants, not those objects.
        let absent = match &self.meta {
            Some(table) => !table.lists.contains_key(&key),
            None => !self.meta_failed,
        };
        if index == VERBATIM || absent {
            return AttrValue::Meta(key, index);
        }
        if !self.meta_entry(key, index, span) {
            *good = false;
            return AttrValue::None;
        }
        let found = self.meta.as_ref().and_then(|table| {
            let at = *table.lists.get(&key)?.get(index as usize)?;
            table.object(at, 8)
        });
        found.unwrap_or(AttrValue::Meta(key, index))
    }

    /// Resolves the attributes of a call, given as an object of the section.
    pub(crate) fn meta_op_attrs(
        &mut self,
        op: OpId,
        key: Symbol,
        index: u32,
        span: Span,
        call: Span,
    ) -> AttrsId {
        if self.meta.is_none()
            && !self.meta_failed
            && let Some(found) = self.attrs_of_comment(op, call)
        {
            return found;
        }
        if self.meta.is_none()
            && !self.meta_failed
            && let Some(named) = self.attrs_by_name(op, key, index)
        {
            return named;
        }
        if !self.meta_entry(key, index, span) {
            return self.default_attrs(op);
        }
        let schema = self.schema(op);
        let Some(table) = &self.meta else {
            return self.default_attrs(op);
        };
        let Some(node) = table.node(key, index) else {
            return self.default_attrs(op);
        };
        let mut out: Vec<(Symbol, AttrValue)> = Vec::with_capacity(schema.attrs.len());
        let mut bad = None;
        for a in &schema.attrs {
            let value = match node.attrs.get(a.name.as_str()) {
                Some(text) => {
                    let by_node = relax_tvm::is_reference(key.as_str(), a.name.as_str());
                    table.attr(&text.0, a.ty, a.default.as_ref(), by_node)
                }
                None => a.default.clone(),
            };
            if value.is_none() {
                bad = Some(a.name);
            }
            out.push((a.name, value.unwrap_or(AttrValue::None)));
        }
        if let Some(name) = bad {
            let message = format!("`meta[{key}][{index}]` has no usable `{name}`");
            self.error(Diagnostic::error(codes::META_REF, span, message));
        }
        self.module.make_attrs(out.into_iter().collect::<Attrs>())
    }
}

/// Returns the byte offset of a one-based line and column.
fn offset(text: &str, line: usize, column: usize) -> u32 {
    let mut start = 0;
    for _ in 1..line {
        match text[start..].find('\n') {
            Some(i) => start += i + 1,
            None => break,
        }
    }
    let mut at = (start + column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at as u32
}
