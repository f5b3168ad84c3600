//! Random sequences of passes: after each pass the module verifies, type-checks, computes the same
//! results, and round-trips through printing.

use std::path::Path;

use relax_ir::Module;
use relax_testkit::{Features, Rng, files};

use crate::case::{Case, Runs, roundtrip};
use crate::kept::{Kept, pipelines};
use crate::modules;

/// The number of passes in a sequence.
const LENGTH: usize = 5;

/// Returns a violation by the passes of a sequence on a program, with the passes up to the
/// offending one.
fn mistake(case: &mut Case, order: &[String], runs: &Runs) -> Option<String> {
    let (first, mut ran) = (case.module.clone(), Vec::new());
    let found = order.iter().find_map(|pass| {
        let after: Module = match case.after(pass) {
            Ok(after) => after,
            // A pass may reject the program; the next one continues with the previous module.
            Err(reason) if reason.is_empty() => return None,
            Err(reason) => return Some(format!("{}, then {pass}: {reason}", ran.join(","))),
        };
        ran.push(pass.clone());
        let all = ran.join(",");
        let kept = Kept::of(case, &all);
        case.module = after;
        let wrong = case.mistake_after(&case.module, kept, runs);
        let wrong = wrong.or_else(|| roundtrip(&case.module));
        wrong.map(|why| format!("{all}: {why}"))
    });
    case.module = first;
    found
}

/// Tests random sequences of passes on one program.
fn orders(case: &mut Case, runs: &Runs, rng: &mut Rng, count: usize, wrong: &mut Vec<String>) {
    let all = pipelines();
    for _ in 0..count {
        let order: Vec<String> = (0..LENGTH).map(|_| rng.pick(&all).clone()).collect();
        if let Some(why) = mistake(case, &order, runs) {
            eprintln!("{}: {why}", case.name);
            wrong.push(format!("{}: {why}", case.name));
        }
    }
}

fn report(wrong: &[String]) {
    let shown: Vec<String> = (wrong.iter().take(10))
        .map(|w| w.chars().take(3000).collect())
        .collect();
    assert!(
        wrong.is_empty(),
        "{} mistakes:\n{}",
        wrong.len(),
        shown.join("\n\n")
    );
}

/// Tests random sequences of passes on random programs, deterministically seeded.
pub fn on_programs(features: &Features, seeds: impl Iterator<Item = u64>) {
    let mut wrong = Vec::new();
    for seed in seeds {
        let (mut case, runs, _) = crate::seeded(seed, features);
        orders(&mut case, &runs, &mut Rng::new(seed), 3, &mut wrong);
    }
    report(&wrong);
}

/// Tests random sequences on the modules of a folder that evaluate quickly; `from` selects the
/// sequences.
pub fn on_modules(dir: &Path, from: u64) {
    let mut wrong = Vec::new();
    for (i, file) in files(dir, "relay").into_iter().enumerate() {
        if let Some((mut case, runs)) = modules::case(&file).filter(|_| !modules::long(&file)) {
            let mut rng = Rng::new(from + i as u64);
            orders(&mut case, &runs, &mut rng, 2, &mut wrong);
        }
    }
    report(&wrong);
}
