//! Files used by tests.

use std::path::{Path, PathBuf};

/// Returns the files under a folder, recursively, with the extension `.ext`, sorted; none if the
/// folder does not exist.
pub fn files(dir: &Path, ext: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = folders.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == ext) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
