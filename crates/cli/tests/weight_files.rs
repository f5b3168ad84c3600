//! Weight files: conversion, binding, extraction.

#[path = "common/folder.rs"]
mod folder;

use std::process::{Command, Output};

use folder::Folder;
use relax_cli::formats::Format;
use relax_cli::{save, weights};
use relax_tensor::{DType, Tensor};

const OPT: &str = env!("CARGO_BIN_EXE_relax-opt");

fn opt(dir: &Folder, args: &[&str]) -> Output {
    let mut command = Command::new(OPT);
    command.args(args).current_dir(&dir.0).env("NO_COLOR", "1");
    command.output().expect("the tool starts")
}

fn sample() -> Vec<(String, Tensor)> {
    let bf16 = Tensor::from_bytes(DType::BF16, &[2], &[0x80, 0x3f, 0, 0xc0]).expect("two elements");
    vec![
        (
            "w".into(),
            Tensor::from_slice(&[2, 3], &[1f32, -2.0, 0.5, 4.0, 5.0, f32::NAN]),
        ),
        ("p.0".into(), Tensor::from_slice(&[], &[-7i64])),
        ("half precision".into(), bf16),
        ("none".into(), Tensor::from_slice::<u8>(&[0, 3], &[])),
        (
            "truth".into(),
            Tensor::from_bytes(DType::BOOL, &[2], &[0, 1]).expect("two elements"),
        ),
    ]
}

fn sorted(mut arrays: Vec<(String, Tensor)>) -> Vec<(String, Vec<i64>, Vec<u8>)> {
    arrays.sort_by(|a, b| a.0.cmp(&b.0));
    let parts = |(n, t): (String, Tensor)| (n, t.shape().to_vec(), t.bytes().to_vec());
    arrays.into_iter().map(parts).collect()
}

#[test]
fn every_format_converts_into_every_other() {
    let dir = Folder::new("convert");
    let path = |name: &str| dir.0.join(name);
    save::arrays(&path("a.params"), Format::Params, &sample()).expect("a file");
    let ways = [
        ("a.params", "npz", "b.npz"),
        ("b.npz", "safetensors", "c.safetensors"),
        ("c.safetensors", "params", "d.params"),
        ("d.params", "safetensors", "e.safetensors"),
    ];
    for (from, emit, to) in ways {
        // The extension implies the format.
        for args in [&[from, "--emit", emit, "-o", to][..], &[from, "-o", to]] {
            let o = opt(&dir, args);
            let said = String::from_utf8_lossy(&o.stderr);
            assert_eq!(o.status.code(), Some(0), "{said}");
            let arrays = weights::read(&path(to)).expect("arrays");
            assert_eq!(sorted(arrays), sorted(sample()), "{to}");
        }
    }
    // Only NumPy lacks bfloat16.
    let again = weights::read(&path("a.params")).expect("arrays");
    assert_eq!(again[2].1.dtype(), DType::BF16);
    let npz = weights::read(&path("b.npz")).expect("arrays");
    assert_eq!(npz[2].1.dtype(), DType::U16);
}

#[test]
fn damaged_weights_are_errors_of_the_input() {
    let dir = Folder::new("damaged");
    dir.write("short.params", "abc");
    let o = opt(&dir, &["short.params", "--emit", "npz", "-o", "x.npz"]);
    assert_eq!(o.status.code(), Some(1));
    let o = opt(&dir, &["missing.params", "--emit", "npz", "-o", "x.npz"]);
    assert_eq!(o.status.code(), Some(2));
    save::arrays(&dir.0.join("a.params"), Format::Params, &sample()).expect("a file");
    let o = opt(&dir, &["a.params"]);
    assert_eq!(o.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&o.stderr).contains("--emit"));
}

#[test]
fn constants_are_taken_out_and_given_back() {
    let dir = Folder::new("bound");
    let w = [(
        "w".to_owned(),
        Tensor::from_slice(&[2, 2], &[1f32, 2.0, 3.0, 4.0]),
    )];
    save::arrays(&dir.0.join("w.params"), Format::Params, &w).expect("a file");
    dir.write(
        "a.relay",
        "def @main(%x: Tensor[(2, 2), float32], %w: Tensor[(2, 2), float32]) { add(%x, %w) }",
    );
    let o = opt(
        &dir,
        &[
            "a.relay", "--params", "w.params", "--emit", "npz", "-o", "out.npz",
        ],
    );
    assert_eq!(
        o.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&o.stderr)
    );
    let arrays = weights::read(&dir.0.join("out.npz")).expect("arrays");
    assert_eq!(sorted(arrays), sorted(w.to_vec()));
    // A constant of the file itself is named by its index.
    let o = opt(
        &dir,
        &["a.relay", "--params", "w.params", "-o", "bound.relay"],
    );
    assert_eq!(o.status.code(), Some(0));
    let o = opt(
        &dir,
        &[
            "bound.relay",
            "--emit",
            "safetensors",
            "-o",
            "own.safetensors",
        ],
    );
    assert_eq!(o.status.code(), Some(0));
    let arrays = weights::read(&dir.0.join("own.safetensors")).expect("arrays");
    assert_eq!(arrays[0].0, "meta[relay.Constant][0]");
}
