//! A Relay text inside a log: which lines are the text, and what stands before them.
//!
//! What is not part of the text becomes blanks, so that places in it stay what they are.

use relax_base::Span;

/// A text with everything around it left out.
#[derive(Debug)]
pub(crate) struct Inside {
    /// The text: as long as the whole, with blanks for what is left out.
    pub(crate) text: String,
    /// How many lines were left out.
    pub(crate) lines: usize,
    /// How many lines had a mark before them that was left out.
    pub(crate) marks: usize,
    /// The first stretch that was left out, as bytes of the whole.
    pub(crate) first: Span,
    /// Whether a line that was left out begins with a word of the language: a mistake, more likely than a line
    /// of a log.
    pub(crate) doubtful: bool,
}

/// Words that say how important a line of a log is.
const LEVELS: [&str; 12] = [
    "TRACE", "DEBUG", "INFO", "WARNING", "WARN", "ERROR", "FATAL", "CRITICAL", "debug", "info",
    "warning", "error",
];

/// How items, and the statements of an expression file, begin.
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

/// Whether a line, without the white space before it, begins an item or a statement.
pub(crate) fn starts_item(line: &str) -> bool {
    if ITEMS.iter().any(|i| line.starts_with(i)) {
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

/// Where the mark before a line of a log ends: times, levels, files, prompts, numbers of lines.
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
    // One blank belongs to the mark; more of them are the text's.
    end + usize::from(end > 0 && line[end..].starts_with(' '))
}

/// The length of one part of a mark.
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
            // `INFO:root:` names the logger too.
            Some(':') => Some(word.rfind(':').map_or(word.len(), |i| i + 1)),
            _ => None,
        };
    }
    // A date, a time, a number of a line, a file with one.
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

/// Follows brackets, strings and comments through lines.
#[derive(Clone, Copy, Default)]
struct Depth {
    open: usize,
    comment: bool,
}

impl Depth {
    fn read(&mut self, line: &str) {
        let mut chars = line.char_indices().peekable();
        let mut string = false;
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
                '/' if next == Some('/') && self.open == 0 => return,
                '(' | '[' | '{' => self.open += 1,
                ')' | ']' | '}' => self.open = self.open.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn inside(&self) -> bool {
        self.open > 0 || self.comment
    }
}

/// The text inside a log; `None` where nothing begins like Relay, or nothing is to be left out.
pub(crate) fn text_inside(whole: &str) -> Option<Inside> {
    let mut out = Inside {
        text: String::with_capacity(whole.len()),
        lines: 0,
        marks: 0,
        first: Span::NONE,
        doubtful: false,
    };
    let (mut depth, mut found, mut marked, mut statements, mut json) =
        (Depth::default(), false, false, false, false);
    let mut start = 0;
    for line in whole.split_inclusive('\n') {
        let body = line.trim_end_matches(['\n', '\r']);
        let mark = mark(body);
        let rest = body[mark..].trim_start();
        let plain = body.trim_start();
        // What is kept of the line: from which byte on; all of it is left out where that is `None`.
        let kept = if depth.inside() {
            match (mark > 0, marked) {
                (true, true) => Some(mark),
                (true, false) => None,
                (false, _) => Some(0),
            }
        } else if json {
            // The object of the metadata section begins here.
            Some(if marked { mark } else { 0 })
        } else if plain.is_empty() || plain.starts_with("//") || plain.starts_with("/*") {
            Some(0)
        } else if starts_item(rest) {
            marked = mark > 0;
            let opens = !rest.starts_with("def") && !rest.starts_with("#[");
            statements |= opens;
            Some(mark)
        } else if statements && rest.starts_with(['%', '}', ')']) || found && rest.starts_with('}')
        {
            // The result of an expression file, or what closes nothing.
            Some(mark)
        } else {
            None
        };
        match kept {
            Some(from) => {
                let from = if from > 0 { from } else { 0 };
                blank(&mut out.text, &body[..from]);
                out.text.push_str(&line[from..]);
                let part = &body[from..];
                if !part.trim().is_empty() {
                    found |= starts_item(part.trim_start());
                    json = part.trim_start().starts_with("#[metadata]");
                }
                depth.read(part);
                if from > 0 && !part.trim().is_empty() {
                    out.marks += 1;
                    note(&mut out.first, start, from);
                }
            }
            None => {
                out.doubtful |= mark == 0 && is_ours(plain);
                blank(&mut out.text, body);
                out.text.push_str(&line[body.len()..]);
                out.lines += 1;
                note(&mut out.first, start, body.len());
            }
        }
        start += line.len();
    }
    (found && out.lines + out.marks > 0).then_some(out)
}

/// Whether a line begins as the language, or one that is like it, begins its definitions.
fn is_ours(line: &str) -> bool {
    const WORDS: [&str; 16] = [
        "def", "fn", "fun", "func", "function", "lambda", "let", "var", "type", "data", "class",
        "struct", "enum", "rel", "op", "extern",
    ];
    let word = line.split(|c: char| !c.is_alphanumeric()).next();
    line.starts_with('#') || word.is_some_and(|w| WORDS.contains(&w)) && line.contains(['(', '{'])
}

/// Remembers the first stretch.
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
