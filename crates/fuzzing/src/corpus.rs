//! Seed inputs.

use std::path::Path;

/// The root of the repository, relative to this crate.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Longer texts add no coverage.
const LONGEST: usize = 3000;

/// Returns the named corpus inputs of a target, and its fixed findings: files of `fuzz/corpus/NAME`
/// and `fuzz/findings/NAME`. Texts of `front` are also used for `passes` and `protocol`.
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

/// Returns the short texts of the repository with their names: tests, examples, the prelude.
pub fn texts() -> Vec<(String, Vec<u8>)> {
    let folders = ["tests", "examples", "prelude"].into_iter();
    folders
        .flat_map(|dir| texts_under(&Path::new(ROOT).join(dir)))
        .collect()
}

/// Returns the short texts under a folder, with their names.
pub fn texts_under(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for path in relax_testkit::files(folder, "relay") {
        if let Ok(data) = std::fs::read(&path)
            && data.len() < LONGEST
        {
            found.push((path.to_string_lossy().into_owned(), data));
        }
    }
    found
}
