//! Descriptions of the tokens that the parser expected, in plain words.

use relax_base::{Code, Diagnostic, SourceFile, Span};

use crate::lex::Token;
use crate::token::Tok;

/// Explains that the token at `at` was not one of `expected` (the grammar's terminals in quotes).
pub(super) fn explain(
    file: &SourceFile,
    tokens: &[Token],
    at: usize,
    expected: &[String],
) -> Diagnostic {
    let has = |t: &str| expected.iter().any(|e| e.trim_matches('"') == t);
    let found = tokens.get(at).copied();
    let last = at.checked_sub(1).and_then(|i| tokens.get(i)).copied();
    let want = want(&has, expected, last);
    let (span, found_text) = match found {
        Some(t) if t.start < t.end => (t.span(), format!("`{}`", shorten(file.slice(t.span())))),
        Some(t) => (t.span(), t.tok.describe().to_string()),
        None => {
            let end = last.map_or(file.start, |t| t.end);
            (Span::new(end, end), "the end".to_string())
        }
    };
    // A missing token is reported after the last token; a wrong one at its own location.
    if let Want::Token(text, place) = want
        && let Some(last) = last
    {
        let next = tokens.get(at + 1).map(|t| t.tok);
        let at = last.span().at_end();
        let mut d = Diagnostic::error(
            Code(101),
            if found.is_none() { at } else { span },
            format!("expected `{text}` {place}, found {found_text}"),
        );
        // An extra token, or one that replaces the expected one: an insertion would not help.
        let instead = found.filter(|t| {
            matches!(
                t.tok,
                Tok::Eq | Tok::EqEq | Tok::FatArrow | Tok::Arrow | Tok::Colon
            )
        });
        match instead {
            Some(t) if text == "{" && next == Some(Tok::LBrace) => {
                d = d.suggest("drop it", t.span(), "");
            }
            Some(t) if text == "{" && matches!(t.tok, Tok::Colon | Tok::FatArrow) && has("->") => {
                d = d.suggest("a result type stands behind `->`", t.span(), "->");
            }
            Some(t) if text == "=" || text == "=>" || text == "->" => {
                d = d.suggest(format!("write `{text}`"), t.span(), text);
            }
            Some(_) => {}
            None if text.len() == 1 => d = d.suggest(format!("insert `{text}`"), at, text),
            None => {}
        }
        return d;
    }
    let want = match want {
        Want::Words(w) => w,
        Want::Token(t, place) => format!("`{t}` {place}"),
    };
    let mut d = Diagnostic::error(
        Code(101),
        span,
        format!("expected {want}, found {found_text}"),
    );
    if let Some(t) = found {
        d = hints(d, file, t, last, &has);
    }
    d
}

enum Want {
    /// Exactly this token, and where.
    Token(&'static str, &'static str),
    Words(String),
}

fn want(has: &dyn Fn(&str) -> bool, expected: &[String], last: Option<Token>) -> Want {
    let after_opener = last.is_none_or(|t| matches!(t.tok, Tok::LBrace | Tok::Semi));
    if has("if") && has("local") {
        let words = if has("let") && after_opener {
            "a statement or an expression"
        } else {
            "an expression"
        };
        return Want::Words(words.into());
    }
    if has("?") && has("_") {
        return Want::Words("a type".into());
    }
    if has("_") && has("local") {
        return Want::Words("a pattern".into());
    }
    if has("=") && has(":") && has("{") {
        return Want::Token("=", "between a variable and its value");
    }
    if has(",") && has(")") && !has("local") && !has("name") && !has("}") && !has(";") {
        return Want::Token(")", "after this");
    }
    for (token, place, unless) in [
        ("{", "before the body", "("),
        (";", "after this statement", "}"),
        (")", "after this", "name"),
        ("]", "after this", "name"),
        ("=>", "after this pattern", "none"),
        ("=", "after this", "none"),
        ("(", "after this", "local"),
        ("->", "after this", "none"),
        (":", "after this", "none"),
    ] {
        if has(token) && !has(unless) {
            if token == ";" && has(")") {
                continue;
            }
            return Want::Token(token, place);
        }
    }
    let mut names: Vec<&str> = expected
        .iter()
        .map(|e| plain(e.trim_matches('"')))
        .collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => Want::Words("something else".into()),
        [one] => Want::Words((*one).into()),
        [a, b] => Want::Words(format!("{a} or {b}")),
        [a, b, c] => Want::Words(format!("{a}, {b} or {c}")),
        _ => Want::Words("something else".into()),
    }
}

/// Returns a description of a terminal of the grammar in plain words.
fn plain(terminal: &str) -> &str {
    match terminal {
        "local" => "a variable (`%x`)",
        "graph" => "a graph variable (`%0`)",
        "global" => "a global name (`@f`)",
        "name" => "a name",
        "int" => "an integer",
        "float" => "a number",
        "str" => "a string",
        "meta" => "a metadata reference",
        "error" => "something else",
        "t<" => "`<`",
        "t>" => "`>`",
        "(" => "`(`",
        ")" => "`)`",
        "[" => "`[`",
        "]" => "`]`",
        "{" => "`{`",
        "}" => "`}`",
        "," => "`,`",
        ";" => "`;`",
        ":" => "`:`",
        "=" => "`=`",
        "=>" => "`=>`",
        "->" => "`->`",
        other => other,
    }
}

/// Adds advice for well-known mistakes.
fn hints(
    d: Diagnostic,
    file: &SourceFile,
    t: Token,
    last: Option<Token>,
    has: &dyn Fn(&str) -> bool,
) -> Diagnostic {
    let text = file.slice(t.span());
    match t.tok {
        Tok::Name if has("local") && !has("name") => {
            d.suggest(format!("write `%{text}`"), t.span().at_start(), "%")
        }
        Tok::Name if has("global") && !has("name") => {
            d.suggest(format!("write `@{text}`"), t.span().at_start(), "@")
        }
        Tok::Lt if last.is_some_and(|l| l.tok == Tok::Name) => {
            d.note("type arguments of a type stand in square brackets: `List[A]`")
        }
        Tok::Colon if last.is_some() => d.note("a statement ends with `;`"),
        _ => d,
    }
}

fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or("");
    if line.chars().count() > 30 {
        let head: String = line.chars().take(29).collect();
        return format!("{head}…");
    }
    line.to_string()
}
