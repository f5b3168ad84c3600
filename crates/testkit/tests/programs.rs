//! Generated programs check, and their evaluation terminates without failure.

use relax::{InferOptions, ReadOptions, Session, check};
use relax_base::Diagnostics;
use relax_interp::{Interp, Value};
use relax_testkit::{Features, program};

/// Returns the number of seeds: `RELAX_SEEDS`, or the default.
fn seeds(default: u64) -> u64 {
    let set = std::env::var("RELAX_SEEDS").ok();
    set.and_then(|s| s.parse().ok()).unwrap_or(default)
}

fn show(d: &Diagnostics) -> String {
    d.iter().map(|d| format!("{d:?}\n")).collect()
}

fn well_formed(features: &Features, count: u64) {
    for seed in 0..count {
        let p = program(seed, features);
        let mut session = Session::new(ReadOptions::default());
        let (mut m, mut diagnostics) = session.read("random", p.text.clone().into_bytes());
        assert!(
            !diagnostics.has_errors(),
            "{seed}: {}\n{}",
            show(&diagnostics),
            p.text
        );
        let (typing, more) = check(&mut m, &InferOptions::default());
        diagnostics.extend(more);
        assert!(
            !diagnostics.has_errors(),
            "{seed}: {}\n{}",
            show(&diagnostics),
            p.text
        );
        let entry = m.global("main").expect("a main");
        let inputs = p
            .inputs
            .iter()
            .map(|(_, t)| Value::from(t.clone()))
            .collect();
        match Interp::new(&m, &typing).run(entry, inputs) {
            Ok(value) => assert!(value.flatten().is_some(), "{seed}: no tensors\n{}", p.text),
            Err(d) => panic!("{seed}: {d:?}\n{}", p.text),
        }
    }
}

#[test]
fn programs_of_all_features_are_typed_and_end() {
    well_formed(&Features::ALL, seeds(60));
}

#[test]
fn programs_of_tensors_are_typed_and_end() {
    well_formed(&Features::TENSORS, seeds(60));
}

#[test]
fn smooth_programs_are_typed_and_end() {
    well_formed(&Features::SMOOTH, seeds(60));
}

#[test]
fn programs_of_effects_are_typed_and_end() {
    well_formed(&Features::EFFECTS, seeds(300));
}

#[test]
fn a_seed_is_a_program() {
    let (a, b) = (program(7, &Features::ALL), program(7, &Features::ALL));
    assert_eq!(a.text, b.text);
    assert!(
        a.inputs
            .iter()
            .zip(&b.inputs)
            .all(|(x, y)| relax_testkit::same(&x.1, &y.1))
    );
}
