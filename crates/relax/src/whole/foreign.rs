//! Recognition of files in other formats and languages by their beginning.

use relax_base::Span;

/// A recognised format or language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Foreign {
    /// A description, with its article.
    pub(crate) what: &'static str,
    /// The advice to the user; may be empty.
    pub(crate) advice: &'static str,
}

/// A signature: its offset and bytes, the description of the file, and the advice.
type Bytes = (usize, &'static [u8], &'static str, &'static str);

const UNPACK: &str = "unpack it first";
const WEIGHTS: &str = "weights are given beside a program: `--params FILE`";

const BYTES: &[Bytes] = &[
    (0, b"\x7fELF", "an ELF object or program", ""),
    (0, b"MZ\x90\0", "a Windows program", ""),
    (0, b"\xcf\xfa\xed\xfe", "a Mach-O object or program", ""),
    (0, b"\xce\xfa\xed\xfe", "a Mach-O object or program", ""),
    (
        0,
        b"\xca\xfe\xba\xbe",
        "a Mach-O program or a Java class",
        "",
    ),
    (0, b"!<arch>\n", "an archive of objects", ""),
    (0, b"BC\xc0\xde", "LLVM bitcode", ""),
    (0, b"ML\xefR", "MLIR bytecode", ""),
    (0, b"\0asm", "a WebAssembly module", ""),
    (
        0,
        b"\x1f\x8b",
        "a file packed by gzip",
        "unpack it first: `gunzip FILE`",
    ),
    (0, b"BZh", "a file packed by bzip2", UNPACK),
    (0, b"\xfd7zXZ\0", "a file packed by xz", UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "a file packed by zstd", UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", UNPACK),
    (
        0,
        b"PK\x03\x04",
        "a ZIP archive (or what is kept in one: `.npz`, `.pt`, `.keras`)",
        "",
    ),
    (
        257,
        b"ustar",
        "a tar archive",
        "unpack it first: `tar xf FILE`",
    ),
    (0, b"\x89PNG\r\n", "a PNG image", ""),
    (0, b"\xff\xd8\xff", "a JPEG image", ""),
    (0, b"GIF8", "a GIF image", ""),
    (8, b"WEBP", "a WebP image", ""),
    (0, b"II*\0", "a TIFF image", ""),
    (0, b"MM\0*", "a TIFF image", ""),
    (0, b"%PDF-", "a PDF document", ""),
    (
        0,
        b"\x89HDF\r\n",
        "an HDF5 file (Keras keeps models in such)",
        "",
    ),
    (0, b"\x93NUMPY", "a NumPy array", WEIGHTS),
    (
        0,
        b"\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7",
        "a file of TVM's parameters",
        WEIGHTS,
    ),
    (4, b"TFL3", "a TensorFlow Lite model", ""),
    (0, b"SQLite format 3\0", "an SQLite database", ""),
    (0, b"\x80\x02", "a Python pickle", ""),
    (0, b"\x80\x03", "a Python pickle", ""),
    (0, b"\x80\x04\x95", "a Python pickle", ""),
    (0, b"\x80\x05\x95", "a Python pickle", ""),
];

/// Identifies a binary file by its first bytes; one that is unknown is at least reported as binary.
pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Foreign> {
    let found = BYTES.iter().find(|(at, sign, ..)| {
        let there = bytes.get(*at..at + sign.len());
        there == Some(*sign)
    });
    if let Some(&(_, _, what, advice)) = found {
        return Some(Foreign { what, advice });
    }
    if is_safetensors(bytes) {
        let what = "a safetensors file";
        return Some(Foreign {
            what,
            advice: WEIGHTS,
        });
    }
    if is_onnx(bytes) {
        let what = "an ONNX model";
        return Some(Foreign { what, advice: "" });
    }
    let start = &bytes[..bytes.len().min(1 << 16)];
    start.contains(&0).then_some(Foreign {
        what: "binary data",
        advice: "",
    })
}

/// Matches an eight-byte length of a JSON header, then the header.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((len, rest)) = bytes.split_first_chunk() else {
        return false;
    };
    let len = u64::from_le_bytes(*len);
    (2..1 << 32).contains(&len) && rest.starts_with(b"{\"")
}

/// Matches field 1 (the version) as a small number, then field 2 (the producer) or 7 (the graph).
fn is_onnx(bytes: &[u8]) -> bool {
    match bytes {
        [0x08, version, 0x12, len, name @ ..] if *version < 32 => {
            let name = name.get(..usize::from(*len));
            name.is_some_and(|n| n.iter().all(|b| (32..127).contains(b)))
        }
        [0x08, version, 0x3a, ..] => *version < 32,
        _ => false,
    }
}

/// A line prefix of a text in another language, the description of the text, and the advice.
type Line = (&'static str, &'static str, &'static str);

const TVMSCRIPT: &str = "TVMScript";
const TIR: &str = "TIR, the language of TVM's tensor programs, as `lower` prints it";
const TIR_ADVICE: &str = "it is made of Relay: give the program it was made of";
const NODES: &str = "a tree of nodes as TVM's `repr` prints it";
const NODES_ADVICE: &str = "print the text there: `print(mod.astext())`";
const MESSAGE: &str = "a message of TVM";
const MLIR: &str = "MLIR";
const LLVM: &str = "LLVM's intermediate language";
const PYTHON: &str = "Python";
const PYTHON_ADVICE: &str = "print the module there: `print(mod.astext())`";
const C: &str = "C or C++";
const HTML: &str = "a page of HTML";
const HTML_ADVICE: &str = "save the text itself (a site's \"raw\" link)";
const ONNX_TEXT: &str = "an ONNX model as text";

const LINES: &[Line] = &[
    ("from tvm.script import", TVMSCRIPT, ""),
    ("@tvm.script", TVMSCRIPT, ""),
    ("@I.ir_module", TVMSCRIPT, ""),
    ("@T.prim_func", TVMSCRIPT, ""),
    ("@R.function", TVMSCRIPT, ""),
    ("# from tvm.script", TVMSCRIPT, ""),
    ("primfn(", TIR, TIR_ADVICE),
    ("@main = primfn(", TIR, TIR_ADVICE),
    ("attr [IterVar(", TIR, TIR_ADVICE),
    ("func.func ", MLIR, ""),
    ("module {", MLIR, ""),
    ("module @", MLIR, ""),
    ("module attributes", MLIR, ""),
    ("builtin.module", MLIR, ""),
    ("\"builtin.module\"", MLIR, ""),
    ("#map", MLIR, ""),
    ("#loc", MLIR, ""),
    ("; ModuleID", LLVM, ""),
    ("target datalayout", LLVM, ""),
    ("target triple", LLVM, ""),
    ("source_filename =", LLVM, ""),
    ("HloModule ", "HLO, XLA's language", ""),
    ("graph(%", "a graph of TorchScript", ""),
    ("CallNode(", NODES, NODES_ADVICE),
    ("FunctionNode(", NODES, NODES_ADVICE),
    ("FuncNode(", NODES, NODES_ADVICE),
    ("IRModule({", NODES, NODES_ADVICE),
    ("IRModuleNode(", NODES, NODES_ADVICE),
    ("Function([", NODES, NODES_ADVICE),
    ("error: The Relay type checker", MESSAGE, ""),
    ("The Relay type checker is unable", MESSAGE, ""),
    (
        "Traceback (most recent call last)",
        "a traceback of Python",
        "",
    ),
    ("import tvm", PYTHON, PYTHON_ADVICE),
    ("import numpy", PYTHON, PYTHON_ADVICE),
    ("import torch", PYTHON, PYTHON_ADVICE),
    ("from tvm", PYTHON, PYTHON_ADVICE),
    ("#!/usr/bin/env python", PYTHON, PYTHON_ADVICE),
    ("#!/usr/bin/python", PYTHON, PYTHON_ADVICE),
    ("#!/bin/", "a shell script", ""),
    ("#include ", C, ""),
    ("#ifndef ", C, ""),
    ("#pragma ", C, ""),
    ("// tvm target:", C, ""),
    ("extern \"C\"", C, ""),
    ("<!DOCTYPE", HTML, HTML_ADVICE),
    ("<!doctype", HTML, HTML_ADVICE),
    ("<html", HTML, HTML_ADVICE),
    ("<?xml", "XML", ""),
    (
        "diff --git",
        "a patch",
        "apply it, or take the new text out of it",
    ),
    ("digraph ", "a graph for Graphviz", ""),
    ("ir_version:", ONNX_TEXT, ""),
    ("producer_name:", ONNX_TEXT, ""),
    ("node {", "a graph of TensorFlow as text", ""),
    (
        "version https://git-lfs",
        "a pointer of Git LFS",
        "fetch the file: `git lfs pull`",
    ),
];

/// Identifies a text in another language by its first characteristic line, whose span is returned.
pub(crate) fn of_text(text: &str) -> Option<(Foreign, Span)> {
    let place = |part: &str| {
        let start = part.as_ptr() as usize - text.as_ptr() as usize;
        let len = part.lines().next().map_or(0, |l| l.trim_end().len());
        Span::new(start as u32, (start + len) as u32)
    };
    let start = text.trim_start();
    if start.starts_with('{') && start[1..].trim_start().starts_with(['"', '}'])
        || start.starts_with('[') && start[1..].trim_start().starts_with(['{', '[', '"', ']'])
    {
        return Some((json(start), place(start)));
    }
    let lines = text.lines().map(str::trim_start).filter(|l| !l.is_empty());
    for line in lines.take(60) {
        // Once Relay text begins, later lines are not characteristic; TIR has the same header.
        let ours = super::log::starts_item(line) && !line.starts_with("#[version");
        if ours && !line.contains("primfn(") {
            return None;
        }
        if let Some(&(_, what, advice)) = LINES.iter().find(|l| line.starts_with(l.0)) {
            return Some((Foreign { what, advice }, place(line)));
        }
        if line.starts_with("func @") && text.contains("tensor<") {
            let what = MLIR;
            return Some((Foreign { what, advice: "" }, place(line)));
        }
    }
    None
}

/// Returns the first line that a patch adds, if the text is a patch that removes and adds lines of
/// Relay.
pub(crate) fn patch(text: &str) -> Option<Span> {
    let changed = |mark: char| {
        let mut at = 0;
        text.split_inclusive('\n').find_map(|line| {
            let start = at;
            at += line.len();
            let rest = line.strip_prefix(mark)?.trim_start();
            let ours = rest.starts_with(['%', '}']) || super::log::starts_item(rest);
            ours.then(|| Span::new(start as u32, (start + line.trim_end().len()) as u32))
        })
    };
    changed('-').and(changed('+'))
}

/// Identifies the kind of a JSON file.
fn json(text: &str) -> Foreign {
    let mut end = text.len().min(1 << 16);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let has = |key: &str| text[..end].contains(key);
    let what = match () {
        () if has("\"arg_nodes\"") || has("\"node_row_ptr\"") => {
            "a graph of TVM's graph executor, which is compiled already"
        }
        () if has("\"nbformat\"") => "a notebook of Jupyter",
        () if has("\"type_key\"") => "a graph that TVM saved as JSON",
        () => "JSON",
    };
    Foreign { what, advice: "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_files_by_their_first_bytes() {
        let of = |bytes: &[u8]| of_bytes(bytes).map(|f| f.what);
        assert_eq!(of(b"\x7fELF\x02\x01"), Some("an ELF object or program"));
        assert_eq!(of(b"\x1f\x8b\x08\0"), Some("a file packed by gzip"));
        assert_eq!(of(b"\x08\x07\x12\x07pytorch"), Some("an ONNX model"));
        assert_eq!(of(b"\x40\0\0\0\0\0\0\0{\"w\":"), Some("a safetensors file"));
        assert_eq!(of(b"abc\0def"), Some("binary data"));
        assert_eq!(of("def @main() { 1 }".as_bytes()), None);
        assert_eq!(of(b""), None);
        assert_eq!(of("%PDFs".as_bytes()), None);
    }

    #[test]
    fn tells_languages_by_their_lines() {
        let of = |text: &str| of_text(text).map(|f| f.0.what);
        assert_eq!(
            of("\n@T.prim_func\ndef main(a: T.handle):"),
            Some(TVMSCRIPT)
        );
        assert_eq!(
            of("#[version = \"0.0.5\"]\nprimfn(A_1: handle) -> ()"),
            Some(TIR)
        );
        assert_eq!(of("module {\n  func.func @main() {"), Some(MLIR));
        assert_eq!(of("{\n \"nodes\": []}"), Some("JSON"));
        assert_eq!(of("def @main() {\n  import tvm\n}"), None);
        assert_eq!(of(""), None);
    }
}
