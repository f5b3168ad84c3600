//! Measures the latency of edits to a large file:
//! `cargo run --release -p relax-lsp --example bench_edits`.
//!
//! Two files of 10,000 lines: one with many functions, one with a single function (as TVM prints a
//! network). Each edit changes one operand in the middle; measured are the reply with all
//! diagnostics, then that of a hover. An argument FILE uses that file instead.
//!
//! Then a function of 20,000 bindings with an incomplete name at its end: completion after `%`,
//! first right after typing, then again.

use std::time::Instant;

use relax_lsp::document::Document;
use relax_lsp::features;
use relax_lsp::text::Encoding;

const LINES: usize = 10_000;
const EDITS: usize = 40;
const LETS: usize = 20_000;

fn many() -> String {
    let mut text = String::from("#[version = \"0.0.5\"]\n");
    let sig =
        "(%x: Tensor[(n, 64), float32], %w: Tensor[(64, 64), float32]) -> Tensor[(n, 64), float32]";
    for k in 0..LINES / 19 {
        text.push_str(&format!(
            "def @f{k}{sig} {{\n  let %a = nn.dense(%x, %w, units=64);\n"
        ));
        for j in 0..14 {
            text.push_str(&format!("  let %b{j} = nn.relu(add(%a, %x));\n"));
        }
        match k {
            0 => text.push_str("  %b3\n}\n\n"),
            _ => text.push_str(&format!("  @f{}(%b13, %w)\n}}\n\n", k - 1)),
        }
    }
    text
}

fn single() -> String {
    let mut text = String::from(
        "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(1, 64, 56, 56), float32], %w: Tensor[(64, 64, 3, 3), float32]) {\n",
    );
    for n in 0..LINES - 5 {
        let last = if n == 0 {
            "%x".into()
        } else {
            format!("%{}", n - 1)
        };
        let value = match n % 3 {
            0 => format!(
                "nn.conv2d({last}, %w, padding=[1, 1, 1, 1], channels=64, kernel_size=[3, 3])"
            ),
            1 => format!("nn.relu({last})"),
            _ => format!("add({last}, %x)"),
        };
        text.push_str(&format!("  %{n} = {value};\n"));
    }
    text.push_str(&format!("  nn.relu(%{})\n}}\n", LINES - 6));
    text
}

fn bench(name: &str, text: String) {
    let begun = Instant::now();
    let mut doc = Document::new(text, 0, Encoding::Utf16, false);
    let uri = "file:///bench.relay".parse().expect("an address");
    let said = features::diagnostics::all(&mut doc, &uri).len();
    let open = begun.elapsed();
    let mut times = Vec::new();
    let mut hovers = Vec::new();
    for i in 0..EDITS {
        let text = doc.text.as_str();
        let from = text.len() * (i % 7 + 1) / 9;
        let at = from + text[from..].find("relu").expect("an operator") + 4;
        let begun = Instant::now();
        // Insert a letter, then delete it.
        match i % 2 {
            0 => doc.edit(at..at, "x"),
            _ => doc.edit(at..at, " "),
        }
        features::diagnostics::all(&mut doc, &uri);
        times.push(begun.elapsed());
        let begun = Instant::now();
        let place = doc.text.position(at - 2);
        features::hover::hover(&mut doc, place);
        hovers.push(begun.elapsed());
        doc.edit(at..at + 1, "");
        features::diagnostics::all(&mut doc, &uri);
    }
    times.sort();
    hovers.sort();
    let lines = doc.text.as_str().lines().count();
    println!(
        "{name}: {lines} lines, {said} diagnostics, opened in {open:.1?}; an edit takes {:.1?} (median), \
         {:.1?} (least), {:.1?} (most); a hover {:.1?} (most)",
        times[EDITS / 2],
        times[0],
        times[EDITS - 1],
        hovers[EDITS - 1],
    );
}

/// Measures completion at the end of a function with many bindings, with and without the analysis
/// of the edit.
fn completion() {
    let lets: String = (0..LETS)
        .map(|i| match i {
            0 => "  let %v0 = nn.relu(%x);\n".to_owned(),
            i => format!("  let %v{i} = add(%v{}, %x);\n", i - 1),
        })
        .collect();
    let text = format!("def @main(%x: Tensor[(3,), float32]) {{\n{lets}  \n}}\n");
    let at = text.len() - 3;
    let mut doc = Document::new(text, 0, Encoding::Utf16, false);
    doc.diagnostics();
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..EDITS / 4 {
        doc.edit(at..at, "%v1");
        let place = doc.text.position(at + 3);
        for times in [&mut first, &mut again] {
            let begun = Instant::now();
            features::complete::complete(&mut doc, place, true);
            times.push(begun.elapsed());
        }
        doc.edit(at..at + 3, "");
        doc.diagnostics();
    }
    first.sort();
    again.sort();
    println!(
        "{LETS} bindings: a completion takes {:.1?} (median) after an edit, {:.1?} without one",
        first[first.len() / 2],
        again[again.len() / 2],
    );
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    for path in &files {
        match std::fs::read_to_string(path) {
            Ok(text) => bench(path, text),
            Err(e) => eprintln!("{path}: {e}"),
        }
    }
    if files.is_empty() {
        bench("many functions", many());
        bench("one function", single());
        completion();
    }
}
