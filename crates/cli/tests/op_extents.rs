//! Extents that typing knows as `?` are checked when a call is made: for every operator, the value cases of
//! `tests/ops/` are called with random extents behind `?`. Where the operator refuses such extents as constants,
//! both engines refuse them, with the same words; elsewhere both compute the same.

#[allow(dead_code)] // Each test file uses its part.
#[path = "../../driver/tests/op_cases/mod.rs"]
mod op_cases;

use libtest_mimic::{Arguments, Failed, Trial};
use op_cases::{Case, Kind, checked, known, module_of, path_of, read, tensor};
use relax_cli::{evaluator, native};
use relax_codegen::{Host, Jit, Value};
use relax_driver::{ReadOptions, Session};
use relax_ops::{OpDef, registry};
use relax_tensor::{DType, Tensor};
use relax_testkit::{Rng, agree};

/// Operators whose relations ask for more than their computations need: extents that they refuse as
/// constants are computed when they are `?`.
const LENIENT: &[(&str, &str)] = &[];

/// How many random calls of each case are tried.
const TRIES: usize = 10;
/// No tensor of a random call has more elements than this.
const LARGEST: i64 = 5_000;

fn main() {
    let args = Arguments::from_args();
    let ops = registry().iter().map(|(_, op)| op);
    let trials = ops
        .filter(|op| op.compute.is_some() && !op.inputs.is_empty())
        .map(|op| Trial::test(op.name, || run(op)))
        .collect();
    libtest_mimic::run(&args, trials).exit();
}

struct Part {
    name: String,
    dtype: DType,
    shape: Vec<i64>,
    elements: String,
}

impl Part {
    fn ty(&self, dims: impl Fn(usize) -> String) -> (String, String) {
        let dims: String = (0..self.shape.len()).map(|k| dims(k) + ", ").collect();
        (
            self.name.clone(),
            format!("Tensor[({dims}), {}]", self.dtype),
        )
    }
    /// The case's elements, again and again.
    fn filled(&self, shape: &[i64]) -> Result<Tensor, String> {
        let text = &self.elements;
        if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'))
            && !inner.ends_with("...")
        {
            let rest = if inner.trim().is_empty() { "1" } else { inner };
            return tensor(self.dtype, shape, &format!("[{rest}, ...]"));
        }
        tensor(self.dtype, shape, text)
    }
}

/// Code for a module, or `None` where native code has no such form (a rank that is not known).
fn compiled(text: &str, pipeline: &str) -> Option<Jit> {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, _) = session.read("case.relay", text.to_owned().into_bytes());
    let typing = native::optimise(&mut session, &mut module, pipeline).ok()?;
    let entry = module.global("main")?;
    let lowered = native::lower(&module, &typing, &[entry], &session.sources).ok()?;
    native::jit(&lowered).ok()
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

/// The number of calls that were compared, and of those that were refused.
fn check(op: &OpDef, items: &str, case: &Case, random: &mut Rng) -> Result<(usize, usize), String> {
    let fixed = checked(module_of(items, &case.call, &case.typed()));
    if fixed.has_errors() {
        return Ok((0, 0));
    }
    let mut parts = Vec::new();
    for (p, ty) in case.params.iter().zip(fixed.params()) {
        let (Some((dtype, shape)), Some(elements)) = (known(&fixed.module, ty), &p.elements) else {
            return Ok((0, 0));
        };
        let (name, elements) = (p.name.clone(), elements.clone());
        parts.push(Part {
            name,
            dtype,
            shape,
            elements,
        });
    }
    // Extents that may be `?`.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let text = |open: &[(usize, usize)]| {
        let typed: Vec<_> = (parts.iter().enumerate())
            .map(|(i, p)| {
                p.ty(|k| match open.contains(&(i, k)) {
                    true => "?".into(),
                    false => p.shape[k].to_string(),
                })
            })
            .collect();
        module_of(items, &case.call, &typed)
    };
    for (i, p) in parts.iter().enumerate() {
        for k in 0..p.shape.len() {
            open.push((i, k));
            let tried = checked(text(&open));
            if !tried.diagnostics.is_empty() || tried.result().is_none() {
                open.pop();
            }
        }
    }
    if open.is_empty() {
        return Ok((0, 0));
    }
    let (whole, mut some) = (open.clone(), open);
    some.retain(|_| random.chance(50));
    let mut done = (0, 0);
    for open in [whole, some] {
        let text = text(&open);
        let unknown = checked(text.clone());
        let Some(jit) = compiled(&text, "O0") else {
            continue;
        };
        for _ in 0..TRIES {
            let mut shapes: Vec<Vec<i64>> = parts.iter().map(|p| p.shape.clone()).collect();
            for _ in 0..random.below(3) {
                let Some(&(i, k)) = open.get(random.below(open.len().max(1))) else {
                    continue;
                };
                shapes[i][k] = match random.below(4) {
                    0 => shapes[i][k] + 1,
                    1 => (shapes[i][k] - 1).max(1),
                    2 => 1,
                    _ => shapes[i][k] * 2,
                };
            }
            if shapes.iter().any(|s| s.iter().product::<i64>() > LARGEST) {
                continue;
            }
            let typed: Vec<_> = (parts.iter().zip(&shapes))
                .map(|(p, s)| p.ty(|k| s[k].to_string()))
                .collect();
            let constant = checked(module_of(items, &case.call, &typed));
            let inputs = (parts.iter().zip(&shapes))
                .map(|(p, s)| p.filled(s))
                .collect::<Result<Vec<_>, _>>()?;
            let entry = unknown.module.global("main").ok_or("no @main")?;
            let typing = unknown.typing.as_ref().ok_or("no types")?;
            let expected = evaluator::run(&unknown.module, typing, entry, &inputs);
            let host = Host::new(1)?;
            let found = host.call(&jit, "main", &inputs);
            let told =
                || format!("{text}\nwith {shapes:?}\nevaluator: {expected:?}\nnative: {found:?}");
            let lenient = LENIENT.iter().any(|l| l.0 == op.name);
            if constant.has_errors() && !lenient && (expected.is_ok() || found.is_ok()) {
                let why = constant.all_shown();
                return Err(format!(
                    "is refused as constants, and computed:\n{}\n{why}",
                    told()
                ));
            }
            match (&expected, &found) {
                (Ok(a), Ok(b)) if same(a, b) => done.0 += 1,
                (Err(a), Err(b)) => {
                    // What is about extents is said alike; other faults depend on the order of things.
                    if a.code.0 == 1101 && !b.ends_with(&a.message) {
                        return Err(format!("is refused in other words:\n{}", told()));
                    }
                    done.1 += 1;
                }
                _ => return Err(format!("differs:\n{}", told())),
            }
        }
    }
    Ok(done)
}

fn run(op: &OpDef) -> Result<(), Failed> {
    let file = read(&path_of(op.name))?;
    let mut random = Rng::new(0x9E37_79B9);
    // Which of two elements a maximum takes where one is NaN depends on their order.
    let plain = |c: &&Case| {
        let nan = |e: &String| e.contains("nan");
        c.kind == Kind::Value && !c.params.iter().filter_map(|p| p.elements.as_ref()).any(nan)
    };
    for case in file.cases.iter().filter(plain) {
        check(op, &file.items, case, &mut random)?;
    }
    Ok(())
}
