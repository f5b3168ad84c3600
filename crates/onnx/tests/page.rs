//! The table of operators in `docs/onnx.md`.

use std::fmt::Write;

const BEGIN: &str =
    "<!-- operators: written by a test, RELAX_BLESS=1 cargo test -p relax-onnx -->\n";
const END: &str = "<!-- end -->";
const WRITTEN: &str =
    "<!-- written operators: by a test, RELAX_BLESS=1 cargo test -p relax-onnx -->\n";
const WRITTEN_END: &str = "<!-- end of written operators -->";

fn table() -> String {
    let mut out = String::from("\n| operator | since |\n|---|---|\n");
    for e in relax_onnx::operators() {
        let name = match e.domain {
            "" => e.name.to_owned(),
            domain => format!("{domain}.{}", e.name),
        };
        let _ = writeln!(out, "| `{name}` | {} |", e.versions.0);
    }
    out.push('\n');
    out
}

#[test]
fn the_page_lists_all_operators() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/onnx.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let begin = page.find(BEGIN).expect("where the table begins") + BEGIN.len();
    let end = page.find(END).expect("where the table ends");
    let page = format!("{}{}{}", &page[..begin], table(), &page[end..]);
    let begin = page.find(WRITTEN).expect("where the list begins") + WRITTEN.len();
    let end = page.find(WRITTEN_END).expect("where the list ends");
    let written: Vec<String> = relax_onnx::export::exported()
        .map(|n| format!("`{n}`"))
        .collect();
    let written = format!("\n{}.\n\n", written.join(", "));
    let wanted = format!("{}{}{}", &page[..begin], written, &page[end..]);
    let page = std::fs::read_to_string(path).expect("the page");
    if std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(path, wanted).expect("the page is written");
        return;
    }
    assert!(
        page == wanted,
        "docs/onnx.md is old: RELAX_BLESS=1 cargo test -p relax-onnx writes it"
    );
}
