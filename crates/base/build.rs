//! Collects `docs/errors/RX….md` into one table, so that adding an error code is adding one file.

use std::fmt::Write as _;
use std::path::Path;

fn main() {
    // Read at run time: the script may have been compiled when the package was elsewhere.
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let dir = Path::new(&package).join("../../docs/errors");
    println!("cargo::rerun-if-changed={}", dir.display());
    let mut files: Vec<_> = std::fs::read_dir(&dir)
        .map(|d| d.filter_map(|e| e.ok().map(|e| e.path())).collect())
        .unwrap_or_default();
    files.sort();
    let mut out = String::from("&[\n");
    for path in files {
        let Some(stem) = path.file_stem().and_then(|s| s.to_str()) else {
            continue;
        };
        let Some(number) = stem.strip_prefix("RX").and_then(|n| n.parse::<u16>().ok()) else {
            continue;
        };
        let path = path.canonicalize().expect("a file just listed");
        writeln!(out, "    (Code({number}), include_str!({path:?})),")
            .expect("writing to a string");
    }
    out.push(']');
    let to = Path::new(&std::env::var("OUT_DIR").expect("set by cargo")).join("errors.rs");
    std::fs::write(to, out).expect("OUT_DIR is writable");
}
