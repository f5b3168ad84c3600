//! Collects the prelude, `prelude/*.relay`, into one table of names and texts.

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
    let mut table = String::from("&[\n");
    for path in &files {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path
            .file_name()
            .expect("a file has a name")
            .to_string_lossy();
        let path = path.canonicalize().expect("the file was listed just now");
        writeln!(table, "    ({name:?}, include_str!({path:?})),").expect("strings take all");
    }
    table.push(']');
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it")).join("prelude.rs");
    std::fs::write(out, table).expect("the output folder is writable");
}
