//! Splitting of a file into chunks that are analysed separately.
//!
//! `def`, `type` and `extern` close everything that is open before them (as in the parser), so a
//! file of items can be split there; other items start where the preceding one is closed. A file
//! that is an expression, or has anything between its items, stays in one piece.
//!
//! Invariant: up to the metadata section, the chunks cover the file in order and without gaps.

use relax_base::{SourceFile, Symbol};
use relax_syntax::{Tok, Token};
use rustc_hash::FxHashSet;

/// A range of a file.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// The offset of its first byte.
    pub start: usize,
    /// The offset after its last byte.
    pub end: usize,
    /// The file-wide names that it declares.
    pub provides: Vec<Symbol>,
    /// The names that it may refer to.
    pub wants: Vec<Symbol>,
    /// For a single function whose signature suffices for callers: the end of the signature,
    /// relative to the chunk's start, and the names in it.
    pub header: Option<Header>,
    /// Whether brackets are open at its end, so that the following text matters.
    pub open: bool,
    /// Whether it refers to the metadata section.
    pub metadata: bool,
    /// Whether it depends on the effects of its callees.
    pub dataflow: bool,
}

/// The signature of a function.
#[derive(Clone, Debug)]
pub struct Header {
    /// The offset of the body, relative to the chunk's start.
    pub end: usize,
    /// The names that it refers to.
    pub wants: Vec<Symbol>,
    /// A placeholder body of the declared type.
    pub stub: String,
}

/// A file split into chunks.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    /// The chunks.
    pub list: Vec<Chunk>,
    /// The range of the metadata section.
    pub metadata: Option<std::ops::Range<usize>>,
}

/// Splits a file.
pub fn split(file: &SourceFile, tokens: &[Token]) -> Chunks {
    let end = file.text.len();
    let metadata = (tokens.iter().find(|t| t.tok == Tok::Metadata))
        .map(|t| (t.start - file.start) as usize..(t.end - file.start) as usize);
    let end = metadata.as_ref().map_or(end, |m| m.start);
    let cuts = cuts(file, tokens).unwrap_or_default();
    let mut list = Vec::new();
    let mut from = 0;
    let mut first = 0;
    let ends = cuts.iter().copied().filter(|&c| c > 0);
    let alone = ends.clone().next().is_none();
    for next in ends.chain([tokens.len()]) {
        let to = match tokens.get(next) {
            Some(t) => (t.start - file.start) as usize,
            None => end,
        };
        list.push(chunk(file, &tokens[first..next], from, to, alone));
        (from, first) = (to, next);
    }
    Chunks { list, metadata }
}

/// Returns the whole file as one chunk.
pub fn whole(file: &SourceFile, tokens: &[Token]) -> Chunks {
    let metadata = (tokens.iter().find(|t| t.tok == Tok::Metadata))
        .map(|t| (t.start - file.start) as usize..(t.end - file.start) as usize);
    let end = metadata.as_ref().map_or(file.text.len(), |m| m.start);
    Chunks {
        list: vec![chunk(file, tokens, 0, end, true)],
        metadata,
    }
}

/// Returns the tokens at which items start; `None` if the file is not a sequence of items.
fn cuts(file: &SourceFile, tokens: &[Token]) -> Option<Vec<usize>> {
    let mut cuts = Vec::new();
    let mut depth = 0usize;
    // Whether the current item ended right before this token.
    let mut closed = true;
    let mut versions = 0;
    for (i, t) in tokens.iter().enumerate() {
        let last = i.checked_sub(1).map(|j| tokens[j].tok);
        let next = tokens.get(i + 1).map(|t| t.tok);
        match t.tok {
            Tok::Turnstile | Tok::FreeVar => return None,
            Tok::Version => {
                versions += 1;
                if versions > 1 || i > 0 {
                    return None;
                }
                continue;
            }
            Tok::Metadata => {
                if i + 1 < tokens.len() {
                    return None;
                }
                continue;
            }
            Tok::Def | Tok::Type | Tok::Extern
                if !(t.tok == Tok::Type && last == Some(Tok::Extern)) =>
            {
                cuts.push(i);
                (depth, closed) = (0, false);
                continue;
            }
            Tok::Name if closed => {
                let text = file.slice(t.span());
                let item = match text {
                    "data" | "rel" | "op" | "grad" => next == Some(Tok::Name),
                    "prim_func" => matches!(next, Some(Tok::Global | Tok::Name)),
                    _ => false,
                };
                if !item {
                    return None;
                }
                cuts.push(i);
                (depth, closed) = (0, false);
                continue;
            }
            Tok::Semi if depth == 0 => closed = true,
            _ if closed => return None,
            Tok::LParen | Tok::LSquare | Tok::LBrace => depth += 1,
            Tok::RParen | Tok::RSquare | Tok::RBrace => {
                if depth == 0 {
                    return None;
                }
                depth -= 1;
                closed = depth == 0 && t.tok == Tok::RBrace;
            }
            _ => {}
        }
    }
    Some(cuts)
}

/// Creates a chunk. Names are not collected if it is `alone`: there is nothing else to refer to.
fn chunk(file: &SourceFile, tokens: &[Token], start: usize, end: usize, alone: bool) -> Chunk {
    let mut out = Chunk {
        start,
        end,
        ..Chunk::default()
    };
    let mut wants = FxHashSet::default();
    let mut open: Vec<Tok> = Vec::new();
    // The kind of item whose name comes next, and whether it declares all its names.
    let mut item: Option<Tok> = None;
    let mut declares = false;
    for (i, t) in tokens.iter().enumerate() {
        let text = || file.slice(t.span());
        match t.tok {
            Tok::Def | Tok::Type | Tok::Extern => {
                item = Some(t.tok);
                declares = t.tok != Tok::Def;
            }
            Tok::Global | Tok::Name if alone => {}
            Tok::Global => {
                let name = Symbol::new(&text()[1..]);
                let first = i.checked_sub(1).map(|j| tokens[j]);
                let declared = match first {
                    Some(f) if f.tok == Tok::Def => true,
                    Some(f) => f.tok == Tok::Name && file.slice(f.span()) == "prim_func",
                    None => false,
                };
                if declared {
                    out.provides.push(name);
                    item = None;
                    declares = false;
                } else {
                    wants.insert(name);
                }
            }
            Tok::Name => {
                if open.is_empty()
                    && matches!(text(), "data" | "rel" | "op" | "grad")
                    && tokens.get(i + 1).is_some_and(|t| t.tok == Tok::Name)
                {
                    // `grad` says something about what stands elsewhere.
                    if text() == "grad" {
                        continue;
                    }
                    item = Some(Tok::Name);
                    declares = text() == "data";
                    continue;
                }
                out.dataflow |= text() == "dataflow";
                let name = Symbol::new(text());
                if item.take().is_some() || declares && !built_in(text()) {
                    // Names inside a data type are constructors or types: both are recorded.
                    out.provides.push(name);
                }
                wants.insert(name);
            }
            Tok::Meta => out.metadata = true,
            Tok::LParen | Tok::LSquare | Tok::LBrace => open.push(t.tok),
            Tok::RParen | Tok::RSquare | Tok::RBrace => {
                let fits = matches!(
                    (open.pop(), t.tok),
                    (Some(Tok::LParen), Tok::RParen)
                        | (Some(Tok::LSquare), Tok::RSquare)
                        | (Some(Tok::LBrace), Tok::RBrace)
                );
                out.open |= !fits;
            }
            _ => {}
        }
    }
    out.open |= !open.is_empty();
    out.wants = wants.into_iter().collect();
    out.wants.sort_by_key(|s| s.as_str());
    if !out.open && !alone {
        out.header = header(file, tokens, start);
    }
    out
}

/// Returns whether a name in a type is built in.
fn built_in(text: &str) -> bool {
    matches!(text, "Tensor" | "Shape" | "Object") || text.parse::<relax_tensor::DType>().is_ok()
}

/// Returns the signature of a chunk that is a single function with a complete signature.
fn header(file: &SourceFile, tokens: &[Token], start: usize) -> Option<Header> {
    let skip = usize::from(tokens.first().is_some_and(|t| t.tok == Tok::Version));
    let tokens = &tokens[skip..];
    let [def, global, ..] = tokens else {
        return None;
    };
    let items = tokens.iter().filter(|t| {
        t.tok == Tok::Def || t.tok == Tok::Type || t.tok == Tok::Extern || t.tok == Tok::Metadata
    });
    if def.tok != Tok::Def || global.tok != Tok::Global || items.count() != 1 {
        return None;
    }
    let mut depth = 0;
    let mut arrow = false;
    let mut args = Vec::new();
    let mut wants = FxHashSet::default();
    for (i, t) in tokens.iter().enumerate() {
        match t.tok {
            Tok::LBrace if depth == 0 => {
                let name = file.slice(global.span());
                return arrow.then(|| Header {
                    end: (t.start - file.start) as usize - start,
                    wants: {
                        let mut all: Vec<Symbol> = wants.into_iter().collect();
                        all.sort_by_key(|s: &Symbol| s.as_str());
                        all
                    },
                    stub: format!("{{ {name}({}) }}\n", args.join(", ")),
                });
            }
            Tok::LParen | Tok::LSquare => depth += 1,
            Tok::RParen | Tok::RSquare => depth -= 1,
            Tok::Arrow if depth == 0 => arrow = true,
            // Holes are inferred from the body; braces contain attributes; `<` opens parameters.
            Tok::Underscore | Tok::LBrace | Tok::RBrace | Tok::Lt | Tok::Meta => return None,
            Tok::Local => {
                if tokens.get(i + 1).map(|t| t.tok) != Some(Tok::Colon) {
                    return None;
                }
                args.push(file.slice(t.span()).to_owned());
            }
            Tok::Name => {
                let text = file.slice(t.span());
                // Relations over the signature are proved in the body, and attributes may have any
                // meaning.
                if text == "where" || tokens.get(i + 1).is_some_and(|t| t.tok == Tok::Eq) {
                    return None;
                }
                wants.insert(Symbol::new(text));
            }
            _ => {}
        }
    }
    None
}
