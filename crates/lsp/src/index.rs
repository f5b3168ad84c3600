//! What is known of a file that no editor has open: its items, and where it speaks of names that it
//! does not declare. Found from the tree alone, without types.

use lsp_types::{DocumentSymbol, Range};
use relax_base::{SourceMap, Span, Symbol};
use rustc_hash::FxHashMap;

use crate::features::refs::{Space, Target, target};
use crate::features::symbols;
use crate::text::{Encoding, Text};

/// A name of a whole file.
pub type Global = (Space, Symbol);

/// A file's items and names.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The items, as an editor lists them.
    pub symbols: Vec<DocumentSymbol>,
    /// Where the names stand that the file declares.
    pub declared: FxHashMap<Global, Range>,
    /// Where the file uses names that it does not declare.
    pub used: FxHashMap<Global, Vec<Range>>,
}

impl Index {
    /// Reads a text. Broken texts are read as far as that goes.
    pub fn new(text: &str, encoding: Encoding) -> Index {
        let mut map = SourceMap::new();
        let Some(file) = map.add("", text) else {
            return Index::default();
        };
        let ast = relax_syntax::parse(&file).ast;
        let text = Text::new(text.to_owned(), encoding);
        let at = |p: u32| p.saturating_sub(file.start) as usize;
        let range = |s: Span| text.range(at(s.start), at(s.end));
        let mut out = Index {
            symbols: symbols::listed(&ast, file.span(), &range),
            ..Index::default()
        };
        for name in relax_resolve::names::names(&ast) {
            let Some(Target::Item(space, text)) = target(0, &name) else {
                continue;
            };
            if name.binds {
                out.declared.insert((space, text), range(name.span));
            } else {
                let all = out.used.entry((space, text)).or_default();
                all.push(range(name.span));
            }
        }
        let declared = &out.declared;
        out.used.retain(|name, _| !declared.contains_key(name));
        out
    }
}
