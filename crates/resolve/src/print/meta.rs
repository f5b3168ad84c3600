//! Writing of the metadata section: TVM's JSON graph of nodes, with tensors in base64.
//!
//! A graph is a list of nodes; node 1 is the map from type keys to arrays, whose items
//! `meta[key][i]` refers to. References between nodes are list indices, as strings where they occur
//! among attributes.

use std::fmt::Write;

use relax_base::Symbol;
use relax_ir::{AttrValue, AttrsId, ConstId, Module, OpId};
use relax_ops::{AttrTy, OpDef};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::constant::CONSTANT;

/// The objects that the text refers to.
pub(super) struct MetaWriter<'a> {
    /// The section that the module was read with.
    raw: Option<&'a str>,
    /// Whether an object of that section is still referenced.
    keeps: bool,
    /// The number of objects of each key in that section, if it is kept.
    kept_len: FxHashMap<Symbol, u32>,
    /// The number of indices taken by placeholder constants.
    stubs: u32,
    /// The constants after these; `None` where one is elided.
    consts: Vec<Option<ConstId>>,
    const_index: FxHashMap<ConstId, u32>,
    attrs: Vec<(&'static str, Vec<(OpId, AttrsId)>)>,
    attr_index: FxHashMap<(&'static str, AttrsId), u32>,
}

impl<'a> MetaWriter<'a> {
    pub(super) fn new(raw: Option<&'a str>, stubs: u32) -> MetaWriter<'a> {
        MetaWriter {
            raw,
            keeps: false,
            kept_len: FxHashMap::default(),
            stubs,
            consts: Vec::new(),
            const_index: FxHashMap::default(),
            attrs: Vec::new(),
            attr_index: FxHashMap::default(),
        }
    }

    /// Returns the constants so far, including elided ones.
    pub(super) fn constants(&self) -> Vec<ConstId> {
        self.consts.iter().flatten().copied().collect()
    }

    /// Returns the index of a constant, which is added to the section unless elided.
    pub(super) fn constant(&mut self, id: ConstId, left_out: bool) -> u32 {
        let next = self.stubs + self.consts.len() as u32;
        *self.const_index.entry(id).or_insert_with(|| {
            self.consts.push((!left_out).then_some(id));
            next
        })
    }

    /// Returns the index of a call's attributes among the objects of that key.
    pub(super) fn attrs(&mut self, key: &'static str, op: OpId, attrs: AttrsId) -> u32 {
        if let Some(&index) = self.attr_index.get(&(key, attrs)) {
            return index;
        }
        let list = match self.attrs.iter().position(|(k, _)| *k == key) {
            Some(i) => &mut self.attrs[i].1,
            None => {
                self.attrs.push((key, Vec::new()));
                &mut self.attrs.last_mut().expect("just pushed").1
            }
        };
        let before = self.kept_len.get(&Symbol::new(key)).copied();
        let index = before.unwrap_or(0) + list.len() as u32;
        list.push((op, attrs));
        self.attr_index.insert((key, attrs), index);
        index
    }

    /// Returns the index of an object that is written as it was read.
    pub(super) fn kept(&mut self, _key: Symbol, index: u32) -> u32 {
        self.keeps |= self.raw.is_some();
        index
    }

    /// Returns the JSON text; `None` if nothing refers to it.
    pub(super) fn finish(
        self,
        m: &Module,
        schema: &dyn Fn(OpId) -> Option<&'static OpDef>,
    ) -> Option<String> {
        let no_consts = self.consts.iter().all(Option::is_none);
        if no_consts && self.attrs.is_empty() && !self.keeps {
            return None;
        }
        let mut graph = Graph::default();
        let mut old: Vec<(String, Vec<u64>)> = Vec::new();
        if self.keeps
            && let Some(raw) = self.raw
        {
            old = graph.load(raw).unwrap_or_default();
        }
        if graph.nodes.is_empty() {
            // Node 0 is null; node 1 is the map.
            graph.nodes = vec![Node::bare(""), Node::bare("Map")];
        }
        let mut entries: Vec<(String, Vec<usize>)> = Vec::new();
        for (key, items) in old {
            if key != CONSTANT {
                entries.push((key, items.into_iter().map(|i| i as usize).collect()));
            }
        }
        for (key, list) in &self.attrs {
            let mut items = Vec::new();
            for &(op, attrs) in list {
                items.push(graph.attrs(key, schema(op), m.attrs(attrs)));
            }
            match entries.iter_mut().find(|(k, _)| k == key) {
                Some((_, old)) => old.extend(items),
                None => entries.push(((*key).to_owned(), items)),
            }
        }
        if !no_consts {
            let device = graph.device();
            // Missing constants become null.
            let mut items = vec![0; self.stubs as usize];
            for id in &self.consts {
                items.push(id.map_or(0, |c| graph.constant(&m.consts[c], device)));
            }
            entries.push((CONSTANT.to_owned(), items));
        }
        Some(graph.finish(entries))
    }
}

/// A node of the graph.
struct Node {
    type_key: String,
    /// Everything else, as JSON text after the type key.
    rest: String,
}

impl Node {
    fn bare(type_key: &str) -> Node {
        Node {
            type_key: type_key.to_owned(),
            rest: String::new(),
        }
    }
}

#[derive(Default)]
struct Graph {
    nodes: Vec<Node>,
    arrays: Vec<String>,
    device: Option<usize>,
}

impl Graph {
    fn push(&mut self, type_key: &str, rest: String) -> usize {
        let type_key = type_key.to_owned();
        self.nodes.push(Node { type_key, rest });
        self.nodes.len() - 1
    }

    /// Starts from the graph of the section that was read; returns its entries.
    fn load(&mut self, raw: &str) -> Option<Vec<(String, Vec<u64>)>> {
        let json: Value = serde_json::from_str(raw).ok()?;
        let nodes = json.get("nodes")?.as_array()?;
        let root = json.get("root")?.as_u64()? as usize;
        if root != 1 {
            return None;
        }
        let numbers =
            |v: &Value| -> Option<Vec<u64>> { v.as_array()?.iter().map(Value::as_u64).collect() };
        let map = nodes.get(root)?;
        let (keys, data) = (map.get("keys")?.as_array()?, numbers(map.get("data")?)?);
        let mut entries = Vec::new();
        for (key, &item) in keys.iter().zip(&data) {
            let items = nodes.get(item as usize)?.get("data");
            let items = items.and_then(numbers).unwrap_or_default();
            entries.push((key.as_str()?.to_owned(), items));
        }
        for node in nodes {
            let mut rest = String::new();
            for (key, value) in node.as_object()? {
                if key != "type_key" {
                    let _ = write!(rest, ", \n      {}: {value}", quote(key));
                }
            }
            self.push(node.get("type_key")?.as_str()?, rest);
        }
        if let Some(arrays) = json.get("b64ndarrays").and_then(Value::as_array) {
            for a in arrays {
                self.arrays.push(a.as_str()?.to_owned());
            }
        }
        Some(entries)
    }

    /// Adds a node with attributes; TVM writes them sorted by name.
    fn with_attrs(&mut self, type_key: &str, attrs: &[(&str, String)]) -> usize {
        let mut rest = String::from(", \n      \"attrs\": {");
        let mut sorted: Vec<_> = attrs.iter().collect();
        sorted.sort_by_key(|(name, _)| *name);
        for (i, (name, value)) in sorted.into_iter().enumerate() {
            rest.push_str(if i == 0 { "\n" } else { ", \n" });
            let _ = write!(rest, "        {}: {}", quote(name), quote(value));
        }
        rest.push_str("\n      }");
        self.push(type_key, rest)
    }

    fn array(&mut self, type_key: &str, items: &[usize]) -> usize {
        let rest = format!(", \n      \"data\": {}", index_list(items));
        self.push(type_key, rest)
    }

    fn string(&mut self, text: &str) -> usize {
        let rest = format!(", \n      \"repr_str\": {}", quote(text));
        self.push("runtime.String", rest)
    }

    fn int(&mut self, value: i64) -> usize {
        let (dtype, value) = ("int32".to_owned(), value.to_string());
        let attrs = [("dtype", dtype), ("span", "0".into()), ("value", value)];
        self.with_attrs("IntImm", &attrs)
    }

    fn float(&mut self, value: f64) -> usize {
        let (dtype, value) = ("float32".to_owned(), value.to_string());
        let attrs = [("dtype", dtype), ("span", "0".into()), ("value", value)];
        self.with_attrs("FloatImm", &attrs)
    }

    /// Returns the device of constants without a particular one.
    fn device(&mut self) -> usize {
        if let Some(device) = self.device {
            return device;
        }
        let scope = self.push("runtime.String", String::new());
        let attrs = [
            ("device_type_int", "-1".to_owned()),
            ("memory_scope", scope.to_string()),
            ("target", "0".to_owned()),
            ("virtual_device_id", "-1".to_owned()),
        ];
        let device = self.with_attrs("VirtualDevice", &attrs);
        self.device = Some(device);
        device
    }

    fn constant(&mut self, t: &Tensor, device: usize) -> usize {
        self.arrays.push(encode(t));
        let attrs = [
            ("_checked_type_", "0".to_owned()),
            ("data", (self.arrays.len() - 1).to_string()),
            ("span", "0".to_owned()),
            ("virtual_device_", device.to_string()),
        ];
        self.with_attrs(CONSTANT, &attrs)
    }

    /// Adds the attributes of a call. Numbers, booleans and element types are written inline, as
    /// TVM serialises C++ values; lists and optional values are separate nodes. The reader uses the
    /// same table.
    fn attrs(
        &mut self,
        key: &str,
        schema: Option<&'static OpDef>,
        attrs: &relax_ir::Attrs,
    ) -> usize {
        let mut fields = Vec::new();
        for (name, value) in attrs.iter() {
            let by_type = || schema.and_then(|d| d.attr(name.as_str()));
            let by_node = relax_tvm::is_reference(key, name.as_str())
                .unwrap_or_else(|| by_type().is_some_and(|a| is_boxed(a.ty)));
            let text = match value {
                AttrValue::Bool(b) if !by_node => u8::from(*b).to_string(),
                AttrValue::Int(i) if !by_node => i.to_string(),
                AttrValue::Float(x) if !by_node => x.to_string(),
                AttrValue::Str(s) if !by_node => s.to_string(),
                AttrValue::DType(d) => d.to_string(),
                value => self.value(value).to_string(),
            };
            fields.push((name.as_str(), text));
        }
        self.with_attrs(key, &fields)
    }

    /// Adds a value that [is one](is_node) as a node of its own. The nesting of lists is bounded by the schemas.
    fn value(&mut self, value: &AttrValue) -> usize {
        match value {
            AttrValue::None | AttrValue::Meta(..) | AttrValue::Attr(_) => 0,
            AttrValue::Bool(b) => self.int((*b).into()),
            AttrValue::Int(i) => self.int(*i),
            AttrValue::Float(x) => self.float(*x),
            AttrValue::Str(s) => self.string(s),
            AttrValue::DType(d) => self.string(&d.to_string()),
            AttrValue::Dim(d) if d.is_wide() => {
                let attrs = [
                    ("dtype", "int64".to_owned()),
                    ("span", "0".to_owned()),
                    ("value", d.as_const().unwrap_or_default().to_string()),
                ];
                self.with_attrs("IntImm", &attrs)
            }
            AttrValue::Dim(_) => {
                let attrs = [("dtype", "int32".to_owned()), ("span", "0".to_owned())];
                self.with_attrs("tir.Any", &attrs)
            }
            AttrValue::Array(items) => {
                let items: Vec<_> = items.iter().map(|v| self.value(v)).collect();
                self.array("Array", &items)
            }
            AttrValue::Dict(items) => {
                let keys: Vec<_> = items.iter().map(|(k, _)| quote(k.as_str())).collect();
                let data: Vec<_> = items.iter().map(|(_, v)| self.value(v)).collect();
                let rest = format!(
                    ", \n      \"keys\": [{}], \n      \"data\": {}",
                    keys.join(", "),
                    index_list(&data)
                );
                self.push("Map", rest)
            }
        }
    }

    fn finish(mut self, entries: Vec<(String, Vec<usize>)>) -> String {
        let (mut keys, mut data) = (String::new(), Vec::new());
        for (i, (key, items)) in entries.iter().enumerate() {
            keys.push_str(if i == 0 { "\n" } else { ", \n" });
            let _ = write!(keys, "        {}", quote(key));
            data.push(self.array("Array", items));
        }
        self.nodes[1].rest = format!(
            ", \n      \"keys\": [{keys}\n      ], \n      \"data\": {}",
            index_list(&data)
        );
        let size: usize = self.arrays.iter().map(|a| a.len() + 16).sum();
        let mut out = String::with_capacity(size + self.nodes.len() * 160);
        out.push_str("{\n  \"root\": 1, \n  \"nodes\": [\n");
        for (i, node) in self.nodes.iter().enumerate() {
            if i > 0 {
                out.push_str(", \n");
            }
            let key = quote(&node.type_key);
            let _ = write!(
                out,
                "    {{\n      \"type_key\": {key}{}\n    }}",
                node.rest
            );
        }
        out.push_str("\n  ], \n  \"b64ndarrays\": [");
        for (i, array) in self.arrays.iter().enumerate() {
            out.push_str(if i == 0 { "\n" } else { ", \n" });
            out.push_str("    \"");
            out.push_str(array);
            out.push('"');
        }
        out.push_str(if self.arrays.is_empty() { "]" } else { "\n  ]" });
        out.push_str(", \n  \"attrs\": {\"tvm_version\": \"0.12.0\"}\n}");
        out
    }
}

/// Returns whether a node can hold a value, and not only that there is one: a reference into the
/// metadata, or a dimension that is no number, have none.
pub(super) fn is_node(value: &AttrValue) -> bool {
    let mut work = vec![value];
    while let Some(value) = work.pop() {
        match value {
            AttrValue::Meta(..) | AttrValue::Attr(_) => return false,
            AttrValue::Dim(d) if !d.is_wide() && !d.is_any() => return false,
            AttrValue::Array(items) => work.extend(items.iter()),
            AttrValue::Dict(items) => work.extend(items.iter().map(|(_, v)| v)),
            _ => {}
        }
    }
    true
}

/// Returns whether TVM represents an attribute of this type as a node.
fn is_boxed(ty: AttrTy) -> bool {
    !matches!(
        ty,
        AttrTy::Int | AttrTy::Float | AttrTy::Bool | AttrTy::Str | AttrTy::DType | AttrTy::DTypes
    )
}

fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

fn index_list(items: &[usize]) -> String {
    let items: Vec<_> = items.iter().map(usize::to_string).collect();
    format!("[{}]", items.join(", "))
}

/// Encodes a tensor in TVM's NDArray serialisation, in base64.
fn encode(t: &Tensor) -> String {
    let data = t.bytes();
    let mut bytes = relax_tvm::tensor::write_header(t.dtype(), t.shape(), data.len());
    bytes.extend_from_slice(data);
    base64_simd::STANDARD.encode_to_string(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_serialised_as_tvm_does() {
        // Taken from a text printed by TVM 0.12.
        let t = Tensor::from_slice(&[3], &[1f32, 2.0, 3.0]);
        assert_eq!(
            encode(&t),
            "P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAQAAAAIgAQADAAAAAAAAAAwAAAAAAAAAAACAPwAAAEAAAEBA"
        );
    }

    #[test]
    fn the_section_is_json_whose_references_hold() {
        let mut m = Module::new();
        let id = m.consts.push(Tensor::from_slice(&[2], &[1i64, 2]));
        let mut meta = MetaWriter::new(None, 0);
        assert_eq!(meta.constant(id, false), 0);
        assert_eq!(meta.constant(id, false), 0);
        let text = meta.finish(&m, &|_| None).expect("a section");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let nodes = json["nodes"].as_array().expect("nodes");
        let list = nodes[1]["data"][0].as_u64().expect("an index") as usize;
        let constant = nodes[list]["data"][0].as_u64().expect("an index") as usize;
        assert_eq!(nodes[constant]["type_key"], CONSTANT);
        assert_eq!(nodes[constant]["attrs"]["data"], "0");
        assert_eq!(json["b64ndarrays"].as_array().map(Vec::len), Some(1));
    }
}
