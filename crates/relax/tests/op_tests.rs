//! The types, errors and values of every operator, as recorded in `tests/ops/`.
//!
//! `RELAX_BLESS=1 cargo test -p relax --test op_tests` regenerates the results; review every line.

#[allow(dead_code)] // Each test file uses a part of it.
mod op_cases;

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use libtest_mimic::{Arguments, Failed, Trial};
use op_cases::{Kind, outcome, path_of, read};
use relax_ops::{OpDef, registry};

fn bless() -> bool {
    std::env::var_os("RELAX_BLESS").is_some_and(|v| v == "1")
}

fn main() {
    let args = Arguments::from_args();
    let mut trials = vec![Trial::test("every_file_is_an_operators", every_file)];
    for (_, op) in registry().iter() {
        trials.push(Trial::test(op.name, || run(op)));
    }
    libtest_mimic::run(&args, trials).exit();
}

fn every_file() -> Result<(), Failed> {
    for space in std::fs::read_dir(op_cases::folder())? {
        for file in std::fs::read_dir(space?.path())? {
            let path = file?.path();
            let stem = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if registry().find(&stem).is_none() || path_of(&stem) != path {
                return Err(format!("{} is no operator's file", path.display()).into());
            }
        }
    }
    Ok(())
}

/// Returns what is missing in the file of an operator.
fn missing(op: &OpDef, kinds: &[Kind]) -> Vec<String> {
    let count = |k: Kind| kinds.iter().filter(|x| **x == k).count();
    let mut out = Vec::new();
    let mut need = |k: Kind, n: usize| {
        if count(k) < n {
            out.push(format!("{k:?}: {} of {n}", count(k)));
        }
    };
    need(Kind::Static, 1);
    need(Kind::Refused, 2);
    // Without inputs, nothing can be symbolic or unknown.
    if !op.inputs.is_empty() {
        need(Kind::Symbolic, 1);
        need(Kind::Unknown, 1);
    }
    if op.compute.is_some() {
        need(Kind::Value, 1);
    }
    out
}

fn run(op: &OpDef) -> Result<(), Failed> {
    let path = path_of(op.name);
    let file = read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let (mut results, mut problems) = (Vec::new(), Vec::new());
    for case in &file.cases {
        let names_it = case.call.contains(op.name) || !op.sugar.is_empty();
        if !names_it {
            problems.push(format!("line {}: not a call of {}", case.line + 1, op.name));
        }
        results.push(outcome(&file.items, case).unwrap_or_else(|e| {
            problems.push(format!("a case `{:?}`: {e}", case.kind));
            String::from("?")
        }));
    }
    let kinds: Vec<Kind> = file.cases.iter().map(|c| c.kind).collect();
    problems.extend(missing(op, &kinds));
    let actual = file.with_results(&results);
    if actual != file.text() {
        if bless() {
            std::fs::write(&path, actual)?;
        } else {
            let input = InternedInput::new(file.text(), actual.as_str());
            let diff = Diff::compute(Algorithm::Histogram, &input);
            let lines = BasicLineDiffPrinter(&input.interner);
            let diff = diff.unified_diff(&lines, UnifiedDiffConfig::default(), &input);
            problems.push(format!(
                "{diff}\n(RELAX_BLESS=1 accepts the actual results)"
            ));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\n").into())
    }
}
