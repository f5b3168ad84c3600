//! Random edits on real files: the server's view of a document always equals that of a fresh one,
//! and, where the text parses, that of relax-check.
//!
//! `RELAX_LSP_EDITS` sets the number of edits (the release check makes 100,000), and enables a
//! check of the memory in use.

use std::path::{Path, PathBuf};

use lsp_types::{Position, Range};
use relax::{InferOptions, ReadOptions, Session};
use relax_base::Diagnostic;
use relax_lsp::document::Document;
use relax_lsp::features;
use relax_lsp::text::Encoding;

/// The number of edits in the ordinary test.
const EDITS: usize = 2000;
/// After this many edits, a file is reset.
const ROUND: usize = 25;

/// A random number generator (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = (std::fs::read_dir(dir).expect("the folder is there"))
        .map(|e| e.expect("it can be read").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, out);
        } else if path.extension().is_some_and(|e| e == "relay") {
            out.push(path);
        }
    }
}

fn texts() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for dir in ["examples", "tests/errors", "tests/passes"] {
        collect(&root.join(dir), &mut files);
    }
    let read = |p: &PathBuf| String::from_utf8(std::fs::read(p).expect("it can be read")).ok();
    let all: Vec<String> = files
        .iter()
        .filter_map(read)
        .filter(|t| t.len() < 8000)
        .collect();
    // One file of many items, so that chunks matter.
    let mut many = String::new();
    for (i, text) in all
        .iter()
        .filter(|t| t.starts_with("def "))
        .take(12)
        .enumerate()
    {
        many.push_str(&text.replace("@main", &format!("@main{i}")));
        many.push('\n');
    }
    all.into_iter().chain([many]).collect()
}

const PIECES: &[&str] = &[
    "%x",
    "@main",
    "def @f(%y: Tensor[(n,), float32]) -> float32 {",
    "}",
    "{",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    " ",
    "\n",
    "let %a = 1;\n",
    "nn.relu",
    "type T { A, B(T) }\n",
    "/*",
    "*/",
    "// c\n",
    "\"",
    "é",
    "😀",
    "%0 = ",
    "add(%x, %x)",
    "=",
    ":",
    "->",
    "fn (",
    "match ",
    "meta[relay.Constant][0]",
    "#[metadata]",
    "dataflow { ",
    "where",
    "rel ",
    "prim_func @p(",
    "Tensor[(n, 4), float32]",
    "1f",
    "?",
];

fn edit(doc: &mut Document, random: &mut Random) {
    let len = doc.text.as_str().len();
    let from = random.below(len + 1);
    let size = match random.below(4) {
        0 => random.below(40),
        _ => random.below(3),
    };
    let to = (from + size).min(len);
    match random.below(3) {
        0 => doc.edit(from..to, ""),
        1 => doc.edit(from..from, PIECES[random.below(PIECES.len())]),
        _ => doc.edit(from..to, PIECES[random.below(PIECES.len())]),
    }
}

/// Returns the diagnostics of relax-check for a text, if it parses.
fn whole(text: &str) -> Option<Vec<Diagnostic>> {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, mut all) = session.read("", text.as_bytes().to_vec());
    if all.has_errors() {
        return None;
    }
    let (_, more) = relax::check(&mut module, &InferOptions::default());
    all.extend(more);
    all.sort();
    let file = session.sources.files().first()?;
    let kept = all.into_iter();
    Some(kept.filter(|d| !relax::is_allowed(file, d)).collect())
}

/// Makes every request at a position.
fn ask(doc: &mut Document, at: Position) {
    let range = Range::new(at, Position::new(at.line + 20, 0));
    let uri = "file:///t.relay".parse().expect("an address");
    features::hover::hover(doc, at);
    features::complete::complete(doc, at, true);
    features::signature::help(doc, at);
    features::refs::references(doc, at);
    let _ = features::refs::rename(doc, at, "fresh_name");
    features::hints::hints(doc, range);
    features::tokens::tokens(doc, Some(range));
    features::fold::folds(doc);
    features::select::select(doc, at);
    features::symbols::symbols(doc);
    features::lens::lenses(doc, &uri);
    features::actions::actions(doc, &uri, range);
    features::format::format(doc, Some(range));
}

/// Returns the number of resident pages of this process.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split(' ').nth(1)?.parse().ok()
}

#[test]
fn random_edits_never_desynchronise() {
    let texts = texts();
    let wanted: Option<usize> = std::env::var("RELAX_LSP_EDITS")
        .ok()
        .and_then(|v| v.parse().ok());
    let edits = wanted.unwrap_or(EDITS);
    let mut random = Random(0x5EED_0001);
    let mut early = None;
    let mut made = 0;
    while made < edits {
        let text = &texts[random.below(texts.len())];
        let mut doc = Document::new(text.clone(), 0, Encoding::Utf16, false);
        doc.diagnostics();
        for i in 0..ROUND {
            edit(&mut doc, &mut random);
            made += 1;
            let said = doc.diagnostics();
            if i % 5 != 0 {
                continue;
            }
            let text = doc.text.as_str().to_owned();
            let mut fresh = Document::new(text.clone(), 0, Encoding::Utf16, false);
            assert_eq!(fresh.diagnostics(), said, "after edit {made}:\n{text}");
            if let Some(checked) = whole(&text) {
                assert_eq!(
                    meant(&said),
                    checked,
                    "unlike the whole file after edit {made}:\n{text}"
                );
            }
            let at = doc.text.position(random.below(text.len() + 1));
            ask(&mut doc, at);
        }
        if early.is_none() && made * 5 > edits {
            early = resident();
        }
    }
    if let (Some(_), Some(before), Some(after)) = (wanted, early, resident()) {
        // Names stay interned, and random text creates new ones: a small increase is allowed.
        let more = after.saturating_sub(before) * 4096;
        assert!(
            more < 64 << 20,
            "{more} bytes more than after a fifth of the edits"
        );
    }
}

/// Removes lints: these are computed per chunk, where calls of other functions may have effects.
fn meant(said: &[Diagnostic]) -> Vec<Diagnostic> {
    let kept = said.iter().filter(|d| !relax::is_unnecessary(d.code));
    kept.cloned().collect()
}

#[test]
fn unedited_files_are_as_checked() {
    for text in texts() {
        let mut doc = Document::new(text.clone(), 0, Encoding::Utf16, false);
        if let Some(checked) = whole(&text) {
            assert_eq!(meant(&doc.diagnostics()), checked, "{text}");
        } else {
            assert!(!doc.diagnostics().is_empty(), "{text}");
        }
    }
}

/// The traversal of names agrees with the resolver on every variable.
#[test]
fn names_are_the_resolvers() {
    for text in texts() {
        let mut session = Session::new(ReadOptions::default());
        let mut said = relax_base::Diagnostics::new();
        let file = session
            .add("", text.into_bytes(), &mut said)
            .expect("short");
        let read = session.read_tree(&file, &mut said);
        let names = relax_resolve::names::names(&read.ast);
        for e in read.module.exprs.ids() {
            let relax_ir::Expr::Var(v) = read.module.exprs[e] else {
                continue;
            };
            let place = read.module.spans[e];
            if place.is_none() || file.slice(place).is_empty() {
                continue;
            }
            let name = names.iter().find(|n| n.span == place);
            let name =
                name.unwrap_or_else(|| panic!("`{}` at {place:?} has no name", file.slice(place)));
            let binding = read.module.vars[v].span;
            assert_eq!(
                name.binding,
                Some(binding),
                "`{}` in\n{}",
                file.slice(place),
                file.text
            );
        }
    }
}

/// What a unit of an earlier text lacked may be in the rest of a later one.
#[test]
fn names_that_a_text_lacked_are_looked_for_again() {
    let text = "def @a() { @zz() }\ndef () { \"never closed }\n";
    let mut doc = Document::new(text.to_owned(), 0, Encoding::Utf16, false);
    doc.diagnostics();
    let at = text.rfind("() {").expect("it is there");
    doc.edit(at..at, "@b");
    let now = doc.text.as_str().to_owned();
    assert!(now.contains("def @b()"), "{now}");
    let mut fresh = Document::new(now, 0, Encoding::Utf16, false);
    assert_eq!(doc.diagnostics(), fresh.diagnostics());
}
