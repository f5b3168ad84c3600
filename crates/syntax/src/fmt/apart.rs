//! Tokens that must not touch.
//!
//! The printer decides from a construct whether a space precedes a token. Some tokens that need
//! none are another token when they touch: `v0` and `.0.4` on two lines are a variable and its
//! projections, `v0.0.4` is a version header. The formatter therefore reads what it printed, and
//! prints it once more with a space where tokens were joined.

use relax_base::SourceFile;

use crate::lex::{Lexer, Token};

fn optional(text: &str) -> bool {
    text == "," || text == ";"
}

/// Compares a formatted text with the original's tokens. Returns where the original's tokens start
/// that were joined with those before them, or `None` if the texts differ in anything else than
/// optional commas, semicolons and empty lists of type parameters.
pub(super) fn joined(
    file: &SourceFile,
    tokens: &[Token],
    printed: &SourceFile,
) -> Option<Vec<u32>> {
    // Headers and the metadata section include the white space behind them.
    let original = |i: usize| tokens.get(i).map(|t| file.slice(t.span()).trim_end());
    let mut joined = Vec::new();
    let mut next = 0;
    let mut lexer = Lexer::new(printed, printed.span());
    while let Some(token) = lexer.next() {
        let text = printed.slice(token.span()).trim_end();
        loop {
            let Some(source) = original(next) else {
                if optional(text) {
                    break;
                }
                return None;
            };
            if source == text {
                next += 1;
                break;
            }
            if optional(source) {
                next += 1;
                continue;
            }
            if optional(text) {
                break;
            }
            let pair = (source, original(next + 1).unwrap_or_default());
            if matches!(pair, ("<", ">") | ("[", "]")) {
                next += 2;
                continue;
            }
            let end = end_of(text, next, original)?;
            // A projection is one token or two.
            if !(pair.0 == "." && end == next + 2) {
                joined.push(tokens[next + 1].start);
            }
            next = end;
            break;
        }
    }
    let rest = (next..tokens.len()).all(|i| original(i).is_some_and(optional));
    rest.then_some(joined)
}

/// Returns the end of the tokens, from one on, that together are `text`, but for white space.
fn end_of<'a>(
    text: &str,
    mut next: usize,
    original: impl Fn(usize) -> Option<&'a str>,
) -> Option<usize> {
    let first = next;
    let mut rest = text.chars().filter(|c| !c.is_whitespace()).peekable();
    while rest.peek().is_some() {
        let source = original(next)?;
        next += 1;
        if optional(source) && rest.peek() != source.chars().next().as_ref() {
            continue;
        }
        for c in source.chars().filter(|c| !c.is_whitespace()) {
            if rest.next() != Some(c) {
                return None;
            }
        }
    }
    (next > first + 1).then_some(next)
}
