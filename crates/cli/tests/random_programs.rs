//! Random well-typed programs give the same values natively and in the evaluator, and leak nothing.
#![cfg(feature = "native")]

use relax::{InferOptions, ReadOptions, Session};
use relax_base::Diagnostic;
use relax_cli::bisect::{Inputs, shrink};
use relax_cli::machine::KernelsBy;
use relax_cli::{evaluator, machine, native};
use relax_codegen::Host;
use relax_ir::Module;
use relax_lower::lir::Lowered;
use relax_syntax::Style;
use relax_tensor::{Tensor, Value};
use relax_testkit::{Features, alike, program};
use relax_vm::Executable;

use std::sync::Arc;

mod common;
use common::Ledger;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the number of programs for each pipeline: `RELAX_PROGRAMS`, or three thousand in total
/// in optimised builds and a few otherwise.
fn count() -> u64 {
    number("RELAX_PROGRAMS").unwrap_or(if cfg!(debug_assertions) { 60 } else { 500 })
}

/// Reads a listing, serialises the program, and reads it again.
fn through_text_and_file(listing: &str) -> Result<Executable, String> {
    let program =
        relax_vm::read_listing(listing).map_err(|e| format!("the listing does not read: {e}"))?;
    if relax_vm::print(&program).as_deref() != Ok(listing) {
        return Err("the listing reads back as another".to_owned());
    }
    through_file(&program)
}

/// Serialises a program and reads it again.
fn through_file(program: &Executable) -> Result<Executable, String> {
    let bytes = relax_vm::write(program).map_err(|e| e.0)?;
    let program = relax_vm::read(Arc::new(bytes.clone()))
        .map_err(|e| format!("the file does not read: {e}"))?;
    match relax_vm::write(&program) {
        Ok(again) if again == bytes => Ok(program),
        _ => Err("the file reads back as another".to_owned()),
    }
}

/// Skips the virtual machine. The optimiser makes its (safe) code compare the bytes of an enum
/// before checking the variant; valgrind reports that as a decision on uninitialised bytes.
const NATIVE_ONLY: &str = "RELAX_NATIVE_ONLY";

/// Returns a failure of a program on the virtual machine, after a round trip through listing and
/// file.
fn machine_trouble(
    lowered: &Lowered,
    module: &Module,
    inputs: &[Tensor],
    expected: &Result<Value, Diagnostic>,
) -> Option<String> {
    let program = match relax::vm::program(lowered, module) {
        Ok(program) => program,
        Err(d) => return Some(format!("the machine refuses: {:?}", d.iter().next())),
    };
    let listing = match relax_vm::print(&program) {
        Ok(listing) => listing,
        Err(e) => return Some(format!("no listing: {}", e.0)),
    };
    let again = match through_text_and_file(&listing) {
        Ok(again) => again,
        Err(trouble) => return Some(format!("{trouble}\n{listing}")),
    };
    let same_file = match through_file(&program) {
        Ok(program) => program,
        Err(trouble) => return Some(format!("{trouble}\n{listing}")),
    };
    let inputs: Vec<Value> = inputs.iter().cloned().map(Value::Tensor).collect();
    let ways = [
        (again, KernelsBy::Loops),
        // With all information from lowering.
        (same_file, KernelsBy::Native),
    ];
    ways.into_iter().find_map(|(program, by)| {
        let kernels = match machine::kernels(&program, by, 1) {
            Ok(kernels) => kernels,
            Err(d) => return Some(format!("no native kernels: {:?}", d.iter().next())),
        };
        let how = machine::Run::default();
        let found = machine::run(&program, kernels, "main", &inputs, how);
        match (expected, found.map(|f| f.0)) {
            (Ok(a), Ok(b)) if alike(a, &b) => None,
            (Err(_), Err(_)) => None,
            (a, b) => Some(format!("evaluator: {a:?}\nmachine, {by:?}: {b:?}")),
        }
    })
}

/// Returns a failure of a program, if any. `pipeline` runs before native code is generated. Failing
/// programs are shrunk where possible.
fn trouble(seed: u64, features: &Features, pipeline: &str) -> Option<String> {
    let made = program(seed, features);
    let mut session = Session::new(ReadOptions::default());
    let (mut module, diagnostics) = session.read("random.relay", made.text.clone().into_bytes());
    let mut found = diagnostics;
    if !found.has_errors() {
        found = relax::check(&mut module, &InferOptions::default()).1;
    }
    if found.has_errors() {
        let first = found.iter().find(|d| d.is_error());
        return Some(format!("does not read or check: {first:?}\n{}", made.text));
    }
    let inputs = Inputs {
        given: made.inputs,
        seed,
        ..Inputs::default()
    };
    let what = disagreement(&mut session, &module, &inputs, pipeline)?;
    let mut left = 3000;
    // Of the same kind: less of it may have no inputs, say.
    let kind = |what: &str| what.split([':', '{', '(']).next().map(str::to_owned);
    let less = shrink(&module, "main", &mut left, &mut |m| {
        disagreement(&mut session, m, &inputs, pipeline).is_some_and(|w| kind(&w) == kind(&what))
    });
    let last = disagreement(&mut session, &less, &inputs, pipeline);
    let text = relax::print(&less, Style::Pretty, None);
    Some(format!("{what}\nIn less of it: {last:?}\n{text}"))
}

/// Returns a disagreement between the engines, or a leak.
fn disagreement(
    session: &mut Session,
    module: &Module,
    inputs: &Inputs,
    pipeline: &str,
) -> Option<String> {
    let mut module = module.clone();
    let (typing, _) = relax::check(&mut module, &InferOptions::default());
    let entry = module.global("main").expect("programs have a main");
    let func = module.global_func(entry).expect("it is a function");
    let inputs = match inputs.tensors(0, &module, &typing, func) {
        Ok(inputs) => inputs,
        Err(all) => return Some(format!("no inputs: {all:?}")),
    };
    let expected = evaluator::run(&module, &typing, entry, &inputs);
    let typing = match native::optimise(session, &mut module, pipeline) {
        Ok(typing) => typing,
        Err(d) => return Some(format!("the pipeline fails: {:?}", d.iter().next())),
    };
    let entry = module.global("main").expect("the pipeline keeps it");
    let lowered = match native::lower(&module, &typing, &[entry], &session.sources) {
        Ok(lowered) => lowered,
        Err(d) => return Some(format!("lowering refuses: {:?}", d.iter().next())),
    };
    if std::env::var_os(NATIVE_ONLY).is_none()
        && let Some(trouble) = machine_trouble(&lowered, &module, &inputs, &expected)
    {
        return Some(trouble);
    }
    let jit = match native::jit(&lowered) {
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
            "{left} objects and {blocks} blocks are left, {wrong} were freed twice; native: {found:?}"
        ));
    }
    match (expected, found) {
        (Ok(a), Ok(b)) if alike(&a, &b) => None,
        (Err(_), Err(_)) => None,
        (a, b) => Some(format!("evaluator: {a:?}\nnative: {b:?}")),
    }
}

fn all(features: &Features, pipeline: &str, from: u64) {
    let from = from + number("RELAX_FROM").unwrap_or(0);
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
        failures
            .into_iter()
            .take(if std::env::var_os("RELAX_SHOW").is_some() {
                1000
            } else {
                5
            })
            .collect::<Vec<_>>()
            .join("\n")
    );
}

#[test]
fn native_code_agrees_with_the_evaluator() {
    all(&Features::NATIVE, "O0", 0);
}

#[test]
fn optimised_code_agrees_with_the_evaluator() {
    all(&Features::NATIVE, "O2", 100_000);
}

#[test]
fn strongly_optimised_code_agrees_with_the_evaluator() {
    all(&Features::NATIVE, "O3", 300_000);
}

#[test]
fn code_after_the_steps_of_lowering_agrees_with_the_evaluator() {
    all(
        &Features::NATIVE,
        "infer-type,fuse-ops,legalize,lower-shapes,schedule{grain=1}",
        200_000,
    );
}

#[test]
fn code_whose_memory_is_planned_agrees_with_the_evaluator() {
    all(
        &Features::NATIVE,
        "infer-type,fuse-ops,legalize,lower-shapes,plan-memory",
        400_000,
    );
}

#[test]
fn effects_are_the_same_at_every_level() {
    for (at, pipeline) in ["O0", "O1", "O2", "O3"].into_iter().enumerate() {
        all(&Features::EFFECTS, pipeline, 500_000 + 10_000 * at as u64);
    }
}

/// Runs programs under valgrind, which detects invalid accesses and decisions on uninitialised
/// bytes; the ledger counts leaks and double frees, as elsewhere.
/// `RELAX_VALGRIND=300 cargo test --release --workspace --test random_programs
/// valgrind` runs some hundreds.
#[test]
fn memory_is_used_well_under_valgrind() {
    let name = "native_code_agrees_with_the_evaluator";
    let usual = if cfg!(debug_assertions) { 2 } else { 10 };
    let count = number("RELAX_VALGRIND").unwrap_or(usual).to_string();
    let run = std::process::Command::new("valgrind")
        .args(["--quiet", "--error-exitcode=9", "--leak-check=no"])
        .arg(std::env::current_exe().expect("this test's own file"))
        .args(["--exact", name, "--test-threads", "1"])
        .env("RELAX_PROGRAMS", count)
        .env(NATIVE_ONLY, "1")
        .output();
    match run {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: valgrind is not installed");
        }
        run => {
            let run = run.expect("valgrind runs");
            let text = String::from_utf8_lossy(&run.stderr);
            let said = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success(), "{said}\n{text}");
            assert!(said.contains("1 passed"), "{said}");
        }
    }
}

/// Failing programs are shrunk before they are reported: here, "failing" means calling a particular
/// operator.
#[test]
fn reproducers_are_short() {
    let (mut all, mut short) = (0, 0);
    for seed in 0..12 {
        let made = program(seed, &Features::NATIVE);
        let mut session = Session::new(ReadOptions::default());
        let (module, _) = session.read("random.relay", made.text.clone().into_bytes());
        let names = ["tanh(", "sum(", "transpose(", "concatenate(", "max("];
        let Some(name) = names.into_iter().find(|n| made.text.contains(n)) else {
            continue;
        };
        let calls = |m: &Module| relax::print(m, Style::Pretty, None).contains(name);
        let less = shrink(&module, "main", &mut 3000, &mut |m| calls(m));
        assert!(calls(&less), "seed {seed}");
        let text = relax::print(&less, Style::Pretty, None);
        // Unused data types are still declared.
        let functions = text.lines().skip_while(|l| !l.starts_with("def "));
        all += 1;
        short += usize::from(functions.count() < 20);
    }
    // Some depend on run-time extents, and stay longer.
    assert!(all > 6 && short * 3 >= all * 2, "{short} of {all}");
}
