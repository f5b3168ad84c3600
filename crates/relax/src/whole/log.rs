//! Extraction of a Relay text from a log: which lines belong to the text, and what prefixes they
//! have.
//!
//! Everything else is replaced by blanks, so that positions stay valid.

use relax_base::Span;

use super::lead::{Lead, item_inside};

/// A text with its surroundings blanked out.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    /// The text: of the same length as the file, with blanks for what is left out.
    pub(crate) text: String,
    /// The number of lines left out.
    pub(crate) lines: usize,
    /// The number of lines whose prefix was left out.
    pub(crate) marks: usize,
    /// The first range left out, as bytes of the file.
    pub(crate) first: Span,
    /// Whether a line left out begins with a keyword: it is more likely a mistake than a log line.
    pub(crate) doubtful: bool,
    /// Whether the text has a definition or a statement, not only a header.
    pub(crate) item: bool,
}

/// Log levels.
const LEVELS: [&str; 12] = [
    "TRACE", "DEBUG", "INFO", "WARNING", "WARN", "ERROR", "FATAL", "CRITICAL", "debug", "info",
    "warning", "error",
];

/// The first tokens of items, and of the statements of expression files.
const ITEMS: [&str; 14] = [
    "def @",
    "fn (",
    "fn(",
    "fn<",
    "fn <",
    "fn[",
    "fn [",
    "prim_func @",
    "extern type ",
    "free_var %",
    "let %",
    "#[version",
    "#[metadata]",
    "dataflow {",
];

/// Returns whether a line, without its indentation, starts an item or a statement.
pub(crate) fn starts_item(line: &str) -> bool {
    if ITEMS.iter().any(|i| line.starts_with(i)) || is_old_header(line) {
        return true;
    }
    let named = |word: &str| {
        let rest = line.strip_prefix(word).unwrap_or_default();
        let name = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
        let after = name.trim_start();
        name.len() < rest.len() && after.starts_with(['{', '[', '(', '<', ';', '='])
    };
    if ["type ", "data ", "rel ", "op "].iter().any(|w| named(w)) {
        return true;
    }
    let Some(rest) = line.strip_prefix('%') else {
        return false;
    };
    let name = rest.trim_start_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.'));
    name.len() < rest.len() && name.trim_start().starts_with(['=', ':'])
}

/// Returns whether a line is the header of texts up to version 0.6.
fn is_old_header(line: &str) -> bool {
    let number = line.trim_end().strip_prefix("v0.0.");
    number.is_some_and(|n| n.len() == 1 && n.as_bytes()[0].is_ascii_digit())
}

/// Returns the end of a line's log prefix: times, levels, files, prompts, line numbers.
fn mark(line: &str) -> usize {
    let mut at = 0;
    let mut end = 0;
    loop {
        let rest = &line[at..];
        let blank = rest.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        let Some(len) = element(rest, at == 0) else {
            break;
        };
        at += blank + len;
        end = at;
        let more = line[at..].trim_start_matches([':', '-', '|', ']']);
        at = line.len() - more.len();
        end = end.max(at);
    }
    // One blank belongs to the prefix; further ones are the text's indentation.
    end + usize::from(end > 0 && line[end..].starts_with(' '))
}

/// Returns the length of one element of a prefix.
fn element(text: &str, first: bool) -> Option<usize> {
    let word = text.split(|c: char| c.is_whitespace()).next()?;
    let digits = |t: &str| t.chars().filter(char::is_ascii_digit).count();
    if text.starts_with('[') || text.starts_with('(') {
        let close = text.find([']', ')'])?;
        let inner = &text[1..close];
        let tells = LEVELS.iter().any(|l| inner.contains(l))
            || digits(inner) > 3 && (inner.contains(':') || inner.contains('-'));
        return (tells && close < 80).then_some(close + 1);
    }
    for prompt in [">>> ", "> ", "$ ", "| ", "│ "] {
        if first && text.starts_with(prompt) {
            return Some(prompt.trim_end().len());
        }
    }
    if let Some(level) = LEVELS.iter().find(|l| word.starts_with(**l)) {
        let rest = &word[level.len()..];
        return match rest.chars().next() {
            None => Some(level.len()),
            // `INFO:root:` includes the logger's name.
            Some(':') => Some(word.rfind(':').map_or(word.len(), |i| i + 1)),
            _ => None,
        };
    }
    // A date, a time, a line number, or a file with one.
    let numeric =
        |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | ',' | 'T' | 'Z' | '/');
    let head = word.trim_end_matches([':', ']', '|']);
    if digits(head) >= 4 && head.chars().all(numeric) && head.contains(['-', ':', '/']) {
        return Some(word.len());
    }
    if first && head.len() < word.len() && !head.is_empty() && digits(head) == head.len() {
        return Some(word.len());
    }
    let glog = head.len() == 5 && head.starts_with(['I', 'W', 'E', 'F']) && digits(head) == 4;
    if first && glog {
        return text.find("] ").map(|close| close + 1);
    }
    let path = |name: &str, line: &str| {
        name.contains('.') && !name.starts_with(['%', '@']) && digits(line) == line.len()
    };
    let mut parts = head.rsplitn(2, ':');
    let (line, name) = (parts.next()?, parts.next()?);
    (word.len() > head.len() && !line.is_empty() && path(name, line)).then_some(word.len())
}

/// Tracks brackets, strings and comments across lines.
#[derive(Clone, Copy, Default)]
struct Depth {
    open: usize,
    comment: bool,
}

impl Depth {
    /// Scans a line; returns the position after the bracket that closed the outermost one, if any
    /// did.
    fn read(&mut self, line: &str) -> Option<usize> {
        let mut chars = line.char_indices().peekable();
        let mut string = false;
        let mut closed = None;
        while let Some((i, c)) = chars.next() {
            let next = line[i + c.len_utf8()..].chars().next();
            match c {
                '*' if self.comment && next == Some('/') => {
                    self.comment = false;
                    chars.next();
                }
                _ if self.comment => {}
                '\\' if string => {
                    chars.next();
                }
                '"' => string = !string,
                _ if string => {}
                '/' if next == Some('*') => {
                    self.comment = true;
                    chars.next();
                }
                '/' if next == Some('/') && self.open == 0 => return closed,
                '(' | '[' | '{' => {
                    self.open += 1;
                    closed = None;
                }
                ')' | ']' | '}' => {
                    if self.open == 1 {
                        closed = Some(i + 1);
                    }
                    self.open = self.open.saturating_sub(1);
                }
                _ => {}
            }
        }
        closed.filter(|_| self.open == 0)
    }

    fn inside(&self) -> bool {
        self.open > 0 || self.comment
    }
}

/// The state of a line-by-line scan.
#[derive(Default)]
struct Scan {
    out: Inside,
    depth: Depth,
    /// Brackets that are open in the text left out.
    outer: Depth,
    found: bool,
    marked: bool,
    statements: bool,
    json: bool,
    /// The prefix of the current item.
    lead: Option<Lead>,
    /// Whether the text is inside comments.
    comments: bool,
    /// Whether the current Markdown code block contains nothing but the text.
    fence: bool,
}

impl Scan {
    /// Returns the byte from which a line is kept; `None` if all of it is left out.
    fn kept(&mut self, body: &str) -> Option<usize> {
        let lead = self.lead.as_ref().and_then(|l| l.end(body));
        let mark = lead.unwrap_or_else(|| mark(body));
        if self.depth.inside() {
            return match (mark > 0, self.marked || lead.is_some()) {
                (true, true) => Some(mark),
                (true, false) => None,
                (false, _) => Some(0),
            };
        }
        if self.json {
            // The object of the metadata section starts here.
            return Some(if self.marked || lead.is_some() {
                mark
            } else {
                0
            });
        }
        if self.fence {
            return Some(0);
        }
        let rest = body[mark..].trim_start();
        let plain = lead.map_or(body.trim_start(), |_| rest);
        let comment = plain.starts_with("//") || plain.starts_with("/*");
        if plain.is_empty() || comment && !self.comments {
            return Some(lead.unwrap_or(0));
        }
        // Other languages have such statements in their blocks too.
        let foreign = self.outer.inside() && rest.starts_with('%');
        if starts_item(rest) && !foreign {
            if lead.is_none() {
                self.marked = mark > 0;
                self.lead = (mark > 0).then(|| Lead::new(&body[..mark]));
            }
            let opens = !rest.starts_with("def") && !is_header(rest);
            self.statements |= opens;
            return Some(mark);
        }
        if let Some(at) = item_inside(body) {
            self.marked = false;
            self.lead = Some(Lead::new(&body[..at]));
            return Some(at);
        }
        let closes = self.found && rest.starts_with('}');
        if self.statements && rest.starts_with(['%', '}', ')']) || closes {
            // The result of an expression file, or a bracket that closes nothing.
            return Some(mark).filter(|_| !self.outer.inside());
        }
        None
    }

    fn line(&mut self, line: &str, start: usize) {
        let body = line.trim_end_matches(['\n', '\r']);
        let Some(from) = self.kept(body) else {
            self.out.doubtful |= is_doubtful(body);
            self.outer.read(body);
            blank(&mut self.out.text, body);
            self.out.text.push_str(&line[body.len()..]);
            self.out.lines += 1;
            note(&mut self.out.first, start, body.len());
            return;
        };
        let part = &body[from..];
        let item = starts_item(part.trim_start());
        if item && !self.depth.inside() {
            self.outer = Depth::default();
        }
        let closed = self.depth.read(part);
        // An enclosing string ends with the text: `"""`, `})d";`.
        let end = closed.filter(|end| closes_quote(&part[*end..]));
        let end = end.map_or(body.len(), |end| from + end);
        blank(&mut self.out.text, &body[..from]);
        self.out.text.push_str(&body[from..end]);
        blank(&mut self.out.text, &body[end..]);
        self.out.text.push_str(&line[body.len()..]);
        if part.trim().is_empty() {
            return;
        }
        self.found |= item;
        self.out.item |= item && !is_header(part.trim_start());
        self.json = part.trim_start().starts_with("#[metadata]");
        if from > 0 && !body[..from].trim().is_empty() || end < body.len() {
            self.out.marks += 1;
            note(&mut self.out.first, start, from.max(1));
        }
    }
}

/// Returns whether the text after an item closes a string of another language.
fn closes_quote(rest: &str) -> bool {
    let rest = rest.trim_start();
    let rest = rest.strip_prefix(')').unwrap_or(rest);
    let name = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    name.starts_with(['"', '\'', '`']) && rest.len() < name.len() + 16
}

/// Returns whether a line is a header.
fn is_header(line: &str) -> bool {
    line.starts_with("#[") || is_old_header(line)
}

/// Extracts the text inside a log; `None` if nothing starts like Relay, or nothing is to be left
/// out.
pub(crate) fn text_inside(whole: &str) -> Option<Inside> {
    scan(whole, false)
}

/// Like [`text_inside`], for a text inside comments.
pub(crate) fn text_in_comments(whole: &str) -> Option<Inside> {
    scan(whole, true).filter(|inside| inside.item)
}

fn scan(whole: &str, comments: bool) -> Option<Inside> {
    let mut scan = Scan {
        comments,
        ..Scan::default()
    };
    scan.out.text.reserve(whole.len());
    let mut start = 0;
    let mut left = fences(whole).into_iter().peekable();
    for line in whole.split_inclusive('\n') {
        let fence = left.next_if(|f| f.0 == start);
        scan.fence &= !line.trim_start().starts_with(FENCE);
        scan.line(line, start);
        scan.fence |= fence.is_some_and(|f| f.1);
        start += line.len();
    }
    let out = scan.out;
    (scan.found && out.lines + out.marks > 0).then_some(out)
}

/// The delimiter of a Markdown code block.
const FENCE: &str = "```";

/// Returns the lines that open Markdown code blocks, and whether the block starts with Relay text
/// other than a definition, so that all of it is taken as one text.
fn fences(whole: &str) -> Vec<(usize, bool)> {
    let mut out: Vec<(usize, bool)> = Vec::new();
    let (mut open, mut start) = (false, 0);
    for line in whole.split_inclusive('\n') {
        let text = line.trim_start();
        if text.starts_with(FENCE) {
            open = !open;
            if open {
                out.push((start, false));
            }
        } else if open && let Some(block) = out.last_mut() {
            let begins = ["free_var %", "%", "let %"];
            block.1 |= starts_item(text) && begins.iter().any(|b| text.starts_with(b));
        }
        start += line.len();
    }
    // A block that is never closed is not a block.
    if open {
        out.pop();
    }
    out
}

/// Returns whether a line left out may be a mistake rather than a log line: it starts like a
/// definition in this or a similar language, or binds a variable.
fn is_doubtful(line: &str) -> bool {
    const WORDS: [&str; 17] = [
        "def", "fn", "fun", "func", "function", "lambda", "let", "var", "type", "data", "class",
        "struct", "enum", "rel", "op", "grad", "extern",
    ];
    if mark(line) > 0 {
        return false;
    }
    let line = line.trim();
    let word = line.split(|c: char| !c.is_alphanumeric()).next();
    let Some(word) = word.filter(|w| WORDS.contains(w)) else {
        let header = ["#[", "# [", "#version"]
            .iter()
            .any(|h| line.starts_with(h));
        return header || line.contains('%') && line.contains('=') && line.ends_with(';');
    };
    // `def f(x):` and `op = f(x)` are Python.
    let rest = line[word.len()..].trim_start();
    let python = line.ends_with(':') || rest.starts_with('=') || rest.starts_with('.');
    line.contains(['(', '{']) && !python
}

/// Records the first range.
fn note(first: &mut Span, start: usize, len: usize) {
    if first.is_empty() {
        *first = Span::new(start as u32, (start + len) as u32);
    }
}

fn blank(out: &mut String, part: &str) {
    out.extend(std::iter::repeat_n(' ', part.len()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(text: &str) -> String {
        let found = text_inside(text).map_or(String::new(), |i| i.text);
        let lines = found.lines().map(str::trim).filter(|l| !l.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn leaves_out_lines_around() {
        let text = "INFO: building\nOne or more operators:\n#[version = \"0.0.5\"]\n\
                    def @main(%x: int32) {\n  add(%x, 1)\n}\n\nTime: 12ms\n";
        let expected = "#[version = \"0.0.5\"]\ndef @main(%x: int32) {\nadd(%x, 1)\n}";
        assert_eq!(inside(text), expected);
        let found = text_inside(text).expect("a text");
        assert_eq!((found.lines, found.marks, found.first.start), (3, 0, 0));
        assert_eq!(found.text.len(), text.len());
    }

    #[test]
    fn leaves_out_marks_before_lines() {
        let expected = "def @main(%x: int32) {\n%0 = add(%x, 1);\n%0\n}";
        for mark in [
            "2021-06-12 10:11:12,123 INFO ",
            "[10:11:12] /src/relay/x.cc:77: ",
            "INFO:root:",
            "I0612 10:11:12.123456 99 build.cc:12] ",
            "> ",
            ">>> ",
            "  12| ",
            "[INFO] ",
            "relay_build.py:120: ",
            "E       ",
            "   7 | ",
            "web_1  | ",
            "12  ",
            "\u{2502} ",
        ] {
            let text: String = expected.lines().map(|l| format!("{mark}{l}\n")).collect();
            assert_eq!(inside(&text), expected, "{mark}");
        }
    }

    #[test]
    fn marks_stand_before_the_metadata_too() {
        let expected = "def @main() {\nmeta[relay.Constant][0]\n}\n#[metadata]\n{\n\"root\": 1\n}";
        let mut text: String = (expected.lines().enumerate())
            .map(|(i, l)| format!("[10:11:12] a.cc:{i}: {l}\n"))
            .collect();
        text.push_str("[10:11:13] b.cc:1: done\n");
        assert_eq!(inside(&text), expected);
    }

    #[test]
    fn leaves_out_what_encloses_the_text() {
        let expected = "def @main(%x: int32) {\n%x\n}";
        for (before, after) in [
            ("src = \"\"\"", "\"\"\"\n"),
            ("auto code = R\"d(", ")d\";\n"),
            ("mod: ", "\n"),
            ("Out[5]: ", "\n\nIn [6]: 1\n"),
            ("", "\n{\n \"nodes\": [\n  {\n  }\n ]\n}\n"),
            ("before\n```\n", "\n```\nafter\n"),
        ] {
            let text = format!("{before}def @main(%x: int32) {{\n  %x\n}}{after}");
            assert_eq!(inside(&text), expected, "{text}");
            let found = text_inside(&text).expect("a text");
            assert!(!found.doubtful, "{text}");
            assert_eq!(found.text.len(), text.len());
        }
        let statements = "see:\n```\nfree_var %x: int32\n%0 = exp(%x);\nadd(%0, %0)\n```\nso\n";
        assert_eq!(
            inside(statements),
            "free_var %x: int32\n%0 = exp(%x);\nadd(%0, %0)"
        );
    }

    #[test]
    fn finds_a_text_in_comments() {
        let text = "# Now:\n# def @main(%x: int32) {\n#   %x\n# }\n";
        let found = text_in_comments(text).expect("a text").text;
        let lines: Vec<&str> = found.lines().map(str::trim).collect();
        assert_eq!(lines, ["", "def @main(%x: int32) {", "%x", "}"]);
        assert!(text_in_comments("# no definition (fn)\n").is_none());
    }

    #[test]
    fn leaves_out_lines_in_between() {
        let text = "def @main(%x: int32) {\n[10:11:12] warning: slow\n  %x\n}\n";
        assert_eq!(inside(text), "def @main(%x: int32) {\n%x\n}");
    }

    #[test]
    fn leaves_a_text_alone() {
        for text in [
            "def @main() {\n  [1, 2]\n}\n",
            "%0 = add(%x, %y);\n%0\n",
            "nothing of ours\n",
            "",
        ] {
            assert!(text_inside(text).is_none(), "{text}");
        }
    }
}
