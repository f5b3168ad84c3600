//! Several modules in one file: `--split-input-file`.

/// The line between two modules.
pub const MARK: &str = "// -----";

/// The parts of a text, each with as many empty lines before it as the text has lines before the
/// part, so that line numbers in messages are those of the file.
pub fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if line.trim_end() == MARK {
            parts.push("\n".repeat(number + 1));
        } else {
            parts.last_mut().expect("never empty").push_str(line);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_keep_their_numbers() {
        assert_eq!(super::split("a\n// -----\nb\n"), ["a\n", "\n\nb\n"]);
        assert_eq!(super::split("a"), ["a"]);
    }
}
