//! Random well-typed programs give the same values natively and in the evaluator, and leave nothing behind.
#![cfg(feature = "native")]

use relax_cli::{evaluator, native};
use relax_codegen::{Host, Value};
use relax_driver::{InferOptions, ReadOptions, Session};
use relax_tensor::Tensor;
use relax_testkit::{Features, agree, program};

mod common;
use common::Ledger;

/// How many programs for each pipeline: `RELAX_PROGRAMS`, or two thousand in all where code is optimised and
/// enough for a quick look where not.
fn count() -> u64 {
    let wish = std::env::var("RELAX_PROGRAMS").ok();
    let usual = if cfg!(debug_assertions) { 100 } else { 500 };
    wish.and_then(|n| n.parse().ok()).unwrap_or(usual)
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => agree(a, b, 1e-4, 1e-5),
        (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => a == b,
    }
}

/// What went wrong with a program, if anything. `pipeline` runs before native code is generated.
fn trouble(seed: u64, features: &Features, pipeline: &str) -> Option<String> {
    let made = program(seed, features);
    let mut session = Session::new(ReadOptions::default());
    let (mut module, diagnostics) = session.read("random.relay", made.text.clone().into_bytes());
    if diagnostics.has_errors() {
        return Some("does not read".into());
    }
    let (typing, diagnostics) = relax_driver::check(&mut module, &InferOptions::default());
    if diagnostics.has_errors() {
        return Some("does not check".into());
    }
    let inputs: Vec<Tensor> = made.inputs.iter().map(|i| i.1.clone()).collect();
    let entry = module.global("main").expect("programs have a main");
    let expected = evaluator::run(&module, &typing, entry, &inputs);
    let typing = match native::optimise(&mut session, &mut module, pipeline) {
        Ok(typing) => typing,
        Err(d) => return Some(format!("the pipeline fails: {:?}", d.iter().next())),
    };
    let entry = module.global("main").expect("the pipeline keeps it");
    let jit = match native::lower(&module, &typing, &[entry], &session.sources)
        .and_then(|lowered| native::jit(&lowered))
    {
        Ok(jit) => jit,
        Err(d) => return Some(format!("native code refuses: {:?}", d.iter().next())),
    };
    let ledger: &'static Ledger = Box::leak(Box::default());
    // SAFETY: the ledger lives as long as the process.
    let host = unsafe { Host::with_allocator(1, &ledger.hooks()) }.expect("memory");
    let found = host.call(&jit, "main", &inputs);
    let left = host.heap().live_objects;
    drop(host);
    if left != 0 || ledger.live() != 0 || ledger.wrong() != 0 {
        let (blocks, wrong) = (ledger.live(), ledger.wrong());
        return Some(format!(
            "{left} objects and {blocks} blocks are left, {wrong} were freed twice"
        ));
    }
    match (expected, found) {
        (Ok(a), Ok(b)) if same(&a, &b) => None,
        (Err(_), Err(_)) => None,
        (a, b) => Some(format!("evaluator: {a:?}\nnative: {b:?}")),
    }
}

fn all(features: &Features, pipeline: &str, from: u64) {
    let mut failures = Vec::new();
    for seed in from..from + count() {
        if let Some(what) = trouble(seed, features, pipeline) {
            failures.push(format!("seed {seed}: {what}"));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} programs with `{pipeline}`; the first:\n{}",
        failures.len(),
        count(),
        failures.into_iter().take(5).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn native_code_agrees_with_the_evaluator() {
    all(&Features::SMOOTH, "O0", 0);
}

#[test]
fn optimised_code_agrees_with_the_evaluator() {
    all(&Features::SMOOTH, "O2", 100_000);
}

#[test]
fn strongly_optimised_code_agrees_with_the_evaluator() {
    all(&Features::SMOOTH, "O3", 300_000);
}

#[test]
fn code_after_the_steps_of_lowering_agrees_with_the_evaluator() {
    all(
        &Features::SMOOTH,
        "infer-type,fuse-ops,legalize,lower-shapes,schedule{grain=1}",
        200_000,
    );
}
