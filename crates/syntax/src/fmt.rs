//! The formatter, which changes layout only.

mod apart;
mod upgrade;

use relax_base::{Code, Diagnostic, Diagnostics, SourceFile, SourceMap};

use crate::lex;
use crate::old;
use crate::parse;
use crate::print::{PrintOptions, Style, comments::Comments, emit::Emitter, sink::Sink};

/// The options of formatting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FmtOptions {
    /// The column after which lines wrap.
    pub width: usize,
    /// Whether spellings of the documentation are rewritten to TVM's.
    pub upgrade: bool,
}

impl Default for FmtOptions {
    fn default() -> Self {
        FmtOptions {
            width: 100,
            upgrade: false,
        }
    }
}

/// Formats a file. The result has the same tokens and comments in the same order, except for
/// optional commas and semicolons, and for a version header, which comes first; with `upgrade`, some
/// are spelled differently. Line ends are those of the majority of the file's lines.
///
/// # Errors
/// The syntax errors of a file that does not parse.
pub fn format_source(file: &SourceFile, options: &FmtOptions) -> Result<String, Diagnostics> {
    let text = formatted(file, options)?;
    Ok(LineEnds::of(file.text.as_bytes()).apply(text))
}

/// The line ends of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineEnds {
    /// As on Unix.
    Lf,
    /// As on Windows.
    CrLf,
}

impl LineEnds {
    /// Returns the line ends of the majority of lines.
    pub fn of(text: &[u8]) -> LineEnds {
        let lines = text.iter().filter(|&&b| b == b'\n').count();
        let long = text.windows(2).filter(|w| w == b"\r\n").count();
        match 2 * long > lines {
            true => LineEnds::CrLf,
            false => LineEnds::Lf,
        }
    }

    /// Converts all line ends of a text.
    pub fn apply(self, text: String) -> String {
        // Multi-line comments and unformatted text keep their own.
        let plain = match text.contains('\r') {
            true => text.replace("\r\n", "\n"),
            false => text,
        };
        match self {
            LineEnds::Lf => plain,
            LineEnds::CrLf => plain.replace('\n', "\r\n"),
        }
    }
}

fn formatted(file: &SourceFile, options: &FmtOptions) -> Result<String, Diagnostics> {
    if options.upgrade
        && let Some(text) = upgrade::upgrade(file)?
    {
        let mut map = SourceMap::new();
        let Some(file) = map.add(file.name.clone(), text) else {
            return Err(too_large(file));
        };
        return layout(&file, options);
    }
    layout(file, options)
}

fn too_large(file: &SourceFile) -> Diagnostics {
    let mut out = Diagnostics::new();
    out.push(Diagnostic::error(
        Code(118),
        file.span().at_start(),
        "this file is too large to format",
    ));
    out
}

/// The limit on attempts to print a file without joining its tokens.
const ATTEMPTS: usize = 8;

fn layout(file: &SourceFile, options: &FmtOptions) -> Result<String, Diagnostics> {
    let parsed = parse(file);
    if parsed.diagnostics.has_errors() {
        return Err(parsed.diagnostics);
    }
    if let Some(warning) = old::warning(parsed.old) {
        // Its tokens differ from those that the formatter prints.
        let mut out = Diagnostics::new();
        out.push(Diagnostic {
            severity: relax_base::Severity::Error,
            ..warning
        });
        return Err(out);
    }
    let print = PrintOptions {
        style: Style::Pretty,
        width: options.width,
        types: false,
    };
    let tokens = lex::lex(file).tokens;
    if let Some((_, header)) = parsed.ast.version
        && tokens.first().is_some_and(|t| t.start < header.start)
    {
        // A header that stands behind something goes to the beginning.
        let all = file.span();
        let before = file.slice(relax_base::Span::new(all.start, header.start));
        let after = file.slice(relax_base::Span::new(header.end, all.end));
        let header = file.slice(header);
        let mut map = SourceMap::new();
        let text = format!("{header}\n{before}{after}");
        let Some(file) = map.add(file.name.clone(), text) else {
            return Err(too_large(file));
        };
        return layout(&file, options);
    }
    // Tokens that touch in one attempt and are another token then are kept apart in the next. More
    // than two are needed where such a token swallows the text in which there are others.
    let mut apart: Vec<u32> = Vec::new();
    for _ in 0..ATTEMPTS {
        let comments = Comments::new(file, &tokens, &parsed.comments, &apart);
        let sink = Sink::new(&print, Some(comments));
        let (text, failed) = Emitter::new(&parsed.ast, &print, sink).file_checked();
        if failed {
            break;
        }
        let Some(printed) = SourceMap::new().add(file.name.clone(), text.as_str()) else {
            return Err(too_large(file));
        };
        match apart::joined(file, &tokens, &printed) {
            Some(joined) if joined.is_empty() => return Ok(text),
            Some(joined) => {
                apart.extend(joined);
                apart.sort_unstable();
            }
            None => break,
        }
    }
    // The printer and the grammar disagree: leave the text unchanged.
    let mut out = Diagnostics::new();
    out.push(
        Diagnostic::error(
            Code(118),
            file.span().at_start(),
            "this file cannot be formatted",
        )
        .note("the formatter would have changed more than the layout; this is a defect of it"),
    );
    Err(out)
}
