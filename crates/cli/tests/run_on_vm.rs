//! Programs of `tests/run` on the other engines: the virtual machine and the evaluator print the
//! same as native code.
#![cfg(feature = "native")]

use std::path::Path;
use std::process::Command;

/// Options that concern an engine, timing, or files from a preceding step.
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

/// A list of ten million cells takes the evaluator minutes.
const LARGE: &[&str] = &["long_list.relay"];

/// Returns whether two texts differ only in numbers, within the error of reordering float32
/// additions.
fn alike(a: &str, b: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let cut = |c: char| !(c.is_alphanumeric() || "._-".contains(c));
        text.split_inclusive(cut)
            .flat_map(|w| {
                w.split_once(cut)
                    .map_or(vec![w], |(word, _)| vec![word, &w[word.len()..]])
            })
            .map(str::to_owned)
            .collect()
    };
    let near = |(x, y): (&String, &String)| match (x.parse::<f64>(), y.parse::<f64>()) {
        (Ok(p), Ok(q)) if x.contains('.') => (p - q).abs() <= 2e-6 + 1e-5 * p.abs(),
        _ => x == y,
    };
    let (a, b) = (words(a), words(b));
    a.len() == b.len() && a.iter().zip(&b).all(near)
}

#[test]
fn other_engines_print_what_native_code_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for file in relax_testkit::files(&root.join("tests/run"), "relay") {
        let large = LARGE.iter().any(|name| file.ends_with(name));
        let text = std::fs::read_to_string(&file).expect("readable");
        let runs = text
            .lines()
            .filter_map(|l| l.strip_prefix("// run: relax-run "));
        for run in runs.filter(|r| r.contains("%s") && !OTHER.iter().any(|o| r.contains(o))) {
            // No word of these lines contains blanks.
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
            let native = ran(&[]);
            for engine in ["vm", "interp"] {
                if engine == "vm" || !large {
                    let other = ran(&["--engine", engine]);
                    let same = native.0 == other.0 && alike(&native.1, &other.1);
                    assert!(
                        same,
                        "{engine}: {} {run}\n{native:?}\n{other:?}",
                        file.display()
                    );
                }
            }
            count += 1;
        }
    }
    assert!(count > 50, "only {count} runs");
}
