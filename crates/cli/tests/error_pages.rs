//! Every diagnostic code has a page in `docs/errors/`, and vice versa.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Collects the codes in a source file, without comments and unit tests, which are at the end of a
/// file.
fn codes(text: &str, out: &mut BTreeSet<u16>) {
    let code = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    for line in code.lines().filter(|l| !l.trim_start().starts_with("//")) {
        for rest in line.split("Code(").skip(1) {
            let digits = rest.split(')').next().unwrap_or_default();
            out.extend(digits.parse::<u16>());
        }
    }
}

fn used() -> BTreeSet<u16> {
    let mut used = BTreeSet::new();
    for krate in std::fs::read_dir(root().join("crates"))
        .expect("the crates")
        .flatten()
    {
        for file in relax_testkit::files(&krate.path().join("src"), "rs") {
            codes(
                &std::fs::read_to_string(&file).expect("a source file"),
                &mut used,
            );
        }
    }
    used
}

fn pages() -> BTreeSet<u16> {
    let dir = std::fs::read_dir(root().join("docs/errors")).expect("the pages");
    let name = |e: std::fs::DirEntry| e.file_name().to_string_lossy().into_owned();
    let number = |n: String| {
        let digits = n.strip_prefix("RX").and_then(|n| n.strip_suffix(".md"));
        digits
            .filter(|d| d.len() == 4)
            .and_then(|d| d.parse().ok())
            .unwrap_or_else(|| panic!("`docs/errors/{n}` is not named like a code"))
    };
    dir.flatten().map(name).map(number).collect()
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let (used, pages) = (used(), pages());
    assert!(
        used.len() > 50,
        "only {} codes were found in the sources",
        used.len()
    );
    let without_page: Vec<_> = used.difference(&pages).collect();
    assert!(
        without_page.is_empty(),
        "codes without a page: {without_page:?}"
    );
    let without_code: Vec<_> = pages.difference(&used).collect();
    assert!(
        without_code.is_empty(),
        "pages without a code: {without_code:?}"
    );
}

#[test]
fn pages_begin_with_code_and_title() {
    for number in pages() {
        let path = root().join(format!("docs/errors/RX{number:04}.md"));
        let text = std::fs::read_to_string(path).expect("a page");
        let title = text.lines().next().unwrap_or_default();
        let title = title.strip_prefix(&format!("# RX{number:04}: "));
        assert!(
            title.is_some_and(|t| !t.is_empty()),
            "RX{number:04}: no title"
        );
        assert!(
            text.lines().filter(|l| !l.is_empty()).count() > 1,
            "RX{number:04}: no text"
        );
    }
}

#[test]
fn codes_in_comments_and_tests_do_not_count() {
    let mut out = BTreeSet::new();
    codes(
        "const A: Code = Code(7);\n// Code(8)\n#[cfg(test)]\nmod tests { Code(9) }",
        &mut out,
    );
    assert_eq!(out, BTreeSet::from([7]));
}
