//! Objects without a text form: they are referred to, `meta[Target][0]`, and preserved in a
//! metadata section.

use std::fmt::Write;

use relax_base::Symbol;
use rustc_hash::FxHashMap;

use crate::graph::{Graph, NodeId};
use crate::kinds::Form;
use crate::names::kind;

/// The objects referenced so far, by kind.
#[derive(Default)]
pub(crate) struct Objects {
    lists: Vec<(Symbol, Vec<NodeId>)>,
    known: FxHashMap<NodeId, (Symbol, u32)>,
}

impl Objects {
    /// Returns the reference to an object.
    pub(crate) fn refer(&mut self, g: &Graph<'_>, id: NodeId) -> (Symbol, u32) {
        if let Some(&known) = self.known.get(&id) {
            return known;
        }
        let key = kind(&g.kind(id).name);
        let list = match self.lists.iter().position(|l| l.0 == key) {
            Some(at) => at,
            None => {
                self.lists.push((key, Vec::new()));
                self.lists.len() - 1
            }
        };
        let list = &mut self.lists[list].1;
        let index = list.len() as u32;
        list.push(id);
        self.known.insert(id, (key, index));
        (key, index)
    }

    /// Returns the metadata section with the objects: a separate graph of everything reachable from
    /// them.
    pub(crate) fn section(&self, g: &Graph<'_>) -> Option<String> {
        if self.lists.is_empty() {
            return None;
        }
        let mut section = Section {
            g,
            nodes: vec![NodeId::MAX],
            numbers: FxHashMap::from_iter([(0, 0)]),
            tensors: Vec::new(),
        };
        // Node 1 is the map, followed by a list for each kind.
        let first = 2 + self.lists.len();
        section.nodes.resize(first, NodeId::MAX);
        for &id in self.lists.iter().flat_map(|l| &l.1) {
            section.number(id);
        }
        // Numbered nodes are visited in turn, which may number further ones.
        let mut bodies = Vec::new();
        let mut at = first;
        while let Some(&id) = section.nodes.get(at) {
            let body = section.body(id);
            bodies.push(body);
            at += 1;
        }
        Some(section.text(&self.lists, &bodies))
    }
}

struct Section<'g, 'a> {
    g: &'g Graph<'a>,
    /// The nodes of the graph that become nodes of the section.
    nodes: Vec<NodeId>,
    numbers: FxHashMap<NodeId, usize>,
    tensors: Vec<usize>,
}

impl Section<'_, '_> {
    fn number(&mut self, id: NodeId) -> usize {
        let nodes = &mut self.nodes;
        *self.numbers.entry(id).or_insert_with(|| {
            nodes.push(id);
            nodes.len() - 1
        })
    }

    /// Returns a node's text with renumbered references.
    fn body(&mut self, id: NodeId) -> String {
        let g = self.g;
        let mut out = format!("\"type_key\": {}", quoted(&g.kind(id).name));
        let mut fields = String::new();
        for (name, text) in g.fields(id) {
            let form = g.kind(id).fields.and_then(|f| f.form(name, g.release));
            let text = match (form, text.parse::<usize>()) {
                (Some(Form::Node), Ok(to)) if to < g.nodes.len() => {
                    self.number(to as NodeId).to_string()
                }
                (Some(Form::Tensor), Ok(to)) if to < g.tensors.len() => {
                    self.tensors.push(to);
                    (self.tensors.len() - 1).to_string()
                }
                _ => text.into_owned(),
            };
            let comma = if fields.is_empty() { "" } else { ", " };
            let _ = write!(fields, "{comma}{}: {}", quoted(name), quoted(&text));
        }
        if !fields.is_empty() {
            let _ = write!(out, ", \"attrs\": {{{fields}}}");
        }
        let keys: Vec<_> = g.keys(id).map(|k| quoted(&k)).collect();
        if !keys.is_empty() {
            let _ = write!(out, ", \"keys\": [{}]", keys.join(", "));
        }
        let data: Vec<_> = g.data(id).iter().map(|&d| self.number(d)).collect();
        if !data.is_empty() {
            let _ = write!(out, ", \"data\": {data:?}");
        }
        if let Some((text, base64)) = g.written_repr(id) {
            let key = if base64 { "repr_b64" } else { "repr_str" };
            let _ = write!(out, ", \"{key}\": {}", quoted(&text));
        }
        out
    }

    fn text(&self, lists: &[(Symbol, Vec<NodeId>)], bodies: &[String]) -> String {
        let keys: Vec<_> = lists.iter().map(|l| quoted(l.0.as_str())).collect();
        let data: Vec<_> = (2..2 + lists.len()).collect();
        let mut out =
            String::from("{\n  \"root\": 1, \n  \"nodes\": [\n    {\"type_key\": \"\"}, \n");
        let keys = keys.join(", ");
        let _ = write!(
            out,
            "    {{\"type_key\": \"Map\", \"keys\": [{keys}], \"data\": {data:?}}}"
        );
        for (_, list) in lists {
            let items: Vec<_> = list.iter().map(|id| self.numbers[id]).collect();
            let _ = write!(
                out,
                ", \n    {{\"type_key\": \"Array\", \"data\": {items:?}}}"
            );
        }
        for body in bodies {
            let _ = write!(out, ", \n    {{{body}}}");
        }
        out.push_str("\n  ], \n  \"b64ndarrays\": [");
        for (i, &tensor) in self.tensors.iter().enumerate() {
            let text = self.g.bytes.get(self.g.tensors[tensor].clone());
            let text = String::from_utf8_lossy(text.unwrap_or_default());
            let _ = write!(out, "{}{}", if i == 0 { "" } else { ", " }, quoted(&text));
        }
        let release = self.g.release;
        let _ = write!(
            out,
            "], \n  \"attrs\": {{\"tvm_version\": \"{release}.0\"}}\n}}"
        );
        out
    }
}

/// Quotes a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
