//! Parsing a tensor program's text as far as concatenating it with another requires, and scanning
//! and formatting such texts.

use relax_sym::{Atom, Dim, DimBuilder, DimError, DimOp, DimVar};
use rustc_hash::{FxHashMap, FxHashSet};

/// A tensor program whose body is a list of statements over buffers.
pub(super) struct Item<'t> {
    /// Names and annotations.
    pub params: Vec<(&'t str, &'t str)>,
    /// Its own buffers: the name, and the text after `=`.
    pub allocs: Vec<(&'t str, &'t str)>,
    /// The lines of the body, without their common indentation.
    pub body: Vec<Line<'t>>,
    /// The names in these lines, each once.
    pub words: Vec<&'t str>,
    /// The names of all lines, in order: the offset in the line, and the index among the words.
    names: Vec<(usize, usize)>,
}

/// A line of a program's body.
pub(super) struct Line<'t> {
    pub text: &'t str,
    /// The names in it: a range of the program's.
    names: std::ops::Range<usize>,
}

impl<'t> Item<'t> {
    /// Parses a program; `None` if it starts with anything but buffers and statements.
    pub fn of(text: &'t str) -> Option<Item<'t>> {
        let at = match text.starts_with("def ") {
            true => 0,
            false => find(text, "\ndef ")? + 1,
        };
        let open = at + text[at..].find('(')?;
        let close = open + closing(&text[open..])?;
        let body = text[close + 1..].trim_start().strip_prefix(':')?;
        let params = parts(&text[open + 1..close]);
        let params = params.into_iter().map(|p| {
            let (name, ty) = p.split_once(':')?;
            Some((name.trim(), ty.trim()))
        });
        let mut item = Item {
            params: params.collect::<Option<_>>()?,
            allocs: Vec::new(),
            body: Vec::new(),
            words: Vec::new(),
            names: Vec::new(),
        };
        let (mut base, mut known) = (None, FxHashMap::default());
        for line in body.lines() {
            let inner = line.trim_ascii_start();
            if inner.is_empty() {
                continue;
            }
            let own = line.len() - inner.len();
            let base = *base.get_or_insert(own);
            let kept = match own == base {
                true => item.statement(inner.trim_ascii_end())?,
                false => Some(line.get(base..)?),
            };
            if let Some(text) = kept {
                let line = item.line(text, &mut known);
                item.body.push(line);
            }
        }
        Some(item)
    }

    /// Finds the names of a line; `known` are those found before, with their indices.
    fn line(&mut self, text: &'t str, known: &mut FxHashMap<&'t str, usize>) -> Line<'t> {
        let from = self.names.len();
        each_name(text, |at, word| {
            let index = *known.entry(word).or_insert_with(|| {
                self.words.push(word);
                self.words.len() - 1
            });
            self.names.push((at, index));
        });
        Line {
            text,
            names: from..self.names.len(),
        }
    }

    /// Handles a line that begins a statement of the body; returns it if it stays one.
    fn statement(&mut self, line: &'t str) -> Option<Option<&'t str>> {
        if line.starts_with('#') {
            return Some(None);
        }
        if line.starts_with("T.func_attr(") {
            return balanced(line).then_some(None);
        }
        if line.starts_with("for ") || line.starts_with("with T.sblock(") {
            let root = line.starts_with("with T.sblock(\"root\")");
            // Only loops and blocks on one line may begin a statement.
            return (!root && balanced(line)).then_some(Some(line));
        }
        let (name, value) = line.split_once(" = ")?;
        let alloc = ["T.sblock_alloc_buffer(", "T.alloc_buffer("];
        if !lone(name) || !alloc.iter().any(|a| value.starts_with(a)) || !balanced(value) {
            return None;
        }
        self.allocs.push((name, value));
        Some(None)
    }

    /// Returns whether all brackets and strings are closed within its buffers, and within the lines
    /// of its body. Then they are in any text that is made of these and others of the kind.
    pub fn is_closed(&self) -> bool {
        let mut depth = 0;
        let mut line = |text: &str| {
            let mut below = false;
            let closed = depths(text, |_, _, change| {
                below |= depth + change < 0;
                !below
            });
            depth += closed.unwrap_or(0);
            closed.is_some() && !below
        };
        let body = self.body.iter().all(|l| line(l.text)) && depth == 0;
        body && self.allocs.iter().all(|a| {
            let mut below = false;
            let closed = depths(a.1, |_, _, depth| {
                below |= depth < 0;
                !below
            });
            closed == Some(0) && !below
        })
    }

    /// Returns the names that are replaced.
    pub fn own_names(&self) -> FxHashSet<&'t str> {
        let params = self.params.iter().map(|p| p.0);
        params.chain(self.allocs.iter().map(|a| a.0)).collect()
    }
}

/// Returns the offset of the first of some letters, with vector instructions: texts are long.
pub(super) fn find(text: &str, what: &str) -> Option<usize> {
    memchr::memmem::find(text.as_bytes(), what.as_bytes())
}

/// Calls `f` with the offset of each bracket and comma outside of strings, the byte, and the
/// nesting depth after it, until it returns false. Returns the depth at the end; `None` if a string
/// is not closed there.
fn depths(text: &str, mut f: impl FnMut(usize, u8, i32) -> bool) -> Option<i32> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0, 0);
    while let Some(ahead) = bytes[at..].iter().position(|&c| KIND[c as usize] >= COMMA) {
        let (i, c) = (at + ahead, bytes[at + ahead]);
        at = match KIND[c as usize] {
            QUOTE => behind_string(bytes, i)?,
            _ => i + 1,
        };
        depth += match KIND[c as usize] {
            OPEN => 1,
            CLOSE => -1,
            COMMA => 0,
            _ => continue,
        };
        if !f(i, c, depth) {
            break;
        }
    }
    Some(depth)
}

/// Returns the offset behind the string literal that begins at an offset; `None` if it does not end.
fn behind_string(bytes: &[u8], from: usize) -> Option<usize> {
    let (quote, mut at) = (bytes[from], from + 1);
    while let Some(&c) = bytes.get(at) {
        at += 1;
        match c {
            b'\\' => at += 1,
            _ if c == quote => return Some(at),
            _ => {}
        }
    }
    None
}

/// Returns the offset of the bracket that closes the one at the start of the text.
fn closing(text: &str) -> Option<usize> {
    let mut end = None;
    depths(text, |i, _, depth| {
        end = (depth == 0).then_some(i);
        depth > 0
    });
    end
}

/// Returns whether all brackets are balanced.
pub(super) fn balanced(text: &str) -> bool {
    let mut last = 0;
    depths(text, |_, _, depth| {
        last = depth;
        depth >= 0
    });
    last == 0
}

/// Splits a text at its top-level commas.
pub(super) fn parts(text: &str) -> Vec<&str> {
    let (mut from, mut out) = (0, Vec::new());
    depths(text, |i, c, depth| {
        if c == b',' && depth == 0 {
            out.push(text[from..i].trim());
            from = i + 1;
        }
        true
    });
    out.push(text[from..].trim());
    out.retain(|p| !p.is_empty());
    out
}

/// Returns whether a byte is part of a word. Outside of strings what is not ASCII is.
const fn in_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || !c.is_ascii()
}

/// The kinds of bytes: those of words, brackets, quotes and commas, and others.
const OTHER: u8 = 0;
const WORD: u8 = 1;
const COMMA: u8 = 2;
const OPEN: u8 = 3;
const CLOSE: u8 = 4;
const QUOTE: u8 = 5;

static KIND: [u8; 256] = {
    let (mut table, mut c) = ([OTHER; 256], 0);
    while c < 256 {
        table[c] = match c as u8 {
            b',' => COMMA,
            b'(' | b'[' | b'{' => OPEN,
            b')' | b']' | b'}' => CLOSE,
            b'"' | b'\'' => QUOTE,
            byte if in_word(byte) => WORD,
            _ => OTHER,
        };
        c += 1;
    }
    table
};

/// Returns whether a text is a single name or call.
pub(super) fn lone(text: &str) -> bool {
    let head = text.bytes().position(|c| !in_word(c) && c != b'.');
    let head = head.unwrap_or(text.len());
    let call = text[head..].starts_with(['(', '[']);
    let whole = |end: usize| head + end + 1 == text.len();
    head > 0 && (head == text.len() || call && closing(&text[head..]).is_some_and(whole))
}

/// Calls `f` with each name in a text and its offset: a word outside of strings that is no field,
/// keyword argument or number. Delimiters are ASCII, so a scan over bytes is correct.
fn each_name<'t>(text: &'t str, mut f: impl FnMut(usize, &'t str)) {
    let bytes = text.as_bytes();
    let (mut at, mut last) = (0, b' ');
    while let Some(&c) = bytes.get(at) {
        match KIND[c as usize] {
            QUOTE => {
                at = behind_string(bytes, at).unwrap_or(bytes.len());
                last = b' ';
            }
            WORD => {
                let from = at;
                while bytes.get(at).is_some_and(|&c| KIND[c as usize] == WORD) {
                    at += 1;
                }
                let keyword = bytes.get(at) == Some(&b'=') && bytes.get(at + 1) != Some(&b'=');
                if last != b'.' && !keyword && !c.is_ascii_digit() {
                    f(from, &text[from..at]);
                }
                last = b' ';
            }
            _ => (at, last) = (at + 1, c),
        }
    }
}

/// The names in a text.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut out = Vec::new();
    each_name(text, |_, word| out.push(word));
    out.into_iter()
}

/// Returns a text with names replaced.
pub(super) fn renamed(text: &str, new: &FxHashMap<&str, String>) -> String {
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    each_name(text, |at, word| {
        if let Some(to) = new.get(word) {
            out.push_str(&text[from..at]);
            out.push_str(to);
            from = at + word.len();
        }
    });
    out.push_str(&text[from..]);
    out
}

impl Item<'_> {
    /// Returns a line with names replaced; `new` are the replacements of the `words`.
    pub fn renamed(&self, line: &Line<'_>, new: &[Option<&String>]) -> String {
        let (mut out, mut from) = (String::with_capacity(line.text.len() + 16), 0);
        for &(at, word) in &self.names[line.names.clone()] {
            if let Some(to) = new[word] {
                out.push_str(&line.text[from..at]);
                out.push_str(to);
                from = at + self.words[word].len();
            }
        }
        out.push_str(&line.text[from..]);
        out
    }
}

/// Removes duplicate regions of a buffer from a block's reads or writes: two parameters may have
/// become one.
pub(super) fn once_each(line: String) -> String {
    let inner = line.trim_ascii_start();
    let head = ["T.reads(", "T.writes("].into_iter();
    let Some((head, regions)) = { head }.find_map(|h| Some((h, inner.strip_prefix(h)?))) else {
        return line;
    };
    let Some(regions) = regions.strip_suffix(')') else {
        return line;
    };
    let mut kept = parts(regions);
    let (all, mut seen) = (kept.len(), FxHashSet::default());
    kept.retain(|r| words(r).next().is_none_or(|buffer| seen.insert(buffer)));
    if kept.len() == all {
        return line;
    }
    let indent = line.len() - inner.len();
    format!("{}{head}{})", &line[..indent], kept.join(", "))
}

/// Formats a dimension in TVMScript, with these names of its variables; `tir` makes 64-bit integers
/// explicit. `None` if a variable has no name.
pub(super) fn dim_text(d: &Dim, names: &FxHashMap<DimVar, String>, tir: bool) -> Option<String> {
    let mut text = Text {
        names,
        tir,
        bad: false,
    };
    let out = d.build(&mut text);
    (!text.bad).then_some(out)
}

struct Text<'n> {
    names: &'n FxHashMap<DimVar, String>,
    tir: bool,
    bad: bool,
}

impl Text<'_> {
    fn none(&mut self) -> String {
        self.bad = true;
        String::new()
    }
}

impl DimBuilder for Text<'_> {
    type Out = String;
    fn int(&mut self, value: i64) -> String {
        match self.tir {
            true => format!("T.int64({value})"),
            false => value.to_string(),
        }
    }
    fn atom(&mut self, atom: Atom) -> String {
        let Atom::Var(v) = atom else {
            return self.none();
        };
        match self.names.get(&v) {
            Some(name) => name.clone(),
            None => self.none(),
        }
    }
    fn any(&mut self) -> String {
        self.none()
    }
    fn bad(&mut self, _: DimError) -> String {
        self.none()
    }
    fn op(&mut self, op: DimOp, lhs: String, rhs: String) -> String {
        match op.infix() {
            Some(infix) => format!("{lhs} {infix} {rhs}"),
            None if op == DimOp::Min => format!("T.min({lhs}, {rhs})"),
            None => format!("T.max({lhs}, {rhs})"),
        }
    }
    fn group(&mut self, inner: String) -> String {
        format!("({inner})")
    }
}

#[cfg(test)]
mod tests {
    use super::Item;

    fn closed(body: &str) -> bool {
        let text = format!("def f(A: T.Buffer((4,), \"float32\")):\n{body}");
        Item::of(&text).expect("buffers and loops").is_closed()
    }

    #[test]
    fn a_text_is_closed_if_its_brackets_and_strings_are() {
        let alloc = "    B = T.alloc_buffer((4,))\n    for i in range(4):\n";
        assert!(closed(&format!("{alloc}        B[i] = A[i]\n")));
        // A bracket may be open over several lines, and stand in a string.
        assert!(closed(&format!(
            "{alloc}        T.reads(\n            A[i])\n"
        )));
        assert!(closed(&format!("{alloc}        T.f(\"(\", A[i])\n")));
        assert!(!closed(&format!("{alloc}        B[i] = A[i\n")));
        assert!(!closed(&format!("{alloc}        B[i] = (A[i]))\n")));
        assert!(!closed(&format!("{alloc}        T.f(\"A[i])\n")));
    }
}
