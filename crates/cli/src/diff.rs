//! Unified diffs.

use std::fmt::Write as _;

use similar::{ChangeTag, TextDiff};

/// Appends a unified diff of two named texts, with three lines of context; nothing if they are
/// equal.
pub fn unified(names: (&str, &str), before: &str, after: &str, color: bool, out: &mut String) {
    if before == after {
        return;
    }
    let paint = |code: &str, text: &str| match color {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_string(),
    };
    let _ = writeln!(out, "{}", paint("1", &format!("--- {}", names.0)));
    let _ = writeln!(out, "{}", paint("1", &format!("+++ {}", names.1)));
    let diff = TextDiff::from_lines(before, after);
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        let _ = writeln!(out, "{}", paint("36", &hunk.header().to_string()));
        for change in hunk.iter_changes() {
            let (sign, code) = match change.tag() {
                ChangeTag::Delete => ('-', "31"),
                ChangeTag::Insert => ('+', "32"),
                ChangeTag::Equal => (' ', ""),
            };
            let value = change.value();
            let line = format!("{sign}{}", value.strip_suffix('\n').unwrap_or(value));
            match code {
                "" => out.push_str(&line),
                code => out.push_str(&paint(code, &line)),
            }
            out.push('\n');
            if !value.ends_with('\n') {
                out.push_str("\\ No newline at end of file\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(before: &str, after: &str) -> String {
        let mut out = String::new();
        unified(("f", "f (formatted)"), before, after, false, &mut out);
        out
    }

    #[test]
    fn says_nothing_of_equal_texts() {
        assert_eq!(diff("a\n", "a\n"), "");
    }

    #[test]
    fn colours_lines_by_what_became_of_them() {
        let mut out = String::new();
        unified(("before", "after"), "a\nb\n", "a\nc\n", true, &mut out);
        let expected = "\x1b[1m--- before\x1b[0m\n\x1b[1m+++ after\x1b[0m\n\x1b[36m@@ -1,2 +1,2 @@\x1b[0m\n a\n\
                        \x1b[31m-b\x1b[0m\n\x1b[32m+c\x1b[0m\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn shows_lines_and_missing_line_ends() {
        let expected = "--- f\n+++ f (formatted)\n@@ -1,2 +1,2 @@\n a\n-b\n\
                        \\ No newline at end of file\n+c\n";
        assert_eq!(diff("a\nb", "a\nc\n"), expected);
    }
}
