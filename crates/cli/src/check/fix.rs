//! Applying suggested edits.

use relax_base::{Diagnostics, Edit, SourceFile};

use super::{Checked, Options, check};

/// Mending one place may show the next mistake; no text needs more rounds than this to settle.
const ROUNDS: usize = 16;

/// Applies the certain edits of a text until none is left, and checks what came out. The text is
/// `None` where nothing was changed.
///
/// Invariant: no round makes the syntax worse; one that would is not made.
pub fn mend(name: &str, bytes: Vec<u8>, options: &Options) -> (Checked, Option<String>) {
    let readable = std::str::from_utf8(&bytes).is_ok();
    let mut checked = check(name, bytes, options);
    let (mut text, mut fixed) = (None, 0);
    if !readable {
        // The text held is not the file's: writing it back would lose bytes.
        return (checked, None);
    }
    for _ in 0..ROUNDS {
        let Some((new, applied)) = checked
            .sources
            .files()
            .first()
            .and_then(|f| apply(f, &checked.diagnostics))
        else {
            break;
        };
        let after = check(name, new.clone().into_bytes(), options);
        if syntax_errors(&after.diagnostics) > syntax_errors(&checked.diagnostics) {
            break;
        }
        checked = after;
        text = Some(new);
        fixed += applied;
    }
    checked.fixed = fixed;
    (checked, text)
}

fn syntax_errors(diagnostics: &Diagnostics) -> usize {
    diagnostics
        .iter()
        .filter(|d| d.is_error() && d.code.0 / 100 == 1)
        .count()
}

/// The text with the certain edits of its diagnostics made, and how many suggestions those were;
/// a suggestion that touches the place of one before it waits for the next round. `None` when
/// there is nothing to do.
fn apply(file: &SourceFile, diagnostics: &Diagnostics) -> Option<(String, usize)> {
    let mut edits: Vec<&Edit> = Vec::new();
    let mut applied = 0;
    for d in diagnostics.iter() {
        let Some(fix) = d.fixes.iter().find(|f| f.certain) else {
            continue;
        };
        let inside = |e: &Edit| file.start <= e.span.start && e.span.end <= file.span().end;
        let apart = |e: &Edit| {
            edits
                .iter()
                .all(|o| e.span.end < o.span.start || o.span.end < e.span.start)
        };
        if fix.edits.iter().all(|e| inside(e) && apart(e)) {
            edits.extend(&fix.edits);
            applied += 1;
        }
    }
    edits.sort_by_key(|e| e.span);
    let mut text = String::with_capacity(file.text.len());
    let mut from = 0;
    for edit in edits {
        text.push_str(&file.text[from..(edit.span.start - file.start) as usize]);
        text.push_str(&edit.text);
        from = (edit.span.end - file.start) as usize;
    }
    text.push_str(&file.text[from..]);
    (applied > 0 && *text != *file.text).then_some((text, applied))
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_base::{Code, Diagnostic, SourceMap, Span};

    #[test]
    fn makes_certain_edits_that_do_not_touch() {
        let mut map = SourceMap::new();
        let file = map.add("f", "abcdef").expect("room");
        let at = |a, b| Span::new(file.start + a, file.start + b);
        let error = |a, b| Diagnostic::error(Code(101), at(a, b), "m");
        let mut all = Diagnostics::new();
        all.push(error(0, 1).fix("t", at(0, 1), "X"));
        all.push(error(1, 2).fix("waits: it touches the one before", at(1, 2), "Y"));
        all.push(error(3, 4).suggest("not certain", at(3, 4), "Z"));
        all.push(error(6, 6).fix("t", at(6, 6), ";"));
        assert_eq!(apply(&file, &all), Some(("Xbcdef;".to_string(), 2)));
    }

    #[test]
    fn does_nothing_where_nothing_is_certain() {
        let mut map = SourceMap::new();
        let file = map.add("f", "abc").expect("room");
        assert_eq!(apply(&file, &Diagnostics::new()), None);
    }

    #[test]
    fn leaves_bytes_alone_that_are_no_text() {
        let (checked, text) = mend("f", b"def @main() { 1 \xff".to_vec(), &Options::default());
        assert!(checked.diagnostics.has_errors());
        assert_eq!(text, None);
    }
}
