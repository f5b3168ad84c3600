//! Expansion of file arguments, and parallel processing of files.

use std::path::{Path, PathBuf};

use crate::stop::Stop;

/// The extension of Relay texts in folders.
const EXTENSION: &str = "relay";

/// Expands arguments: files as they are named, folders to all `.relay` files below them that no
/// `.gitignore` or `.ignore` excludes, sorted by path. Duplicates are dropped. The second part of
/// the result are the errors of paths that cannot be listed; the rest is still processed.
pub fn expand(paths: &[PathBuf]) -> (Vec<PathBuf>, Vec<String>) {
    expand_to(paths, false)
}

/// Like [`expand`]; with `all`, folders expand to files of any name.
pub fn expand_to(paths: &[PathBuf], all: bool) -> (Vec<PathBuf>, Vec<String>) {
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() {
            folder(path, all, &mut files, &mut problems);
        } else {
            files.push(path.clone());
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|f| seen.insert(f.clone()));
    (files, problems)
}

fn folder(path: &Path, all: bool, files: &mut Vec<PathBuf>, problems: &mut Vec<String>) {
    let walk = ignore::WalkBuilder::new(path)
        .require_git(false)
        .sort_by_file_path(Ord::cmp)
        .build();
    for entry in walk {
        match entry {
            Ok(e) => {
                let is_file = e.file_type().is_some_and(|t| !t.is_dir());
                let named = || e.path().extension().is_some_and(|x| x == EXTENSION);
                if is_file && (all || named()) {
                    files.push(e.into_path());
                }
            }
            Err(e) => problems.push(format!("cannot read {}: {e}", path.display())),
        }
    }
}

/// Maps a function over all files, at most `jobs` at once (0 means one per processor); returns the
/// results in file order.
///
/// # Errors
/// The threads cannot be started.
pub fn map<T: Send>(
    files: &[PathBuf],
    jobs: usize,
    work: impl Fn(&Path) -> T + Sync,
) -> Result<Vec<T>, Stop> {
    use rayon::prelude::*;
    if let [file] = files {
        return Ok(vec![work(file)]);
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs)
        .build()
        .map_err(|e| format!("cannot start threads: {e}"))?;
    Ok(pool.install(|| files.par_iter().map(|f| work(f)).collect()))
}
