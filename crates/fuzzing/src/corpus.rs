//! Inputs to begin with.

use std::path::Path;

/// The files of the repository, from this crate on.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Longer texts say nothing that shorter ones do not.
const LONGEST: usize = 3000;

/// The kept inputs of a target with their names, and the findings that were mended: files of
/// `fuzz/corpus/NAME` and `fuzz/findings/NAME`. Texts of `front` are texts for `passes` and
/// `protocol` too.
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let texts = matches!(target, "passes" | "protocol").then_some("front");
    for name in texts.into_iter().chain([target]) {
        for folder in ["corpus", "findings"] {
            read(
                &Path::new(ROOT).join("fuzz").join(folder).join(name),
                &mut found,
            );
        }
    }
    found
}

fn read(folder: &Path, to: &mut Vec<(String, Vec<u8>)>) {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = files.map(|f| f.path()).collect();
    files.sort();
    for path in files {
        if let Ok(data) = std::fs::read(&path) {
            to.push((path.to_string_lossy().into_owned(), data));
        }
    }
}

/// The short texts of the repository with their names: tests, examples, the prelude.
pub fn texts() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for dir in ["tests", "examples", "prelude"] {
        for path in relax_testkit::files(&Path::new(ROOT).join(dir), "relay") {
            if let Ok(data) = std::fs::read(&path)
                && data.len() < LONGEST
            {
                found.push((path.to_string_lossy().into_owned(), data));
            }
        }
    }
    found
}
