//! Sessions: the files that were read, and the options for reading.

use std::sync::Arc;

use relax_base::{
    BoxError, Code, Diagnostic, Diagnostics, Edit, Severity, SourceFile, SourceMap, Span,
};
use relax_ir::Module;
use relax_syntax::{Comment, ast::Ast};

use crate::{Contents, Format};

/// A file exceeds the position space.
pub(crate) const TOO_LARGE: Code = Code(1201);
/// A file is not UTF-8.
const NOT_UTF8: Code = Code(1202);

pub use relax_resolve::{GivenTypes, NoStubs, Options as TextOptions, Release, Stubs};

/// Options for reading files.
///
/// ```
/// use relax::{Format, Module, ReadOptions};
///
/// let options = ReadOptions { format: Some(Format::Relay), ..ReadOptions::default() };
/// let module = Module::read("model.txt", b"def @main() { 1 }".to_vec(), options)?;
/// assert_eq!(module.functions().len(), 1);
/// # Ok::<(), relax::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// Options for parsing and name resolution.
    pub text: TextOptions,
    /// The input format; detected from the content if `None`.
    pub format: Option<Format>,
    /// Whether identical layers of an ONNX model are folded into one function that is called for
    /// each.
    pub fold_layers: bool,
    /// Whether what an ONNX model computes with dequantised numbers stays so, rather than being
    /// computed with integers.
    pub keep_qdq: bool,
}

/// The sources read so far. Spans of all modules of a session refer to its source map.
///
/// ```
/// use relax::{InferOptions, ReadOptions, Session};
///
/// let mut session = Session::new(ReadOptions::default());
/// let text = b"def @main(%x: int32) { %y }".to_vec();
/// let (_, _, found) = session.check("wrong.relay", text, &InferOptions::default());
/// let first = found.iter().next().expect("an error");
/// let file = session.sources.file(first.span()).expect("a place");
/// assert_eq!(file.line_col(first.span().start).col, 24);
/// ```
#[derive(Debug, Default)]
pub struct Session {
    /// The source map.
    pub sources: SourceMap,
    /// The options for reading.
    pub options: ReadOptions,
    /// The callback that reads files referred to by other files; without it such references fail.
    pub beside: Option<Beside>,
    /// The passes available to pipelines.
    pub passes: relax_passes::Registry,
}

/// A callback that reads a file by the name another file refers to it, given that file's name.
pub type Beside = fn(of: &str, name: &str) -> Result<bytes::Bytes, BoxError>;

/// An input file in any format.
#[derive(Debug)]
pub struct Input {
    /// The source that spans refer to: the text, or for other formats the part of the file that can
    /// be shown. `None` if it did not fit in the position space.
    pub file: Option<Arc<SourceFile>>,
    /// The format.
    pub format: Format,
    /// The module; valid only if there were no errors.
    pub module: Module,
    /// The expression types, if the file contains them.
    pub types: Option<GivenTypes>,
}

/// A parsed and resolved text.
#[derive(Debug)]
pub struct Read {
    /// The syntax tree.
    pub ast: Ast,
    /// The comments, in order.
    pub comments: Vec<Comment>,
    /// The module; valid only if there were no errors.
    pub module: Module,
    /// The number of syntax errors.
    pub syntax_errors: usize,
}

/// Applies edits to the text of a file; of overlapping ones, the first is applied.
fn edited(file: &SourceFile, edits: &[Edit]) -> String {
    let mut edits: Vec<&Edit> = edits.iter().collect();
    edits.sort_by_key(|e| (e.span.start, e.span.end));
    let mut out = String::with_capacity(file.text.len());
    let mut at = 0;
    for e in edits {
        let (from, to) = (e.span.start - file.start, e.span.end - file.start);
        if from < at {
            continue;
        }
        out.push_str(&file.text[at as usize..from as usize]);
        out.push_str(&e.text);
        at = to;
    }
    out.push_str(&file.text[at as usize..]);
    out
}

impl Session {
    /// Creates a session without files.
    pub fn new(options: ReadOptions) -> Session {
        Session {
            sources: SourceMap::new(),
            options,
            beside: None,
            passes: relax_passes::Registry::default(),
        }
    }

    /// Returns a copy of the source map, with the same positions.
    pub(crate) fn copied_sources(&self) -> SourceMap {
        let mut copy = SourceMap::new();
        for file in self.sources.files() {
            copy.add(file.name.clone(), file.text.clone());
        }
        copy
    }

    /// Adds a file to the source map. Invalid UTF-8 is replaced by replacement characters, with an
    /// error.
    pub fn add(
        &mut self,
        name: &str,
        bytes: Vec<u8>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Arc<SourceFile>> {
        let wide = relax_syntax::is_utf16(&bytes);
        if let Some(d) = crate::whole::no_text(name, &bytes).filter(|_| !wide) {
            // The file is added without its content, as the location of the error.
            let file = self.sources.add(name, "")?;
            diagnostics.push(d(file.span()));
            return None;
        }
        let decoded = relax_syntax::decode(bytes);
        let Some(file) = self.sources.add(name, decoded.text) else {
            let message = format!("`{name}` is too large: all files together may have 4 GiB");
            diagnostics.push(Diagnostic::error(TOO_LARGE, Span::NONE, message));
            return None;
        };
        for (code, at, what) in decoded.notes {
            let at = file.start + at as u32;
            diagnostics.push(Diagnostic::new(
                Severity::Note,
                code,
                Span::new(at, at),
                what,
            ));
        }
        if let Some(at) = decoded.bad {
            let at = at as u32;
            let place = Span::new(
                file.start + at,
                file.start + at + '\u{fffd}'.len_utf8() as u32,
            );
            let message = "the text is not UTF-8";
            let d = Diagnostic::error(NOT_UTF8, place, message)
                .primary("the first bytes that are no character");
            diagnostics.push(d);
        }
        Some(file)
    }

    /// Reads a file of any format: parses it and resolves names. The module is valid only if there
    /// are no errors.
    ///
    /// ```
    /// use relax::Session;
    ///
    /// let mut session = Session::default();
    /// let (module, found) = session.read("double.relay", b"def @double(%x) { %x + %x }".to_vec());
    /// assert!(!found.has_errors());
    /// assert!(module.global("double").is_some());
    /// ```
    pub fn read(&mut self, name: &str, bytes: impl Into<Contents>) -> (Module, Diagnostics) {
        let mut diagnostics = Diagnostics::new();
        let input = self.input(name, bytes.into(), &mut diagnostics);
        (input.module, diagnostics)
    }

    /// Like [`Session::read`]; also returns format, source and types.
    pub fn input(
        &mut self,
        name: &str,
        contents: Contents,
        diagnostics: &mut Diagnostics,
    ) -> Input {
        let format = self.options.format;
        let format = format.unwrap_or_else(|| Format::detect(name, contents.bytes()));
        match format {
            Format::Relay => {
                let file = self.add(name, contents.into_vec(), diagnostics);
                let module = match &file {
                    Some(file) => self.read_source(file, diagnostics),
                    None => Module::new(),
                };
                Input {
                    file,
                    format,
                    module,
                    types: None,
                }
            }
            Format::TvmScript => {
                let file = self.add(name, contents.into_vec(), diagnostics);
                let module = file
                    .as_deref()
                    .map(|f| relax_tvmscript::read(f, diagnostics));
                Input {
                    file,
                    format,
                    module: module.unwrap_or_default(),
                    types: None,
                }
            }
            Format::Onnx => {
                let (file, module) = self.read_model(name, contents, diagnostics);
                Input {
                    file,
                    format,
                    module,
                    types: None,
                }
            }
            Format::TvmJson => {
                let read = self.read_graph(name, &contents, diagnostics);
                Input {
                    file: read.file,
                    format,
                    module: read.module,
                    types: read.types,
                }
            }
        }
    }

    /// Returns the file with all obsolete syntax of earlier versions rewritten; `None` if there is
    /// none.
    ///
    /// ```
    /// use relax::Session;
    ///
    /// let mut session = Session::default();
    /// let mut found = Default::default();
    /// let file = session.add("new.relay", b"def @main() { 1 }".to_vec(), &mut found).expect("it is small");
    /// // Nothing in it is spelled as in earlier versions.
    /// assert!(session.upgraded(&file).is_none());
    /// ```
    pub fn upgraded(&mut self, file: &SourceFile) -> Option<Arc<SourceFile>> {
        // Rewriting one form may expose another.
        const ROUNDS: usize = 4;
        let mut last: Option<Arc<SourceFile>> = None;
        for _ in 0..ROUNDS {
            let mut diagnostics = Diagnostics::new();
            let current: &SourceFile = last.as_deref().unwrap_or(file);
            self.read_tree(current, &mut diagnostics);
            let old = diagnostics
                .iter()
                .find(|d| d.code == relax_syntax::OLD_FORM);
            let Some(fix) = old.and_then(|d| d.fixes.first()) else {
                break;
            };
            let text = edited(current, &fix.edits);
            last = Some(self.sources.add(file.name.clone(), text)?);
        }
        last
    }

    /// Like [`Session::read`], for a file that is already in the source map.
    pub fn read_source(&self, file: &SourceFile, diagnostics: &mut Diagnostics) -> Module {
        self.read_tree(file, diagnostics).module
    }

    /// Like [`Session::read_source`]; also returns the syntax tree and the comments.
    pub fn read_tree(&self, file: &SourceFile, diagnostics: &mut Diagnostics) -> Read {
        let (inner, parsed) = crate::whole::read(file, &self.options.text);
        let file = inner.as_ref().unwrap_or(file);
        let syntax_errors = parsed.diagnostics.error_count();
        let unreadable = !parsed.ast.errors.is_empty();
        diagnostics.extend(parsed.diagnostics);
        let mut old = parsed.old;
        let text = &self.options.text;
        let (module, more) = relax_resolve::resolve_noting(&parsed.ast, file, text, &mut old);
        diagnostics.extend(relax_syntax::old_forms(old));
        if unreadable {
            // In a damaged text, a definition may be unparsed rather than missing: the resolver's
            // errors are kept only where they cannot be consequences of a syntax error.
            let said = diagnostics.iter().map(Diagnostic::span);
            let parts: Vec<Span> = said.chain(parsed.ast.errors.iter().copied()).collect();
            let near = |d: &Diagnostic| {
                let own = d.span();
                let touch =
                    |p: &Span| p.touches(own.start) || own.start <= p.start && p.end <= own.end;
                parts.iter().any(touch)
            };
            let independent =
                |d: &Diagnostic| !near(d) && !relax_resolve::codes::may_follow(d.code);
            diagnostics.extend(more.into_iter().filter(independent));
        } else {
            diagnostics.extend(more);
        }
        diagnostics.sort();
        Read {
            ast: parsed.ast,
            comments: parsed.comments,
            module,
            syntax_errors,
        }
    }
}
