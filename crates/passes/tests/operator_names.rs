//! Checks that the operators that passes name exist: renaming one fails here, not when a program
//! reaches the pass.

use std::path::{Path, PathBuf};

use relax_ops::registry;

/// The text before the name of an operator that a pass calls, looks for, or has in a pattern;
/// without spaces.
const BEFORE: &[&str] = &[
    ".call(",
    ".op(",
    "registry().find(",
    "any_order(",
    "=op(",
    "|op(",
    "(op(",
    "[op(",
    ",op(",
    "{op(",
];

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut open, mut files) = (vec![root], Vec::new());
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            open.extend(entries.map(|e| e.expect("an entry").path()));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns the code of a file without spaces: no name of an operator has one.
fn code(file: &Path) -> String {
    let text = std::fs::read_to_string(file).expect("a text");
    let own = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = own.unwrap_or_default().lines();
    let code = lines.filter(|l| !l.trim_start().starts_with("//"));
    code.flat_map(str::split_whitespace).collect()
}

/// Returns the string literals at the beginning of an argument: one, or those of a list.
fn literals(argument: &str) -> Vec<&str> {
    let listed = argument.strip_prefix("&[");
    let mut rest = listed.unwrap_or(argument);
    let mut all = Vec::new();
    while let Some((text, after)) = rest.strip_prefix('"').and_then(|r| r.split_once('"')) {
        all.push(text);
        rest = after.trim_start_matches(',');
        if listed.is_none() {
            break;
        }
    }
    all
}

#[test]
fn operators_that_passes_name_are_registered() {
    let (mut named, mut unknown) = (0, Vec::new());
    for file in files() {
        let own = code(&file);
        for before in BEFORE {
            for (at, _) in own.match_indices(before) {
                for name in literals(&own[at + before.len()..]) {
                    named += 1;
                    if registry().find(name).is_none() {
                        unknown.push(format!("{}: {name}", file.display()));
                    }
                }
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "there is no such operator: {unknown:#?}"
    );
    assert!(
        named > 100,
        "passes name operators in another way: {named} were found"
    );
}
