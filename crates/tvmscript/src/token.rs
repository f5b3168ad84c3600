//! The tokens of the Python subset.

use std::ops::Range;

use logos::{Lexer, Logos};
use relax_base::name_end;

/// The kinds of tokens.
#[derive(Logos, Clone, Copy, PartialEq, Eq, Debug)]
#[logos(extras = bool)]
// How a name begins and goes on; with any characters beyond ASCII, of which `next` keeps the letters.
#[logos(subpattern s = r"[A-Za-z_]")]
#[logos(subpattern c = r"[A-Za-z0-9_]")]
#[logos(subpattern us = r"[A-Za-z_\u{80}-\u{10FFFF}]")]
#[logos(subpattern uc = r"[A-Za-z0-9_\u{80}-\u{10FFFF}]")]
#[logos(skip(r"[ \t\x0C]+"))]
#[logos(skip(r"\\\r?\n"))]
#[logos(skip(r"#[^\n]*", allow_greedy = true))]
#[allow(missing_docs)]
pub enum Tok {
    #[token("\n")]
    #[token("\r\n")]
    #[token("\r")]
    Newline,

    #[token("class")]
    Class,
    #[token("def")]
    Def,
    #[token("with")]
    With,
    #[token("for")]
    For,
    #[token("in")]
    In,
    #[token("while")]
    While,
    #[token("if")]
    If,
    #[token("elif")]
    Elif,
    #[token("else")]
    Else,
    #[token("return")]
    Return,
    #[token("assert")]
    Assert,
    #[token("pass")]
    Pass,
    #[token("and")]
    And,
    #[token("or")]
    Or,
    #[token("not")]
    Not,
    #[token("lambda")]
    Lambda,
    #[token("True")]
    True,
    #[token("False")]
    False,
    #[token("None")]
    None,
    /// A Python keyword that TVMScript does not use.
    #[token("as")]
    #[token("async")]
    #[token("await")]
    #[token("break")]
    #[token("continue")]
    #[token("del")]
    #[token("except")]
    #[token("finally")]
    #[token("from")]
    #[token("global")]
    #[token("import")]
    #[token("is")]
    #[token("nonlocal")]
    #[token("raise")]
    #[token("try")]
    #[token("yield")]
    Reserved,

    #[regex(r"(?&s)(?&c)*", priority = 2)]
    #[regex(r"(?&us)(?&uc)*", beyond_ascii, priority = 1)]
    Name,
    /// A dotted name: `R.nn.relu`.
    #[regex(r"(?&s)(?&c)*(\.(?&s)(?&c)*)+", priority = 4)]
    #[regex(r"(?&us)(?&uc)*(\.(?&us)(?&uc)*)+", beyond_ascii, priority = 3)]
    Path,
    #[regex(r"[0-9][0-9_]*", priority = 3)]
    #[regex(r"0[xX][0-9a-fA-F_]+")]
    Int,
    #[regex(r"[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?")]
    #[regex(r"\.[0-9]+([eE][+-]?[0-9]+)?")]
    #[regex(r"[0-9]+[eE][+-]?[0-9]+")]
    Float,
    #[regex(r#""([^"\\\n\r]|\\[^\r]|\\\r\n?)*""#)]
    #[regex(r"'([^'\\\n\r]|\\[^\r]|\\\r\n?)*'")]
    #[token("\"\"\"", long_string)]
    #[token("'''", long_string)]
    Str,
    /// An unterminated string.
    #[regex(r#""([^"\\\n\r]|\\[^\r\n])*"#, priority = 1)]
    #[regex(r"'([^'\\\n\r]|\\[^\r\n])*", priority = 1)]
    OpenStr,

    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("[")]
    LSquare,
    #[token("]")]
    RSquare,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    #[token(",")]
    Comma,
    #[token(":")]
    Colon,
    #[token(".")]
    Dot,
    #[token(";")]
    Semi,
    #[token("@")]
    At,
    #[token("=")]
    Assign,
    #[token("->")]
    Arrow,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("**")]
    Power,
    #[token("/")]
    Slash,
    #[token("//")]
    FloorDiv,
    #[token("%")]
    Percent,
    #[token("<<")]
    Shl,
    #[token(">>")]
    Shr,
    #[token("&")]
    Amp,
    #[token("|")]
    Pipe,
    #[token("^")]
    Caret,
    #[token("~")]
    Tilde,
    #[token("==")]
    EqEq,
    #[token("!=")]
    NotEq,
    #[token("<")]
    Lt,
    #[token("<=")]
    Le,
    #[token(">")]
    Gt,
    #[token(">=")]
    Ge,
    /// A type whose text was read before.
    Known,
    /// The end of a logical line.
    End,
}

/// Reads a triple-quoted string to its end; an unterminated one is an error.
/// Marks a name whose characters are to be looked at.
fn beyond_ascii(lexer: &mut Lexer<'_, Tok>) {
    lexer.extras = true;
}

/// Returns the next token, `None` for characters that begin none, and where it is.
pub(crate) fn next(lexer: &mut Lexer<'_, Tok>) -> Option<(Option<Tok>, Range<usize>)> {
    let tok = lexer.next()?.ok();
    let span = lexer.span();
    if !std::mem::take(&mut lexer.extras) {
        return Some((tok, span));
    }
    let end = name_end(lexer.slice());
    if end == span.len() {
        return Some((tok, span));
    }
    // What the text begins with if it ends before the character that is no part of a name.
    let source: &str = lexer.source();
    let mut before = Tok::lexer(&source[span.start..span.start + end]);
    let (tok, len) = match before.next() {
        Some(tok) => (tok.ok(), before.span().end),
        None => {
            let other = source[span.start..].chars().next();
            (None, other.map_or(0, char::len_utf8))
        }
    };
    let span = span.start..span.start + len;
    *lexer = Tok::lexer(source);
    lexer.bump(span.end);
    Some((tok, span))
}

fn long_string(lexer: &mut Lexer<'_, Tok>) -> Option<()> {
    let quote = lexer.slice().as_bytes()[0];
    let rest = lexer.remainder().as_bytes();
    let mut i = 0;
    while i < rest.len() {
        match rest[i] {
            b'\\' => i += 2,
            c if c == quote && rest[i..].starts_with(&[quote; 3]) => {
                lexer.bump(i + 3);
                return Some(());
            }
            _ => i += 1,
        }
    }
    lexer.bump(rest.len());
    None
}

impl Tok {
    /// Returns its description in messages.
    pub fn describe(self) -> &'static str {
        match self {
            Tok::Newline | Tok::End => "the end of the line",
            Tok::Name | Tok::Path => "a name",
            Tok::Known => "a type",
            Tok::Int | Tok::Float => "a number",
            Tok::Str | Tok::OpenStr => "a string",
            Tok::Reserved => "a word that Python keeps for itself",
            Tok::Class => "`class`",
            Tok::Def => "`def`",
            Tok::With => "`with`",
            Tok::For => "`for`",
            Tok::In => "`in`",
            Tok::While => "`while`",
            Tok::If => "`if`",
            Tok::Elif => "`elif`",
            Tok::Else => "`else`",
            Tok::Return => "`return`",
            Tok::Assert => "`assert`",
            Tok::Pass => "`pass`",
            Tok::And => "`and`",
            Tok::Or => "`or`",
            Tok::Not => "`not`",
            Tok::Lambda => "`lambda`",
            Tok::True => "`True`",
            Tok::False => "`False`",
            Tok::None => "`None`",
            Tok::LParen => "`(`",
            Tok::RParen => "`)`",
            Tok::LSquare => "`[`",
            Tok::RSquare => "`]`",
            Tok::LBrace => "`{`",
            Tok::RBrace => "`}`",
            Tok::Comma => "`,`",
            Tok::Colon => "`:`",
            Tok::Dot => "`.`",
            Tok::Semi => "`;`",
            Tok::At => "`@`",
            Tok::Assign => "`=`",
            Tok::Arrow => "`->`",
            Tok::Plus => "`+`",
            Tok::Minus => "`-`",
            Tok::Star => "`*`",
            Tok::Power => "`**`",
            Tok::Slash => "`/`",
            Tok::FloorDiv => "`//`",
            Tok::Percent => "`%`",
            Tok::Shl => "`<<`",
            Tok::Shr => "`>>`",
            Tok::Amp => "`&`",
            Tok::Pipe => "`|`",
            Tok::Caret => "`^`",
            Tok::Tilde => "`~`",
            Tok::EqEq => "`==`",
            Tok::NotEq => "`!=`",
            Tok::Lt => "`<`",
            Tok::Le => "`<=`",
            Tok::Gt => "`>`",
            Tok::Ge => "`>=`",
        }
    }
    /// Returns whether it cannot begin a line inside brackets: it starts a statement, so a bracket
    /// was left open.
    pub(crate) fn starts_statement(self) -> bool {
        use Tok::{Assert, At, Class, Def, For, Return, While, With};
        matches!(
            self,
            Class | Def | With | For | While | Return | Assert | At
        )
    }
    /// Returns the matching closing bracket.
    pub(crate) fn closing(self) -> Option<Tok> {
        match self {
            Tok::LParen => Some(Tok::RParen),
            Tok::LSquare => Some(Tok::RSquare),
            Tok::LBrace => Some(Tok::RBrace),
            _ => None,
        }
    }
    /// Returns whether it is a closing bracket.
    pub(crate) fn closes(self) -> bool {
        matches!(self, Tok::RParen | Tok::RSquare | Tok::RBrace)
    }
}
