//! Weights bound from files give the same results as weights given as arguments.
#![cfg(feature = "native")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use relax::ReadOptions;
use relax_cli::random::Random;
use relax_cli::{inputs, load, npz};
use relax_tensor::{DType, Tensor};

use relax_testkit::npy;

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

/// Returns the model's parameters: the data, then the weights.
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

/// Writes tensors as a safetensors file, with the header padded so that the data is aligned.
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
    let want = npz::mapped(&at("want.npz")).expect("an archive");
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
            let out = npz::mapped(&at("out.npz")).expect("an archive");
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
    // Only the weights: the data is missing.
    let (_, weights) = arrays();
    npz::write(&path, &weights).expect("writable");
    let ran = run(&[&path], &["--params"]);
    assert_eq!(ran.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(text.contains("%data is missing"), "{text}");
}

/// Writes a `.npy` file of float32.
fn write_npy(path: &Path, t: &Tensor) {
    let shape: Vec<String> = t.shape().iter().map(|d| format!("{d},")).collect();
    let file = npy("<f4", false, &format!("({})", shape.concat()), t.bytes());
    std::fs::write(path, file).expect("writable");
}

/// Compiles a model with its weights into an executable.
fn program(model: &Path, weights: &Path, mode: &str, out: &Path) {
    let ran = Command::new(env!("CARGO_BIN_EXE_relaxc"))
        .arg(model)
        .args(["--emit", "exe", "--weights", mode, "--params"])
        .args([weights, Path::new("-o"), out])
        .output()
        .expect("relaxc runs");
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn weights_in_a_file_of_their_own_are_mapped() {
    let room = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| room.path().join(name);
    let (data, weights) = arrays();
    npz::write(&at("weights.npz"), &weights).expect("writable");
    write_npy(&at("x.npy"), &data[0].1);
    for mode in ["embed", "external"] {
        program(&model(), &at("weights.npz"), mode, &at(mode));
    }
    let call = |mode: &str, place: Option<&Path>| {
        let mut command = Command::new(at(mode));
        command.arg(at("x.npy")).env_remove("RELAX_WEIGHTS");
        if let Some(place) = place {
            command.env("RELAX_WEIGHTS", place);
        }
        command.output().expect("the program runs")
    };
    let size = |name: &str| std::fs::metadata(at(name)).expect("it was written").len();
    let bytes: usize = weights.iter().map(|w| w.1.bytes().len()).sum();
    assert!(size("embed") > size("external") + bytes as u64 / 2);
    let want = call("embed", None);
    assert!(want.status.success() && !want.stdout.is_empty(), "{want:?}");
    assert_eq!(call("external", None).stdout, want.stdout);

    let file = at("external.weights");
    let good = std::fs::read(&file).expect("the weights");
    let fails = |text: &str| {
        let ran = call("external", None);
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        let found = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(found.contains(text), "{text}\nin: {found}");
    };
    let mut other = good.clone();
    other[77] ^= 1;
    std::fs::write(&file, other).expect("writable");
    fails("are not those that this program was compiled with");
    std::fs::write(&file, &good[..good.len() - 1]).expect("writable");
    fails(&format!("have {} bytes", good.len() - 1));
    std::fs::remove_file(&file).expect("removable");
    fails("the weights `external.weights` are missing");

    // In another location, given by its folder or its path.
    let away = at("away");
    std::fs::create_dir(&away).expect("a folder");
    std::fs::write(away.join("external.weights"), &good).expect("writable");
    assert_eq!(call("external", Some(&away)).stdout, want.stdout);
    let file = away.join("external.weights");
    assert_eq!(call("external", Some(&file)).stdout, want.stdout);
}

#[test]
fn threads_do_not_change_the_answer() {
    let room = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| room.path().join(name);
    let (data, weights) = arrays();
    npz::write(&at("data.npz"), &data).expect("writable");
    npz::write(&at("weights.npz"), &weights).expect("writable");
    let answer = |threads: &str| {
        let flags = ["--inputs", "--params", "--outputs", "--threads"];
        let (data, weights, out) = (at("data.npz"), at("weights.npz"), at("out.npz"));
        let ran = run(&[&data, &weights, &out, Path::new(threads)], &flags);
        assert!(ran.status.success(), "{ran:?}");
        npz::mapped(&out).expect("an archive")[0].1.bytes().to_vec()
    };
    assert_eq!(answer("1"), answer("2"));
}

/// ResNet-18 with weights bound by relax-run, in an executable, and in a separate file, on one and
/// two threads.
#[test]
#[cfg(unix)]
fn a_real_model_gives_one_answer_in_every_mode() {
    let room = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| room.path().join(name);
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/models/resnet18.relay");
    let loaded = load::checked(&model, ReadOptions::default()).expect("readable");
    let loaded = loaded.expect("no errors");
    let entry = load::entry(&loaded.module, None).expect("@main");
    let func = loaded.module.global_func(entry).expect("a function");
    let params = inputs::params(&loaded.module, &loaded.typed.typing, func);
    let how = Random {
        seed: 1,
        extent: 1,
        typing: None,
    };
    let tensors = inputs::random(&loaded.module, &params, how).expect("tensors");
    let names = params.iter().map(|p| p.name.clone());
    let mut arrays: Named = names.zip(tensors).collect();
    let weights = arrays.split_off(1);
    npz::write(&at("weights.npz"), &weights).expect("writable");
    npz::write(&at("data.npz"), &arrays).expect("writable");
    write_npy(&at("data.npy"), &arrays[0].1);

    let mut answers: Vec<(String, Vec<f64>)> = Vec::new();
    for threads in ["1", "2"] {
        let ran = Command::new(env!("CARGO_BIN_EXE_relax-run"))
            .arg(&model)
            .args(["--threads", threads, "--params"])
            .args([&at("weights.npz"), Path::new("--inputs"), &at("data.npz")])
            .args([Path::new("--outputs"), &at("out.npz")])
            .output()
            .expect("relax-run runs");
        assert!(ran.status.success(), "{ran:?}");
        let out = npz::mapped(&at("out.npz")).expect("an archive").remove(0).1;
        let values = (0..out.len()).map(|i| out.get_f64(i)).collect();
        answers.push((format!("relax-run, {threads} threads"), values));
    }
    for mode in ["embed", "external"] {
        program(&model, &at("weights.npz"), mode, &at(mode));
        for threads in ["1", "2"] {
            let mut call = Command::new(at(mode));
            call.arg(at("data.npy")).env("RELAX_THREADS", threads);
            let ran = call.env_remove("RELAX_WEIGHTS").output().expect("it runs");
            assert!(ran.status.success(), "{ran:?}");
            let text = String::from_utf8_lossy(&ran.stdout).into_owned();
            let lines = text.lines().skip(1);
            let values = lines.map(|l| l.parse().expect("a number")).collect();
            answers.push((format!("{mode}, {threads} threads"), values));
        }
    }
    let (_, want) = answers[0].clone();
    assert_eq!(want.len(), 1000);
    assert!(
        (want.iter().sum::<f64>() - 1.0).abs() < 1e-3,
        "probabilities"
    );
    for (how, found) in &answers {
        assert_eq!(found.len(), want.len(), "{how}");
        for (a, b) in found.iter().zip(&want) {
            assert!(
                (a - b).abs() <= 1e-6 + 1e-4 * b.abs(),
                "{how}: {a}, not {b}"
            );
        }
    }
}
