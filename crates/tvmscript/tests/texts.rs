//! The texts of `tests/tvmscript/`: their printed form, or their errors.
//!
//! `RELAX_BLESS=1 cargo test -p relax-tvmscript --test texts` rewrites the results; review every
//! line.

use std::path::{Path, PathBuf};

use relax_base::{Diagnostics, SourceMap};
use relax_tvmscript::{Printed, print, read};

fn texts() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tvmscript");
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("the folder")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "py"))
        .collect();
    all.sort();
    all
}

/// The printed text, or the errors, a line each.
fn outcome(text: &str) -> String {
    let mut sources = SourceMap::new();
    let file = sources.add("text", text.to_owned()).expect("it is small");
    let mut diagnostics = Diagnostics::new();
    let module = read(&file, &mut diagnostics);
    if diagnostics.has_errors() {
        let line = |d: &relax_base::Diagnostic| {
            let place = file.line_col(d.span().start.clamp(file.start, file.span().end));
            format!("{} {}:{} {}\n", d.code, place.line, place.col, d.message)
        };
        return diagnostics.iter().map(line).collect();
    }
    match print(&module, None) {
        Printed::Text(text) => text,
        Printed::NotNormal => "it is no sequence of bindings\n".into(),
        Printed::NoForm(found, _) => found.iter().map(|d| format!("{}\n", d.message)).collect(),
    }
}

#[test]
fn texts_are_printed_as_blessed() {
    let bless = std::env::var_os("RELAX_BLESS").is_some_and(|v| v == "1");
    for path in texts() {
        let text = std::fs::read_to_string(&path).expect("a text");
        let found = outcome(&text);
        let blessed = path.with_extension("out");
        if bless {
            std::fs::write(&blessed, &found).expect("it can be written");
        }
        let want = std::fs::read_to_string(&blessed).unwrap_or_default();
        assert_eq!(found, want, "{}", path.display());
    }
}

/// Printing is a fixpoint: printed text is printed the same when it is read again.
#[test]
fn printing_is_a_fixed_point() {
    for path in texts() {
        let first = outcome(&std::fs::read_to_string(&path).expect("a text"));
        if first.contains("@I.ir_module") {
            assert_eq!(outcome(&first), first, "{}", path.display());
        }
    }
}

/// Texts with parts omitted, doubled or replaced are read to the end, whatever they mean.
#[test]
fn damaged_texts_are_read() {
    let mut seed = 1u64;
    let mut random = move |n: usize| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n.max(1)
    };
    let bits = [
        "(", ")", "]", "{", ":", "\n", "    ", "\t", "\"", "\"\"\"", "'", "\\", ",", "=", "@",
        "lambda", "R.", "é", "0x",
    ];
    for path in texts() {
        let text = std::fs::read_to_string(&path).expect("a text");
        for _ in 0..200 {
            let mut chars: Vec<char> = text.chars().collect();
            for _ in 0..1 + random(3) {
                let (a, b) = (random(chars.len()), random(40));
                let end = (a + b).min(chars.len());
                let new: Vec<char> = match random(3) {
                    0 => Vec::new(),
                    1 => bits[random(bits.len())].chars().collect(),
                    _ => chars[a..end]
                        .iter()
                        .chain(&chars[a..end])
                        .copied()
                        .collect(),
                };
                chars.splice(a..end, new);
            }
            outcome(&chars.into_iter().collect::<String>());
        }
    }
}

/// The depth of a text does not affect the stack.
#[test]
fn deep_texts_are_read() {
    let head = "@I.ir_module\nclass M:\n    @R.function\n    def f(x: R.Tensor):\n";
    outcome(&format!(
        "{head}        return {}x{}\n",
        "(".repeat(100_000),
        ")".repeat(100_000)
    ));
    outcome(&format!(
        "{head}        return x{}\n",
        "[0]".repeat(100_000)
    ));
    outcome(&format!("{head}        return {}x\n", "-".repeat(100_000)));
    outcome(&format!(
        "{head}        return x{}\n",
        " + x".repeat(100_000)
    ));
    let mut nested = String::from(head);
    for i in 0..2_000 {
        let indent = " ".repeat(8 + i);
        nested.push_str(&format!("{indent}if x:\n"));
    }
    outcome(&nested);
}
