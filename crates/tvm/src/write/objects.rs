//! Opaque objects that a module refers to: nodes of the graph in its metadata section.

use relax_base::{Span, Symbol};

use super::{Node, Work, Writer};
use crate::graph::NodeId;
use crate::kinds::Form;

impl Writer<'_> {
    /// Writes the object that a reference denotes.
    pub(super) fn object(&mut self, key: Symbol, index: u32, span: Span) -> u32 {
        let found = self.section.as_ref().and_then(|g| {
            let at = g.keys(g.root).position(|k| *k == *key.as_str())?;
            let list = *g.data(g.root).get(at)?;
            g.data(list).get(index as usize).copied()
        });
        match found {
            Some(id) => self.object_at(id),
            None => {
                let what = format!("`meta[{key}][{index}]`, whose metadata section is missing");
                self.refuse(span, &what);
                0
            }
        }
    }

    fn object_at(&mut self, id: NodeId) -> u32 {
        if id == 0 {
            return 0;
        }
        if let Some(&known) = self.objects.get(&id) {
            return known;
        }
        let at = self.later(Work::Object(id));
        self.objects.insert(id, at);
        at
    }

    pub(super) fn object_node(&mut self, id: NodeId) -> Node {
        let Some(g) = self.section.take() else {
            return Node::default();
        };
        let mut node = Node::of(&g.kind(id).name);
        for (name, text) in g.fields(id) {
            let form = g.kind(id).fields.and_then(|f| f.form(name, g.release));
            let value = match (form, text.parse::<NodeId>()) {
                (Some(Form::Node), Ok(to)) if (to as usize) < g.nodes.len() => {
                    self.object_at(to).to_string()
                }
                (Some(Form::Tensor), Ok(to)) => match self.section_tensor(&g, to) {
                    Some(at) => at.to_string(),
                    None => "0".to_owned(),
                },
                _ => text.into_owned(),
            };
            node = node.plain(name, value);
        }
        node.keys = g.keys(id).map(|k| k.into_owned()).collect();
        node.data = g.data(id).iter().map(|&d| self.object_at(d)).collect();
        match g.written_repr(id) {
            Some((text, false)) => node.repr = Some(text.into_owned()),
            Some((text, true)) => node.repr_b64 = Some(text.into_owned()),
            None => {}
        }
        self.section = Some(g);
        node
    }

    fn section_tensor(&mut self, g: &crate::graph::Graph<'_>, number: NodeId) -> Option<usize> {
        let place = g.tensors.get(number as usize)?.clone();
        let text = g.bytes.get(place)?;
        let tensor = crate::tensor::decode(text, &|_| ()).ok()?;
        self.tensors.push(tensor);
        Some(self.tensors.len() - 1)
    }
}
