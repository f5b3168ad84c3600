//! Bytes of others: weights, graphs, models and programs of the machine in every format that the tools read.
//!
//! A panic is a finding, and so are bytes that are promised and not there.

use std::path::{Path, PathBuf};
use std::process::Command;

use relax::{Format, InferOptions, ReadOptions, Session, Style, check};

#[path = "../common/folder.rs"]
mod folder;
#[path = "../common/npy.rs"]
mod npy_file;

use folder::Folder;

/// A file that is sound.
pub struct Seed {
    /// What it is: a name that [`read`] knows.
    pub kind: &'static str,
    pub bytes: Vec<u8>,
    /// Whether it is changed by tokens too.
    pub text: bool,
}

/// A module with constants of several element types.
const CONSTANTS: &str = "def @main() {
  (stack((1f, 2f), axis=0), stack((True, False), axis=0), stack((1i64, 2i64, 3i64), axis=0))
}";

/// Sound files of every format.
pub fn seeds(root: &Path) -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |kind, bytes, text| seeds.push(Seed { kind, bytes, text });
    for (descr, data) in [("<f4", 24), ("|b1", 6), (">i8", 48), ("<f2", 12)] {
        add(
            "npy",
            npy_file::npy(descr, false, "(2, 3)", &vec![1; data]),
            false,
        );
    }
    let folder = Folder::new("fuzzed-seeds");
    folder.write("constants.relay", CONSTANTS);
    let opt = env!("CARGO_BIN_EXE_relax-opt");
    let made = |tool: &str, args: &[&str], out: &str| {
        let done = Command::new(tool)
            .args(args)
            .args(["-o", out])
            .current_dir(&folder.0)
            .output()
            .expect("the tool starts");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{out}: {said}");
        std::fs::read(folder.0.join(out)).expect("it is written")
    };
    let fold = ["--pipeline", "infer-type,fold-constant", "constants.relay"];
    for (kind, out) in [
        ("npz", "w.npz"),
        ("safetensors", "w.safetensors"),
        ("params", "w.params"),
    ] {
        add(kind, made(opt, &fold, out), false);
    }
    add("json", made(opt, &fold, "w.json"), true);
    let text = made(opt, &fold, "w.relay");
    let at = find(&text, b"#[metadata]").expect("it has constants");
    add("metadata", text[at..].to_vec(), true);
    #[cfg(feature = "native")]
    for source in ["constants.relay", "list.relay"] {
        folder.write(
            "list.relay",
            "def @f(%l: List[int32]) -> int32 {
               match (%l) { Nil => 0, Cons(%h, %t) => add(%h, @f(%t)) }
             }
             def @main(%n: int32) { let %g = fn (%x: int32) { @f(Cons(%x, Cons(%n, Nil))) }; %g(3) }",
        );
        let relaxc = env!("CARGO_BIN_EXE_relaxc");
        add(
            "vmbin",
            made(relaxc, &["--emit", "vmbin", source], "p.vmbin"),
            false,
        );
        add(
            "listing",
            made(relaxc, &["--emit", "vm", source], "p.vm"),
            true,
        );
    }
    for (dir, extension, kind) in [("graphs", "json", "json"), ("tvmscript", "py", "tvmscript")] {
        for file in relax_testkit::files(&root.join("tests").join(dir), extension) {
            add(kind, std::fs::read(file).expect("a file of ours"), true);
        }
    }
    add("onnx", onnx(), false);
    seeds
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|w| w == what)
}

/// A field of a message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 127 {
        out.push(length as u8 | 128);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(bytes);
    out
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

/// A model of a product, a sum and a reshape, with weights.
fn onnx() -> Vec<u8> {
    let node = |op: &str, inputs: &[&str], output: &str| {
        let mut n: Vec<u8> = inputs.iter().flat_map(|i| field(1, i.as_bytes())).collect();
        n.extend(field(2, output.as_bytes()));
        n.extend(field(4, op.as_bytes()));
        field(1, &n)
    };
    let value = |at: u8, name: &str, dims: &[u8]| {
        let dims: Vec<u8> = dims.iter().flat_map(|&d| field(1, &number(1, d))).collect();
        let tensor = [number(1, 1), field(2, &dims)].concat();
        field(
            at,
            &[field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat(),
        )
    };
    let weight = |name: &str, ty: u8, dims: &[u8], data: &[u8]| {
        let dims: Vec<u8> = dims.iter().flat_map(|&d| number(1, d)).collect();
        field(
            5,
            &[
                dims,
                number(2, ty),
                field(8, name.as_bytes()),
                field(9, data),
            ]
            .concat(),
        )
    };
    let graph = [
        node("MatMul", &["x", "w"], "m"),
        node("Add", &["m", "b"], "a"),
        node("Reshape", &["a", "s"], "y"),
        field(2, b"g"),
        weight("w", 1, &[3, 2], &[0; 24]),
        weight("b", 1, &[2], &[0; 8]),
        weight("s", 7, &[1], &[255; 8]),
        value(11, "x", &[4, 3]),
        value(12, "y", &[8]),
    ];
    let opset = field(8, &number(2, 17));
    [number(1, 8), field(7, &graph.concat()), opset].concat()
}

/// Reads bytes as a file of that kind; a module that comes out types and prints.
pub fn read(kind: &str, bytes: &[u8], scratch: &Path) {
    match kind {
        "json" => module(bytes, Format::TvmJson),
        "tvmscript" => module(bytes, Format::TvmScript),
        "onnx" => {
            let external = |name: &str| Err(format!("there is no {name}"));
            if let Ok(import) = relax_onnx::import(bytes.to_vec().into(), &external) {
                module(import.text.as_bytes(), Format::Relay);
            }
        }
        "metadata" => {
            let mut text =
                b"def @main() { (meta[relay.Constant][0], meta[relay.Constant][1]) }\n".to_vec();
            text.extend_from_slice(bytes);
            module(&text, Format::Relay);
        }
        #[cfg(feature = "native")]
        "vmbin" => drop(relax_vm::read(std::sync::Arc::new(bytes.to_vec()))),
        #[cfg(feature = "native")]
        "listing" => drop(relax_vm::read_listing(&String::from_utf8_lossy(bytes))),
        weights => {
            // What is there may be mapped: it needs a file.
            let path: PathBuf = scratch.join(format!("w.{weights}"));
            std::fs::write(&path, bytes).expect("room");
            for (_, t) in relax_cli::weights::read(&path).unwrap_or_default() {
                // All bytes are there, to be read.
                let sum = t.bytes().iter().fold(0u8, |a, b| a.wrapping_add(*b));
                std::hint::black_box(sum);
            }
        }
    }
}

fn module(bytes: &[u8], format: Format) {
    let mut session = Session::new(ReadOptions {
        format: Some(format),
        ..ReadOptions::default()
    });
    let (mut module, diagnostics) = session.read("input", bytes.to_vec());
    if diagnostics.has_errors() {
        return;
    }
    let (_, diagnostics) = check(&mut module, &InferOptions::default());
    if !diagnostics.has_errors() {
        if let Err(breach) = module.verify() {
            panic!("the module is not sound: {breach}");
        }
        relax::print(&module, Style::Pretty, None);
    }
}
