//! Replays the corpora of all targets, with some mutations.
//!
//! The mutations are deterministic, and depend only on `fuzz/corpus`. `RELAX_FUZZ=100000` makes
//! more, `RELAX_FUZZ_FROM` others, and `RELAX_FUZZ_TEXTS=1` also mutates all texts of the
//! repository:
//!
//!     RELAX_FUZZ=100000 RELAX_FUZZ_FROM=1000000 cargo test --release -p relax-fuzzing --test tried -- --nocapture
//!
//! `RELAX_FUZZ_CASES` is a folder of programs that are changed for `engines`;
//! `RELAX_FUZZ_SECONDS` limits the time of each target instead of the number of mutations.

use std::panic::{UnwindSafe, catch_unwind};
#[cfg(feature = "native")]
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use relax_fuzzing::{Target, corpus, files, mutate, target, texts};

fn number(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a target on named inputs and returns those on which it panics.
fn found(target: &Target, inputs: impl Iterator<Item = (String, Vec<u8>)>) -> Vec<String> {
    found_by(target.name, target.run, inputs)
}

/// The same of what is no target.
fn found_by(
    what: &str,
    run: impl Fn(&[u8]) + Copy + UnwindSafe,
    inputs: impl Iterator<Item = (String, Vec<u8>)>,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut executions = 0;
    for (name, data) in inputs {
        executions += 1;
        let input = data.clone();
        if catch_unwind(move || run(&input)).is_err() {
            found.push(format!("{name}:\n{}", String::from_utf8_lossy(&data)));
        }
    }
    println!("{what}: {executions} executions");
    found
}

fn none(found: &[String]) {
    let (n, all) = (found.len(), found.join("\n\n"));
    assert!(found.is_empty(), "{n} findings:\n{all}");
}

/// Returns the default number of mutations: about ten seconds' worth, fewer in debug builds.
fn usual(changes: u32) -> u32 {
    changes / if cfg!(debug_assertions) { 20 } else { 1 }
}

/// The numbers of the mutations to try: as many as the environment asks for, or as fit its time
/// limit.
fn wanted(changes: u32) -> impl Iterator<Item = u32> {
    let from = number("RELAX_FUZZ_FROM").unwrap_or(0);
    let time = number("RELAX_FUZZ_SECONDS").map(|s| Duration::from_secs(s.into()));
    let count = number("RELAX_FUZZ").unwrap_or(match time {
        Some(_) => u32::MAX,
        None => usual(changes),
    });
    let start = Instant::now();
    (from..from.saturating_add(count))
        .take_while(move |_| time.is_none_or(|time| start.elapsed() < time))
}

/// Runs the corpus of a target, other inputs, and some mutations of all.
fn hold(name: &str, others: Vec<(String, Vec<u8>)>, changes: u32) {
    let target = target(name).expect("a target");
    let mut inputs = corpus(name);
    inputs.extend(others);
    assert!(!inputs.is_empty(), "there are no inputs for {name}");
    none(&found(target, inputs.iter().cloned()));
    // All at once, so that a number makes the same input wherever a run begins.
    for (_, base) in &inputs {
        mutate::remember(base);
    }
    let changed = wanted(changes).map(|n| {
        let (_, base) = &inputs[n as usize % inputs.len()];
        (n.to_string(), target.change(base, n))
    });
    none(&found(target, changed));
}

/// Returns the texts of the repository, if requested.
fn wanted_texts() -> Vec<(String, Vec<u8>)> {
    match number("RELAX_FUZZ_TEXTS") {
        Some(1) => texts(),
        _ => Vec::new(),
    }
}

#[test]
fn texts_read_back() {
    hold("front", wanted_texts(), 10_000);
}

#[test]
fn passes_leave_what_reads_back() {
    hold("passes", wanted_texts(), 8_000);
}

#[test]
fn damaged_files_are_errors() {
    let seeds = files().into_iter().map(|f| ("a seed".to_owned(), f));
    let mut seeds: Vec<_> = seeds.collect();
    for (dir, extension, kind) in [("graphs", "json", "json"), ("tvmscript", "py", "tvmscript")] {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/");
        for file in relax_testkit::files(format!("{root}{dir}").as_ref(), extension) {
            let text = std::fs::read(&file).expect("a file of ours");
            seeds.push((
                file.display().to_string(),
                [kind.as_bytes(), b"\n", &text].concat(),
            ));
        }
    }
    hold("files", seeds, 20_000);
}

#[test]
fn editors_break_nothing() {
    hold("protocol", wanted_texts(), 600);
}

#[test]
#[cfg(feature = "native")]
fn engines_agree() {
    let at_all = |data: &[u8]| {
        relax_fuzzing::compared_at_all(data);
    };
    none(&found_by("engines", at_all, corpus("engines").into_iter()));
    let seeds = wanted(400).map(|n| (n.to_string(), format!("seed {n}").into_bytes()));
    none(&found(target("engines").expect("a target"), seeds));
}

#[test]
#[cfg(feature = "native")]
fn engines_agree_on_effects() {
    let seeds = wanted(400).map(|n| (n.to_string(), format!("effects {n}").into_bytes()));
    let target = target("engines").expect("a target");
    none(&found(target, seeds));
}

/// Changes the programs under the folder `RELAX_FUZZ_CASES`, if there is one.
#[test]
#[cfg(feature = "native")]
fn engines_agree_on_changed_programs() {
    let Some(folder) = std::env::var_os("RELAX_FUZZ_CASES") else {
        return;
    };
    let cases = relax_fuzzing::texts_under(folder.as_ref());
    assert!(!cases.is_empty(), "there are no programs to change");
    let changed = wanted(2_000).map(|n| {
        let (name, base) = &cases[n as usize % cases.len()];
        (format!("{n}, {name}"), mutate::alike(base, n))
    });
    let compared = &AtomicU32::new(0);
    let run = |data: &[u8]| {
        let some = relax_fuzzing::compared(data);
        compared.fetch_add(some.into(), Ordering::Relaxed);
    };
    let wrong = found_by("engines", run, changed);
    println!("{} of them check and end", compared.load(Ordering::Relaxed));
    none(&wrong);
}

#[test]
#[cfg(feature = "native")]
fn callers_break_nothing() {
    // Bytes that make arbitrary choices.
    let some = (0..64).map(|n| {
        let mut state = n + 1u32;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        };
        (n.to_string(), (0..300).map(|_| next()).collect())
    });
    hold("capi", some.collect(), 20_000);
}
