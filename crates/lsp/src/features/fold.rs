//! Folding ranges: multi-line brackets, long comments, the metadata section.

use lsp_types::{FoldingRange, FoldingRangeKind};
use relax_syntax::Tok;

use crate::document::Document;

/// Brackets of data with more lines than this are folded by editors that fold on opening.
const LARGE: u32 = 20;

/// Returns the folding ranges. Those of kind `region` are data: the metadata section and large
/// constants.
pub fn folds(doc: &mut Document) -> Vec<FoldingRange> {
    let (file, lexed) = doc.lexed();
    let line = |pos: u32| file.line_col(pos).line - 1;
    let mut out = Vec::new();
    let mut add = |from: u32, to: u32, kind: Option<FoldingRangeKind>| {
        if from < to {
            out.push(FoldingRange {
                start_line: from,
                end_line: to,
                kind,
                ..FoldingRange::default()
            });
        }
    };
    // The position, and whether only numbers and strings have followed since.
    let mut open: Vec<(u32, bool)> = Vec::new();
    for t in &lexed.tokens {
        match t.tok {
            Tok::LParen | Tok::LSquare | Tok::LBrace => open.push((line(t.start), true)),
            Tok::RParen | Tok::RSquare | Tok::RBrace => {
                if let Some((from, data)) = open.pop() {
                    let to = line(t.start);
                    let large = data && to - from > LARGE;
                    // The closing bracket's line stays visible.
                    let kind = large.then_some(FoldingRangeKind::Region);
                    add(from, to.saturating_sub(1), kind);
                    if let Some(outer) = open.last_mut() {
                        outer.1 &= data;
                    }
                }
            }
            Tok::Int | Tok::Float | Tok::Str | Tok::Comma | Tok::Minus => {}
            Tok::Metadata => {
                let last = line(t.end).max(line(t.start));
                add(line(t.start), last, Some(FoldingRangeKind::Region));
            }
            _ => {
                if let Some(top) = open.last_mut() {
                    top.1 = false;
                }
            }
        }
    }
    // Line comments on consecutive lines form one range.
    let mut run: Option<(u32, u32)> = None;
    for c in &lexed.comments {
        let (from, to) = (line(c.span.start), line(c.span.end));
        run = match run {
            Some((first, last)) if c.line && from == last + 1 => Some((first, to)),
            other => {
                if let Some((first, last)) = other {
                    add(first, last, Some(FoldingRangeKind::Comment));
                }
                Some((from, to))
            }
        };
    }
    if let Some((first, last)) = run {
        add(first, last, Some(FoldingRangeKind::Comment));
    }
    out.sort_by_key(|f| (f.start_line, f.end_line));
    out.dedup_by_key(|f| f.start_line);
    out
}
