//! Small models, written here byte by byte, and what becomes of them.

mod build;

use build::{Message, int_attribute, integers, model, node, value};
use bytes::Bytes;
use relax_base::Diagnostics;
use relax_onnx::{Import, import};

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
