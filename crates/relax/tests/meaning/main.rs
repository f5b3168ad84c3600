//! The contract of every pass, tested on random programs and on the modules of `tests/`: the result
//! verifies and type-checks, `@main` keeps its type, the evaluator computes the same results (as
//! far as the pass's contract says, with NaN, infinities and signed zeros among the inputs), and
//! passes declared idempotent change nothing in a second run. The result of a pass round-trips
//! through printing.
//!
//! `RELAX_SEEDS=N` tries more programs, `RELAX_FROM` others, `RELAX_PASS=PIPELINE` only one pass or pipeline, and
//! `RELAX_MODULES=DIR` also the modules under a folder (`RELAX_SAMPLE=K`: every K-th, `K:R`
//! starting at the R-th).

mod case;
mod kept;
mod modules;
mod orders;

use std::path::Path;

use relax_tensor::Tensor;
use relax_testkit::{Features, program};

use case::{Case, Runs};
use kept::{Among, Kept, pipelines};

/// Returns the number of seeds: `RELAX_SEEDS`, or the default.
fn seeds(default: u64) -> u64 {
    let set = std::env::var("RELAX_SEEDS").ok();
    set.and_then(|s| s.parse().ok()).unwrap_or(default)
}

/// Returns a random program with its inputs, and its text.
fn seeded(seed: u64, features: &Features) -> (Case, Runs, String) {
    let p = program(seed, features);
    let case = Case::read(&format!("seed {seed}"), &p.text).expect("programs check");
    let inputs: Vec<Tensor> = p.inputs.into_iter().map(|i| i.1).collect();
    let among = match features.special {
        true => Among::All,
        false => Among::Finite,
    };
    let runs = Runs::new(&case, vec![(among, inputs)]);
    (case, runs, p.text)
}

/// Returns the number from which seeds count, `RELAX_FROM`.
fn from() -> u64 {
    let from = std::env::var("RELAX_FROM").ok();
    from.and_then(|f| f.parse().ok()).unwrap_or(0)
}

fn hold(features: &Features, count: u64) {
    let mut wrong = Vec::new();
    for seed in from()..from() + count {
        let (mut case, runs, text) = seeded(seed, features);
        for pass in pipelines() {
            let kept = Kept::of(&mut case, &pass);
            if let Some(reason) = case.mistake(&pass, kept, &runs) {
                wrong.push(format!("{pass} on {}: {reason}\n{text}", case.name));
            }
        }
    }
    let shown: Vec<&str> = wrong.iter().take(3).map(String::as_str).collect();
    let head = |w: &String| -> String {
        let line = w.lines().next().unwrap_or_default();
        line.chars().take(160).collect()
    };
    let heads: Vec<String> = wrong.iter().map(head).collect();
    assert!(
        wrong.is_empty(),
        "{} mistakes:\n{}\n\n{}",
        wrong.len(),
        heads.join("\n"),
        shown.join("\n\n")
    );
}

#[test]
fn passes_hold_on_random_programs() {
    hold(&Features::ALL, seeds(12));
}

#[test]
fn passes_hold_on_random_tensor_programs() {
    hold(&Features::TENSORS, seeds(12));
}

#[test]
fn passes_hold_on_smooth_random_programs() {
    hold(&Features::SMOOTH, seeds(12));
}

#[test]
fn passes_hold_on_random_effects() {
    hold(&Features::EFFECTS, seeds(10));
}

#[test]
fn orders_of_passes_hold_on_random_effects() {
    let first = 500 + from();
    orders::on_programs(&Features::EFFECTS, first..first + seeds(20));
}

#[test]
fn passes_hold_on_the_modules_of_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    modules::hold(&root.join("tests"));
    modules::hold(&root.join("examples"));
}

#[test]
fn passes_hold_on_other_modules() {
    if let Some(dir) = std::env::var_os("RELAX_MODULES") {
        modules::hold(Path::new(&dir));
    }
}

#[test]
fn orders_of_passes_hold_on_random_programs() {
    let others = |first: u64| first + from()..first + from() + seeds(12);
    orders::on_programs(&Features::ALL, others(100));
    orders::on_programs(&Features::TENSORS, others(200));
}

#[test]
fn orders_of_passes_hold_on_smooth_random_programs() {
    let others = |first: u64| first + from()..first + from() + seeds(12);
    orders::on_programs(&Features::SMOOTH, others(300));
    let programs = Features {
        size: 40,
        ..Features::NATIVE
    };
    orders::on_programs(&programs, others(400));
}

#[test]
fn orders_of_passes_hold_on_the_modules_of_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    orders::on_modules(&root.join("tests"), from());
    orders::on_modules(&root.join("examples"), from());
}
