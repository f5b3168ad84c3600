//! Exported ONNX models read back and compute the same: the value cases of `tests/ops/` of all
//! operators with an ONNX form, and programs with branches, loops, functions and symbolic extents.

#[allow(dead_code)] // Each test file uses a part of it.
mod op_cases;

use libtest_mimic::{Arguments, Failed, Trial};
use op_cases::{Kind, checked, inputs, module_of, path_of, read};
use relax::{Module, ReadOptions, Tensor, Value};
use relax_ops::registry;

fn main() {
    let args = Arguments::from_args();
    let mut trials: Vec<Trial> = relax_onnx::export::exported()
        .filter(|name| registry().find(name).is_some())
        .map(|name| Trial::test(name, move || operator(name)))
        .collect();
    for (name, text) in PROGRAMS {
        trials.push(Trial::test(format!("program {name}"), || program(text)));
    }
    for (name, text, said) in REFUSED {
        trials.push(Trial::test(format!("refused {name}"), || {
            refused(text, said)
        }));
    }
    libtest_mimic::run(&args, trials).exit();
}

/// Operators without an exportable value case, and why.
const NO_CASE: &[(&str, &str)] = &[("device_copy", "has no value case: it names devices")];

fn operator(name: &str) -> Result<(), Failed> {
    let file = read(&path_of(name))?;
    let mut written = 0;
    let mut why = Vec::new();
    for case in file.cases.iter().filter(|c| c.kind == Kind::Value) {
        let text = module_of(&file.items, &case.call, &case.typed());
        let c = checked(text.clone());
        if c.run(&inputs(case, &c)?).is_err() {
            continue;
        }
        match again(&text, inputs(case, &c)?) {
            Ok(()) => written += 1,
            Err(Unequal::Refused(said)) => why.push(said),
            Err(Unequal::Differs(what)) => return Err(format!("{text}\n{what}").into()),
        }
    }
    let excused = NO_CASE.iter().any(|(n, _)| *n == name);
    match written == 0 && !excused {
        true => Err(format!("no case could be written: {why:?}").into()),
        false => Ok(()),
    }
}

enum Unequal {
    Refused(String),
    Differs(String),
}

/// Exports a program, reads it back, and compares the results.
fn again(text: &str, inputs: Vec<Tensor>) -> Result<(), Unequal> {
    let module = Module::parse(text).map_err(|e| Unequal::Differs(e.to_string()))?;
    let bytes = module
        .to_onnx("main")
        .map_err(|e| Unequal::Refused(e.to_string()))?;
    let differs = |e: relax::Error| Unequal::Differs(e.to_string());
    let other = Module::read("again.onnx", bytes, ReadOptions::default()).map_err(differs)?;
    let inputs: Vec<Value> = inputs.into_iter().map(Value::Tensor).collect();
    let wanted = module.evaluate("main", &inputs).map_err(differs)?;
    let found = other.evaluate("main", &inputs).map_err(differs)?;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    leaves(&wanted, &mut a);
    leaves(&found, &mut b);
    // A single output is not a tuple.
    match a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| close(a, b)) {
        true => Ok(()),
        false => Err(Unequal::Differs(format!("{wanted:?}\nis not\n{found:?}"))),
    }
}

fn leaves(v: &Value, out: &mut Vec<Tensor>) {
    match v {
        Value::Tensor(t) => out.push(t.clone()),
        Value::Tuple(fields) | Value::Adt(_, fields) => fields.iter().for_each(|f| leaves(f, out)),
        Value::Opaque(_) => {}
    }
}

/// Returns whether two tensors are close. ONNX's `Clip` propagates NaN.
fn close(a: &Tensor, b: &Tensor) -> bool {
    if a.dtype() != b.dtype() || a.shape() != b.shape() {
        return false;
    }
    // Other operators round elsewhere: half-precision floats are compared coarsely.
    let share = if a.dtype().size() == 2 { 4e-3 } else { 1e-4 };
    let near = |x: f64, y: f64| x == y || (x - y).abs() <= share * (1.0 + y.abs());
    (0..a.len()).all(|i| {
        let (x, y) = (a.get_f64(i), b.get_f64(i));
        y.is_nan() || near(x, y)
    })
}

/// Programs with one parameter, a vector of three elements.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "branches in branches",
        "def @main(%x: Tensor[(3,), float32]) {
           let %big = greater(max(%x), 2.0f);
           if (%big) {
             if (less(min(%x), 0.0f)) { (%x, sum(%x)) } else { (%x + %x, 1.0f) }
           } else { (negative(%x), 0.0f) }
         }",
    ),
    (
        "a loop by a local function",
        "def @main(%x: Tensor[(3,), float32]) {
           let %f = fn (%i: int32, %y: Tensor[(3,), float32]) -> Tensor[(3,), float32] {
             if (less(%i, 5)) { %f(%i + 1, %y * 0.5f) } else { %y }
           };
           %f(0, %x)
         }",
    ),
    (
        "a loop that goes on where the condition is false, with a tuple",
        "def @step(%s: (int32, Tensor[(3,), float32])) -> (int32, Tensor[(3,), float32]) {
           let %i = %s.0;
           if (equal(%i, 0i32)) { %s } else { @step((%i - 1, %s.1 + %s.1)) }
         }
         def @main(%x: Tensor[(3,), float32]) { @step((4, %x)).1 }",
    ),
    (
        "loops in each other",
        "def @inner(%n: int32, %y: Tensor[(3,), float32]) -> Tensor[(3,), float32] {
           if (greater(%n, 0)) { @inner(%n - 1, tanh(%y)) } else { %y }
         }
         def @outer(%n: int32, %y: Tensor[(3,), float32]) -> Tensor[(3,), float32] {
           if (greater(%n, 0)) { @outer(%n - 1, @inner(%n, %y) * 2.0f) } else { %y }
         }
         def @main(%x: Tensor[(3,), float32]) { @outer(3, %x) }",
    ),
    (
        "functions that are called twice",
        "def @twice(%a: Tensor[(n,), float32]) -> Tensor[(n,), float32] { %a * 2.0f }
         def @main(%x: Tensor[(3,), float32]) { (@twice(%x), concatenate((@twice(@twice(%x)), %x))) }",
    ),
    (
        "symbolic extents",
        "def @main(%x: Tensor[(n,), float32]) {
           let %y = broadcast_to(%x, shape=[n, n]);
           reshape(concatenate((%y, %y), axis=1), newshape=[n * 2, n])
         }",
    ),
    (
        "a group of operators",
        "def @main(%x: Tensor[(3,), float32]) {
           let %f = fn (%p: Tensor[(3,), float32], Primitive=1) -> Tensor[(3,), float32] { exp(%p) + %p };
           %f(%x)
         }",
    ),
    (
        "an input and a constant as results",
        "def @main(%x: Tensor[(3,), float32]) { (%x, %x, 1.5f) }",
    ),
];

fn program(text: &str) -> Result<(), Failed> {
    let x = Tensor::from_slice(&[3], &[1f32, -2.0, 4.5]);
    match again(text, vec![x]) {
        Ok(()) => Ok(()),
        Err(Unequal::Refused(what) | Unequal::Differs(what)) => Err(what.into()),
    }
}

/// Programs without an ONNX form, and their errors.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "a reference",
        "def @main(%x: float32) { let %r = ref(%x); ref_read(%r) }",
        "a reference",
    ),
    (
        "a recursion that is no loop",
        "def @fib(%n: int32) -> int32 { if (less(%n, 2)) { %n } else { @fib(%n - 1) + @fib(%n - 2) } }
         def @main(%x: int32) { @fib(%x) }",
        "a function that calls itself other than as its last step",
    ),
    (
        "an operator",
        "def @main(%x: Tensor[(2, 2), float32]) { nn.mirror_pad(%x, pad_width=[[1, 1], [1, 1]]) }",
        "a mirror that repeats the border",
    ),
];

fn refused(text: &str, said: &str) -> Result<(), Failed> {
    let module = Module::parse(text).map_err(|e| e.to_string())?;
    match module.to_onnx("main") {
        Ok(_) => Err("it is written".into()),
        Err(e) if e.to_string().contains(said) => Ok(()),
        Err(e) => Err(format!("the error is another one: {e}").into()),
    }
}
