//! A session: the files that were read, and how.

use std::sync::Arc;

use relax_base::{
    BoxError, Code, Diagnostic, Diagnostics, Edit, Severity, SourceFile, SourceMap, Span,
};
use relax_ir::Module;
use relax_syntax::{Comment, ast::Ast};

use crate::{Contents, Format};

/// A file is too large for the position space.
pub(crate) const TOO_LARGE: Code = Code(1201);
/// A file is not UTF-8.
const NOT_UTF8: Code = Code(1202);

pub use relax_resolve::{GivenTypes, NoStubs, Options as TextOptions, Release, Stubs};

/// How files are read.
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
    /// How modules are made of what was read.
    pub text: TextOptions,
    /// The format, where it is not to be told by the content.
    pub format: Option<Format>,
    /// Whether equal layers of an ONNX model become one function that is called for each.
    pub fold_layers: bool,
}

/// Everything that was read so far. Spans of all modules of a session mean places in its sources.
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
    /// The files.
    pub sources: SourceMap,
    /// How texts are read.
    pub options: ReadOptions,
    /// What reads files that a file names beside itself; nothing does unless it is set.
    pub beside: Option<Beside>,
    /// The passes that pipelines may name.
    pub passes: relax_passes::Registry,
}

/// Reads a file by the name that another one calls it, given that one's name.
pub type Beside = fn(of: &str, name: &str) -> Result<bytes::Bytes, BoxError>;

/// A file that was read, whatever its format.
#[derive(Debug)]
pub struct Input {
    /// What its places mean: the text, or of another format the part of the file that can be shown.
    /// `None` where there was no room for it.
    pub file: Option<Arc<SourceFile>>,
    /// Its format.
    pub format: Format,
    /// The module; usable where there were no errors.
    pub module: Module,
    /// The types of its expressions, where the file has them.
    pub types: Option<GivenTypes>,
}

/// A text that was read.
#[derive(Debug)]
pub struct Read {
    /// Its tree.
    pub ast: Ast,
    /// Its comments, in order.
    pub comments: Vec<Comment>,
    /// The module; usable where there were no errors.
    pub module: Module,
    /// How many errors the parser found.
    pub syntax_errors: usize,
}

/// The text of a file after some edits; of those that overlap, the first is made.
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
    /// A session without files.
    pub fn new(options: ReadOptions) -> Session {
        Session {
            sources: SourceMap::new(),
            options,
            beside: None,
            passes: relax_passes::Registry::default(),
        }
    }

    /// The same sources at the same places.
    pub(crate) fn copied_sources(&self) -> SourceMap {
        let mut copy = SourceMap::new();
        for file in self.sources.files() {
            copy.add(file.name.clone(), file.text.clone());
        }
        copy
    }

    /// Takes a file in. Bytes that are no UTF-8 become replacement characters, with an error.
    pub fn add(
        &mut self,
        name: &str,
        bytes: Vec<u8>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Arc<SourceFile>> {
        let wide = relax_syntax::is_utf16(&bytes);
        if let Some(d) = crate::whole::no_text(name, &bytes).filter(|_| !wide) {
            // The file stands there without its bytes, as the place of the error.
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

    /// Reads a file of any format: parses it and resolves its names. The module is usable only when
    /// there are no errors.
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

    /// The same, with what is known besides.
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

    /// A file with everything rewritten that earlier versions of the text wrote otherwise; `None`
    /// where there is nothing of the kind.
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
        // Rewriting one form may bring another into view.
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

    /// The same for a file that was taken in before.
    pub fn read_source(&self, file: &SourceFile, diagnostics: &mut Diagnostics) -> Module {
        self.read_tree(file, diagnostics).module
    }

    /// The same, with the tree and the comments the module was made of.
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
            // Where the text is damaged, a definition may be unread rather than missing: what the
            // resolver says besides is only worth saying when it cannot be a consequence.
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
