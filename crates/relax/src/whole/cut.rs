//! Detection of truncated texts: the end, the beginning or a part in the middle is missing.
//!
//! The parser's errors about such a text are consequences: a single error replaces them.

use relax_base::{Code, Diagnostic, SourceFile, Span};
use relax_syntax::{Comment, Tok, Token};

/// The text ends too early.
pub(crate) const ENDS_EARLY: Code = Code(142);
/// A part in the middle is missing.
pub(crate) const LEFT_OUT: Code = Code(143);
/// The beginning is missing.
pub(crate) const BEGINS_LATE: Code = Code(144);

/// The codes of missing parts.
pub(crate) const CODES: [Code; 3] = [ENDS_EARLY, LEFT_OUT, BEGINS_LATE];

/// The missing parts of a text, derived from its tokens, and the ranges that are meaningless
/// because of them.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) unreadable: Vec<Span>,
}

/// The tokens of a text, and its syntax errors.
pub(crate) struct Split<'a> {
    pub(crate) file: &'a SourceFile,
    pub(crate) tokens: &'a [Token],
    pub(crate) comments: &'a [Comment],
    /// The syntax errors.
    pub(crate) said: &'a [Diagnostic],
}

/// Detects missing parts.
pub(crate) fn missing(split: &Split<'_>) -> Missing {
    let mut out = Missing::default();
    left_out(split, &mut out);
    if out.errors.is_empty() {
        begins_late(split, &mut out);
    }
    ends_early(split, &mut out);
    out
}

/// Returns whether a line is a placeholder for omitted text: `...`, `…`, `<snip>`, `(truncated)`.
fn is_gap(line: &str) -> bool {
    let text = line.trim();
    let inner = text.trim_matches(|c: char| "[](){}<>*-/#. …".contains(c));
    let dots = text.contains("...") || text.contains('…');
    let word = inner.to_ascii_lowercase();
    let said = [
        "snip",
        "snipped",
        "truncated",
        "omitted",
        "skipped",
        "cut",
        "etc",
    ];
    !text.is_empty()
        && (inner.is_empty() && dots
            || said.contains(&word.as_str()) && word.len() < text.len()
            || dots
                && ["omitted", "truncated", "more lines", "skipped"]
                    .iter()
                    .any(|w| word.contains(w)))
}

/// Detects placeholder lines for omitted text, and lines that are cut off at their end.
fn left_out(split: &Split<'_>, out: &mut Missing) {
    let file = split.file;
    let mut at = file.start;
    let mut gaps: Vec<Span> = Vec::new();
    for line in file.text.split_inclusive('\n') {
        let from = at + (line.len() - line.trim_start().len()) as u32;
        let end = at + line.trim_end().len() as u32;
        if is_gap(line) {
            gaps.push(Span::new(from, end));
        } else {
            // A line that was truncated by the terminal or pager it was copied from.
            let cut = ["...", "…"].iter().find(|m| line.trim_end().ends_with(**m));
            gaps.extend(cut.map(|m| Span::new(end - m.len() as u32, end)));
        }
        at += line.len() as u32;
    }
    let commented = |s: &Span| {
        let after = split.comments.partition_point(|c| c.span.start <= s.start);
        after > 0 && split.comments[after - 1].span.end >= s.end
    };
    gaps.retain(|g| !commented(g));
    let Some((&first, rest)) = gaps.split_first() else {
        return;
    };
    let mut d = Diagnostic::error(LEFT_OUT, first, "something is left out here")
        .primary("this stands for text that is missing")
        .note("what depends on the missing part is not looked at");
    for gap in rest.iter().take(3) {
        d = d.label(*gap, "and here");
    }
    out.errors.push(d);
    for gap in gaps {
        let place = items_around(split, gap);
        out.unreadable.push(place);
    }
}

fn is_item(t: &Token) -> bool {
    matches!(t.tok, Tok::Def | Tok::Type | Tok::Extern)
}

/// Returns the span from the start of the item around a position to the start of the next.
fn items_around(split: &Split<'_>, place: Span) -> Span {
    let before = split.tokens.partition_point(|t| t.start < place.start);
    let (head, tail) = split.tokens.split_at(before);
    let from = head.iter().rfind(|t| is_item(t));
    let to = tail.iter().find(|t| is_item(t));
    Span::new(
        from.map_or(split.file.start, |t| t.start),
        to.map_or(split.file.span().end, |t| t.start),
    )
}

fn opens(t: Tok) -> bool {
    matches!(t, Tok::LParen | Tok::LSquare | Tok::LBrace)
}

fn closes(t: Tok) -> bool {
    matches!(t, Tok::RParen | Tok::RSquare | Tok::RBrace)
}

/// Detects closing brackets before the first item without opening ones.
fn begins_late(split: &Split<'_>, out: &mut Missing) {
    let (mut depth, mut last, mut count) = (0usize, None, 0);
    let head = split.tokens.iter().take_while(|t| !is_item(t));
    for t in head {
        if opens(t.tok) {
            depth += 1;
        } else if closes(t.tok) {
            if depth > 0 {
                depth -= 1;
                continue;
            }
            (last, count) = (Some(*t), count + 1);
        }
    }
    let Some(last) = last else { return };
    let file = split.file;
    let at = file.line_col(last.start);
    let alone = file.line(at.line).trim_start().starts_with('}');
    // A single surplus bracket on a line is just an extra bracket.
    if count < 2 && !(alone && last.tok == Tok::RBrace && at.line > 1) {
        return;
    }
    let first = split.tokens.first().map_or(file.span(), |t| t.span());
    let d = Diagnostic::error(BEGINS_LATE, first, "the beginning of this text is missing")
        .primary("it begins in the middle of something")
        .label(last.span(), "what this closes was never opened");
    out.errors.push(d);
    let end = split.tokens.iter().find(|t| is_item(t));
    let end = end.map_or(file.span().end, |t| t.start);
    out.unreadable.push(Span::new(file.start, end));
}

/// Detects brackets, strings, comments or other constructs that are still open at the end: the
/// parser's own error, marked as caused by the end of the text.
fn ends_early(split: &Split<'_>, out: &mut Missing) {
    let file = split.file;
    let end = file.start + file.text.trim_end().len() as u32;
    let at_end = |d: &&Diagnostic| d.labels.iter().any(|l| l.span.start >= end);
    let of = |code: u16| move |d: &&Diagnostic| d.code == Code(code);
    let unclosed = split.said.iter().find(of(103));
    let open = split.said.iter().filter(of(105)).find(at_end);
    let unfinished = split.said.iter().find(|d| d.message.ends_with(FOUND_END));
    let Some(found) = unclosed.or(open).or(unfinished) else {
        return;
    };
    if out.unreadable.iter().any(|u| u.touches(end)) {
        return;
    }
    let mut d = found.clone();
    let message = found.message.trim_end_matches(FOUND_END);
    if found.code == Code(103) {
        d.message = format!("{message}: the text ends inside it");
    } else {
        d.code = ENDS_EARLY;
        d.message = format!("the text ends too early: {message}");
    }
    out.errors.push(d);
    out.unreadable.push(found.span());
    out.unreadable.extend(open.map(Diagnostic::span));
    // The last token may be cut off, so what is inserted after it is meaningless.
    let last = split.tokens.last().map_or(end, |t| t.start);
    out.unreadable
        .push(Span::new(last.min(end), file.span().end + 1));
}

/// The parser's wording at the end of the text.
const FOUND_END: &str = ", found the end";
