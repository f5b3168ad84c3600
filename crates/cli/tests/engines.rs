//! Every example runs on both engines, with equal results.
#![cfg(feature = "native")]

use std::path::{Path, PathBuf};
use std::process::Command;

use relax_cli::npz;
use relax_tensor::Tensor;

/// Examples that need packed functions from a host program.
const NEEDS_A_HOST: &[&str] = &["call_packed.relay"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(file: &Path, engine: &str, out: &Path) -> Vec<(String, Tensor)> {
    let ran = Command::new(env!("CARGO_BIN_EXE_relax-run"))
        .arg(file)
        .args(["--random", "7", "--engine", engine, "--outputs"])
        .arg(out)
        .output()
        .expect("relax-run runs");
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success(),
        "{} with {engine}: {errors}",
        file.display()
    );
    // Arrays in an archive are unordered.
    let mut arrays = npz::mapped(out).expect("relax-run writes npz");
    arrays.sort_by(|a, b| a.0.cmp(&b.0));
    arrays
}

fn close(a: &Tensor, b: &Tensor) -> bool {
    let near = |i: usize| {
        let (x, y) = (a.get_f64(i), b.get_f64(i));
        x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= 1e-5 + 1e-4 * y.abs()
    };
    a.dtype() == b.dtype() && a.shape() == b.shape() && (0..a.len()).all(near)
}

#[test]
fn the_evaluator_and_native_code_agree_on_the_examples() {
    let room = tempfile::tempdir().expect("a temporary folder");
    let mut count = 0;
    let mut files: Vec<PathBuf> = std::fs::read_dir(root().join("examples"))
        .expect("the examples")
        .map(|e| e.expect("readable").path())
        .filter(|p| p.extension().is_some_and(|e| e == "relay"))
        .collect();
    files.sort();
    for file in files {
        let name = file
            .file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        if NEEDS_A_HOST.contains(&name.as_str()) {
            println!("left out: {name} needs a host program");
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("readable");
        if !text.contains("def @main") {
            println!("left out: {name} has no @main");
            continue;
        }
        let native = run(&file, "native", &room.path().join("native.npz"));
        for other in ["interp", "vm"] {
            let found = run(&file, other, &room.path().join(format!("{other}.npz")));
            assert_eq!(native.len(), found.len(), "{name} with {other}");
            for ((n, a), (_, b)) in native.iter().zip(&found) {
                assert!(close(a, b), "{name} with {other}: {n} differs");
            }
        }
        count += 1;
    }
    assert!(count >= 10, "only {count} examples ran");
}

#[test]
fn wrong_inputs_are_listed_together() {
    let room = tempfile::tempdir().expect("a temporary folder");
    let path = room.path().join("in.npz");
    let arrays = [
        (
            "data".to_owned(),
            Tensor::zeros(relax_tensor::DType::F32, &[1, 783]),
        ),
        (
            "fc1_weight".to_owned(),
            Tensor::zeros(relax_tensor::DType::F64, &[128, 784]),
        ),
        (
            "extra".to_owned(),
            Tensor::zeros(relax_tensor::DType::F32, &[]),
        ),
    ];
    npz::write(&path, &arrays).expect("writable");
    let ran = Command::new(env!("CARGO_BIN_EXE_relax-run"))
        .arg(root().join("examples/mlp.relay"))
        .arg("--inputs")
        .arg(&path)
        .output()
        .expect("relax-run runs");
    assert_eq!(ran.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ran.stderr);
    for part in [
        "%data must be Tensor[(1, 784), float32], but the array is Tensor[(1, 783), float32]",
        "%fc1_weight must be Tensor[(128, 784), float32], but the array is Tensor[(128, 784), float64]",
        "%b1 is missing",
        "the array `extra` belongs to no parameter",
    ] {
        assert!(text.contains(part), "{part}\nin:\n{text}");
    }
}
