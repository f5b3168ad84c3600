//! An open document: its text, its chunks and their analysis results.
//!
//! After an edit, chunks whose text and dependencies are unchanged keep their units; the others are
//! parsed and type-checked again. Spans in a unit are relative to it, so they stay valid when text
//! before the chunk grows or shrinks.
//!
//! Invariant: the results for a document depend only on its text, not on its editing history.

use std::sync::Arc;

use relax_base::{Diagnostic, SourceFile, SourceMap, Span, Symbol};
use relax_syntax::Lexed;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::chunk::{self, Chunk, Chunks};
use crate::text::{Encoding, Text};
use crate::unit::{self, Piece, Unit};

/// A chunk with its analysis unit.
#[derive(Clone, Debug)]
pub struct Part {
    /// The range of the file.
    pub chunk: Chunk,
    /// The pieces of the unit, as chunk indices.
    pub pieces: Vec<Piece>,
    key: u64,
    /// The key of the first attempt, if it lacked a name.
    lacking: Option<u64>,
    /// The analysis unit.
    pub unit: Arc<Unit>,
}

/// An open document.
#[derive(Debug)]
pub struct Document {
    /// The editor's version number.
    pub version: i32,
    /// The text.
    pub text: Text,
    /// Whether its language is Relax in TVMScript, according to the editor.
    pub script: bool,
    strict: bool,
    state: Option<State>,
    /// The units of the last analysis, by key.
    cache: FxHashMap<u64, Arc<Unit>>,
    /// Keys of sets of pieces that lacked a name.
    lacking: FxHashSet<u64>,
}

#[derive(Debug)]
struct State {
    lexed: Lexed,
    file: Arc<SourceFile>,
    parts: Vec<Part>,
    metadata: Option<std::ops::Range<usize>>,
}

/// Above this number, diagnostics are not computed per chunk, as the front end has limits of its
/// own.
const MOST: usize = 150;

impl Document {
    /// Creates a document.
    pub fn new(text: String, version: i32, encoding: Encoding, strict: bool) -> Document {
        Document {
            version,
            text: Text::new(text, encoding),
            script: false,
            strict,
            state: None,
            cache: FxHashMap::default(),
            lacking: FxHashSet::default(),
        }
    }

    /// Sets whether the document is Relax in TVMScript.
    #[must_use]
    pub fn in_tvmscript(mut self, script: bool) -> Document {
        self.script = script;
        self
    }

    /// Replaces a byte range of the text.
    pub fn edit(&mut self, range: std::ops::Range<usize>, with: &str) {
        self.text.replace(range, with);
        self.state = None;
    }

    /// Replaces the whole text.
    pub fn set(&mut self, text: String) {
        self.text = Text::new(text, self.text.encoding());
        self.state = None;
    }

    /// Sets whether undecidable shape equalities are errors.
    pub fn set_strict(&mut self, strict: bool) {
        if self.strict != strict {
            self.strict = strict;
            self.state = None;
        }
    }

    fn state(&mut self) -> &State {
        if self.state.is_none() {
            let state = self.analyse();
            self.cache = state
                .parts
                .iter()
                .map(|p| (p.key, p.unit.clone()))
                .collect();
            self.lacking = state.parts.iter().filter_map(|p| p.lacking).collect();
            self.state = Some(state);
        }
        self.state.as_ref().expect("just made")
    }

    /// Returns the chunks with their units.
    pub fn parts(&mut self) -> &[Part] {
        &self.state().parts
    }

    /// Returns the text with its tokens, as a file in a source map of its own: positions are byte
    /// offsets plus one.
    pub fn lexed(&mut self) -> (&Arc<SourceFile>, &Lexed) {
        let s = self.state();
        (&s.file, &s.lexed)
    }

    /// Returns the range of the metadata section.
    pub fn metadata(&mut self) -> Option<std::ops::Range<usize>> {
        self.state().metadata.clone()
    }

    fn analyse(&self) -> State {
        let mut map = SourceMap::new();
        let file = map
            .add("", self.text.as_str())
            .unwrap_or_else(unit::nothing);
        if self.script {
            return self.whole_script(file);
        }
        let lexed = relax_syntax::lex(&file);
        let chunks = chunk::split(&file, &lexed.tokens);
        let mut parts = self.units(&file, &chunks);
        let said = |parts: &[Part]| {
            parts
                .iter()
                .flat_map(|p| &p.unit.diagnostics)
                // Lints are not limited in number, so they are not counted.
                .filter(|d| !relax::is_unnecessary(d.code))
                .count()
        };
        let mut metadata = chunks.metadata;
        if parts.is_none()
            || parts
                .as_ref()
                .is_some_and(|p| p.len() > 1 && said(p) > MOST)
        {
            let whole = chunk::whole(&file, &lexed.tokens);
            metadata = whole.metadata.clone();
            parts = self.units(&file, &whole);
        }
        State {
            lexed,
            file,
            parts: parts.unwrap_or_default(),
            metadata,
        }
    }

    /// Analyses a text in TVMScript, as a single chunk without tokens.
    fn whole_script(&self, file: Arc<SourceFile>) -> State {
        let text: &str = &file.text;
        let key = unit::key(&[text], 0, self.strict);
        let known = self.cache.get(&key).cloned();
        let part = Part {
            chunk: Chunk {
                end: text.len(),
                ..Chunk::default()
            },
            pieces: vec![Piece {
                chunk: 0,
                signature: false,
            }],
            key,
            lacking: None,
            unit: known.unwrap_or_else(|| Arc::new(Unit::script(text, self.strict))),
        };
        State {
            lexed: relax_syntax::lex(&unit::nothing()),
            parts: vec![part],
            metadata: None,
            file,
        }
    }

    /// Returns the units of all chunks; `None` if they overlap so much that a single unit is less
    /// work.
    fn units(&self, file: &SourceFile, chunks: &Chunks) -> Option<Vec<Part>> {
        let needs = Needs::new(chunks);
        let mut budget = 8 * file.text.len() + 100_000;
        let mut out = Vec::with_capacity(chunks.list.len());
        for (i, chunk) in chunks.list.iter().enumerate() {
            let (mut pieces, mut own) = needs.of(i, false);
            let mut source = self.source(file, chunks, &pieces, own);
            let mut lacking = None;
            if needs.has_more(&pieces) {
                if let Some(unit) = self.unit(&source, own, true, &mut budget)? {
                    out.push(Part {
                        chunk: chunk.clone(),
                        pieces,
                        key: source.key,
                        lacking,
                        unit,
                    });
                    continue;
                }
                lacking = Some(source.key);
                (pieces, own) = needs.of(i, true);
                source = self.source(file, chunks, &pieces, own);
            }
            let unit = self.unit(&source, own, false, &mut budget)?;
            out.push(Part {
                chunk: chunk.clone(),
                pieces,
                key: source.key,
                lacking,
                unit: unit.expect("nothing more is to be had"),
            });
        }
        Some(out)
    }

    /// Returns the texts of pieces.
    fn source<'a>(
        &self,
        file: &'a SourceFile,
        chunks: &'a Chunks,
        pieces: &[Piece],
        own: usize,
    ) -> Source<'a> {
        let mut texts = Vec::with_capacity(pieces.len());
        let mut metadata = false;
        for p in pieces {
            texts.push(match (chunks.list.get(p.chunk), &chunks.metadata) {
                (Some(c), _) => match (&c.header, p.signature) {
                    (Some(h), true) => (&file.text[c.start..c.start + h.end], h.stub.as_str()),
                    _ => (&file.text[c.start..c.end], ""),
                },
                (None, Some(range)) => {
                    metadata = true;
                    (&file.text[range.clone()], "")
                }
                (None, None) => ("", ""),
            });
        }
        let parts: Vec<&str> = texts.iter().flat_map(|t| [t.0, t.1]).collect();
        Source {
            key: unit::key(&parts, own, self.strict),
            alone: chunks.list.len() == 1,
            texts,
            metadata,
        }
    }

    /// Analyses a source; the inner `None` means that a name is missing, the outer one that it is
    /// too much work. Neither depends on what is known from before: with `more` or without, the same
    /// pieces may have been a unit of an earlier text, and work that is saved is counted.
    fn unit(
        &self,
        source: &Source,
        own: usize,
        more: bool,
        budget: &mut usize,
    ) -> Option<Option<Arc<Unit>>> {
        let size: usize = source.texts.iter().map(|t| t.0.len()).sum();
        if size > *budget && !source.alone {
            return None;
        }
        *budget = budget.saturating_sub(size);
        if more && self.lacking.contains(&source.key) {
            return Some(None);
        }
        if let Some(unit) = self.cache.get(&source.key) {
            return Some((!more || !unit.lacks).then(|| unit.clone()));
        }
        let unit = Unit::new(&source.texts, own, source.metadata, self.strict, more);
        Some(unit.map(Arc::new))
    }

    /// Returns all diagnostics, with spans as byte offsets in the text.
    pub fn diagnostics(&mut self) -> Vec<Diagnostic> {
        let state = self.state();
        let mut out = Vec::new();
        for part in &state.parts {
            for d in &part.unit.diagnostics {
                let mut d = d.clone();
                for label in &mut d.labels {
                    label.span = state.place(part, label.span);
                }
                d.labels.retain(|l| !l.span.is_none() || l.text.is_empty());
                for edit in d.fixes.iter_mut().flat_map(|f| &mut f.edits) {
                    edit.span = state.place(part, edit.span);
                }
                if !relax::is_allowed(&state.file, &d) {
                    out.push(d);
                }
            }
        }
        out.sort_by_key(|d| (d.span(), d.code));
        out.dedup();
        out
    }

    /// Converts a span in a part's unit to a span in the text, as positions of
    /// [`Document::lexed`]'s file.
    pub fn place(&mut self, part: usize, span: Span) -> Span {
        let state = self.state();
        state.place(&state.parts[part], span)
    }

    /// Returns the part at a byte offset, and the position in its unit.
    pub fn at(&mut self, offset: usize) -> Option<(usize, u32)> {
        let parts = self.parts();
        let i = parts.partition_point(|p| p.chunk.end <= offset);
        let i = i.min(parts.len().checked_sub(1)?);
        let p = &parts[i];
        let inside = offset.clamp(p.chunk.start, p.chunk.end) - p.chunk.start;
        Some((i, p.unit.range().start + inside as u32))
    }
}

impl State {
    fn place(&self, part: &Part, span: Span) -> Span {
        if span.is_none() {
            return span;
        }
        let at = |pos: u32| -> u32 {
            let u = &part.unit;
            let offset = pos - u.file.start;
            let i = u
                .placed
                .partition_point(|p| p.at <= offset)
                .saturating_sub(1);
            // The boundary between pieces belongs to the chunk itself.
            let own = u.placed[u.own];
            let i = if own.at <= offset && offset <= own.at + own.len {
                u.own
            } else {
                i
            };
            let inside = (offset - u.placed[i].at).min(u.placed[i].len);
            let start = match part.pieces.get(i) {
                Some(p) if p.chunk < self.parts.len() => self.parts[p.chunk].chunk.start,
                Some(_) => self.metadata.as_ref().map_or(0, |m| m.start),
                None => 0,
            };
            self.file.start + start as u32 + inside
        };
        Span::new(at(span.start), at(span.end))
    }
}

/// The input of a unit.
struct Source<'a> {
    /// For each piece, its text in the file, and the text added to it.
    texts: Vec<(&'a str, &'a str)>,
    key: u64,
    /// Whether it includes the metadata section.
    metadata: bool,
    /// Whether it is the only chunk of the file.
    alone: bool,
}

/// The dependencies between chunks.
struct Needs<'a> {
    chunks: &'a Chunks,
    providers: FxHashMap<Symbol, Vec<usize>>,
    /// The number of chunks that declare something.
    declaring: usize,
}

impl<'a> Needs<'a> {
    fn new(chunks: &'a Chunks) -> Needs<'a> {
        let mut providers: FxHashMap<Symbol, Vec<usize>> = FxHashMap::default();
        for (i, c) in chunks.list.iter().enumerate() {
            for &name in &c.provides {
                let all = providers.entry(name).or_default();
                if all.last() != Some(&i) {
                    all.push(i);
                }
            }
        }
        Needs {
            chunks,
            providers,
            declaring: (chunks.list.iter())
                .filter(|c| !c.provides.is_empty())
                .count(),
        }
    }

    /// Returns whether some declaring chunks are not among the pieces.
    fn has_more(&self, pieces: &[Piece]) -> bool {
        let list = &self.chunks.list;
        let declare = |c: &&chunk::Chunk| !c.provides.is_empty();
        let here = pieces.iter().filter_map(|p| list.get(p.chunk));
        here.filter(declare).count() < self.declaring
    }

    /// Returns the pieces of a chunk's unit in file order, and which of them is the chunk. With
    /// `all`, every declaring chunk of the file is included.
    fn of(&self, own: usize, all: bool) -> (Vec<Piece>, usize) {
        let list = &self.chunks.list;
        let deep = list[own].dataflow;
        // For each required chunk, whether its signature suffices.
        let mut found: FxHashMap<usize, bool> = FxHashMap::default();
        let mut metadata = own == 0;
        let mut left = vec![(own, false)];
        if all {
            let declaring = (0..list.len()).filter(|&i| !list[i].provides.is_empty());
            left.extend(declaring.map(|i| (i, true)));
        }
        if list[own].open && own + 1 < list.len() {
            left.push((own + 1, true));
        }
        let mut seen: FxHashSet<(usize, bool)> = FxHashSet::default();
        while let Some((i, signature)) = left.pop() {
            let signature = signature && !deep && i != own && list[i].header.is_some();
            if !seen.insert((i, signature)) {
                continue;
            }
            let short = found.entry(i).or_insert(signature);
            *short &= signature;
            let c = &list[i];
            let wants = match (&c.header, signature) {
                (Some(h), true) => &h.wants,
                _ => {
                    metadata |= c.metadata;
                    if c.open && i + 1 < list.len() {
                        left.push((i + 1, true));
                    }
                    &c.wants
                }
            };
            for name in wants.iter().chain(&c.provides) {
                for &p in self.providers.get(name).into_iter().flatten() {
                    if p != i {
                        left.push((p, true));
                    }
                }
            }
        }
        let mut pieces: Vec<Piece> = (found.into_iter())
            .map(|(chunk, signature)| Piece { chunk, signature })
            .collect();
        pieces.sort_by_key(|p| p.chunk);
        let own = pieces.iter().position(|p| p.chunk == own).unwrap_or(0);
        if metadata && self.chunks.metadata.is_some() {
            pieces.push(Piece {
                chunk: list.len(),
                signature: false,
            });
        }
        (pieces, own)
    }
}
