//! Application of suggested fixes.

use relax_base::{Diagnostic, Diagnostics, Edit, SourceFile, Span};

use super::{Checked, Options, check};

/// The limit on rounds of checking and fixing.
const ROUNDS: usize = 64;

/// Applies the machine-applicable fixes of a text until none is left, and checks the result. The
/// text is `None` if nothing changed.
///
/// Invariant: an edit is kept only if the diagnostic that suggested it is gone afterwards, and the
/// text parses at least as far as before. If that does not hold for edits applied together, they
/// are tried separately.
pub fn mend(name: &str, bytes: Vec<u8>, options: &Options) -> (Checked, Option<String>) {
    let readable = std::str::from_utf8(&bytes).is_ok();
    let mut checked = check(name, bytes, options);
    let (mut text, mut fixed) = (None, 0);
    if !readable {
        // The text was decoded lossily: writing it back would lose bytes.
        return (checked, None);
    }
    let mut refused: Vec<(String, u32)> = Vec::new();
    let mut most = usize::MAX;
    for _ in 0..ROUNDS {
        let Some(file) = checked.sources.files().first().cloned() else {
            break;
        };
        let chosen = choose(&file, &checked.diagnostics, &refused, most);
        let Some(new) = apply(&file, &chosen) else {
            break;
        };
        let after = check(name, new.clone().into_bytes(), options);
        if !is_better(&checked, &after, &chosen) {
            match &chosen[..] {
                [one] => {
                    refused.push(key(&file, one));
                    most = usize::MAX;
                }
                several => most = several.len() / 2,
            }
            continue;
        }
        fixed += chosen.len();
        let edits: Vec<Edit> = edits(&chosen).into_iter().cloned().collect();
        for (_, at) in &mut refused {
            *at = moved(&edits, file.start + *at) - file.start;
        }
        checked = after;
        text = Some(new);
    }
    checked.fixed = fixed;
    (checked, text)
}

/// Returns the key of a suggestion: its message and position in the file.
fn key(file: &SourceFile, d: &Diagnostic) -> (String, u32) {
    (d.message.clone(), d.span().start.saturating_sub(file.start))
}

/// Selects the diagnostics whose fixes are applied next: those that do not overlap, up to a limit.
fn choose<'d>(
    file: &SourceFile,
    diagnostics: &'d Diagnostics,
    refused: &[(String, u32)],
    most: usize,
) -> Vec<&'d Diagnostic> {
    let mut made: Vec<&Edit> = Vec::new();
    let mut chosen = Vec::new();
    for d in diagnostics.iter() {
        let Some(fix) = d.fixes.iter().find(|f| f.certain) else {
            continue;
        };
        let inside = |e: &Edit| file.start <= e.span.start && e.span.end <= file.span().end;
        let apart = |e: &Edit| {
            let clear = |o: &&Edit| e.span.end < o.span.start || o.span.end < e.span.start;
            made.iter().all(clear)
        };
        let wanted = chosen.len() < most && !refused.contains(&key(file, d));
        if wanted && fix.edits.iter().all(|e| inside(e) && apart(e)) {
            made.extend(&fix.edits);
            chosen.push(d);
        }
    }
    chosen
}

/// Returns the edits of some diagnostics, in order.
fn edits<'d>(chosen: &[&'d Diagnostic]) -> Vec<&'d Edit> {
    let fixes = chosen
        .iter()
        .filter_map(|d| d.fixes.iter().find(|f| f.certain));
    let mut edits: Vec<&Edit> = fixes.flat_map(|f| &f.edits).collect();
    edits.sort_by_key(|e| e.span);
    edits
}

/// Returns the text with the edits applied; `None` if they change nothing.
fn apply(file: &SourceFile, chosen: &[&Diagnostic]) -> Option<String> {
    let mut text = String::with_capacity(file.text.len());
    let mut from = 0;
    for edit in edits(chosen) {
        text.push_str(&file.text[from..(edit.span.start - file.start) as usize]);
        text.push_str(&edit.text);
        from = (edit.span.end - file.start) as usize;
    }
    text.push_str(&file.text[from..]);
    (*text != *file.text).then_some(text)
}

/// Maps a position through edits.
fn moved(edits: &[Edit], at: u32) -> u32 {
    let mut to = i64::from(at);
    for e in edits.iter().take_while(|e| e.span.end <= at) {
        to += e.text.len() as i64 - e.span.len() as i64;
    }
    u32::try_from(to).unwrap_or(at)
}

/// Returns whether edits fixed their diagnostics, and did no harm.
fn is_better(before: &Checked, after: &Checked, chosen: &[&Diagnostic]) -> bool {
    let made: Vec<Edit> = edits(chosen).into_iter().cloned().collect();
    let place = |s: Span| Span::new(moved(&made, s.start), moved(&made, s.end));
    let gone = |d: &&Diagnostic| {
        let at = place(d.span());
        let same = |o: &Diagnostic| o.code == d.code && o.span().touches(at.start);
        !after.diagnostics.iter().any(same)
    };
    if !chosen.iter().all(gone) {
        return false;
    }
    let (was, is) = (syntax(&before.diagnostics), syntax(&after.diagnostics));
    let mended = chosen.iter().filter(|d| is_syntax(d)).count();
    if is.len() + mended <= was.len() {
        return true;
    }
    // The parser may get further, and find the next error.
    let last = chosen.iter().map(|d| place(d.span()).start).max();
    is.len() <= was.len() && is.first() > last.as_ref()
}

fn is_syntax(d: &Diagnostic) -> bool {
    d.is_error() && d.code.0 / 100 == 1
}

/// Returns the positions of the syntax errors, in order.
fn syntax(diagnostics: &Diagnostics) -> Vec<u32> {
    let errors = diagnostics.iter().filter(|d| is_syntax(d));
    errors.map(|d| d.span().start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_base::{Code, SourceMap};

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
        let chosen = choose(&file, &all, &[], usize::MAX);
        assert_eq!(apply(&file, &chosen), Some("Xbcdef;".to_string()));
        let chosen = choose(&file, &all, &[("m".into(), 0)], usize::MAX);
        assert_eq!(apply(&file, &chosen), Some("aYcdef;".to_string()));
        assert_eq!(choose(&file, &all, &[], 1).len(), 1);
    }

    #[test]
    fn does_nothing_where_nothing_is_certain() {
        let mut map = SourceMap::new();
        let file = map.add("f", "abc").expect("room");
        assert_eq!(
            apply(&file, &choose(&file, &Diagnostics::new(), &[], 9)),
            None
        );
    }

    fn mended(text: &str) -> Option<String> {
        mend("f", text.as_bytes().to_vec(), &Options::default()).1
    }

    #[test]
    fn leaves_bytes_alone_that_are_no_text() {
        let (checked, text) = mend("f", b"def @main() { 1 \xff".to_vec(), &Options::default());
        assert!(checked.diagnostics.has_errors());
        assert_eq!(text, None);
    }

    #[test]
    fn makes_edits_that_help_and_no_others() {
        let text = "def @main(%x: int32) { var %y = add(%x, 1); %y }";
        assert_eq!(mended(text), Some(text.replace("var", "let")));
        // Log lines are never repaired.
        let log = "INFO (building) x = 1\ndef @main(%x: int32) { %x }\nDone in 3 s\n";
        assert_eq!(mended(log), None);
    }
}
