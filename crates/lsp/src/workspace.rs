//! The `.relay` files of the folders that an editor has open.
//!
//! Each file is a program of its own, so requests across files concern what they share: the
//! prelude, the built-in operators, and the list of all item names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::index::Index;
use crate::text::Encoding;

/// Larger files are considered data and not indexed.
const LARGEST: u64 = 32 << 20;
/// The limit on files that are indexed.
const MOST: usize = 20_000;
/// Folders of generated files, which are skipped.
const MADE: &[&str] = &["target", "node_modules"];

/// The modification time and size of a file.
type Stamp = (Option<SystemTime>, u64);

/// The files of some folders, by path.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The folders.
    pub folders: Vec<PathBuf>,
    encoding: Encoding,
    files: BTreeMap<PathBuf, (Stamp, Index)>,
}

impl Workspace {
    /// Creates the workspace of some folders, without reading any file.
    pub fn new(folders: Vec<PathBuf>, encoding: Encoding) -> Workspace {
        Workspace {
            folders,
            encoding,
            files: BTreeMap::new(),
        }
    }

    /// Iterates over the files.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &Index)> {
        self.files.iter().map(|(path, f)| (path.as_path(), &f.1))
    }

    /// Scans the folders again: indexes new and changed files, drops removed ones.
    pub fn scan(&mut self) {
        let mut found = BTreeMap::new();
        let mut left = self.folders.clone();
        while let Some(folder) = left.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.filter_map(Result::ok) {
                let (path, name) = (entry.path(), entry.file_name());
                let name = name.to_string_lossy();
                // Symbolic links are not followed, as they may form cycles.
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                if kind.is_dir() && !name.starts_with('.') && !MADE.contains(&&*name) {
                    left.push(path);
                } else if kind.is_file() && is_ours(&path) && found.len() < MOST {
                    let old = self.files.remove(&path);
                    if let Some(file) = read(&path, old, self.encoding) {
                        found.insert(path, file);
                    }
                }
            }
        }
        self.files = found;
    }

    /// Handles a file that was written, created or removed.
    pub fn changed(&mut self, path: &Path) {
        let old = self.files.remove(path);
        let inside = self.folders.iter().any(|f| path.starts_with(f));
        if inside
            && is_ours(path)
            && let Some(file) = read(path, old, self.encoding)
        {
            self.files.insert(path.to_owned(), file);
        }
    }
}

fn is_ours(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "relay")
}

/// Returns the index of a file; the existing one if the file is unchanged.
fn read(path: &Path, old: Option<(Stamp, Index)>, encoding: Encoding) -> Option<(Stamp, Index)> {
    let about = std::fs::metadata(path).ok()?;
    let stamp = (about.modified().ok(), about.len());
    if about.len() > LARGEST {
        return None;
    }
    if let Some(old) = old
        && old.0 == stamp
        && stamp.0.is_some()
    {
        return Some(old);
    }
    let bytes = std::fs::read(path).ok()?;
    let index = Index::new(&String::from_utf8_lossy(&bytes), encoding);
    Some((stamp, index))
}
