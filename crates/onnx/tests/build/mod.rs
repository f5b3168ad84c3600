//! Models built byte by byte.

#![allow(dead_code, reason = "each test takes what it needs")]

/// A protobuf message under construction.
#[derive(Clone, Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    fn varint(&mut self, mut v: u64) {
        while v >= 128 {
            self.0.push(v as u8 | 128);
            v >>= 7;
        }
        self.0.push(v as u8);
    }
    pub fn int(mut self, field: u64, v: i64) -> Message {
        self.varint(field << 3);
        self.varint(v as u64);
        self
    }
    pub fn bytes(mut self, field: u64, v: &[u8]) -> Message {
        self.varint(field << 3 | 2);
        self.varint(v.len() as u64);
        self.0.extend_from_slice(v);
        self
    }
    pub fn text(self, field: u64, v: &str) -> Message {
        self.bytes(field, v.as_bytes())
    }
    pub fn message(self, field: u64, v: &Message) -> Message {
        self.bytes(field, &v.0)
    }
}

/// Builds a value's name and type; extents are numbers or names.
pub fn value(name: &str, elem: i64, dims: &[&str]) -> Message {
    let mut shape = Message::default();
    for d in dims {
        let dim = match d.parse() {
            Ok(n) => Message::default().int(1, n),
            Err(_) => Message::default().text(2, d),
        };
        shape = shape.message(1, &dim);
    }
    let tensor = Message::default().int(1, elem).message(2, &shape);
    let ty = Message::default().message(1, &tensor);
    Message::default().text(1, name).message(2, &ty)
}

pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    let mut out = Message::default();
    for i in inputs {
        out = out.text(1, i);
    }
    for o in outputs {
        out = out.text(2, o);
    }
    out.text(3, &format!("the_{op}")).text(4, op)
}

pub fn int_attribute(name: &str, v: i64) -> Message {
    Message::default().text(1, name).int(3, v).int(20, 2)
}

/// Builds an `int64` vector.
pub fn integers(name: &str, v: &[i64]) -> Message {
    let raw: Vec<u8> = v.iter().flat_map(|i| i.to_le_bytes()).collect();
    let out = Message::default().int(1, v.len() as i64).int(2, 7);
    out.text(8, name).bytes(9, &raw)
}

pub fn model(
    nodes: &[Message],
    weights: &[Message],
    inputs: &[Message],
    outputs: &[&str],
) -> Vec<u8> {
    let mut graph = Message::default().text(2, "test");
    for n in nodes {
        graph = graph.message(1, n);
    }
    for w in weights {
        graph = graph.message(5, w);
    }
    for i in inputs {
        graph = graph.message(11, i);
    }
    for o in outputs {
        graph = graph.message(12, &value(o, 1, &[]));
    }
    let opset = Message::default().int(2, 18);
    let model = Message::default().int(1, 8).message(7, &graph);
    model.message(8, &opset).0
}

/// Builds an integer list attribute.
pub fn list_attribute(name: &str, v: &[i64]) -> Message {
    let mut out = Message::default().text(1, name);
    for &i in v {
        out = out.int(8, i);
    }
    out.int(20, 7)
}

/// Builds a graph attribute.
pub fn graph_attribute(name: &str, graph: &Message) -> Message {
    let out = Message::default().text(1, name);
    out.message(6, graph).int(20, 5)
}

/// Builds a graph of nodes with inputs and outputs.
pub fn graph(nodes: &[Message], inputs: &[Message], outputs: &[Message]) -> Message {
    let mut out = Message::default().text(2, "inner");
    for n in nodes {
        out = out.message(1, n);
    }
    for i in inputs {
        out = out.message(11, i);
    }
    for o in outputs {
        out = out.message(12, o);
    }
    out
}
