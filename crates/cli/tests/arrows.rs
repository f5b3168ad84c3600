//! The rooms and their arrows, as ARCHITECTURE.md draws them, held against `cargo metadata`.

use std::collections::BTreeMap;
use std::process::Command;

/// Which rooms a room may use directly.
const ARROWS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("tensor", &[]),
    ("runtime", &[]),
    ("testkit", &["tensor"]),
    ("sym", &["base"]),
    ("syntax", &["base"]),
    ("loops", &["base", "tensor"]),
    ("ir", &["base", "sym", "tensor", "loops"]),
    ("ops", &["base", "sym", "tensor", "loops", "ir"]),
    (
        "resolve",
        &[
            "base", "syntax", "sym", "tensor", "loops", "ir", "ops", "tvm",
        ],
    ),
    ("infer", &["base", "sym", "tensor", "loops", "ir", "ops"]),
    (
        "passes",
        &[
            "base", "syntax", "sym", "tensor", "loops", "ir", "ops", "infer", "interp",
        ],
    ),
    (
        "interp",
        &["base", "sym", "tensor", "loops", "ir", "ops", "infer"],
    ),
    (
        "lower",
        &[
            "base", "sym", "tensor", "loops", "ir", "ops", "infer", "passes",
        ],
    ),
    (
        "vm",
        &[
            "base", "tensor", "loops", "syntax", "ir", "resolve", "lower",
        ],
    ),
    (
        "codegen",
        &["base", "tensor", "loops", "ir", "lower", "runtime"],
    ),
    ("tvm", &["base", "tensor", "syntax", "sym", "ir", "ops"]),
    ("onnx", &["base", "sym", "tensor", "loops", "ir", "ops"]),
    (
        "tvmscript",
        &["base", "sym", "tensor", "loops", "ir", "ops"],
    ),
    (
        "relax",
        &[
            "base",
            "syntax",
            "sym",
            "tensor",
            "loops",
            "ir",
            "ops",
            "resolve",
            "infer",
            "passes",
            "interp",
            "lower",
            "vm",
            "codegen",
            "tvm",
            "tvmscript",
            "onnx",
        ],
    ),
    (
        "lsp",
        &[
            "base", "tensor", "syntax", "sym", "ir", "ops", "resolve", "passes", "relax",
        ],
    ),
    (
        "cli",
        &[
            "base", "syntax", "sym", "tensor", "loops", "ir", "ops", "passes", "relax", "lower",
            "vm", "codegen", "runtime", "interp", "tvm", "onnx",
        ],
    ),
    ("python", &["relax", "cli", "lsp"]),
    (
        "fuzzing",
        &[
            "base", "syntax", "tensor", "ir", "passes", "interp", "onnx", "tvm", "relax", "lsp",
            "testkit", "lower", "codegen", "runtime", "vm",
        ],
    ),
];

/// Crates that only one room (or those named) may know.
const KEPT: &[(&str, &str)] = &[
    ("cranelift-codegen", "codegen"),
    ("cranelift-object", "codegen"),
    ("cranelift-jit", "codegen"),
    ("ariadne", "cli"),
    ("clap", "cli lsp"),
    ("lalrpop-util", "syntax tvmscript vm"),
    ("logos", "syntax tvmscript vm"),
    ("prost", "onnx"),
    ("lsp-server", "lsp"),
    ("lsp-types", "lsp"),
    ("pyo3", "python"),
    ("numpy", "python"),
];

fn dependencies() -> BTreeMap<String, Vec<String>> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let out = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
            "--manifest-path",
            manifest,
        ])
        .output()
        .expect("cargo runs");
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("cargo prints JSON");
    let mut all = BTreeMap::new();
    for package in json["packages"].as_array().expect("a list of packages") {
        let name = package["name"].as_str().expect("a name").to_owned();
        let uses = package["dependencies"]
            .as_array()
            .expect("a list of dependencies");
        let normal = uses.iter().filter(|d| d["kind"].is_null());
        let names = normal
            .map(|d| d["name"].as_str().expect("a name").to_owned())
            .collect();
        all.insert(name, names);
    }
    all
}

#[test]
fn every_arrow_is_drawn() {
    for (package, uses) in dependencies() {
        let room = package
            .strip_prefix("relax-")
            .or((package == "relax").then_some("relax"))
            .expect("packages are named relax-…, and relax itself");
        let (_, allowed) = ARROWS
            .iter()
            .find(|a| a.0 == room)
            .unwrap_or_else(|| panic!("room `{room}` is not on the map"));
        let ours = |u: &'_ String| u == "relax" || u.starts_with("relax-");
        for used in uses.iter().filter(|u| ours(u)) {
            let used = used.strip_prefix("relax-").unwrap_or(used);
            assert!(allowed.contains(&used), "`{room}` may not use `{used}`");
        }
        for (krate, keeper) in KEPT {
            let knows = uses.iter().any(|u| u == krate);
            assert!(
                !knows || keeper.split(' ').any(|k| k == room),
                "only `{keeper}` may know `{krate}`, not `{room}`"
            );
        }
    }
}
