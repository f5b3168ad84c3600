//! The grammar against the compiler's own parser, its corpus, and its queries.

use std::path::{Path, PathBuf};

use relax_base::{Code, SourceMap};
use tree_sitter::{Language, Parser, Query};
use tree_sitter_relay as grammar;

/// What the parser looks at after the grammar: sizes of numbers, and whether a loop has as many
/// variables as extents.
const COUNTED: [Code; 2] = [Code(110), Code(116)];

fn language() -> Language {
    grammar::LANGUAGE.into()
}

fn parser() -> Parser {
    let mut parser = Parser::new();
    parser
        .set_language(&language())
        .expect("a version the library reads");
    parser
}

fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            collect(&path, out);
        } else if path.extension().is_some_and(|e| e == "relay") {
            out.push(path);
        }
    }
}

#[test]
fn both_parsers_accept_the_same_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for dir in ["tests", "examples", "prelude"] {
        collect(&root.join(dir), &mut files);
    }
    files.sort();
    assert!(files.len() > 100, "only {} files were found", files.len());
    let mut parser = parser();
    let mut wrong = String::new();
    for path in &files {
        let Ok(text) = String::from_utf8(std::fs::read(path).expect("it can be read")) else {
            continue;
        };
        let mut map = SourceMap::new();
        let file = map.add("", text.as_str()).expect("short");
        let parsed = relax_syntax::parse(&file);
        // What former versions wrote is no part of the language that editors know: `--upgrade` rewrites it.
        let hash = |c: &relax_syntax::Comment| file.slice(c.span).starts_with('#');
        if !parsed.old.is_empty() || parsed.comments.iter().any(hash) {
            continue;
        }
        let said = parsed.diagnostics;
        let mut errors = said.iter().filter(|d| d.is_error());
        let accepted = errors.all(|d| COUNTED.contains(&d.code));
        let tree = parser.parse(&text, None).expect("a tree");
        if accepted == tree.root_node().has_error() {
            let which = if accepted { "rejects" } else { "accepts" };
            wrong.push_str(&format!("tree-sitter {which} {}\n", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// White space does not matter.
fn normal(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace(" )", ")")
}

#[test]
fn the_corpus_is_parsed_as_written() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("test/corpus");
    let bless = std::env::var_os("RELAX_BLESS").is_some();
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let rule = "=".repeat(20) + "\n";
        let mut parts = text.split(rule.as_str()).skip(1);
        let mut written = String::new();
        while let (Some(name), Some(case)) = (parts.next(), parts.next()) {
            let (source, tree) = case.split_once("\n---\n").expect("a source and a tree");
            let found = parser()
                .parse(source, None)
                .expect("a tree")
                .root_node()
                .to_sexp();
            if !bless {
                assert_eq!(normal(&found), normal(tree), "{}: {name}", path.display());
            }
            written.push_str(&format!(
                "{rule}{name}{rule}{source}\n---\n\n{}\n\n",
                pretty(&found)
            ));
            seen += 1;
        }
        if bless {
            std::fs::write(&path, written).expect("it can be written");
        }
    }
    assert!(seen > 5);
}

/// A tree with a node on each line.
fn pretty(sexp: &str) -> String {
    let mut out = String::new();
    let mut depth = 0usize;
    let mut field = false;
    for word in sexp.split_inclusive([' ', ')']) {
        if word.trim().is_empty() {
            continue;
        }
        if (word.starts_with('(') || word.trim_end().ends_with(':')) && !out.is_empty() && !field {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        }
        field = word.trim_end().ends_with(':');
        depth += word.matches('(').count();
        depth = depth.saturating_sub(word.matches(')').count());
        out.push_str(word.trim_end());
        if field {
            out.push(' ');
        }
    }
    out
}

#[test]
fn the_queries_fit_the_grammar() {
    let queries = [
        ("highlights", grammar::HIGHLIGHTS),
        ("locals", grammar::LOCALS),
        ("folds", grammar::FOLDS),
        ("indents", grammar::INDENTS),
        ("injections", grammar::INJECTIONS),
    ];
    for (name, text) in queries {
        let query = Query::new(&language(), text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(query.capture_names().len() > 0, "{name} captures nothing");
    }
}

#[test]
fn older_editors_load_it() {
    assert_eq!(language().abi_version(), 14);
}
