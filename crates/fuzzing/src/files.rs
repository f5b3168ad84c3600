//! Untrusted files: weights, graphs, models and bytecode in every format that the tools read.
//!
//! A panic is a finding, and so is a claim of bytes that do not exist.

use relax::{Format, InferOptions, ReadOptions, Session, Style, check};
use relax_tensor::{DType, Tensor};
use relax_testkit::{archive, npy};

use crate::text::reads_back;

/// Text-based formats.
const TEXTS: [&str; 4] = ["json", "tvmscript", "metadata", "listing"];

/// Splits an input into the format named in its first line, and the file.
pub(crate) fn parts(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = data.iter().position(|&b| b == b'\n')?;
    Some((&data[..at], &data[at + 1..]))
}

pub(crate) fn is_text(kind: &[u8]) -> bool {
    TEXTS.iter().any(|t| t.as_bytes() == kind)
}

/// Reads the bytes after the first line as a file of the named format; a resulting module must
/// type-check and print, and read back where the text format has all that the file's has.
pub(crate) fn file(data: &[u8]) {
    let Some((kind, bytes)) = parts(data) else {
        return;
    };
    match kind {
        b"json" => module(bytes, Format::TvmJson),
        b"tvmscript" => module(bytes, Format::TvmScript),
        b"onnx" => {
            let external = |name: &str| Err(format!("there is no {name}").into());
            if let Ok(import) = relax_onnx::import(bytes.to_vec().into(), &external) {
                module(import.text.as_bytes(), Format::Relay);
            }
        }
        b"metadata" => {
            let mut text =
                b"def @main() { (meta[relay.Constant][0], meta[relay.Constant][1]) }\n".to_vec();
            text.extend_from_slice(bytes);
            module(&text, Format::Relay);
        }
        #[cfg(feature = "native")]
        b"vmbin" => drop(relax_vm::read(std::sync::Arc::new(bytes.to_vec()))),
        #[cfg(feature = "native")]
        b"listing" => drop(relax_vm::read_listing(&String::from_utf8_lossy(bytes))),
        #[cfg(feature = "native")]
        b"argument" => argument(bytes),
        b"npy" | b"npz" | b"safetensors" | b"params" => arrays(kind, bytes),
        _ => {}
    }
}

/// Reads an array file, which is mapped and so needs a path.
fn arrays(kind: &[u8], bytes: &[u8]) {
    thread_local! {
        static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a folder");
    }
    let name = format!("w.{}", String::from_utf8_lossy(kind));
    let path = FOLDER.with(|folder| folder.path().join(name));
    std::fs::write(&path, bytes).expect("room");
    let Ok(file) = relax::weights::Mapped::open(&path) else {
        return;
    };
    for (_, t) in relax::weights::arrays(&path, &file).unwrap_or_default() {
        assert_eq!(
            Some(t.bytes().len()),
            Tensor::byte_len(t.dtype(), t.shape())
        );
        // All bytes must be readable.
        let sum = t.bytes().iter().fold(0u8, |a, b| a.wrapping_add(*b));
        std::hint::black_box(sum);
        if t.dtype() == DType::BOOL {
            assert!(
                t.bytes().iter().all(|&b| b < 2),
                "a truth value of {:?}",
                t.bytes()
            );
        }
    }
}

/// Passes the same file to the reader of compiled executables.
#[cfg(feature = "native")]
fn argument(bytes: &[u8]) {
    use relax_runtime::program::{npy, zip};
    let array = |bytes: &[u8]| {
        if let Ok(array) = npy::read(bytes, "") {
            let elements = array.shape.iter().try_fold(1i64, |n, &d| n.checked_mul(d));
            let size = usize::from(array.dtype.bits / 8);
            let needed = elements.map(|n| n as usize * size);
            assert_eq!(needed, Some(array.bytes.len()), "{:?}", array.shape);
        }
    };
    match zip::is(bytes) {
        false => array(bytes),
        true => {
            for member in zip::members(bytes).unwrap_or_default() {
                if let Ok(contents) = zip::contents(bytes, &member) {
                    array(&contents);
                }
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
    if format != Format::TvmScript {
        reads_back(&module, &[]);
        return;
    }
    // Names that TVMScript alone has are no part of the text format.
    let (_, diagnostics) = check(&mut module, &InferOptions::default());
    if !diagnostics.has_errors() {
        if let Err(breach) = module.verify() {
            panic!("the module is not sound: {breach}");
        }
        relax::print(&module, Style::Pretty, None);
    }
}

/// Constants of several element types.
const CONSTANTS: &str = "def @main() {
  (stack((1f, 2f), axis=0), stack((True, False), axis=0), stack((1i64, 2i64, 3i64), axis=0))
}";

/// Data types, recursion and closures.
#[cfg(feature = "native")]
const LIST: &str = "def @f(%l: List[int32]) -> int32 {
  match (%l) { Nil => 0, Cons(%h, %t) => add(%h, @f(%t)) }
}
def @main(%n: int32) { let %g = fn (%x: int32) { @f(Cons(%x, Cons(%n, Nil))) }; %g(3) }";

/// Returns a valid input for each format, generated here.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut add = |kind: &str, bytes: Vec<u8>| {
        seeds.push([kind.as_bytes(), b"\n", &bytes].concat());
    };
    for (descr, data) in [("<f4", 24), ("|b1", 6), (">i8", 48), ("<f2", 12)] {
        let file = npy(descr, false, "(2, 3)", &vec![1; data]);
        add("npy", file.clone());
        add("argument", file);
    }
    let array = npy("<f4", false, "(2,)", &[0; 8]);
    let archive = archive(&[("x.npy", array.clone()), ("y.npy", array)]);
    add("npz", archive.clone());
    add("argument", archive);
    let head = br#"{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BOOL","shape":[3],"data_offsets":[8,11]}}"#;
    let length = (head.len() as u64).to_le_bytes();
    add("safetensors", [&length[..], head, &[1; 11]].concat());
    let tensors = [
        ("x".to_owned(), Tensor::zeros(DType::F32, &[2, 3])),
        ("b".to_owned(), Tensor::zeros(DType::BOOL, &[4])),
    ];
    let mut params = Vec::new();
    relax_tvm::params::write(&mut params, &tensors).expect("memory takes all");
    add("params", params);
    let folded = folded();
    let graph = relax::json_graph(&folded, None, relax::Release(12));
    let mut json = Vec::new();
    graph
        .expect("it has a form")
        .to(&mut json)
        .expect("memory takes all");
    add("json", json);
    let text = relax::print(&folded, Style::Pretty, None);
    let at = text.find("#[metadata]").expect("it has constants");
    add("metadata", text.as_bytes()[at..].to_vec());
    add("onnx", onnx());
    #[cfg(feature = "native")]
    for text in [CONSTANTS, LIST] {
        let program = program(text);
        add("vmbin", relax_vm::write(&program).expect("it has a form"));
        add(
            "listing",
            relax_vm::print(&program)
                .expect("it has a form")
                .into_bytes(),
        );
    }
    seeds
}

/// Returns the module with constants folded.
fn folded() -> relax_ir::Module {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, _) = session.read("constants", CONSTANTS.as_bytes().to_vec());
    let steps = session
        .pipeline("infer-type,fold-constant")
        .expect("passes");
    relax::run_pipeline(
        &steps,
        &mut module,
        &relax::PassConfig::default(),
        &mut relax::Silent,
    );
    module
}

#[cfg(feature = "native")]
fn program(text: &str) -> relax_vm::Executable {
    use relax::native;
    let mut session = Session::new(ReadOptions::default());
    let (mut module, _) = session.read("seed", text.as_bytes().to_vec());
    let typing = native::optimise(&mut session, &mut module, "O2").expect("it optimises");
    let main = module.global("main").expect("a main");
    let lowered =
        native::lower(&module, &typing, &[main], &session.sources).expect("it is lowered");
    relax::vm::program(&lowered, &module).expect("it has a form")
}

/// Encodes a field of a message.
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

/// Returns a model with a product, a sum and a reshape, with weights.
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
