//! Programs of `tests/run` on the virtual machine: it prints what native code prints.
#![cfg(feature = "native")]

use std::path::Path;
use std::process::Command;

/// Options that are about an engine, about time, or about files that the test before wrote.
const OTHER: &[&str] = &[
    "--engine",
    "--bench",
    "--profile",
    "--trace",
    "--summary",
    "--max-",
    "--threads",
    "%t",
];

/// Ten million cells of a list: here they take gigabytes.
const LARGE: &[&str] = &["long_list.relay"];

#[test]
fn the_machine_prints_what_native_code_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for file in relax_testkit::files(&root.join("tests/run"), "relay") {
        if LARGE.iter().any(|name| file.ends_with(name)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("readable");
        let runs = text
            .lines()
            .filter_map(|l| l.strip_prefix("// run: relax-run "));
        for run in runs.filter(|r| r.contains("%s") && !OTHER.iter().any(|o| r.contains(o))) {
            // No word of these lines has blanks in it.
            if run.contains('\'') {
                continue;
            }
            let words = run.split_whitespace();
            let args: Vec<String> = words
                .map(|w| w.replace("%s", &file.display().to_string()))
                .collect();
            let ran = |more: &[&str]| {
                let out = Command::new(env!("CARGO_BIN_EXE_relax-run"))
                    .args(&args)
                    .args(more)
                    .output()
                    .expect("relax-run runs");
                let said = String::from_utf8_lossy(&out.stdout).into_owned();
                (out.status.code(), said)
            };
            let (native, machine) = (ran(&[]), ran(&["--engine", "vm"]));
            assert_eq!(native, machine, "{} {run}", file.display());
            count += 1;
        }
    }
    assert!(count > 50, "only {count} runs");
}
