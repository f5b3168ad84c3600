//! Prefixes of the lines of a copied text: a quotation mark, a line number, a process name.
//!
//! The form is not known beforehand: whatever precedes a definition on its line is taken as such a
//! prefix, and lines that start with the same form have it too.

/// The form of a line prefix.
#[derive(Debug)]
pub(crate) struct Lead(Vec<Piece>);

#[derive(Debug)]
enum Piece {
    /// A number, with any digits.
    Number,
    /// White space; at the end of the prefix, at most this much.
    Blank(usize),
    Char(char),
}

impl Lead {
    /// Derives the form of a prefix.
    pub(crate) fn new(text: &str) -> Lead {
        let mut pieces: Vec<Piece> = Vec::new();
        for c in text.chars() {
            match (pieces.last_mut(), c) {
                (Some(Piece::Number), c) if c.is_ascii_digit() => {}
                (_, c) if c.is_ascii_digit() => pieces.push(Piece::Number),
                (Some(Piece::Blank(n)), ' ' | '\t') => *n += 1,
                (_, ' ' | '\t') => pieces.push(Piece::Blank(1)),
                (_, c) => pieces.push(Piece::Char(c)),
            }
        }
        Lead(pieces)
    }

    /// Returns the end of the prefix of this form on a line that has one. Empty lines may lack its
    /// trailing white space.
    pub(crate) fn end(&self, line: &str) -> Option<usize> {
        if self.0.iter().all(|p| matches!(p, Piece::Blank(_))) {
            return None;
        }
        let bytes = line.as_bytes();
        let run =
            |at: usize, is: fn(u8) -> bool| bytes[at..].iter().take_while(|b| is(**b)).count();
        let mut at = 0;
        for (i, piece) in self.0.iter().enumerate() {
            let last = i + 1 == self.0.len();
            at += match piece {
                Piece::Number => Some(run(at, |b| b.is_ascii_digit())).filter(|&n| n > 0)?,
                Piece::Blank(most) => {
                    let found = run(at, |b| matches!(b, b' ' | b'\t'));
                    if last { found.min(*most) } else { found }
                }
                Piece::Char(c) if line[at..].starts_with(*c) => c.len_utf8(),
                Piece::Char(_) => return None,
            };
        }
        Some(at)
    }
}

/// Returns where a definition starts on a line that begins with something else:
/// `src = """def @main(`.
pub(crate) fn item_inside(line: &str) -> Option<usize> {
    let named = |rest: &str| {
        let name = rest.trim_start_matches(|c: char| c.is_alphanumeric() || "_./:".contains(c));
        name.len() < rest.len() && name.trim_start().starts_with(['(', '[', '<'])
    };
    let takes = |rest: &str| rest.is_empty() || rest.starts_with(['%', ')']);
    let begins = |at: usize| {
        let rest = &line[at..];
        let tail = |word: &str| rest.strip_prefix(word);
        tail("def @").is_some_and(named)
            || tail("fn (").is_some_and(takes)
            || rest.starts_with("#[version = \"")
            || rest.starts_with("#[metadata]")
    };
    let apart = |at: usize| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"_%@".contains(c))
    };
    let heads = line.match_indices(['d', 'f', '#']).map(|(at, _)| at);
    heads
        .into_iter()
        .find(|&at| at > 0 && begins(at) && apart(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leads_of_one_form() {
        let end = |lead: &str, line: &str| Lead::new(lead).end(line);
        assert_eq!(end("  1 | ", " 12 |   %0"), Some(6));
        assert_eq!(end("E       ", "E         %0"), Some(8));
        assert_eq!(end("E       ", "E"), Some(1));
        assert_eq!(end("> ", ">"), Some(1));
        assert_eq!(end("> ", "%x"), None);
        assert_eq!(
            end("[12:00:01] a.cc:7: ", "[12:10:59] a.cc:11: x"),
            Some(20)
        );
        assert_eq!(end("    ", "    x"), None);
    }

    #[test]
    fn definitions_in_a_line() {
        assert_eq!(item_inside("src = \"\"\"def @main(%x) {"), Some(9));
        assert_eq!(item_inside("func: fn (%x: int32) {"), Some(6));
        assert_eq!(item_inside("the type fn (int32) -> int32"), None);
        assert_eq!(item_inside("def @main(%x)"), None);
        assert_eq!(item_inside("a def @f of"), None);
    }
}
