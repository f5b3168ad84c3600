//! What every pass has to hold, on programs that nobody wrote and on the modules of `tests/`: the
//! result verifies and types, `@main` keeps its type, the evaluator computes what it computed, and
//! a second run changes nothing where the pass claims so.
//!
//! `RELAX_SEEDS=N` tries more programs, `RELAX_PASS=NAME` one pass only, and `RELAX_MODULES=DIR` runs
//! over the modules under a folder too, as far as they have a `@main` of tensors (`RELAX_SAMPLE=K`: every
//! K-th). Where a pass claims to keep bits, NaN, infinities and zeros of both signs are among the inputs.

use std::path::{Path, PathBuf};

use relax_driver::{InferOptions, PassConfig, ReadOptions, Session, Silent, check, run_pipeline};
use relax_interp::{Interp, Value};
use relax_ir::{DTy, Module, Type};
use relax_tensor::Tensor;
use relax_testkit::{Features, Rng, agree, program, same};

/// How near results have to be.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Keeps {
    /// Bit for bit, all NaNs being one.
    Bits,
    /// Up to rounding: the pass computes in another order.
    Rounding,
    /// Bit for bit, and types may become more precise.
    Values,
    /// The pass changes what is computed on purpose.
    Types,
    /// A gradient has another type.
    Nothing,
}

/// What a pass keeps beyond the default ([`Keeps::Bits`]), and why.
const KEEPS: &[(&str, Keeps)] = &[
    // Neutral operands, sums of constants.
    ("simplify-expr", Keeps::Rounding),
    ("simplify-inference", Keeps::Rounding),
    ("fold-scale-axis", Keeps::Rounding),
    ("combine-parallel-dense", Keeps::Rounding),
    ("combine-parallel-conv2d", Keeps::Rounding),
    ("combine-parallel-batch-matmul", Keeps::Rounding),
    ("flatten-atrous-conv", Keeps::Rounding),
    ("convert-layout", Keeps::Rounding),
    // Less precise by design; held by tests of their own.
    ("fast-math", Keeps::Types),
    ("to-mixed-precision", Keeps::Nothing),
    // Unknown extents become known.
    ("dynamic-to-static", Keeps::Values),
    ("relay-to-relax", Keeps::Values),
    ("gradient", Keeps::Nothing),
];

/// Whether a pass claims that a second run changes nothing: its entry says so.
fn idempotent(pass: &str) -> bool {
    relax_passes::find(pass).is_some_and(|p| p.contract.idempotent)
}

fn keeps(pass: &str) -> Keeps {
    let found = KEEPS.iter().find(|k| k.0 == pass);
    found.map_or(Keeps::Bits, |k| k.1)
}

/// Pipelines that are held like passes: what the last one treats, the others make.
const TOGETHER: [&str; 1] = ["legalize,lower-shapes,plan-memory"];

fn passes() -> Vec<&'static str> {
    let only = std::env::var("RELAX_PASS").ok();
    let all = relax_passes::all().into_iter().map(|p| p.name);
    all.chain(TOGETHER)
        .filter(|n| only.as_deref().is_none_or(|o| o == *n))
        .collect()
}

/// How many seeds are tried: `RELAX_SEEDS` overrules.
fn seeds(default: u64) -> u64 {
    let set = std::env::var("RELAX_SEEDS").ok();
    set.and_then(|s| s.parse().ok()).unwrap_or(default)
}

struct Case {
    name: String,
    session: Session,
    module: Module,
    text: String,
}

impl Case {
    /// Reads and checks a text; `None` when it has errors.
    fn read(name: &str, text: &str) -> Option<Case> {
        let mut session = Session::new(ReadOptions::default());
        let (mut module, diagnostics) = session.read(name, text.as_bytes().to_vec());
        if diagnostics.has_errors() {
            return None;
        }
        let (_, diagnostics) = check(&mut module, &InferOptions::default());
        (!diagnostics.has_errors()).then(|| Case {
            name: name.to_owned(),
            session,
            module,
            text: text.to_owned(),
        })
    }

    /// After a pipeline.
    fn after(&mut self, pipeline: &str) -> Result<Module, String> {
        let steps = self
            .session
            .pipeline(pipeline)
            .map_err(|d| format!("{d:?}"))?;
        let mut m = self.module.clone();
        let outcome = run_pipeline(&steps, &mut m, &PassConfig::default(), &mut Silent);
        match outcome.failure {
            // A refusal with a reason is an answer; a broken module is not.
            Some((_, errors))
                if errors
                    .iter()
                    .all(|d| d.code == relax_passes::codes::UNSUPPORTED) =>
            {
                Err(String::new())
            }
            Some((_, errors)) => Err(errors.iter().map(|d| format!("{}\n", d.message)).collect()),
            None => Ok(m),
        }
    }

    /// The outcome of `@main`; errors of the program at run time are outcomes too.
    fn run(m: &Module, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
        let mut m = m.clone();
        let (typing, diagnostics) = check(&mut m, &InferOptions::default());
        if let Some(d) = diagnostics.iter().find(|d| d.is_error()) {
            return Err(format!("not typed: {}", d.message));
        }
        let entry = m.global("main").ok_or("no @main")?;
        let inputs = inputs.iter().map(|t| Value::from(t.clone())).collect();
        let value = Interp::new(&m, &typing)
            .run(entry, inputs)
            .map_err(|d| d.message.to_string())?;
        value.flatten().ok_or_else(|| "no tensors".to_owned())
    }

    fn main_type(m: &Module) -> Option<String> {
        let mut m = m.clone();
        let (typing, _) = check(&mut m, &InferOptions::default());
        let main = m.global("main")?;
        Some(m.show_type(typing.globals[main]).to_string())
    }
}

/// What is wrong with a pass on a program.
fn mistake(case: &mut Case, pass: &str, inputs: Option<&[Tensor]>, keep: Keeps) -> Option<String> {
    let after = match case.after(pass) {
        Ok(after) => after,
        Err(reason) if reason.is_empty() => return None,
        Err(reason) => return Some(reason),
    };
    if keep != Keeps::Nothing {
        let (old, new) = (Case::main_type(&case.module), Case::main_type(&after));
        if old != new && keep != Keeps::Values {
            return Some(format!("the type was {old:?} and is {new:?}"));
        }
        if let Some(inputs) = inputs {
            let (old, new) = (Case::run(&case.module, inputs), Case::run(&after, inputs));
            let equal = match (&old, &new) {
                (Ok(old), Ok(new)) => {
                    old.len() == new.len()
                        && old.iter().zip(new).all(|(a, b)| match keep {
                            Keeps::Bits | Keeps::Values => same(a, b),
                            Keeps::Rounding => agree(a, b, 1e-3, 1e-3),
                            _ => true,
                        })
                }
                (Err(_), _) => true,
                (Ok(_), Err(_)) => false,
            };
            if !equal {
                return Some(format!("computed {old:?} and now {new:?}"));
            }
        }
    }
    if idempotent(pass) {
        let mut again = Case {
            name: case.name.clone(),
            session: Session::new(ReadOptions::default()),
            module: after.clone(),
            text: String::new(),
        };
        match again.after(pass) {
            Ok(second) => {
                let difference = relax_driver::difference(&after, &second, Default::default());
                if let Some(difference) = difference {
                    return Some(format!("a second run changes it: {}", difference.text));
                }
            }
            Err(reason) if reason.is_empty() => {}
            Err(reason) => return Some(format!("second run: {reason}")),
        }
    }
    None
}

fn hold(features: &Features, approximate: bool, count: u64) {
    let mut wrong = Vec::new();
    for seed in 0..count {
        let p = program(seed, features);
        let mut case = Case::read(&format!("seed {seed}"), &p.text).expect("programs check");
        let inputs: Vec<Tensor> = p.inputs.into_iter().map(|i| i.1).collect();
        for pass in passes() {
            let keep = keeps(pass);
            // What may round differently is only looked at where rounding stays small.
            let compare = approximate || matches!(keep, Keeps::Bits | Keeps::Values);
            let inputs = compare.then_some(&inputs[..]);
            if let Some(reason) = mistake(&mut case, pass, inputs, keep) {
                wrong.push(format!("{pass} on {}: {reason}\n{}", case.name, case.text));
            }
        }
    }
    let shown: Vec<&str> = wrong.iter().take(3).map(String::as_str).collect();
    let heads: Vec<String> = wrong
        .iter()
        .map(|w| {
            w.lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(160)
                .collect()
        })
        .collect();
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
    hold(&Features::ALL, false, seeds(12));
}

#[test]
fn passes_hold_on_random_tensor_programs() {
    hold(&Features::TENSORS, false, seeds(12));
}

#[test]
fn passes_hold_on_smooth_random_programs() {
    hold(&Features::SMOOTH, true, seeds(12));
}

/// Inputs for a `@main` of tensors, dimension variables being 2; `None` where it takes others. Every third
/// number is a special one, if `special`.
fn inputs(m: &Module, seed: u64, special: bool) -> Option<Vec<Tensor>> {
    let mut typed = m.clone();
    let (typing, _) = check(&mut typed, &InferOptions::default());
    let func = typed.global_func(typed.global("main")?)?;
    let mut rng = Rng::new(seed);
    let mut all = Vec::new();
    let mut bytes = 0;
    for &p in &typed.funcs[func].params {
        let Type::Tensor(t) = &typed.types[typing.vars[p]] else {
            return None;
        };
        let DTy::Known(dtype) = t.dtype else {
            return None;
        };
        let shape: Vec<i64> = (t.shape.dims()?.iter())
            .map(|d| d.as_const().unwrap_or(2))
            .collect();
        bytes += Tensor::byte_len(dtype, &shape)?;
        // The reference evaluator is slow on real models.
        if bytes > 1 << 14 {
            return None;
        }
        let mut value = Tensor::zeros(dtype, &shape);
        for i in 0..value.len() {
            if special && dtype.is_float() && rng.below(3) == 0 {
                let all = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0];
                value.set_f64(i, all[rng.below(5)]);
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

fn texts(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            texts(&path, out);
        } else if path.extension().is_some_and(|e| e == "relay") {
            out.push(path);
        }
    }
    out.sort();
}

/// Programs made to be long: lists of millions of cells, recursion to great depths.
const LONG: [&str; 3] = [
    "long_list.relay",
    "deep_recursion.relay",
    "tree_lstm_large.relay",
];

/// Faults that are known and not mended yet: the pass, the file, and what goes wrong.
const KNOWN: [(&str, &str, &str); 1] = [(
    "to-mixed-precision",
    "values.relay",
    "it keeps the type of a local function that is used at several types, whose body changes",
)];

fn modules(dir: &Path) {
    let mut files = Vec::new();
    texts(dir, &mut files);
    let step = std::env::var("RELAX_SAMPLE").ok();
    let step = step.and_then(|s| s.parse().ok()).unwrap_or(1).max(1);
    let files = files.into_iter().step_by(step);
    let mut wrong = Vec::new();
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        let source = text
            .find("\n// expect:")
            .map_or(&text[..], |at| &text[..at + 1]);
        let Some(mut case) = Case::read(&file.display().to_string(), source) else {
            continue;
        };
        // The evaluator takes seconds for these, once per pass: only their form and types are held.
        let long = file.components().any(|c| c.as_os_str() == "models")
            || LONG.iter().any(|name| file.ends_with(name));
        let plain = inputs(&case.module, 1, false).filter(|_| !long);
        let special = inputs(&case.module, 2, true).filter(|_| !long);
        for pass in passes() {
            // What computes in another order may give NaN where an infinity was.
            let exact = matches!(keeps(pass), Keeps::Bits | Keeps::Values);
            let inputs = if exact { &special } else { &plain }.as_deref();
            let fault = (KNOWN.iter()).find(|(p, name, _)| *p == pass && file.ends_with(name));
            if let Some((_, name, why)) = fault {
                println!("left out: {pass} on {name}: {why}");
                continue;
            }
            if let Some(reason) = mistake(&mut case, pass, inputs, keeps(pass)) {
                let reason: String = reason.chars().take(300).collect();
                wrong.push(format!("{pass} on {}: {reason}", case.name));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} mistakes:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn passes_hold_on_the_modules_of_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    modules(&root.join("tests"));
    modules(&root.join("examples"));
}

#[test]
fn passes_hold_on_other_modules() {
    if let Some(dir) = std::env::var_os("RELAX_MODULES") {
        modules(Path::new(&dir));
    }
}
