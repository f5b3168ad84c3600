//! Extents typed as `?` are checked at each call: for every operator, the value cases of
//! `tests/ops/` are called with random extents behind `?`. If the operator rejects these extents as
//! constants, both engines reject them with the same message; otherwise both compute the same.

#[allow(dead_code)] // Each test file uses a part of it.
#[path = "../../relax/tests/op_cases/mod.rs"]
mod op_cases;

use libtest_mimic::Failed;
use op_cases::{Case, Kind, checked, each_operator, filled, known, module_of, path_of, read};
use relax::{ReadOptions, Session};
use relax_base::Diagnostics;
use relax_cli::{evaluator, native};
use relax_codegen::{Host, Jit};
use relax_ops::OpDef;
use relax_tensor::DType;
use relax_testkit::{Rng, alike};

/// Operators whose relations are stricter than their computations: extents that they reject as
/// constants are accepted as `?`.
const LENIENT: &[(&str, &str)] = &[];

/// Operators with a case that has no native form once extents are `?`, and why. No others are
/// exempt.
const NOT_NATIVE: &[(&str, &str)] = &[
    ("bitwise_and", BITS),
    ("bitwise_or", BITS),
    ("bitwise_xor", BITS),
    ("left_shift", BITS),
    ("right_shift", BITS),
    ("sparse_to_dense", LENGTH),
    ("dyn.sparse_to_dense", LENGTH),
    ("strided_set", LENGTH),
    ("unravel_index", LENGTH),
    ("vm.reshape_tensor", LENGTH),
    ("nn.contrib_conv2d_winograd_weight_transform", WINOGRAD),
    ("nn.contrib_conv3d_winograd_weight_transform", WINOGRAD),
];

const BITS: &str =
    "floats have types here, as in TVM, and no bits: the evaluator refuses them as well";
const LENGTH: &str =
    "a vector that stands for indices or extents has as many elements as the program has loops";
const WINOGRAD: &str = "the matrices of the transform follow from the kernel's extents";

/// The pipelines before code generation.
const PIPELINES: [&str; 2] = ["O0", "O2"];

/// The number of random calls of each case.
const TRIES: usize = 10;
/// The limit on elements of tensors in random calls.
const LARGEST: i64 = 5_000;

fn main() {
    each_operator(run)
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
}

/// Compiles a module; the error says why it has no native form.
fn compiled(text: &str, pipeline: &str) -> Result<Jit, Diagnostics> {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, _) = session.read("case.relay", text.to_owned().into_bytes());
    let typing = native::optimise(&mut session, &mut module, pipeline)?;
    let entry = module.global("main").expect("the pipeline keeps it");
    let lowered = native::lower(&module, &typing, &[entry], &session.sources)?;
    native::jit(&lowered)
}

/// Records the modules without a native form, and why.
fn check(
    op: &OpDef,
    items: &str,
    case: &Case,
    random: &mut Rng,
    left: &mut Vec<String>,
) -> Result<(), String> {
    let fixed = checked(module_of(items, &case.call, &case.typed()));
    if fixed.has_errors() {
        return Ok(());
    }
    let mut parts = Vec::new();
    for (p, ty) in case.params.iter().zip(fixed.params()) {
        let (Some((dtype, shape)), Some(elements)) = (known(&fixed.module, ty), &p.elements) else {
            return Ok(());
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
        return Ok(());
    }
    let (whole, mut some) = (open.clone(), open);
    some.retain(|_| random.chance(50));
    for open in [whole, some] {
        let text = text(&open);
        let unknown = checked(text.clone());
        let mut code = Vec::new();
        for pipeline in PIPELINES {
            match compiled(&text, pipeline) {
                Ok(jit) => code.push((pipeline, jit)),
                Err(why) => {
                    let why = why.iter().find(|d| d.is_error()).map(|d| d.message.clone());
                    left.push(format!("{pipeline}: {}\n{text}", why.unwrap_or_default()));
                }
            }
        }
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
                .map(|(p, s)| filled(p.dtype, s, &p.elements))
                .collect::<Result<Vec<_>, _>>()?;
            let entry = unknown.module.global("main").ok_or("no @main")?;
            let typing = unknown.typing.as_ref().ok_or("no types")?;
            let expected = evaluator::run(&unknown.module, typing, entry, &inputs);
            let lenient = LENIENT.iter().any(|l| l.0 == op.name);
            for (pipeline, jit) in &code {
                let found = Host::new(1).and_then(|host| host.call(jit, "main", &inputs));
                let found = found.map_err(|e| e.to_string());
                let told = || {
                    format!(
                        "{text}\nwith {shapes:?}, {pipeline}\nevaluator: {expected:?}\nnative: {found:?}"
                    )
                };
                if constant.has_errors() && !lenient && (expected.is_ok() || found.is_ok()) {
                    let why = constant.all_shown();
                    let told = told();
                    return Err(format!(
                        "is refused as constants, and computed:\n{told}\n{why}"
                    ));
                }
                match (&expected, &found) {
                    (Ok(a), Ok(b)) if alike(a, b) => {}
                    // Messages about extents are equal, unless passes have replaced operators;
                    // other faults depend on the order of evaluation.
                    (Err(a), Err(b)) if a.code.0 != 1101 || b.ends_with(&a.message) => {}
                    (Err(_), Err(_)) if *pipeline != "O0" => {}
                    (Err(_), Err(_)) => {
                        return Err(format!("is refused in other words:\n{}", told()));
                    }
                    _ => return Err(format!("differs:\n{}", told())),
                }
            }
        }
    }
    Ok(())
}

fn run(op: &OpDef) -> Result<(), Failed> {
    let file = read(&path_of(op.name))?;
    let mut random = Rng::new(0x9E37_79B9);
    // Which element a maximum returns if one is NaN depends on their order.
    let plain = |c: &&Case| {
        let nan = |e: &String| e.contains("nan");
        c.kind == Kind::Value && !c.params.iter().filter_map(|p| p.elements.as_ref()).any(nan)
    };
    let mut left = Vec::new();
    for case in file.cases.iter().filter(plain) {
        check(op, &file.items, case, &mut random, &mut left)?;
    }
    let why = NOT_NATIVE.iter().find(|n| n.0 == op.name).map(|n| n.1);
    match (left.as_slice(), why) {
        ([_, ..], None) => Err(format!("no native form:\n{}", left.join("\n")).into()),
        ([], Some(_)) => Err("the operator is no exception any more".into()),
        _ => Ok(()),
    }
}
