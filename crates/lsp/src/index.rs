//! The index of a file that is not open: its items, and its uses of names that it does not declare.
//! Computed from the syntax tree alone, without types.

use lsp_types::{DocumentSymbol, Range};
use relax_base::{SourceMap, Span, Symbol};
use rustc_hash::FxHashMap;

use crate::features::refs::{Space, Target, target};
use crate::features::symbols;
use crate::text::{Encoding, Text};

/// A file-wide name.
pub type Global = (Space, Symbol);

/// A file's items and names.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The items, as document symbols.
    pub symbols: Vec<DocumentSymbol>,
    /// The ranges of the names that the file declares.
    pub declared: FxHashMap<Global, Range>,
    /// The ranges of uses of names that the file does not declare.
    pub used: FxHashMap<Global, Vec<Range>>,
}

impl Index {
    /// Indexes a text, as far as it parses.
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
