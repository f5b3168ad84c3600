//! Which texts are read as names, and where.

use logos::Logos;

use crate::token::{Tok, next};

/// Returns whether `%` and a text are read as a local variable of this name.
pub fn reads_as_local(name: &str) -> bool {
    // Most names are words, which a sigil makes variables whatever they mean.
    if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    }
    let text = format!("%{name}");
    let mut lexer = Tok::lexer(&text);
    let mut end = 0;
    // A number after a dot is part of a name that its binder has: see `Tok::Local`. Blanks and
    // comments between tokens or behind them are not.
    while let Some((token, span)) = next(&mut lexer) {
        let wanted = if end == 0 { Tok::Local } else { Tok::Proj };
        if token != wanted || span.start != end {
            return false;
        }
        // It is read as a field's number before anything looks for the name.
        if end > 0 && text[span.start + 1..span.end].parse::<u32>().is_err() {
            return false;
        }
        end = span.end;
    }
    end == text.len()
}

/// Returns whether `@` and a text are read as a global of this name.
pub fn reads_as_global(name: &str) -> bool {
    let text = format!("@{name}");
    let mut lexer = Tok::lexer(&text);
    next(&mut lexer) == Some((Tok::Global, 0..text.len()))
}

/// Returns a name of ASCII letters, digits and `_` that resembles any text. It may be a keyword.
pub fn in_letters(text: &str) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut name = String::with_capacity(text.len() + 1);
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.push('v');
    }
    name.extend(text.chars().map(|c| if fine(c) { c } else { '_' }));
    name
}

/// Returns whether a text is read as a name wherever a name without a sigil may stand: it is one
/// token that has no other meaning in any context, even if `:` follows.
pub fn reads_as_word(name: &str) -> bool {
    let text = format!("{name}:");
    let mut lexer = Tok::lexer(&text);
    next(&mut lexer) == Some((Tok::Name, 0..name.len())) && !lexer.extras.word
}

/// Returns whether a text is read as a name where only one may stand, whatever it means elsewhere:
/// that of an attribute.
pub fn reads_as_name(name: &str) -> bool {
    let text = format!("{name}=");
    let mut lexer = Tok::lexer(&text);
    next(&mut lexer) == Some((Tok::Name, 0..name.len())) && !name.contains([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of a text with their parts of it.
    fn tokens(text: &str) -> String {
        let mut lexer = Tok::lexer(text);
        let mut all = Vec::new();
        while let Some((tok, span)) = next(&mut lexer) {
            all.push(format!("{tok:?} {}", &text[span]));
        }
        all.join(", ")
    }

    #[test]
    fn names_have_letters_of_all_languages() {
        for (text, expected) in [
            ("%größe.0.名 @λ.x", "Local %größe.0.名, Global @λ.x"),
            (
                "%e\u{301}1 x.y\u{301}z",
                "Local %e\u{301}1, Name x.y\u{301}z",
            ),
            ("%x→%y", "Local %x, Unknown →, Local %y"),
            ("%x.→", "Local %x, Dot ., Unknown →"),
            ("%→", "Percent %, Unknown →"),
            ("“add”", "Unknown “, Name add, Unknown ”"),
            (
                "nn.\u{301}relu",
                "Name nn, Dot ., Unknown \u{301}, Name relu",
            ),
            ("%x.1٣", "Local %x, Proj .1, Unknown ٣"),
            ("%x\u{a0}y/٣", "Local %x, Unknown \u{a0}, Name y/٣"),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
        assert!(reads_as_local("größe") && reads_as_word("größe") && reads_as_global("größe"));
        assert!(!reads_as_local("a→b") && !reads_as_word("a→") && !reads_as_global("\u{301}"));
    }
}
