//! TVM's JSON graphs: each in `tests/graphs` is compared with the text that TVM's printer would
//! produce.

use std::path::{Path, PathBuf};

use relax::{Format, Input, ReadOptions, Session, Style, TypeSource};
use relax_ir::{EqualOptions, Module};

const OPTIONS: EqualOptions = EqualOptions {
    annotations: false,
    close_floats: true,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/graphs")
}

fn read(path: &Path) -> Result<Input, String> {
    let bytes = std::fs::read(path).expect("a file");
    read_bytes(&path.display().to_string(), bytes)
}

fn read_bytes(name: &str, bytes: Vec<u8>) -> Result<Input, String> {
    let mut session = Session::new(ReadOptions::default());
    let mut diagnostics = Default::default();
    let input = session.input(name, bytes.into(), &mut diagnostics);
    match diagnostics.iter().find(|d| d.is_error()) {
        Some(d) => Err(format!("{}: {}", d.code, d.message)),
        None => Ok(input),
    }
}

fn graphs() -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder()).expect("a folder");
    let mut files: Vec<_> = files.flatten().map(|e| e.path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "json"));
    files.sort();
    assert!(!files.is_empty());
    files
}

fn same(graph: &Path, text: &Path) -> Result<(), String> {
    let (left, right) = (read(graph)?, read(text)?);
    assert_eq!(
        (left.format, right.format),
        (Format::TvmJson, Format::Relay)
    );
    match relax::difference(&left.module, &right.module, OPTIONS) {
        None => Ok(()),
        Some(found) => Err(format!("{}: {}", graph.display(), found.text)),
    }
}

#[test]
fn a_graph_is_the_module_of_its_text() {
    for path in graphs() {
        same(&path, &path.with_extension("relay")).expect("equal");
    }
}

#[test]
fn types_of_a_graph_are_printed_without_any_pass() {
    for path in graphs() {
        let input = read(&path).expect("a graph");
        let types = input.types.as_ref().map(|t| t as &dyn TypeSource);
        let text = relax::print(&input.module, Style::Tvm, types);
        let expected = path.with_extension("relay");
        if std::env::var_os("RELAX_BLESS").is_some() {
            std::fs::write(&expected, &text).expect("a file is written");
        }
        let expected = std::fs::read_to_string(&expected).expect("a text");
        assert_eq!(text, expected, "{}", path.display());
        assert_eq!(types.is_some(), path.ends_with("typed.json"));
    }
}

/// Graphs with one byte changed, removed or inserted are read or rejected, without a crash.
#[test]
fn damaged_graphs_are_read_or_refused() {
    for path in graphs() {
        let bytes = std::fs::read(&path).expect("a file");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            match at % 4 {
                0 => changed.truncate(at),
                1 => changed[at] = b'0' + (at % 10) as u8,
                2 => changed[at] = b"{}[]\",:\\\xff"[at % 9],
                _ => changed.insert(at, b'1'),
            }
            if let Err(message) = read_bytes("damaged.json", changed) {
                assert!(message.len() > 10, "{message}");
            }
        }
    }
}

fn graph(root: &str, nodes: &[String]) -> Vec<u8> {
    let nodes = nodes.join(",\n");
    format!("{{\"root\": {root}, \"nodes\": [{nodes}]}}").into_bytes()
}

fn node(kind: &str, fields: &str, data: &str) -> String {
    format!("{{\"type_key\": \"{kind}\", \"attrs\": {{{fields}}}, \"data\": [{data}]}}")
}

/// Tuples nested a hundred thousand deep, also with shared operands.
#[test]
fn what_is_deep_or_used_often_takes_little() {
    const DEEP: usize = 100_000;
    for uses in [1, 2] {
        let mut nodes = vec![node("", "", "")];
        for i in 0..DEEP {
            let below = if i == 0 {
                Vec::new()
            } else {
                vec![(2 * i).to_string(); uses]
            };
            nodes.push(node("Array", "", &below.join(", ")));
            let fields = format!("\"fields\": \"{}\"", 2 * i + 1);
            nodes.push(node("relay.Tuple", &fields, ""));
        }
        let input = read_bytes("deep.json", graph(&(2 * DEEP).to_string(), &nodes));
        let input = input.expect("a graph");
        assert!(input.module.exprs.len() < 2 * DEEP);
    }
}

/// Types and values are expanded at each use: what would become too large is rejected.
#[test]
fn what_would_take_too_much_room_is_refused() {
    let doubled = |kind: &str, list: &str| {
        let mut nodes = vec![node("", "", ""), node("Array", "", "")];
        let mut last = 0;
        for _ in 0..64 {
            let below = if last == 0 {
                String::new()
            } else {
                format!("{last}, {last}")
            };
            nodes.push(node("Array", "", &below));
            let array = nodes.len() - 1;
            nodes.push(node(kind, &format!("\"{list}\": \"{array}\""), ""));
            last = nodes.len() - 1;
        }
        read_bytes("large.json", graph(&last.to_string(), &nodes))
    };
    let error = doubled("TupleType", "fields").expect_err("too large");
    assert!(error.starts_with("RX1216"), "{error}");
    // Expressions remain shared instead.
    doubled("relay.Tuple", "fields").expect("a graph");
}

#[test]
fn a_node_that_is_a_part_of_itself_is_refused() {
    for (kind, list) in [("relay.Tuple", "fields"), ("TupleType", "fields")] {
        let fields = format!("\"{list}\": \"1\"");
        let nodes = [
            node("", "", ""),
            node("Array", "", "2"),
            node(kind, &fields, ""),
        ];
        let error = read_bytes("circle.json", graph("2", &nodes)).expect_err("a circle");
        assert!(error.contains("a part of itself"), "{error}");
    }
}

/// The conformance cases, if they are next to the project.
#[test]
fn conformance_cases_are_read() {
    let cases = folder().join("../../../shared/conformance/relay-json");
    for kind in ["made", "old"] {
        let Ok(files) = std::fs::read_dir(cases.join(kind)) else {
            return;
        };
        for path in files.flatten().map(|e| e.path()) {
            let name = path
                .file_name()
                .and_then(|n| n.to_str())
                .unwrap_or_default();
            let Some(stem) = name.strip_suffix(".json").filter(|n| *n != "notes") else {
                continue;
            };
            let text = stem.rsplit_once(".v0").map_or(stem, |s| s.0);
            same(&path, &path.with_file_name(format!("{text}.relay"))).expect("equal");
        }
    }
}

/// Variables keep their names in the graph.
#[test]
fn names_are_those_of_the_graph() {
    let module: Module = read(&folder().join("control.json"))
        .expect("a graph")
        .module;
    let names = module.vars.values().filter(|v| v.name == "x").count();
    assert_eq!(names, 2);
}

/// Writes the graphs of texts that have a form in it, with inferred types if `typed`.
fn written(path: &Path, typed: bool) -> Option<(Module, Vec<u8>)> {
    let mut module = read(path).ok()?.module;
    // Items from the prelude are in the graph, as in TVM.
    if module.adts.values().any(|a| a.prelude) {
        return None;
    }
    let types = typed.then(|| {
        let options = relax::InferOptions::default();
        relax::check(&mut module, &options).0
    });
    let types = types.as_ref().map(|typing| relax::TypedModule {
        module: &module,
        typing,
    });
    let types = types.as_ref().map(|t| t as &dyn TypeSource);
    let release = "0.12".parse().expect("a release");
    let graph = relax::json_graph(&module, types, release).ok()?;
    let mut bytes = Vec::new();
    graph.to(&mut bytes).expect("memory holds it");
    Some((module, bytes))
}

/// Written graphs read back as the same module.
#[test]
fn written_graphs_read_back() {
    let root = folder().join("../..");
    let mut paths = Vec::new();
    for from in ["tests/types", "tests/run", "tests/passes", "examples"] {
        paths.extend(relax_testkit::files(&root.join(from), "relay"));
    }
    let cases = root.join("../shared/conformance/relay/types");
    if cases.is_dir() {
        let cases = relax_testkit::files(&cases, "relay");
        paths.extend(cases.into_iter().step_by(8));
    }
    let (mut failed, mut count) = (Vec::new(), 0);
    for (i, path) in paths.iter().enumerate() {
        let Some((module, bytes)) = written(path, i % 2 == 0) else {
            continue;
        };
        count += 1;
        let name = path.display();
        match read_bytes("written.json", bytes) {
            Err(error) => failed.push(format!("{name}: {error}")),
            Ok(again) => {
                let found = relax::difference(&module, &again.module, OPTIONS);
                failed.extend(found.map(|f| format!("{name}: {}", f.text)));
            }
        }
    }
    assert!(count > 40, "only {count} texts have the form");
    assert!(
        failed.is_empty(),
        "{} of {count}:\n{}",
        failed.len(),
        failed[..failed.len().min(12)].join("\n")
    );
}

/// Graphs written by TVM are written back as graphs of the same module, including types and
/// constants.
#[test]
fn graphs_are_written_as_they_were_read() {
    for path in graphs() {
        let input = read(&path).expect("a graph");
        let types = input.types.as_ref().map(|t| t as &dyn TypeSource);
        let release = "0.12".parse().expect("a release");
        let graph = relax::json_graph(&input.module, types, release).expect("a form");
        let mut bytes = Vec::new();
        graph.to(&mut bytes).expect("memory holds it");
        let again = read_bytes("again.json", bytes).expect("a graph");
        let print = |module: &Module, types: Option<&dyn TypeSource>| {
            relax::print(module, Style::Tvm, types)
        };
        let more = again.types.as_ref().map(|t| t as &dyn TypeSource);
        assert_eq!(print(&input.module, types), print(&again.module, more));
    }
}
