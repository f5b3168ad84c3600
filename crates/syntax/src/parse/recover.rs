//! Error recovery: unreadable text becomes one token that the grammar accepts as an expression, a
//! type, a pattern or a parameter, and the segment is parsed again.
//!
//! Invariant: every cut makes the list of tokens shorter or inserts an error token where none was,
//! and the error token is widened if the parser does not accept it, so this terminates.

use relax_base::Span;

use crate::lex::Token;
use crate::token::Tok;

/// Returns whether an error at `at` is only a consequence of a reported one.
pub(super) fn is_echo(tokens: &[Token], at: usize) -> bool {
    let error = |i: usize| tokens.get(i).is_some_and(|t| t.tok == Tok::Error);
    // Inserted brackets have been reported.
    let put_in = |i: usize| {
        tokens
            .get(i)
            .is_some_and(|t| t.start == t.end && (closes(t.tok) || opens(t.tok)))
    };
    error(at) || put_in(at) || at > 0 && (error(at - 1) || put_in(at - 1))
}

/// Returns whether one of `places` is in the statement around `at`.
pub(super) fn in_statement(tokens: &[Token], at: usize, places: &[Span]) -> bool {
    let boundary = |t: &Token| matches!(t.tok, Tok::Semi | Tok::LBrace | Tok::RBrace);
    let at = at.min(tokens.len());
    let from = tokens[..at].iter().rposition(boundary);
    let from = from.map_or(0, |i| tokens[i].end);
    let to = tokens[at..].iter().find(|t| boundary(t));
    let to = to.map_or(u32::MAX, |t| t.start);
    places.iter().any(|s| from <= s.start && s.start <= to)
}

fn opens(t: Tok) -> bool {
    matches!(t, Tok::LParen | Tok::LSquare | Tok::LBrace | Tok::TLt)
}

fn closes(t: Tok) -> bool {
    matches!(t, Tok::RParen | Tok::RSquare | Tok::RBrace | Tok::TGt)
}

/// Replaces the smallest range around `at` between separators. Returns whether anything is left to
/// parse again.
pub(super) fn cut(tokens: &mut Vec<Token>, at: usize) -> bool {
    let mut at = at;
    loop {
        let (from, to) = stretch(tokens, at);
        let lone = to - from == 1 && tokens[from].tok == Tok::Error;
        let empty_after_error = from == to && from > 0 && tokens[from - 1].tok == Tok::Error;
        if !lone && !empty_after_error {
            let start = tokens
                .get(from)
                .map_or_else(|| tokens.last().map_or(0, |t| t.end), |t| t.start);
            let end = if from == to {
                start
            } else {
                tokens[to - 1].end
            };
            let error = Token {
                tok: Tok::Error,
                word: false,
                start,
                end,
            };
            tokens.splice(from..to, [error]);
            // The whole segment is unreadable.
            return tokens.len() > 1;
        }
        // The grammar accepts no error here: widen to the enclosing bracket.
        match enclosing(tokens, from) {
            Some(open) => at = open,
            None => return false,
        }
    }
}

/// Returns the elements around `at`, separators excluded. Error tokens inside are included.
fn stretch(tokens: &[Token], at: usize) -> (usize, usize) {
    let boundary = |t: Tok| matches!(t, Tok::Comma | Tok::Semi | Tok::FatArrow | Tok::Eq);
    let mut from = at.min(tokens.len());
    let mut depth = 0usize;
    while from > 0 {
        let t = tokens[from - 1].tok;
        if closes(t) {
            depth += 1;
        } else if opens(t) {
            if depth == 0 {
                break;
            }
            depth -= 1;
        } else if depth == 0 && boundary(t) {
            break;
        }
        from -= 1;
    }
    let mut to = at.min(tokens.len());
    let mut depth = 0usize;
    while to < tokens.len() {
        let t = tokens[to].tok;
        if opens(t) {
            depth += 1;
        } else if closes(t) {
            if depth == 0 {
                break;
            }
            depth -= 1;
        } else if depth == 0 && boundary(t) && (t != Tok::Eq || to > at) {
            break;
        }
        to += 1;
    }
    (from, to)
}

/// Returns the bracket that encloses `at`.
fn enclosing(tokens: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for i in (0..at).rev() {
        if closes(tokens[i].tok) {
            depth += 1;
        } else if opens(tokens[i].tok) {
            if depth == 0 {
                return Some(i);
            }
            depth -= 1;
        }
    }
    None
}
