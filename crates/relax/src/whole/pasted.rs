//! Undoes the effects of copying and printing on a text: HTML entities, TVM's messages between the
//! lines, tensor programs beside the functions, invalid variable names.
//!
//! Invariant: rewriting preserves the length of the text, so that positions stay valid.

use relax_base::{Code, Diagnostic, Severity, Span};

/// The text was parsed as another form than it is written in.
const READ_AS: Code = relax_syntax::READ_AS;
/// Invalid names were replaced.
const RENAMED: Code = Code(122);
/// Parts in another language were skipped.
const PASSED_OVER: Code = Code(123);

/// A rewritten text, and its remarks: a code, the bytes concerned, and a sentence.
#[derive(Debug)]
pub(crate) struct Mended {
    pub(crate) text: String,
    pub(crate) said: Vec<(Code, Span, String)>,
}

impl Mended {
    /// Starts from the text as it is.
    pub(crate) fn new(text: &str) -> Mended {
        Mended {
            text: text.to_owned(),
            said: Vec::new(),
        }
    }

    /// Undoes HTML escaping.
    pub(crate) fn page(&mut self) {
        if let Some((first, count)) = self.entities() {
            let s = if count == 1 { "" } else { "s" };
            self.say(
                READ_AS,
                first,
                format!("{count} mark{s} of HTML (`&lt;`) read as plain text"),
            );
        }
    }

    /// Blanks tensor programs, which a lowered module holds beside its functions.
    pub(crate) fn programs(&mut self) {
        let mut found: Vec<(usize, usize)> = Vec::new();
        let mut from = 0;
        for (word, _) in self.text.match_indices("primfn(") {
            let Some(start) = program_start(&self.text, word).filter(|&s| s >= from) else {
                continue;
            };
            from = program_end(&self.text, word);
            found.push((start, from - start));
        }
        if let Some((first, count)) = self.blank_all(&found) {
            let message = match count {
                1 => "a tensor program of TVM (`primfn`) is passed over".to_owned(),
                n => format!("{n} tensor programs of TVM (`primfn`) are passed over"),
            };
            self.say(PASSED_OVER, first, message);
        }
    }

    /// Blanks messages that TVM wrote between the lines of a program with errors, and undoes what
    /// string literals and web pages did to comments and line ends.
    pub(crate) fn lines(&mut self) {
        let found = messages(&self.text);
        if let Some((first, count)) = self.blank_all(&found) {
            let message = match count {
                1 => "a message that TVM wrote into the text is left out".to_owned(),
                n => format!("{n} messages that TVM wrote into the text are left out"),
            };
            self.say(READ_AS, first, message);
        }
        let ends = self.text.match_indices("\\\n").map(|(at, _)| (at, 1));
        let ends: Vec<(usize, usize)> = ends.collect();
        if let Some((first, count)) = self.blank_all(&ends) {
            let message = match count {
                1 => "a backslash at the end of a line is left out".to_owned(),
                n => format!("{n} backslashes at the ends of lines are left out"),
            };
            self.say(READ_AS, first, message);
        }
        self.stars();
    }

    /// Restores `/ ty=… /`: a web page took the asterisks of comments as markup.
    fn stars(&mut self) {
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        let (mut at, mut first, mut count) = (0, None, 0);
        while let Some(found) = find(&bytes, b"/ ty=", at) {
            at = found + 5;
            let line = bytes[at..]
                .iter()
                .position(|&b| b == b'\n')
                .map_or(bytes.len(), |n| at + n);
            let Some(end) = find(&bytes[..line], b" /", at) else {
                continue;
            };
            bytes[found..found + 2].copy_from_slice(b"/*");
            bytes[end..end + 2].copy_from_slice(b"*/");
            (first, count, at) = (first.or(Some(found)), count + 1, end + 2);
        }
        self.text = String::from_utf8(bytes).expect("ASCII took the place of ASCII");
        if let Some(first) = first {
            let message = format!("{count} `/ ty=… /` read as `/* ty=… */`");
            self.say(READ_AS, Span::new(first as u32, first as u32 + 1), message);
        }
    }

    /// Replaces variable names with invalid characters, as found in annotated binders.
    pub(crate) fn names(&mut self) {
        let mut names = odd_names(&self.text);
        // A name that is a prefix of another comes after it.
        names.sort_by_key(|n| std::cmp::Reverse(n.len()));
        let mut said: Option<(Span, String, String)> = None;
        let mut count = 0;
        for name in names {
            let Some(plain) = plain_name(&self.text, &name) else {
                continue;
            };
            let first = replace(&mut self.text, &name, &plain);
            count += 1;
            said = said.or(first.map(|at| (at, name, plain)));
        }
        if let Some((at, name, plain)) = said {
            let message = match count {
                1 => format!("no text can have the name `{name}`: it is read as `{plain}`"),
                n => format!(
                    "{n} names are none that a text can have: `{name}` is read as `{plain}`"
                ),
            };
            self.say(RENAMED, at, message);
        }
    }

    fn say(&mut self, code: Code, at: Span, message: String) {
        self.said.push((code, at, message));
    }

    /// Blanks ranges, given as start and length.
    fn blank_all(&mut self, found: &[(usize, usize)]) -> Option<(Span, usize)> {
        let &(at, len) = found.first()?;
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        for &(at, len) in found {
            for b in &mut bytes[at..at + len] {
                if !matches!(b, b'\n' | b'\r') {
                    *b = b' ';
                }
            }
        }
        // Whole characters are blanked.
        self.text = String::from_utf8(bytes).unwrap_or_default();
        let first = Span::new(at as u32, (at + len.min(80)) as u32);
        Some((first, found.len()))
    }

    /// Replaces entities such as `&lt;`. The character is put at the entity's start, except for a
    /// quote that opens a string, which is put at its end.
    fn entities(&mut self) -> Option<(Span, usize)> {
        const MARKS: [(&str, u8); 9] = [
            ("&lt;", b'<'),
            ("&gt;", b'>'),
            ("&quot;", b'"'),
            ("&#34;", b'"'),
            ("&#x22;", b'"'),
            ("&#39;", b'\''),
            ("&#x27;", b'\''),
            ("&nbsp;", b' '),
            ("&amp;", b'&'),
        ];
        if !self.text.contains('&') {
            return None;
        }
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        let (mut at, mut open, mut first, mut count) = (0, false, None, 0);
        while let Some(&b) = bytes.get(at) {
            open &= b != b'\n';
            let mark = MARKS
                .iter()
                .find(|m| b == b'&' && bytes[at..].starts_with(m.0.as_bytes()));
            let Some(&(mark, plain)) = mark else {
                at += 1;
                continue;
            };
            let end = at + mark.len();
            bytes[at..end].fill(b' ');
            let quote = matches!(plain, b'"' | b'\'');
            open ^= quote;
            bytes[if quote && open { end - 1 } else { at }] = plain;
            first = first.or(Some(Span::new(at as u32, end as u32)));
            count += 1;
            at = end;
        }
        self.text = String::from_utf8(bytes).expect("ASCII took the place of ASCII");
        first.map(|first| (first, count))
    }
}

/// Converts remarks to diagnostics, for a file that starts at position `start`.
pub(crate) fn notes(said: &[(Code, Span, String)], start: u32) -> Vec<Diagnostic> {
    let note = |(code, at, message): &(Code, Span, String)| {
        let place = Span::new(start + at.start, start + at.end);
        Diagnostic::new(Severity::Note, *code, place, message.clone())
    };
    said.iter().map(note).collect()
}

fn find(text: &[u8], part: &[u8], from: usize) -> Option<usize> {
    memchr::memmem::find(text.get(from..)?, part).map(|at| from + at)
}

/// Returns the start of the tensor program whose `primfn(` is at `word`: its name.
fn program_start(text: &str, word: usize) -> Option<usize> {
    let head = text[..word].trim_end().strip_suffix('=')?.trim_end();
    let name = head.trim_end_matches(|c: char| c.is_alphanumeric() || "_.$:/-".contains(c));
    (name.ends_with('@') && name.len() < head.len()).then(|| name.len() - 1)
}

/// Returns its end: after the braces that no further part follows.
fn program_end(text: &str, word: usize) -> usize {
    const PARTS: [&str; 6] = ["attr", "buffers", "buffer_map", "preflattened", "->", "{"];
    let bytes = text.as_bytes();
    let (mut depth, mut quote) = (0usize, None);
    for (at, &b) in bytes.iter().enumerate().skip(word) {
        match (quote, b) {
            (Some(q), b) if q == b => quote = None,
            (Some(_), b'\n') => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(b),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => {
                depth = depth.saturating_sub(1);
                let rest = text[at + 1..].trim_start();
                let more = || PARTS.iter().any(|p| rest.starts_with(p));
                if depth == 0 && b == b'}' && !more() {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// The beginnings of the messages that TVM up to 0.7 wrote into a program's text, after the
/// expressions concerned.
const MESSAGES: [&str; 17] = [
    "an internal invariant was viol",
    "unable to unify",
    "Unable to unify",
    "unable to determine the type",
    "the function is provided too ",
    "only expressions with function types",
    "Incorrect number of type args",
    "Error unifying `",
    "Incompatible broadcast type",
    "in particular dimension ",
    "tensor type `",
    "concatenate requires a tuple",
    "concatenate only accepts",
    "meshgrid requires a tuple",
    "Expected a t",
    "ADT headers must match",
    "The number of type args must match",
];

/// Returns the positions of messages and their lengths, including the `;`.
fn messages(text: &str) -> Vec<(usize, usize)> {
    let mut out: Vec<(usize, usize)> = Vec::new();
    let mut from = 0;
    loop {
        let next = MESSAGES
            .iter()
            .filter_map(|m| find(text.as_bytes(), m.as_bytes(), from));
        let Some(start) = next.min() else {
            return out;
        };
        from = start + 1;
        // A message follows an expression.
        let before = text[..start].trim_end_matches([' ', '*']);
        let behind = before.ends_with(|c: char| c.is_alphanumeric() || "_)]};/\"".contains(c));
        if !behind || text[before.len()..start].contains('\n') {
            continue;
        }
        if let Some(end) = message_end(text, start) {
            out.push((start, end - start));
            from = end;
        }
    }
}

/// Returns the end of a message: after the `;` that ends a line or precedes another message. A `;`
/// that belongs to the text is kept.
fn message_end(text: &str, start: usize) -> Option<usize> {
    const MOST: usize = 1 << 16;
    let mut stop = text.len().min(start + MOST);
    while !text.is_char_boundary(stop) {
        stop -= 1;
    }
    for (i, _) in text[start..stop].match_indices(';') {
        let mut end = start + i + 1;
        let rest = text[end..].trim_start_matches([' ', '\t', '*']);
        let line = rest.is_empty() || rest.starts_with(['\n', '\r', ';']);
        if !line && !MESSAGES.iter().any(|m| rest.starts_with(m)) {
            continue;
        }
        let next = text[end..].trim_start();
        let after = text.len() - next.len();
        if next.starts_with(';') && text[end..after].lines().count() < 3 {
            return Some(after);
        }
        if MESSAGES.iter().any(|m| rest.starts_with(m)) {
            end = text.len() - rest.len();
        }
        return Some(end);
    }
    None
}

/// Returns whether variable names contain this character besides letters and digits.
fn in_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '/')
}

/// Returns whether this character certainly ends a name.
fn ends_name(c: char) -> bool {
    c.is_whitespace() || "(){}[],=%\"".contains(c)
}

/// Returns the invalid variable names, with their sigils, that precede `:` and a blank.
fn odd_names(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for (at, _) in text.match_indices('%') {
        let rest = &text[at + 1..];
        let end = rest.find(ends_name).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        let name = match run.strip_suffix(':') {
            Some(name) if after.starts_with(' ') => name,
            _ if after.starts_with(" {virtual_device=") => run,
            _ => continue,
        };
        let odd = name.chars().any(|c| !in_name(c)) && name.is_ascii();
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let name = format!("%{name}");
        if odd && begins && !out.contains(&name) && out.len() < 10_000 {
            out.push(name);
        }
    }
    out
}

/// Returns a valid name of the same length that the text does not use.
fn plain_name(text: &str, name: &str) -> Option<String> {
    let plain = |with: char| {
        let sigil = |(i, c): (usize, char)| i == 0 || in_name(c);
        let chars = name.char_indices();
        chars
            .map(|c| if sigil(c) { c.1 } else { with })
            .collect::<String>()
    };
    let tries = ['_', '0', '1', '2', 'x', 'y', 'z'];
    tries
        .into_iter()
        .map(plain)
        .find(|p| places(text, p).next().is_none())
}

/// Returns the positions of a name, excluding those where it is a prefix of another.
fn places<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = usize> + 't {
    let ends = |at: usize| {
        let after = text[at + name.len()..].chars().next();
        after.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '/'))
    };
    let found = text.match_indices(name).map(|(at, _)| at);
    found.filter(move |&at| ends(at))
}

/// Replaces a name everywhere; returns its first occurrence.
fn replace(text: &mut String, name: &str, plain: &str) -> Option<Span> {
    let mut first = None;
    let places: Vec<usize> = places(text, name).collect();
    for at in places {
        let end = at + name.len();
        text.replace_range(at..end, plain);
        first = first.or(Some(Span::new(at as u32, end as u32)));
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(text: &str, mend: fn(&mut Mended)) -> String {
        let mut mended = Mended::new(text);
        mend(&mut mended);
        assert_eq!(mended.text.len(), text.len());
        assert_eq!(mended.text == text, mended.said.is_empty(), "{mended:?}");
        let words: Vec<&str> = mended.text.split_whitespace().collect();
        words.join(" ")
    }

    #[test]
    fn marks_of_html() {
        let page = |text: &str| mended(text, Mended::page);
        assert_eq!(
            page("fn (int32) -&gt; f(%x, layout=&quot;NCHW&quot;,&nbsp;a=1)"),
            "fn (int32) -> f(%x, layout= \"NCHW\" , a=1)"
        );
        assert_eq!(page("%x & %y"), "%x & %y");
    }

    #[test]
    fn tensor_programs() {
        let programs = |text: &str| mended(text, Mended::programs);
        let text = "def @main() { 1 }\n@f = primfn(a: handle) -> ()\n  attr = {\"t\": Target(k='x')}\n  \
                    buffers = {a: B}\n buffer_map = {a: a} {\n for (i, 0, 1) {\n }\n}\n@g = primfn(b) -> () {\n}\n";
        assert_eq!(programs(text), "def @main() { 1 }");
        assert_eq!(programs("primfn(a: handle)"), "primfn(a: handle)");
    }

    #[test]
    fn messages_between_the_lines() {
        let lines = |text: &str| mended(text, Mended::lines);
        assert_eq!(
            lines("%0 = f(%x) an internal invariant was violated while: a.cc:1: x\n; ;\n%1"),
            "%0 = f(%x) ; %1"
        );
        assert_eq!(
            lines("add(%x, %y) unable to unify: `A` and `B`; \n}"),
            "add(%x, %y) }"
        );
        assert_eq!(
            lines("f(%x)an internal invariant was violdated while: \n; \n  %7 = g(%6)"),
            "f(%x) %7 = g(%6)"
        );
        assert_eq!(lines("f(%x) / ty=int32 /;"), "f(%x) /*ty=int32*/;");
    }

    #[test]
    fn names() {
        let names = |text: &str| mended(text, Mended::names);
        assert_eq!(
            names("def @main(%a-b: int32, %a-b;c: int32) { add(%a-b, %a-b;c) }"),
            "def @main(%a_b: int32, %a_b_c: int32) { add(%a_b, %a_b_c) }"
        );
        assert_eq!(
            names("fn (%a-b: int32, %a_b: int32) { %a-b }"),
            "fn (%a0b: int32, %a_b: int32) { %a0b }"
        );
        assert_eq!(names("fn (%a: int32) { %a-1 }"), "fn (%a: int32) { %a-1 }");
    }
}
