//! The README's tour and the examples in docs/tools.md show the tools' actual output. Every line
//! `$ command` of their `text` blocks is run, in a folder with `examples/`; `$ cat FILE` creates
//! the file that it shows.
//!
//! `RELAX_BLESS=1` updates the pages with the current output.

#![cfg(feature = "native")]

use std::path::Path;
use std::process::Command;

const TOOLS: &[(&str, &str)] = &[
    ("relax-fmt", env!("CARGO_BIN_EXE_relax-fmt")),
    ("relax-check", env!("CARGO_BIN_EXE_relax-check")),
    ("relax-opt", env!("CARGO_BIN_EXE_relax-opt")),
    ("relax-bisect", env!("CARGO_BIN_EXE_relax-bisect")),
    ("relax-run", env!("CARGO_BIN_EXE_relax-run")),
    ("relaxc", env!("CARGO_BIN_EXE_relaxc")),
];

/// Returns the output of a command, standard output first.
fn output(command: &str, folder: &Path) -> String {
    let mut words = command.split_whitespace();
    let name = words.next().expect("a command");
    let tool = TOOLS.iter().find(|t| t.0 == name);
    let (_, tool) = tool.unwrap_or_else(|| panic!("a page calls `{name}`, which is no tool"));
    let out = Command::new(tool)
        .args(words)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .expect("the tool starts");
    let text = [out.stdout, out.stderr].concat();
    String::from_utf8(text).expect("text")
}

/// Returns a `text` block with its commands' current output.
fn replay(block: &str, folder: &Path) -> String {
    let mut replayed = String::new();
    for session in block.split("$ ").filter(|s| !s.is_empty()) {
        let (command, shown) = session.split_once('\n').unwrap_or((session, ""));
        // A blank line before the next command is formatting.
        let gap = if shown.ends_with("\n\n") { "\n" } else { "" };
        let printed = match command.strip_prefix("cat ") {
            Some(file) => {
                std::fs::write(folder.join(file), shown).expect("a file");
                shown.trim_end().to_owned()
            }
            None => output(command, folder).trim_end().to_owned(),
        };
        let end = if printed.is_empty() { "" } else { "\n" };
        replayed.push_str(&format!("$ {command}\n{printed}{end}{gap}"));
    }
    replayed
}

#[test]
fn tour() {
    check("README.md");
}

#[test]
fn tools() {
    check("docs/tools.md");
}

fn check(page: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(page);
    let text = std::fs::read_to_string(&path).expect("the page");
    let folder = tempfile::tempdir().expect("a folder");
    let examples = root.join("examples").canonicalize().expect("examples");
    std::os::unix::fs::symlink(examples, folder.path().join("examples")).expect("a link");

    let mut now = String::new();
    let mut commands = 0;
    for (k, part) in text.split("```").enumerate() {
        // Odd parts are inside fences.
        if k > 0 {
            now.push_str("```");
        }
        match part.strip_prefix("text\n").filter(|_| k % 2 == 1) {
            Some(block) if block.starts_with("$ ") => {
                commands += 1;
                now.push_str("text\n");
                now.push_str(&replay(block, folder.path()));
            }
            _ => now.push_str(part),
        }
    }
    assert!(commands > 2, "{page} has commands");
    if now == text {
        return;
    }
    if std::env::var_os("RELAX_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&path, now).expect("the page is written");
        return;
    }
    let mut diff = String::new();
    relax_cli::diff::unified(("page", "tools"), &text, &now, false, &mut diff);
    panic!("{page} is not what the tools print (RELAX_BLESS=1 rewrites it):\n{diff}");
}
