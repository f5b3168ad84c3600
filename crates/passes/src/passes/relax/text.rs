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
    pub body: Vec<&'t str>,
}

impl<'t> Item<'t> {
    /// Parses a program; `None` if it starts with anything but buffers and statements.
    pub fn of(text: &'t str) -> Option<Item<'t>> {
        let at = match text.starts_with("def ") {
            true => 0,
            false => text.find("\ndef ")? + 1,
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
        };
        let lines = body.lines().filter(|l| !l.trim().is_empty());
        let mut base = None;
        for line in lines {
            let own = line.len() - line.trim_start().len();
            let base = *base.get_or_insert(own);
            match own == base {
                true => item.statement(line.trim())?,
                false => item.body.push(line.get(base..)?),
            }
        }
        Some(item)
    }

    /// Handles a line that begins a statement of the body.
    fn statement(&mut self, line: &'t str) -> Option<()> {
        if line.starts_with('#') {
            return Some(());
        }
        if line.starts_with("T.func_attr(") {
            return balanced(line).then_some(());
        }
        if let Some((name, value)) = line.split_once(" = ")
            && lone(name)
        {
            let alloc = ["T.sblock_alloc_buffer(", "T.alloc_buffer("];
            if !alloc.iter().any(|a| value.starts_with(a)) || !balanced(value) {
                return None;
            }
            self.allocs.push((name, value));
            return Some(());
        }
        let begins = line.starts_with("for ") || line.starts_with("with T.sblock(");
        let root = line.starts_with("with T.sblock(\"root\")");
        // Only loops and blocks on one line may begin a statement.
        (begins && !root && balanced(line)).then(|| self.body.push(line))
    }

    /// Returns the names that are replaced.
    pub fn own_names(&self) -> FxHashSet<&'t str> {
        let params = self.params.iter().map(|p| p.0);
        params.chain(self.allocs.iter().map(|a| a.0)).collect()
    }
}

/// Splits a text at its string literals: `f` gets each piece, and whether it is a string.
/// Delimiters are ASCII, so a scan over bytes is correct.
fn pieces<'t>(text: &'t str, mut f: impl FnMut(&'t str, bool)) {
    let (mut from, mut quote, mut escaped) = (0, None, false);
    for (i, &c) in text.as_bytes().iter().enumerate() {
        match quote {
            None if c == b'"' || c == b'\'' => {
                f(&text[from..i], false);
                (from, quote) = (i, Some(c));
            }
            None => {}
            Some(_) if escaped => escaped = false,
            Some(_) if c == b'\\' => escaped = true,
            Some(q) if c == q => {
                f(&text[from..=i], true);
                (from, quote) = (i + 1, None);
            }
            Some(_) => {}
        }
    }
    f(&text[from..], quote.is_some());
}

/// Calls `f` with the offset of each bracket and comma outside of strings, the byte, and the
/// nesting depth after it, until it returns false.
fn depths(text: &str, mut f: impl FnMut(usize, u8, i32) -> bool) {
    let (mut depth, mut quote, mut escaped) = (0, None, false);
    for (i, &c) in text.as_bytes().iter().enumerate() {
        if let Some(q) = quote {
            match c {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                _ if c == q => quote = None,
                _ => {}
            }
            continue;
        }
        depth += match c {
            b'(' | b'[' | b'{' => 1,
            b')' | b']' | b'}' => -1,
            b',' => 0,
            b'"' | b'\'' => {
                quote = Some(c);
                continue;
            }
            _ => continue,
        };
        if !f(i, c, depth) {
            return;
        }
    }
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

/// Whether a byte is part of a word. Outside of strings what is not ASCII is.
const fn in_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || !c.is_ascii()
}

static IN_WORD: [bool; 256] = {
    let (mut table, mut c) = ([false; 256], 0);
    while c < 256 {
        table[c] = in_word(c as u8);
        c += 1;
    }
    table
};

/// How far a text goes on with bytes of words, or with others.
fn run(text: &str, inside: bool) -> usize {
    let mut bytes = text.as_bytes().iter();
    let end = bytes.position(|&c| IN_WORD[c as usize] != inside);
    end.unwrap_or(text.len())
}

/// Returns whether a text is a single name or call.
pub(super) fn lone(text: &str) -> bool {
    let head = text.bytes().position(|c| !in_word(c) && c != b'.');
    let head = head.unwrap_or(text.len());
    let call = text[head..].starts_with(['(', '[']);
    let whole = |end: usize| head + end + 1 == text.len();
    head > 0 && (head == text.len() || call && closing(&text[head..]).is_some_and(whole))
}

/// Finds the names in a piece of text that is not a string, except fields, keyword arguments and
/// numbers. `f` also gets the text between them.
fn names<'t>(piece: &'t str, before: char, mut f: impl FnMut(&'t str, bool)) {
    let (mut at, mut last) = (0, before);
    while at < piece.len() {
        let rest = &piece[at..];
        let word = run(rest, true);
        if word == 0 {
            let end = run(rest, false);
            f(&rest[..end], false);
            last = rest[..end].chars().next_back().unwrap_or(last);
            at += end;
            continue;
        }
        let behind = &rest[word..];
        let keyword = behind.starts_with('=') && !behind.starts_with("==");
        let number = rest.starts_with(|c: char| c.is_ascii_digit());
        f(&rest[..word], last != '.' && !keyword && !number);
        last = ' ';
        at += word;
    }
}

/// The names in a text, one after another.
pub(super) fn each_word<'t>(text: &'t str, mut f: impl FnMut(&'t str)) {
    pieces(text, |piece, string| {
        if !string {
            names(piece, ' ', |word, name| {
                if name {
                    f(word);
                }
            });
        }
    });
}

/// The names in a text.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut out = Vec::new();
    each_word(text, |word| out.push(word));
    out.into_iter()
}

/// Returns a text with names replaced.
pub(super) fn renamed(text: &str, new: &FxHashMap<&str, String>) -> String {
    let mut out = String::with_capacity(text.len());
    pieces(text, |piece, string| {
        if string {
            return out.push_str(piece);
        }
        names(piece, ' ', |word, name| {
            let to = name.then(|| new.get(word)).flatten();
            out.push_str(to.map_or(word, String::as_str));
        });
    });
    out
}

/// Removes duplicate regions of a buffer from a block's reads or writes: two parameters may have
/// become one.
pub(super) fn once_each(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    for head in ["T.reads(", "T.writes("] {
        let regions = (line.trim_start().strip_prefix(head)).and_then(|l| l.strip_suffix(')'));
        let Some(regions) = regions else {
            continue;
        };
        let mut seen = FxHashSet::default();
        let mut kept = parts(regions);
        kept.retain(|r| words(r).next().is_none_or(|buffer| seen.insert(buffer)));
        return format!("{}{head}{})", &line[..indent], kept.join(", "));
    }
    line.to_owned()
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
