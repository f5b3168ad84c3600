//! Several modules in one file: `--split-input-file`.

/// The separator between two modules.
pub const MARK: &str = "// -----";

/// A module of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The number of lines of the file before it.
    pub before: usize,
    /// Its text, preceded by as many empty lines, so that line numbers in messages are those of the
    /// file.
    pub text: String,
}

/// Splits a text into parts.
pub fn split(text: &str) -> Vec<Part> {
    let part = |before: usize| Part {
        before,
        text: "\n".repeat(before),
    };
    let mut parts = vec![part(0)];
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_end() == MARK {
            parts.push(part(number + 1));
        } else {
            parts.last_mut().expect("never empty").text.push_str(line);
        }
    }
    parts
}

/// Joins (possibly changed) parts to a text.
pub fn join(parts: &[Part]) -> String {
    let mut out = String::new();
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push_str(MARK);
            out.push('\n');
        }
        let own = part.text.char_indices().nth(part.before);
        out.push_str(own.map_or("", |(at, _)| &part.text[at..]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers() {
        let texts = |text: &str| split(text).into_iter().map(|p| p.text).collect::<Vec<_>>();
        assert_eq!(texts("a\n// -----\nb\n"), ["a\n", "\n\nb\n"]);
        assert_eq!(texts("a"), ["a"]);
    }

    #[test]
    fn parts_can_be_joined() {
        for text in ["a\n// -----\nb\n", "a", "", "// -----\n// -----\n\nb\n"] {
            assert_eq!(join(&split(text)), text);
        }
    }
}
