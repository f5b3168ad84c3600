//! Weights bound from files give the answers that weights given as arguments give.
#![cfg(feature = "native")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use relax_cli::npz;
use relax_tensor::{DType, Tensor};

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mlp.relay")
}

const WEIGHTS: &[(&str, &[i64])] = &[
    ("fc1_weight", &[128, 784]),
    ("b1", &[128]),
    ("fc2_weight", &[10, 128]),
    ("b2", &[10]),
];

type Named = Vec<(String, Tensor)>;

/// The model's parameters: the data, then the weights.
fn arrays() -> (Named, Named) {
    let wave = |shape: &[i64], step: f32| {
        let n = shape.iter().product::<i64>() as usize;
        let values: Vec<f32> = (0..n).map(|i| (i as f32 * step).sin() * 0.1).collect();
        Tensor::from_slice(shape, &values)
    };
    let named = |list: &[(&str, &[i64])]| {
        let each = |(k, (name, shape)): (usize, &(&str, &[i64]))| {
            (name.to_string(), wave(shape, 0.1 + 0.07 * k as f32))
        };
        list.iter().enumerate().map(each).collect()
    };
    (named(&[("data", &[1, 784])]), named(WEIGHTS))
}

fn run(args: &[&Path], flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relax-run"));
    command.arg(model());
    for (flag, path) in flags.iter().zip(args) {
        command.arg(flag).arg(path);
    }
    command.output().expect("relax-run runs")
}

/// The tensors as a safetensors file: its header padded so that the data are aligned.
fn safetensors(path: &Path, arrays: &[(String, Tensor)]) {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, t) in arrays {
        let begin = data.len();
        data.extend_from_slice(t.bytes());
        let shape: Vec<String> = t.shape().iter().map(i64::to_string).collect();
        entries.push(format!(
            r#""{name}":{{"dtype":"F32","shape":[{}],"data_offsets":[{begin},{}]}}"#,
            shape.join(","),
            data.len()
        ));
    }
    let mut header = format!("{{{}}}", entries.join(","));
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend(data);
    std::fs::write(path, file).expect("writable");
}

#[test]
fn bound_weights_give_the_same_answer() {
    let room = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| room.path().join(name);
    let (data, weights) = arrays();
    let all: Vec<_> = data.iter().chain(&weights).cloned().collect();
    npz::write(&at("all.npz"), &all).expect("writable");
    npz::write(&at("data.npz"), &data).expect("writable");
    npz::write(&at("weights.npz"), &weights).expect("writable");
    safetensors(&at("weights.safetensors"), &weights);
    let ran = run(
        &[&at("all.npz"), &at("want.npz")],
        &["--inputs", "--outputs"],
    );
    assert!(ran.status.success(), "{ran:?}");
    let want = npz::read(&at("want.npz")).expect("an archive");
    for file in ["weights.npz", "weights.safetensors"] {
        for engine in ["native", "interp"] {
            let ran = run(
                &[
                    &at("data.npz"),
                    &at(file),
                    &at("out.npz"),
                    Path::new(engine),
                ],
                &["--inputs", "--params", "--outputs", "--engine"],
            );
            assert!(ran.status.success(), "{file}, {engine}: {ran:?}");
            let out = npz::read(&at("out.npz")).expect("an archive");
            for i in 0..want[0].1.len() {
                let (a, b) = (out[0].1.get_f64(i), want[0].1.get_f64(i));
                assert!((a - b).abs() <= 1e-5, "{file}, {engine}: {a}, not {b}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_listed_together() {
    let room = tempfile::tempdir().expect("a temporary folder");
    let path = room.path().join("weights.npz");
    let (_, mut weights) = arrays();
    weights[0].1 = Tensor::zeros(DType::F32, &[3, 3]);
    weights[1].0.push('x');
    npz::write(&path, &weights).expect("writable");
    let ran = run(&[&path], &["--params"]);
    assert_eq!(ran.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ran.stderr);
    let (first, second) = (&weights[0].0, &weights[1].0);
    for part in [
        format!("%{first} must be "),
        String::from("but the array is Tensor[(3, 3), float32]"),
        format!("the array `{second}` belongs to no parameter (did you mean"),
    ] {
        assert!(text.contains(&part), "{part}\nin:\n{text}");
    }
    // Nothing but weights: the data is missing.
    let (_, weights) = arrays();
    npz::write(&path, &weights).expect("writable");
    let ran = run(&[&path], &["--params"]);
    assert_eq!(ran.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(text.contains("%data is missing"), "{text}");
}
