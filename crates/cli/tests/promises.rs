//! What all passes promise, on programs that nobody wrote: the result verifies and has types, it
//! computes the same, and a pass that says so changes nothing when it runs again.

use relax_cli::bisect::{Inputs, Question, Tolerance, Verdict, search};
use relax_driver::{PassConfig, ReadOptions, Session, Silent, run_pipeline};
use relax_ir::{EqualOptions, Module};
use relax_testkit::{Features, program};

/// Passes that change what is computed, because that is what they are for.
const OTHERWISE: &[&str] = &["gradient", "to-mixed-precision"];

fn read(session: &mut Session, seed: u64) -> (Module, String) {
    let text = program(seed, &Features::default()).text;
    let (module, errors) = session.read("program", text.clone().into_bytes());
    assert!(!errors.has_errors(), "seed {seed}:\n{text}");
    (module, text)
}

#[test]
fn passes_keep_the_meaning_of_random_programs() {
    for seed in 0..24 {
        let mut session = Session::new(ReadOptions::default());
        let (module, text) = read(&mut session, seed);
        for pass in relax_passes::all() {
            if OTHERWISE.contains(&pass.name) {
                continue;
            }
            let question = Question {
                pipeline: session.pipeline(pass.name).expect("a pass"),
                config: PassConfig::default(),
                entry: "main".into(),
                inputs: Inputs {
                    special: true,
                    ..Inputs::default()
                },
                tolerance: Tolerance {
                    relative: 1e-4,
                    absolute: 1e-5,
                    zeros: false,
                },
            };
            match search(&module, &question) {
                Verdict::Same(_) | Verdict::Refused(..) => {}
                Verdict::Unclear(why) => panic!("seed {seed}: {why}\n{text}"),
                Verdict::Wrong(f) => panic!("seed {seed}: `{}`: {:?}\n{text}", f.run, f.kind),
            }
        }
    }
}

#[test]
fn idempotent_passes_change_nothing_the_second_time() {
    for seed in 0..24 {
        let mut session = Session::new(ReadOptions::default());
        let (module, text) = read(&mut session, seed);
        for pass in relax_passes::all() {
            if !pass.contract.idempotent {
                continue;
            }
            let pipeline = session.pipeline(pass.name).expect("a pass");
            let mut once = module.clone();
            let config = PassConfig::default();
            if run_pipeline(&pipeline, &mut once, &config, &mut Silent).failure.is_some() {
                continue;
            }
            let mut twice = once.clone();
            let outcome = run_pipeline(&pipeline, &mut twice, &config, &mut Silent);
            let name = pass.name;
            assert!(outcome.failure.is_none(), "seed {seed}: `{name}` again:\n{text}");
            let different = relax_driver::difference(&once, &twice, EqualOptions::default());
            assert_eq!(different, None, "seed {seed}: `{name}` again:\n{text}");
        }
    }
}
