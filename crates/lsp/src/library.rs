//! Definitions available in every file: the prelude and the built-in operators, as locations that
//! an editor can open.

use std::path::PathBuf;

use lsp_types::Range;
use relax_ops::registry;
use relax_resolve::prelude_files;

use crate::features::hover::op_text;
use crate::features::refs::Space;
use crate::index::{Global, Index};
use crate::text::Encoding;

/// The origin of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A file of the prelude, and the range in it.
    Prelude(&'static str, Range),
    /// A built-in operator.
    Operator(&'static str),
    /// A built-in type relation, which has no source.
    Relation,
}

/// Returns the origin of a name that a file does not declare.
pub fn origin((space, name): Global, encoding: Encoding) -> Option<Origin> {
    // In the resolver's order: built-in names, then the prelude.
    let operator = registry().find(name.as_str());
    if let Some(def) = operator.and_then(|op| registry().get(op))
        && space == Space::Callee
    {
        return Some(Origin::Operator(def.name));
    }
    if space == Space::Relation && registry().relation(name.as_str()).is_some() {
        return Some(Origin::Relation);
    }
    prelude_files().iter().find_map(|(file, text)| {
        let index = Index::new(text, encoding);
        let place = index.declared.get(&(space, name))?;
        Some(Origin::Prelude(file, *place))
    })
}

impl Origin {
    /// Returns the location in a virtual document with the scheme `relax`.
    pub fn place(self) -> Option<(String, Range)> {
        match self {
            Origin::Prelude(file, range) => Some((format!("relax:prelude/{file}"), range)),
            Origin::Operator(name) => Some((format!("relax:op/{name}.md"), Range::default())),
            Origin::Relation => None,
        }
    }
}

/// Returns the text of a file of the prelude.
pub fn prelude(file: &str) -> Option<&'static str> {
    let found = prelude_files().iter().find(|f| f.0 == file);
    found.map(|f| f.1)
}

/// Returns the documentation of a built-in operator, in Markdown.
pub fn operator(name: &str) -> Option<String> {
    let def = registry().get(registry().find(name)?)?;
    Some(format!("# {}\n\n{}\n", def.name, op_text(def)))
}

/// Writes one of these texts to the user's cache, for editors without virtual documents; returns
/// its path.
pub fn on_disk(virtual_address: &str) -> Option<PathBuf> {
    let name = virtual_address.strip_prefix("relax:")?;
    let text = match name.split_once('/')? {
        ("prelude", file) => prelude(file)?.to_owned(),
        ("op", page) => operator(page.strip_suffix(".md")?)?,
        _ => return None,
    };
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let cache = (var("XDG_CACHE_HOME").map(PathBuf::from))
        .or_else(|| Some(PathBuf::from(var("HOME")?).join(".cache")))
        .or_else(|| var("LOCALAPPDATA").map(PathBuf::from))?;
    let path = cache.join("relax").join(name);
    if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
        std::fs::create_dir_all(path.parent()?).ok()?;
        std::fs::write(&path, text).ok()?;
    }
    Some(path)
}
