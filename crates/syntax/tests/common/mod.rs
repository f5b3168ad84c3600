//! Helpers that the tests of this crate share.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;

use relax_base::{SourceFile, SourceMap};
use relax_syntax::{Parsed, PrintOptions, Style, Tok, lex, parse, print};

/// Texts that contain every construct.
pub const TEXTS: &[&str] = &[
    include_str!("../texts/language.relay"),
    include_str!("../texts/tvm.relay"),
    include_str!("../texts/expression.relay"),
];

pub fn file(text: &str) -> Arc<SourceFile> {
    SourceMap::new().add("test", text).expect("a small text")
}

/// Parses a text without errors.
pub fn good(text: &str) -> Parsed {
    let file = file(text);
    let parsed = parse(&file);
    if let Some(d) = parsed.diagnostics.iter().next() {
        let at = file.line_col(d.span().start);
        panic!("{}:{}: {} in\n{text}", at.line, at.col, d.message);
    }
    parsed
}

/// The errors of a text as `line:column: CODE message`.
pub fn errors(text: &str) -> Vec<String> {
    let file = file(text);
    let parsed = parse(&file);
    let mut out = Vec::new();
    for d in parsed.diagnostics.iter() {
        let at = file.line_col(d.span().start);
        out.push(format!("{}:{}: {} {}", at.line, at.col, d.code, d.message));
    }
    out
}

pub fn printed(text: &str, style: Style, width: usize) -> String {
    let options = PrintOptions {
        style,
        width,
        types: true,
    };
    print(&good(text).ast, &options)
}

/// Returns the tokens of a text without the commas and semicolons that a formatter may add or drop.
pub fn tokens(text: &str) -> Vec<String> {
    let file = file(text);
    lex(&file)
        .tokens
        .iter()
        .filter(|t| !matches!(t.tok, Tok::Comma | Tok::Semi))
        .map(|t| file.slice(t.span()).trim_end().to_string())
        .collect()
}

/// Returns each comment with the number of tokens (as above) before it.
pub fn comments(text: &str) -> Vec<(usize, String)> {
    let file = file(text);
    let lexed = lex(&file);
    let count = |pos: u32| {
        let before = lexed.tokens.iter().filter(|t| t.start < pos);
        before
            .filter(|t| !matches!(t.tok, Tok::Comma | Tok::Semi))
            .count()
    };
    lexed
        .comments
        .iter()
        .map(|c| {
            (
                count(c.span.start),
                file.slice(c.span).trim_end().to_string(),
            )
        })
        .collect()
}
