//! Modules from files, as far as they check; those whose `@main` takes tensors are evaluated.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use relax::{InferOptions, check};
use relax_ir::{DTy, Module, Type};
use relax_sym::Dim;
use relax_tensor::Tensor;
use relax_testkit::{Rng, files};

use crate::case::{Case, Runs};
use crate::kept::{Among, Kept, pipelines};

/// Intentionally long-running programs: lists of millions of cells, deep recursion.
const LONG: [&str; 5] = [
    "e0dc64a53608.before.relay",
    "e0dc64a53608.after.relay",
    "long_list.relay",
    "deep_recursion.relay",
    "tree_lstm_large.relay",
];

/// Programs whose results are differences of what is equal: a pass that may round changes them wholly.
const DIFFERENCES: [&str; 1] = ["quantised_transposed.relay"];

/// Returns inputs for a `@main` of tensors; `None` if it has other parameters. Dimension variables
/// are 2, and unknown extents are those of another parameter at the same position from the end, if
/// any: operands broadcast. Every third float is one of the special ones allowed.
fn inputs(m: &Module, seed: u64, among: Among) -> Option<Vec<Tensor>> {
    let specials: &[f64] = match among {
        Among::Finite => &[],
        Among::Nan => &[f64::NAN, 0.0, -0.0],
        Among::All => &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0],
    };
    let mut typed = m.clone();
    let (typing, _) = check(&mut typed, &InferOptions::default());
    let func = typed.global_func(typed.global("main")?)?;
    let mut rng = Rng::new(seed);
    let mut all = Vec::new();
    let mut bytes = 0;
    let mut from_end: Vec<i64> = Vec::new();
    for &p in &typed.funcs[func].params {
        if let Type::Tensor(t) = &typed.types[typing.vars[p]] {
            let dims = t.shape.dims().unwrap_or_default().iter().rev();
            for (i, d) in dims.enumerate() {
                from_end.resize(from_end.len().max(i + 1), 1);
                from_end[i] = from_end[i].max(d.as_const().unwrap_or(1));
            }
        }
    }
    for &p in &typed.funcs[func].params {
        let Type::Tensor(t) = &typed.types[typing.vars[p]] else {
            return None;
        };
        let DTy::Known(dtype) = t.dtype else {
            return None;
        };
        let dims = t.shape.dims()?;
        let extent = |(i, d): (usize, &Dim)| match d.as_const() {
            Some(n) => n,
            None if d.is_any() => from_end[dims.len() - 1 - i].max(2),
            None => 2,
        };
        let shape: Vec<i64> = dims.iter().enumerate().map(extent).collect();
        bytes += Tensor::byte_len(dtype, &shape)?;
        // The reference evaluator is slow on real models.
        if bytes > 1 << 14 {
            return None;
        }
        let mut value = Tensor::zeros(dtype, &shape);
        for i in 0..value.len() {
            if !specials.is_empty() && dtype.is_float() && rng.below(3) == 0 {
                value.set_f64(i, *rng.pick(specials));
            } else if dtype.is_float() {
                value.set_f64(i, (rng.below(65) as f64 - 32.0) / 16.0);
            } else {
                value.set_i64(i, rng.below(2) as i64);
            }
        }
        all.push(value);
    }
    Some(all)
}

/// Returns the files selected by `RELAX_SAMPLE`, without duplicates.
fn sample(dir: &Path) -> Vec<PathBuf> {
    let mut files = files(dir, "relay");
    let mut seen = HashSet::new();
    files.retain(|f| std::fs::read(f).is_ok_and(|text| seen.insert(text)));
    let asked = std::env::var("RELAX_SAMPLE").unwrap_or_default();
    let (step, from) = asked.split_once(':').unwrap_or((&asked, "0"));
    let step = step.parse().unwrap_or(1).max(1);
    let from = from.parse().unwrap_or(0);
    files.into_iter().skip(from).step_by(step).collect()
}

/// Returns whether the evaluator takes seconds for a file, once per pass, or results cannot be compared:
/// then only form and types are tested.
pub fn long(file: &Path) -> bool {
    file.components().any(|c| c.as_os_str() == "models")
        || (LONG.iter().chain(&DIFFERENCES)).any(|name| file.ends_with(name))
}

/// Returns the module of a file, if it checks, and its results.
pub fn case(file: &Path) -> Option<(Case, Runs)> {
    let text = std::fs::read_to_string(file).ok()?;
    let source = text
        .find("\n// expect:")
        .map_or(&text[..], |at| &text[..at + 1]);
    let case = Case::read(&file.display().to_string(), source)?;
    let mut made = Vec::new();
    if !long(file) {
        for (seed, among) in [(1, Among::Finite), (2, Among::Nan), (3, Among::All)] {
            made.extend(inputs(&case.module, seed, among).map(|i| (among, i)));
        }
    }
    let runs = Runs::new(&case, made);
    Some((case, runs))
}

/// Returns the violations on one file.
fn mistakes(file: &Path) -> Vec<String> {
    let Some((mut case, runs)) = case(file) else {
        return Vec::new();
    };
    let mut wrong = Vec::new();
    for pass in pipelines() {
        let kept = Kept::of(&mut case, &pass);
        if let Some(reason) = case.mistake(&pass, kept, &runs) {
            let reason: String = reason.chars().take(400).collect();
            let line = format!("{pass} on {}: {reason}", case.name);
            eprintln!("{line}");
            wrong.push(line);
        }
    }
    wrong
}

/// Tests all passes on the modules under a folder.
pub fn hold(dir: &Path) {
    let files = sample(dir);
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = mistakes(file);
                    wrong.lock().expect("no thread panics").extend(found);
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().expect("no thread panics");
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} mistakes:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
