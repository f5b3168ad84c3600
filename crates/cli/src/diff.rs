//! Unified diffs.

use std::fmt::Write as _;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// Lines that stand around a change.
const CONTEXT: u32 = 3;

/// Appends a unified diff of two named texts, with three lines of context; nothing if they are
/// equal.
pub fn unified(names: (&str, &str), before: &str, after: &str, color: bool, out: &mut String) {
    if before == after {
        return;
    }
    let paint = |code: &str, text: &str| match color && !code.is_empty() {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_string(),
    };
    let _ = writeln!(out, "{}", paint("1", &format!("--- {}", names.0)));
    let _ = writeln!(out, "{}", paint("1", &format!("+++ {}", names.1)));
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let (old, new) = (&input.before, &input.after);
    let lines = |sign: char, code: &str, tokens: &[_], out: &mut String| {
        for &token in tokens {
            let line: &str = input.interner[token];
            let text = line.strip_suffix('\n');
            let painted = paint(code, &format!("{sign}{}", text.unwrap_or(line)));
            let _ = writeln!(out, "{painted}");
            if text.is_none() {
                out.push_str("\\ No newline at end of file\n");
            }
        }
    };
    let changes: Vec<_> = diff.hunks().collect();
    // Changes whose contexts touch have one header.
    for near in changes.chunk_by(|a, b| b.before.start - a.before.end <= 2 * CONTEXT) {
        let [first, ..] = near else { continue };
        let last = &near[near.len() - 1];
        let lead = first.before.start.min(CONTEXT);
        let trail = (old.len() as u32 - last.before.end).min(CONTEXT);
        let of = |from: u32, to: u32| place(from - lead..to + trail);
        let (from, to) = (
            of(first.before.start, last.before.end),
            of(first.after.start, last.after.end),
        );
        let _ = writeln!(out, "{}", paint("36", &format!("@@ -{from} +{to} @@")));
        let mut at = first.before.start - lead;
        for change in near {
            lines(' ', "", &old[range(at..change.before.start)], out);
            lines('-', "31", &old[range(change.before.clone())], out);
            lines('+', "32", &new[range(change.after.clone())], out);
            at = change.before.end;
        }
        lines(' ', "", &old[range(at..at + trail)], out);
    }
}

fn range(lines: Range<u32>) -> Range<usize> {
    lines.start as usize..lines.end as usize
}

/// Returns how a header names lines: by the number of the first and their count, which is left out
/// if it is 1. Of no lines it names the one before.
fn place(lines: Range<u32>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
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

    #[test]
    fn changes_far_apart_have_headers_of_their_own() {
        let text = |first: &str, last: &str| {
            let middle: String = (0..7).map(|i| format!("{i}\n")).collect();
            format!("{first}{middle}{last}")
        };
        let expected = "--- f\n+++ f (formatted)\n@@ -1,4 +1,3 @@\n-a\n 0\n 1\n 2\n\
                        @@ -6,3 +5,4 @@\n 4\n 5\n 6\n+b\n";
        assert_eq!(diff(&text("a\n", ""), &text("", "b\n")), expected);
        let near = diff("a\n0\n1\n2\n3\n4\n5\n", "0\n1\n2\n3\n4\n5\nb\n");
        assert_eq!(near.matches("@@ ").count(), 1, "{near}");
        assert_eq!(
            diff("", "a\n"),
            "--- f\n+++ f (formatted)\n@@ -0,0 +1 @@\n+a\n"
        );
    }
}
