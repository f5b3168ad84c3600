//! Collects the prelude, `prelude/*.relay`, into one table of names and texts, and another of what
//! each text defines.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../prelude");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files: Vec<PathBuf> = std::fs::read_dir(&root)
        .map(|d| d.filter_map(|e| Some(e.ok()?.path())).collect())
        .unwrap_or_default();
    files.retain(|p| p.extension().is_some_and(|e| e == "relay"));
    files.sort();
    let (mut table, mut names) = (String::from("&[\n"), String::from("&[\n"));
    for path in &files {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path
            .file_name()
            .expect("a file has a name")
            .to_string_lossy();
        let path = path.canonicalize().expect("the file was listed just now");
        let text = std::fs::read_to_string(&path).expect("the prelude is text");
        writeln!(table, "    ({name:?}, include_str!({path:?})),").expect("strings take all");
        writeln!(names, "    &{:?},", defined(&text)).expect("strings take all");
    }
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    for (file, mut text) in [("prelude.rs", table), ("prelude_names.rs", names)] {
        text.push(']');
        std::fs::write(out.join(file), text).expect("the output folder is writable");
    }
}

/// Returns what a formatted text defines, in alphabetical order: items start in the first column,
/// constructors of a type in the third.
fn defined(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_type = false;
    for line in text.lines() {
        let word = |rest: &'_ str| {
            let end = |c: char| !(c.is_alphanumeric() || "_.".contains(c));
            rest.find(end).unwrap_or(rest.len())
        };
        let item = ["def @", "prim_func @", "rel ", "op ", "type "]
            .iter()
            .find_map(|keyword| line.strip_prefix(keyword));
        if let Some(rest) = item {
            in_type = line.starts_with("type ");
            found.push(&rest[..word(rest)]);
        } else if line.starts_with('}') {
            in_type = false;
        } else if in_type && let Some(rest) = line.strip_prefix("  ") {
            found.push(&rest[..word(rest)]);
        }
    }
    found.retain(|name| !name.is_empty());
    found.sort_unstable();
    found
}
