//! Texts of the repository with tokens left out, doubled and moved: whatever is read prints, formats and reads back.
//!
//! The changes are the same on every machine. `RELAX_FUZZ=100000` makes more, `RELAX_FUZZ_FROM` others:
//!
//!     RELAX_FUZZ=100000 RELAX_FUZZ_FROM=1000000 cargo test --release --workspace --test fuzzed

use std::panic::catch_unwind;
use std::path::Path;

mod files;
mod mutate;
mod text;

fn number(name: &str, usual: u32) -> u32 {
    let set = std::env::var(name).ok();
    set.and_then(|v| v.parse().ok()).unwrap_or(usual)
}

fn held(run: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts: Vec<Vec<u8>> = Vec::new();
    for dir in ["tests", "examples", "prelude"] {
        let files = relax_testkit::files(&root.join(dir), "relay");
        texts.extend(files.iter().filter_map(|f| std::fs::read(f).ok()));
    }
    texts.retain(|t| t.len() < 3000);
    let from = number("RELAX_FUZZ_FROM", 0);
    let mut found = Vec::new();
    for seed in from..from + number("RELAX_FUZZ", 300) {
        let base = &texts[seed as usize % texts.len()];
        mutate::remember(base);
        let mut data = base.clone();
        data.resize(base.len() + 600, 0);
        let len = mutate::tokens(&mut data, base.len(), base.len() + 600, seed);
        data.truncate(len);
        let input = data.clone();
        if catch_unwind(move || run(&input)).is_err() {
            found.push(format!("{seed}:\n{}", String::from_utf8_lossy(&data)));
        }
    }
    assert!(
        found.is_empty(),
        "{} findings:\n{}",
        found.len(),
        found.join("\n\n")
    );
}

#[test]
fn texts_read_back() {
    held(text::front);
}

#[test]
fn passes_leave_what_reads_back() {
    held(|data| {
        let sum = data
            .iter()
            .fold(7u32, |h, &b| h.wrapping_mul(31).wrapping_add(u32::from(b)));
        let mut input = sum.to_le_bytes()[..3].to_vec();
        input.extend_from_slice(data);
        text::passes(&input);
    });
}

#[test]
fn damaged_files_are_errors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let seeds = files::seeds(&root);
    let scratch = tempfile::tempdir().expect("a folder");
    for seed in &seeds {
        files::read(seed.kind, &seed.bytes, scratch.path());
    }
    let from = number("RELAX_FUZZ_FROM", 0);
    let mut found = Vec::new();
    for number in from..from + number("RELAX_FUZZ", 2000) {
        let seed = &seeds[number as usize % seeds.len()];
        let data = match seed.text && !number.is_multiple_of(3) {
            true => {
                let mut data = seed.bytes.clone();
                data.resize(seed.bytes.len() + 600, 0);
                let len =
                    mutate::tokens(&mut data, seed.bytes.len(), seed.bytes.len() + 600, number);
                data.truncate(len);
                data
            }
            false => mutate::bytes(&seed.bytes, number),
        };
        let (kind, input, folder) = (seed.kind, data.clone(), scratch.path().to_owned());
        if catch_unwind(move || files::read(kind, &input, &folder)).is_err() {
            found.push(format!("{number} ({kind})"));
        }
    }
    assert!(found.is_empty(), "{} findings: {found:?}", found.len());
}
