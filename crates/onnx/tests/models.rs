//! Small models, built byte by byte, and their translations.

mod build;

use build::{Message, int_attribute, integers, model, node, value};
use bytes::Bytes;
use relax_base::Diagnostics;
use relax_onnx::{Import, import};

fn read(bytes: Vec<u8>) -> Result<Import, Diagnostics> {
    import(Bytes::from(bytes), &|name| {
        Err(format!("there is no {name}").into())
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
fn nodes_in_any_order_are_translated() {
    let got = text(model(
        &[
            node("Exp", &["b"], &["c"]),
            node("Add", &["c", "a"], &["sum"]),
            node("Relu", &["x"], &["a"]),
            node("Neg", &["a"], &["b"]),
        ],
        &[],
        &[value("x", 1, &["4"])],
        &["sum"],
    ));
    let at = |text: &str| {
        got.find(text)
            .unwrap_or_else(|| panic!("no {text} in {got}"))
    };
    assert!(at("let %a =") < at("let %b ="), "{got}");
    assert!(at("let %b =") < at("let %c ="), "{got}");
    assert!(at("let %c =") < at("let %sum ="), "{got}");
}

#[test]
fn nodes_that_take_each_others_results_are_an_error() {
    let got = errors(model(
        &[
            node("Add", &["x", "b"], &["a"]),
            node("Relu", &["a"], &["b"]),
        ],
        &[],
        &[value("x", 1, &["4"])],
        &["a"],
    ));
    assert!(got[0].contains("nothing before it gives"), "{got:?}");
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
            node("ReorderInput", &["x"], &["d"]).text(7, "com.microsoft.nchwc"),
        ],
        &[],
        &[value("x", 1, &["2"])],
        &["b", "c", "d"],
    ));
    assert_eq!(got.len(), 3, "{got:?}");
    assert!(
        got[0].starts_with("Frobnicate `the_Frobnicate` (opset 18)"),
        "{got:?}"
    );
    assert!(got[1].starts_with("Twist"), "{got:?}");
    // The error for a model optimised for a particular processor explains how to export a portable
    // one.
    assert!(got[2].contains("ORT_ENABLE_EXTENDED"), "{got:?}");
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
        // Some prefixes are valid models; none may do anything but give a result or errors.
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

/// Builds a chain of layers with a weight each, and `last` applied to the final value.
fn layers(count: usize, last: &str) -> Vec<u8> {
    let mut nodes = Vec::new();
    let mut inputs = vec![value("x", 1, &["n", "4"]), value("m", 1, &["n", "1"])];
    for k in 0..count {
        let name = |s: &str| format!("/enc/layer.{k}/{s}");
        let from = match k {
            0 => "x".to_owned(),
            _ => format!("/enc/layer.{}/out", k - 1),
        };
        let weight = format!("layer_{k}_w");
        inputs.push(value(&weight, 1, &["4", "4"]));
        let (a, b, c) = (name("a"), name("b"), name("c"));
        let (d, e, out) = (name("d"), name("e"), name("out"));
        let named = |n: build::Message, at: &str| n.text(3, &name(at));
        nodes.extend([
            named(node("MatMul", &[&from, &weight], &[&a]), "MatMul"),
            named(node("Mul", &[&a, "m"], &[&b]), "Mul"),
            named(node("Relu", &[&b], &[&c]), "Relu"),
            named(node("Tanh", &[&c], &[&d]), "act/Tanh"),
            named(node("Add", &[&d, &from], &[&e]), "Add"),
            named(node("Exp", &[&e], &[&out]), "Exp"),
        ]);
    }
    let end = format!("/enc/layer.{}/out", count - 1);
    nodes.push(node(last, &[&end], &["y"]));
    model(&nodes, &[], &inputs, &["y"])
}

fn folded(bytes: Vec<u8>) -> String {
    let options = relax_onnx::Options { fold_layers: true };
    let none = |name: &str| Err(format!("there is no {name}").into());
    let read = relax_onnx::import_with(Bytes::from(bytes), &none, options);
    read.expect("a model that is translated").text
}

#[test]
fn equal_layers_become_one_function() {
    let got = folded(layers(3, "Sigmoid"));
    assert!(
        got.contains("// Called 3 times, for layer.0, layer.1, layer.2."),
        "{got}"
    );
    assert_eq!(got.matches("def @layer(").count(), 1, "{got}");
    assert_eq!(got.matches("= @layer(").count(), 3, "{got}");
    assert_eq!(got.matches("tanh(").count(), 1, "{got}");
    assert!(got.contains("%layer_w: Tensor[(4, 4), float32]"), "{got}");
    // A value that is the same for each layer is a parameter, too.
    assert!(got.contains("%m: Tensor[(n, 1), float32]"), "{got}");
    assert!(got.contains("// act\n"), "{got}");
}

#[test]
fn one_layer_is_no_function() {
    let got = folded(layers(1, "Sigmoid"));
    assert_eq!(got, text(layers(1, "Sigmoid")));
}

#[test]
fn both_places_that_disagree_are_named() {
    let found = read(model(
        &[
            node("Relu", &["x"], &["r"]),
            node("Add", &["r", "w"], &["z"]),
        ],
        &[integers("w", &[1, 2, 3])],
        &[value("x", 7, &["2"])],
        &["z"],
    ));
    let found = found.expect_err("a model with errors");
    let notes: Vec<String> = found.iter().flat_map(|d| d.notes.clone()).collect();
    assert!(
        notes
            .iter()
            .any(|n| n == "`r` is Tensor[(2,), int64], from Relu `the_Relu`"),
        "{notes:?}"
    );
    assert!(
        notes
            .iter()
            .any(|n| n == "`w` is Tensor[(3,), int64], an initialiser"),
        "{notes:?}"
    );
}

#[test]
fn types_that_the_model_states_and_are_not_so_are_warnings() {
    let mut whole = model(
        &[node("Relu", &["x"], &["r"]), node("Exp", &["r"], &["z"])],
        &[],
        &[value("x", 1, &["2", "3"])],
        &["z"],
    );
    // Once more, with a stated intermediate type.
    let stated = build::Message::default().message(13, &value("r", 1, &["2", "4"]));
    let graph = build::Message::default().message(7, &stated);
    whole.extend_from_slice(&graph.0);
    let read = read(whole).expect("a model that is translated");
    let said: Vec<String> = read.warnings.iter().map(|d| d.message.clone()).collect();
    let want =
        "the model says that `r` is (2, 4) of float32, but Relu `the_Relu` gives (2, 3) of float32";
    // The stated type of the output is wrong, too.
    assert_eq!((said.len(), said[0].as_str()), (2, want));
}

#[test]
fn activations_of_layers_take_their_numbers_in_order() {
    // The first activation takes no parameter: the number is the second's.
    let mut gru =
        node("GRU", &["x", "w", "r"], &["y"]).message(5, &build::int_attribute("hidden_size", 2));
    let mut names = build::Message::default().text(1, "activations").int(20, 8);
    for name in ["Sigmoid", "LeakyRelu"] {
        names = names.text(9, name);
    }
    let mut alpha = build::Message::default()
        .text(1, "activation_alpha")
        .int(20, 6);
    alpha.0.extend_from_slice(&[0x3d, 0, 0, 0, 0x3f]);
    gru = gru.message(5, &names).message(5, &alpha);
    let inputs = [
        value("x", 1, &["5", "3", "4"]),
        value("w", 1, &["1", "6", "4"]),
        value("r", 1, &["1", "6", "2"]),
    ];
    let got = text(model(&[gru], &[], &inputs, &["y"]));
    assert!(
        got.contains("alpha=0.5") || got.contains("alpha=5e-1"),
        "{got}"
    );
}
