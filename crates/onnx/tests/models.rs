//! Small models, written here byte by byte, and what becomes of them.

use bytes::Bytes;
use relax_base::Diagnostics;
use relax_onnx::{Import, import};

/// A protobuf message in the making.
#[derive(Clone, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut v: u64) {
        while v >= 128 {
            self.0.push(v as u8 | 128);
            v >>= 7;
        }
        self.0.push(v as u8);
    }
    fn int(mut self, field: u64, v: i64) -> Message {
        self.varint(field << 3);
        self.varint(v as u64);
        self
    }
    fn bytes(mut self, field: u64, v: &[u8]) -> Message {
        self.varint(field << 3 | 2);
        self.varint(v.len() as u64);
        self.0.extend_from_slice(v);
        self
    }
    fn text(self, field: u64, v: &str) -> Message {
        self.bytes(field, v.as_bytes())
    }
    fn message(self, field: u64, v: &Message) -> Message {
        self.bytes(field, &v.0)
    }
}

/// A value's name and type; extents are numbers or names.
fn value(name: &str, elem: i64, dims: &[&str]) -> Message {
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

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    let mut out = Message::default();
    for i in inputs {
        out = out.text(1, i);
    }
    for o in outputs {
        out = out.text(2, o);
    }
    out.text(3, &format!("the_{op}")).text(4, op)
}

fn int_attribute(name: &str, v: i64) -> Message {
    Message::default().text(1, name).int(3, v).int(20, 2)
}

/// An `int64` vector.
fn integers(name: &str, v: &[i64]) -> Message {
    let raw: Vec<u8> = v.iter().flat_map(|i| i.to_le_bytes()).collect();
    let out = Message::default().int(1, v.len() as i64).int(2, 7);
    out.text(8, name).bytes(9, &raw)
}

fn model(nodes: &[Message], weights: &[Message], inputs: &[Message], outputs: &[&str]) -> Vec<u8> {
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

fn read(bytes: Vec<u8>) -> Result<Import, Diagnostics> {
    import(Bytes::from(bytes), &|name| {
        Err(format!("there is no {name}"))
    })
}

fn text(bytes: Vec<u8>) -> String {
    read(bytes).expect("a model that is translated").text
}

fn errors(bytes: Vec<u8>) -> Vec<String> {
    let found = read(bytes).expect_err("a model with errors");
    found.iter().map(|d| d.message.clone()).collect()
}

#[test]
fn names_and_extents_stay() {
    let got = text(model(
        &[
            node("Relu", &["x"], &["y"]),
            node("Add", &["y", "x"], &["sum"]),
        ],
        &[],
        &[value("x", 1, &["batch", "4"])],
        &["sum"],
    ));
    assert!(got.contains("%x: Tensor[(batch, 4), float32]"), "{got}");
    assert!(got.contains("let %y = nn.relu(%x);"), "{got}");
    assert!(got.contains("let %sum = add(%y, %x);"), "{got}");
}

#[test]
fn shapes_that_are_computed_become_extents() {
    let concat = node("Concat", &["first", "minus"], &["to"]).message(5, &int_attribute("axis", 0));
    let got = text(model(
        &[
            node("Shape", &["x"], &["shape"]),
            node("Gather", &["shape", "zero"], &["first"]),
            concat,
            node("Reshape", &["x", "to"], &["y"]),
        ],
        &[integers("zero", &[0]), integers("minus", &[-1])],
        &[value("x", 1, &["batch", "3", "4"])],
        &["y"],
    ));
    assert!(got.contains("reshape(%x, newshape=[batch, 12])"), "{got}");
    assert!(!got.contains("shape_of"), "{got}");
}

#[test]
fn axes_of_run_time_are_arguments() {
    let got = text(model(
        &[node("ReduceSum", &["x", "axes"], &["y"])],
        &[],
        &[value("x", 1, &["2", "3"]), value("axes", 7, &["1"])],
        &["y"],
    ));
    assert!(got.contains("dyn.sum(%x, %axes)"), "{got}");
}

#[test]
fn all_that_is_not_supported_is_named() {
    let got = errors(model(
        &[
            node("Frobnicate", &["x"], &["a"]),
            node("Relu", &["a"], &["b"]),
            node("Twist", &["x"], &["c"]),
        ],
        &[],
        &[value("x", 1, &["2"])],
        &["b", "c"],
    ));
    assert_eq!(got.len(), 2, "{got:?}");
    assert!(
        got[0].starts_with("Frobnicate `the_Frobnicate` (opset 18)"),
        "{got:?}"
    );
    assert!(got[1].starts_with("Twist"), "{got:?}");
}

#[test]
fn what_does_not_fit_is_an_error_at_its_node() {
    let got = errors(model(
        &[node("Add", &["x", "y"], &["z"])],
        &[],
        &[value("x", 1, &["2"]), value("y", 1, &["3"])],
        &["z"],
    ));
    assert!(got[0].starts_with("Add `the_Add`"), "{got:?}");
    let got = errors(model(
        &[node("Relu", &["nothing"], &["z"])],
        &[],
        &[],
        &["z"],
    ));
    assert!(got[0].contains("`nothing`"), "{got:?}");
}

#[test]
fn names_that_are_no_identifiers_are_made_readable() {
    let got = text(model(
        &[node("Relu", &["input.1"], &["/layer1/act/Relu_output_0"])],
        &[],
        &[value("input.1", 1, &["2"])],
        &["/layer1/act/Relu_output_0"],
    ));
    assert!(got.contains("let %act_Relu = nn.relu(%input_1);"), "{got}");
}

#[test]
fn damaged_files_are_errors() {
    let whole = model(
        &[node("Relu", &["x"], &["y"])],
        &[integers("w", &[1, 2, 3])],
        &[value("x", 1, &["2"])],
        &["y"],
    );
    for end in 0..whole.len() {
        // Some prefixes are models of their own; none may do anything but give a result or errors.
        let _ = read(whole[..end].to_vec());
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let _ = read(bytes);
        }
    }
    assert!(read(b"not a model".to_vec()).is_err());
}

#[test]
fn tensors_that_lie_about_their_extents_are_errors() {
    let huge = Message::default()
        .int(1, i64::MAX)
        .int(1, 4)
        .int(2, 1)
        .text(8, "w");
    let short = Message::default()
        .int(1, 100)
        .int(2, 1)
        .text(8, "w")
        .bytes(9, &[0; 8]);
    let entry = |k: &str, v: &str| Message::default().text(1, k).text(2, v);
    let away = Message::default()
        .int(1, 2)
        .int(2, 1)
        .text(8, "w")
        .int(14, 1);
    let away = away.message(13, &entry("location", "../secret"));
    for weight in [huge, short, away] {
        let got = errors(model(
            &[node("Relu", &["w"], &["y"])],
            &[weight],
            &[],
            &["y"],
        ));
        assert!(got[0].contains("`w`"), "{got:?}");
    }
}
