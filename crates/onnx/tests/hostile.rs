//! Malicious models: each yields a text or errors, within time and memory limits.

mod build;

use build::{Message, graph, graph_attribute, int_attribute, integers, list_attribute};
use build::{model, node, value};
use bytes::Bytes;

fn read(bytes: Vec<u8>) -> Result<String, Vec<String>> {
    let found = relax_onnx::import(Bytes::from(bytes), &|name| {
        Err(format!("there is no {name}").into())
    });
    match found {
        Ok(import) => Ok(import.text),
        Err(all) => Err(all.iter().map(|d| d.message.clone()).collect()),
    }
}

/// Adds attributes to a node.
fn with(node: Message, attributes: &[Message]) -> Message {
    attributes.iter().fold(node, |n, a| n.message(5, a))
}

fn refused(nodes: &[Message], weights: &[Message], inputs: &[Message], said: &str) {
    let got = read(model(nodes, weights, inputs, &["y"])).expect_err("a model with errors");
    assert!(got.iter().any(|m| m.contains(said)), "{got:?}");
}

#[test]
fn attributes_out_of_all_proportion_are_errors() {
    let image = [value("x", 1, &["1", "1", "8", "8"])];
    let pool = |list: &[Message]| with(node("MaxPool", &["x"], &["y"]), list);
    let huge = [1 << 40, 1 << 40];
    refused(
        &[pool(&[list_attribute("kernel_shape", &huge)])],
        &[],
        &image,
        "must be positive",
    );
    let kernel = list_attribute("kernel_shape", &[2, 2]);
    let pads = list_attribute("pads", &[0, 0, i64::MAX, i64::MIN + 1]);
    refused(&[pool(&[kernel, pads])], &[], &image, "pads");
    let shape = list_attribute("output_shape", &[i64::MAX, i64::MAX]);
    let turned = with(node("ConvTranspose", &["x", "w"], &["y"]), &[shape]);
    let filter = value("w", 1, &["1", "1", "2", "2"]);
    refused(&[turned], &[], &[image[0].clone(), filter], "out of range");
    let count = int_attribute("num_outputs", i64::MAX);
    let split = with(node("Split", &["x"], &["y"]), &[count]);
    refused(&[split], &[], &image, "parts");
    let sizes = [integers("s", &[i64::MAX, i64::MAX])];
    refused(
        &[node("Split", &["x", "s"], &["y", "z"])],
        &sizes,
        &image,
        "parts",
    );
    let axes = [value("x", 1, &["2"]), value("s", 7, &["1099511627776"])];
    let slice = node("Slice", &["x", "s", "s"], &["y"]);
    refused(&[slice], &[], &axes, "axes");
    for op in ["Col2Im", "AffineGrid"] {
        let many = node(op, &["x", "s", "s"], &["y"]);
        refused(&[many], &[], &axes, "axes");
    }
}

#[test]
fn extents_out_of_all_proportion_make_nothing_large() {
    let shape = integers("s", &[1 << 40, 1 << 40, 1 << 40]);
    let _ = read(model(
        &[
            node("ConstantOfShape", &["s"], &["c"]),
            node("Reshape", &["c", "s"], &["y"]),
        ],
        &[shape],
        &[],
        &["y"],
    ));
    let mut nodes = vec![node("Shape", &["x"], &["c0"])];
    for i in 0..64 {
        // Doubles the length each time.
        let (from, to) = (format!("c{i}"), format!("c{}", i + 1));
        let join = node("Concat", &[&from, &from], &[&to]);
        nodes.push(join.message(5, &int_attribute("axis", 0)));
    }
    let _ = read(model(&nodes, &[], &[value("x", 1, &["n", "m"])], &["c64"]));
    // Too many parts to list individually: a list at run time.
    let long = value("x", 1, &["1073741824"]);
    for sizes in [&["1099511627776"][..], &[]] {
        let parts = [
            node("SplitToSequence", &["x", "s"], &["q"]),
            node("SequenceLength", &["q"], &["y"]),
        ];
        let inputs = [long.clone(), value("s", 7, sizes)];
        let text = read(model(&parts, &[], &inputs, &["y"])).expect("a model that is read");
        assert!(text.len() < 10_000, "{} bytes", text.len());
    }
    let each = node("SplitToSequence", &["x"], &["q"]);
    let parts = [each, node("SequenceLength", &["q"], &["y"])];
    let text = read(model(&parts, &[], &[long], &["y"])).expect("a model that is read");
    assert!(text.len() < 10_000, "{} bytes", text.len());
}

/// Translates each operator with too few and too many inputs: scalars, empty ones, of one axis or
/// several, constant or not.
#[test]
fn operators_of_anything_are_translated_or_refused() {
    let shapes: [&[&str]; 6] = [
        &[],
        &["0"],
        &["1"],
        &["3"],
        &["2", "0"],
        &["1", "2", "3", "4"],
    ];
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let (mut panics, mut read_well) = (Vec::new(), 0);
    for entry in relax_onnx::operators() {
        for (count, shape) in (0..=names.len()).flat_map(|n| shapes.map(|s| (n, s))) {
            for (elem, constants) in [(1, 0), (7, 0), (9, 0), (7, 1), (7, 2)] {
                let given = &names[..count];
                let fixed = constants.min(count);
                let op = node(entry.name, given, &["y", "z"]).text(7, entry.domain);
                let values: Vec<Message> = (given[..count - fixed].iter())
                    .map(|n| value(n, elem, shape))
                    .collect();
                let lists = [&[][..], &[-1], &[1 << 40, 2]];
                let weights: Vec<Message> = (given[count - fixed..].iter())
                    .map(|n| integers(n, lists[(count + shape.len()) % 3]))
                    .collect();
                let plain = model(&[op], &weights, &values, &["y"]);
                let opset = Message::default().text(1, entry.domain);
                let bytes = match entry.domain {
                    "" => plain,
                    _ => Message(plain).message(8, &opset.int(2, entry.versions.0)).0,
                };
                match std::panic::catch_unwind(|| read(bytes).is_ok()) {
                    Ok(ok) => read_well += usize::from(ok),
                    Err(_) => panics.push(format!("{} {given:?} {shape:?} {elem}", entry.name)),
                }
            }
        }
    }
    panics.dedup_by_key(|p| p.split(' ').next().map(str::to_owned));
    assert!(panics.is_empty(), "{panics:#?}");
    assert!(read_well > 1000, "{read_well}");
}

#[test]
fn nodes_in_a_circle_are_an_error() {
    let nodes = [node("Relu", &["b"], &["a"]), node("Relu", &["a"], &["b"])];
    let got = read(model(&nodes, &[], &[], &["b"])).expect_err("a circle");
    assert!(got[0].contains("`b`"), "{got:?}");
}

#[test]
fn functions_that_call_each_other_over_and_over_are_errors() {
    // Each function calls the next twice: an exponential number of nodes.
    let mut functions = Vec::new();
    for i in 0..40 {
        let next = format!("f{}", i + 1);
        let call = |from: &str, to: &str| node(&next, &[from], &[to]).text(7, "own");
        let last = |from: &str, to: &str| node("Relu", &[from], &[to]);
        let (a, b) = match i {
            39 => (last("x", "t"), last("t", "y")),
            _ => (call("x", "t"), call("t", "y")),
        };
        let opset = Message::default().int(2, 18);
        let f = Message::default().text(1, &format!("f{i}"));
        let f = f.text(4, "x").text(5, "y").message(7, &a).message(7, &b);
        functions.push(f.message(9, &opset).text(10, "own"));
    }
    let whole = model(
        &[node("f0", &["x"], &["y"]).text(7, "own")],
        &[],
        &[value("x", 1, &["2"])],
        &["y"],
    );
    let whole = functions
        .iter()
        .fold(Message(whole), |m, f| m.message(25, f));
    let got = read(whole.0).expect_err("too much");
    assert!(got.iter().any(|m| m.contains("too large")), "{got:?}");
}

#[test]
fn graphs_deep_in_each_other_are_errors() {
    let mut inner = graph(&[node("Relu", &["x"], &["y"])], &[], &[value("y", 1, &[])]);
    for _ in 0..200 {
        let branch = |name: &str| graph_attribute(name, &inner);
        let (a, b) = (
            branch("then_branch"),
            graph_attribute("else_branch", &Message::default()),
        );
        let nest = with(node("If", &["c"], &["y"]), &[a, b]);
        inner = graph(&[nest], &[], &[value("y", 1, &[])]);
    }
    let both = [
        graph_attribute("then_branch", &inner),
        graph_attribute("else_branch", &inner),
    ];
    let nest = with(node("If", &["c"], &["y"]), &both);
    let inputs = [value("x", 1, &["2"]), value("c", 9, &[])];
    assert!(read(model(&[nest], &[], &inputs, &["y"])).is_err());
}

/// Returns models whose bytes are mutated at random.
fn seeds() -> Vec<Vec<u8>> {
    let image = value("x", 1, &["n", "2", "8", "8"]);
    let filter = integers("w", &[1; 8]);
    let conv = with(
        node("Conv", &["x", "f"], &["a"]),
        &[
            list_attribute("kernel_shape", &[2, 2]),
            list_attribute("pads", &[1, 1, 0, 0]),
        ],
    );
    let pool = with(
        node("AveragePool", &["a"], &["b"]),
        &[
            list_attribute("kernel_shape", &[2, 2]),
            list_attribute("strides", &[2, 2]),
        ],
    );
    let cast = with(node("Cast", &["w4"], &["f"]), &[int_attribute("to", 1)]);
    let shapes = [
        node("Reshape", &["w", "to"], &["w4"]),
        cast,
        conv,
        pool,
        node("Shape", &["b"], &["s"]),
        node("Gather", &["s", "zero"], &["rows"]),
        with(
            node("Concat", &["rows", "minus"], &["flat"]),
            &[int_attribute("axis", 0)],
        ),
        node("Reshape", &["b", "flat"], &["y"]),
    ];
    let weights = [
        filter,
        integers("to", &[2, 2, 1, 2]),
        integers("zero", &[0]),
        integers("minus", &[-1]),
    ];
    let vision = model(&shapes, &weights, &[image], &["y"]);
    let body = graph(
        &[
            node("Identity", &["going"], &["on"]),
            node("Add", &["v", "v"], &["next"]),
            node("SequenceInsert", &["list", "v"], &["more"]),
            node("Identity", &["v"], &["row"]),
        ],
        &[
            value("i", 7, &[]),
            value("going", 9, &[]),
            value("v", 1, &["2"]),
            value("list", 1, &[]),
        ],
        &["on", "next", "more", "row"].map(|o| value(o, 1, &[])),
    );
    let looped = with(
        node("Loop", &["count", "", "x", "none"], &["v2", "many", "rows"]),
        &[graph_attribute("body", &body)],
    );
    let control = model(
        &[
            node("SequenceEmpty", &[], &["none"]),
            looped,
            with(
                node("ConcatFromSequence", &["many"], &["y"]),
                &[int_attribute("axis", 0)],
            ),
        ],
        &[],
        &[value("x", 1, &["2"]), value("count", 7, &[])],
        &["y", "rows"],
    );
    let slices = model(
        &[
            node("Slice", &["x", "from", "to", "axes", "by"], &["a"]),
            with(
                node("Split", &["a"], &["b", "c"]),
                &[int_attribute("axis", 1)],
            ),
            node("Pad", &["b", "pads"], &["d"]),
            node("Tile", &["d", "times"], &["e"]),
            with(
                node("Transpose", &["e"], &["f"]),
                &[list_attribute("perm", &[1, 0])],
            ),
            node("Range", &["r0", "r1", "r2"], &["r"]),
            node("Gather", &["f", "from"], &["y"]),
        ],
        &[
            integers("from", &[0, 0]),
            integers("to", &[4, 4]),
            integers("axes", &[0, 1]),
            integers("by", &[1, 2]),
            integers("pads", &[0, 1, 1, 0]),
            integers("times", &[2, 3]),
            integers("r0", &[0]),
            integers("r1", &[9]),
            integers("r2", &[2]),
        ],
        &[value("x", 1, &["n", "4"])],
        &["y", "r"],
    );
    vec![vision, control, slices]
}

#[test]
fn models_with_random_changes_give_results_or_errors() {
    let seeds = seeds();
    for seed in &seeds {
        assert!(read(seed.clone()).is_ok(), "{:?}", read(seed.clone()));
    }
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for round in 0..3000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            match random(6) {
                0 => bytes[at] ^= 1 << random(8),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random(5)],
                2 => bytes.truncate(at.max(1)),
                3 => {
                    let part = bytes[at..(at + random(16)).min(bytes.len())].to_vec();
                    let to = random(bytes.len());
                    bytes.splice(to..to, part);
                }
                4 => {
                    bytes.drain(at..(at + random(4)).min(bytes.len() - 1).max(at));
                }
                // A varint of maximal length.
                _ => {
                    bytes.splice(at..=at, [0xff; 9].into_iter().chain([random(2) as u8]));
                }
            }
        }
        let _ = read(bytes);
    }
}
