//! Gradients against finite differences: of every operator that has one, and of whole programs.

use std::collections::BTreeSet;

use relax::{InferOptions, PassConfig, ReadOptions, Session, Silent, check, run_pipeline};
use relax_interp::{Interp, Value};
use relax_ir::{Module, Type};
use relax_tensor::Tensor;
use relax_testkit::Rng;

const X: &str = "%x: Tensor[(2, 3), float64]";
const XY: &str = "%x: Tensor[(2, 3), float64], %y: Tensor[(2, 3), float64]";
const ROW: &str = "%x: Tensor[(2, 3), float64], %y: Tensor[(3,), float64]";
const IMAGE: &str = "%x: Tensor[(1, 2, 4, 4), float64]";

/// Operators with their parameters and a call: elements lie between 0.2 and 0.9, where all of them
/// are smooth. Every operator with a gradient must be listed.
const CALLS: &[(&str, &str, &str)] = &[
    ("log", X, "log(%x)"),
    ("log2", X, "log2(%x)"),
    ("log10", X, "log10(%x)"),
    ("tan", X, "tan(%x)"),
    ("cos", X, "cos(%x)"),
    ("cosh", X, "cosh(%x)"),
    ("sin", X, "sin(%x)"),
    ("sinh", X, "sinh(%x)"),
    ("acos", X, "acos(%x)"),
    ("acosh", X, "acosh(add(%x, 1f64))"),
    ("asin", X, "asin(%x)"),
    ("asinh", X, "asinh(%x)"),
    ("atan", X, "atan(%x)"),
    ("atanh", X, "atanh(%x)"),
    ("exp", X, "exp(%x)"),
    ("sqrt", X, "sqrt(%x)"),
    ("rsqrt", X, "rsqrt(%x)"),
    ("erf", X, "erf(%x)"),
    ("sigmoid", X, "sigmoid(%x)"),
    ("tanh", X, "tanh(%x)"),
    ("negative", X, "negative(%x)"),
    ("abs", X, "abs(subtract(%x, 0.55f64))"),
    ("copy", X, "copy(%x)"),
    ("annotation.checkpoint", X, "annotation.checkpoint(exp(%x))"),
    (
        "relax.grad.start_checkpoint",
        X,
        "relax.grad.start_checkpoint(exp(%x))",
    ),
    (
        "relax.grad.end_checkpoint",
        X,
        "relax.grad.end_checkpoint(exp(%x))",
    ),
    (
        "clip",
        X,
        "clip(multiply(%x, %x), a_min=0.1f64, a_max=0.5f64)",
    ),
    ("nn.relu", X, "nn.relu(subtract(%x, 0.55f64))"),
    ("add", ROW, "add(%x, %y)"),
    ("subtract", ROW, "subtract(%y, %x)"),
    ("multiply", ROW, "multiply(%x, %y)"),
    ("divide", ROW, "divide(%x, %y)"),
    ("power", ROW, "power(%x, %y)"),
    ("maximum", XY, "maximum(%x, %y)"),
    ("minimum", XY, "minimum(%x, %y)"),
    (
        "zeros",
        X,
        "add(%x, zeros(shape=[2, 3], dtype=\"float64\"))",
    ),
    (
        "ones",
        X,
        "multiply(%x, ones(shape=[2, 3], dtype=\"float64\"))",
    ),
    (
        "full",
        X,
        "multiply(%x, full(2f64, shape=[2, 3], dtype=\"float64\"))",
    ),
    (
        "arange",
        "%x: Tensor[(3,), float64]",
        "multiply(%x, arange(0f64, 3f64, 1f64, start=None, stop=None, step=None, dtype=\"float64\"))",
    ),
    ("zeros_like", X, "add(%x, zeros_like(%x))"),
    ("ones_like", X, "multiply(%x, ones_like(%x))"),
    (
        "collapse_sum_like",
        ROW,
        "multiply(collapse_sum_like(exp(%x), %y), %y)",
    ),
    (
        "collapse_sum_to",
        X,
        "exp(collapse_sum_to(%x, cast(full(3f64, shape=[1], dtype=\"float64\"), dtype=\"int32\"), shape=[3]))",
    ),
    (
        "broadcast_to",
        "%x: Tensor[(3,), float64]",
        "exp(broadcast_to(%x, shape=[2, 3]))",
    ),
    (
        "broadcast_to_like",
        "%x: Tensor[(3,), float64], %y: Tensor[(2, 3), float64]",
        "multiply(broadcast_to_like(%x, %y), %y)",
    ),
    (
        "relax.nn.max_pool2d",
        IMAGE,
        "exp(relax.nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2]))",
    ),
    (
        "nn.max_pool2d",
        IMAGE,
        "exp(nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2]))",
    ),
    (
        "nn.avg_pool2d",
        IMAGE,
        "exp(nn.avg_pool2d(%x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1]))",
    ),
    (
        "nn.global_avg_pool2d",
        IMAGE,
        "exp(nn.global_avg_pool2d(%x))",
    ),
    (
        "concatenate",
        XY,
        "exp(concatenate((%x, multiply(%y, 2f64)), axis=1))",
    ),
    ("stack", XY, "exp(stack((%x, multiply(%y, 2f64)), axis=1))"),
    (
        "split",
        "%x: Tensor[(2, 4), float64]",
        "{ %0 = split(%x, indices_or_sections=2, axis=1); multiply(%0.0, exp(%0.1)) }",
    ),
    (
        "nn.conv2d",
        "%x: Tensor[(1, 2, 5, 5), float64], %y: Tensor[(3, 2, 3, 3), float64]",
        "exp(multiply(nn.conv2d(%x, %y, padding=[1, 1, 1, 1], channels=3, kernel_size=[3, 3]), 0.1f64))",
    ),
    ("max", X, "exp(max(%x, axis=[1]))"),
    ("sum", X, "exp(sum(%x, axis=[1]))"),
    ("mean", X, "exp(mean(%x, axis=[0], keepdims=True))"),
    (
        "variance",
        X,
        "exp(variance(%x, mean(%x, axis=[1], keepdims=True), axis=[1]))",
    ),
    ("nn.softmax", XY, "multiply(nn.softmax(%x, axis=1), %y)"),
    ("nn.log_softmax", XY, "multiply(nn.log_softmax(%x), %y)"),
    ("nn.bias_add", ROW, "exp(nn.bias_add(%x, %y, axis=1))"),
    (
        "nn.dense",
        "%x: Tensor[(2, 3), float64], %y: Tensor[(4, 3), float64]",
        "exp(nn.dense(%x, %y, units=4))",
    ),
    (
        "nn.matmul",
        "%x: Tensor[(2, 3), float64], %y: Tensor[(3, 4), float64]",
        "exp(nn.matmul(%x, %y, units=None))",
    ),
    (
        "relax.matmul",
        "%x: Tensor[(2, 2, 3), float64], %y: Tensor[(3, 4), float64]",
        "exp(relax.matmul(%x, %y))",
    ),
    (
        "nn.batch_matmul",
        "%x: Tensor[(2, 3, 4), float64], %y: Tensor[(2, 5, 4), float64]",
        "exp(nn.batch_matmul(%x, %y, transpose_b=True))",
    ),
    ("nn.cross_entropy", XY, "nn.cross_entropy(%x, %y)"),
    (
        "nn.cross_entropy_with_logits",
        XY,
        "nn.cross_entropy_with_logits(%x, %y)",
    ),
    ("reshape", X, "exp(reshape(%x, newshape=[3, 2]))"),
    (
        "dyn.reshape",
        X,
        "exp(dyn.reshape(%x, cast(full(6f64, shape=[1], dtype=\"float64\"), dtype=\"int32\"), newshape=[6]))",
    ),
    (
        "contrib_reverse_reshape",
        X,
        "exp(contrib_reverse_reshape(%x, newshape=[3, 2]))",
    ),
    (
        "reshape_like",
        "%x: Tensor[(2, 3), float64], %y: Tensor[(3, 2), float64]",
        "multiply(reshape_like(%x, %y), %y)",
    ),
    ("nn.batch_flatten", IMAGE, "exp(nn.batch_flatten(%x))"),
    (
        "transpose",
        XY,
        "multiply(transpose(%x, axes=[1, 0]), transpose(%y, axes=[1, 0]))",
    ),
    (
        "squeeze",
        "%x: Tensor[(2, 1, 3), float64]",
        "exp(squeeze(%x, axis=[1]))",
    ),
    (
        "expand_dims",
        X,
        "exp(expand_dims(%x, axis=1, num_newaxis=2))",
    ),
    ("cast", X, "exp(cast(%x, dtype=\"float64\"))"),
    ("cast_like", XY, "multiply(cast_like(%x, %y), %y)"),
    (
        "take",
        X,
        "exp(take(%x, cast(ones(shape=[2], dtype=\"float64\"), dtype=\"int32\"), axis=1))",
    ),
    (
        "relax.nn.nll_loss",
        X,
        "exp(relax.nn.nll_loss(%x, cast(ones(shape=[2], dtype=\"float64\"), dtype=\"int64\")))",
    ),
    (
        "gather_nd",
        X,
        "exp(gather_nd(%x, cast(ones(shape=[2, 2], dtype=\"float64\"), dtype=\"int32\")))",
    ),
    (
        "where",
        XY,
        "where(less(%x, %y), exp(%x), multiply(%y, %y))",
    ),
    (
        "strided_slice",
        X,
        "exp(strided_slice(%x, begin=[0, 1], end=[2, 3], strides=[1, 1], axes=None))",
    ),
    (
        "one_hot",
        "%on: float64, %off: float64",
        "exp(one_hot(cast(ones(shape=[2], dtype=\"float64\"), dtype=\"int32\"), %on, %off, depth=3, axis=-1, dtype=\"float64\"))",
    ),
];

/// Operators with zero gradient: their results are not functions of floats.
const NOTHING: &[&str] = &[
    "less",
    "greater",
    "equal",
    "not_equal",
    "less_equal",
    "greater_equal",
    "shape_of",
    // The operand only provides the extents.
    "dyn.zeros",
    "dyn.ones",
];

struct Program {
    session: Session,
    module: Module,
}

fn read(text: &str) -> Program {
    read_or(text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

fn read_or(text: &str) -> Result<Program, String> {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, mut diagnostics) = session.read("gradient", text.as_bytes().to_vec());
    diagnostics.extend(check(&mut module, &InferOptions::default()).1);
    let errors: Vec<_> = diagnostics
        .iter()
        .filter(|d| d.is_error())
        .map(|d| &d.message)
        .collect();
    if errors.is_empty() {
        Ok(Program { session, module })
    } else {
        Err(format!("{errors:?}"))
    }
}

fn differentiate(p: &mut Program, pipeline: &str) -> Result<Module, String> {
    let steps = p.session.pipeline(pipeline).expect("a pipeline");
    let mut m = p.module.clone();
    let outcome = run_pipeline(&steps, &mut m, &PassConfig::default(), &mut Silent);
    match outcome.failure {
        Some((_, errors)) => Err(errors.iter().map(|d| format!("{}; ", d.message)).collect()),
        None => Ok(m),
    }
}

fn run(m: &Module, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut m = m.clone();
    let (typing, _) = check(&mut m, &InferOptions::default());
    let inputs = inputs.iter().map(|t| Value::from(t.clone())).collect();
    let value = Interp::new(&m, &typing).run(m.global("main").expect("a main"), inputs);
    let value = value.unwrap_or_else(|d| panic!("{}", d.message));
    value.flatten().expect("tensors")
}

fn inputs(m: &Module, seed: u64) -> Vec<Tensor> {
    let mut typed = m.clone();
    let (typing, _) = check(&mut typed, &InferOptions::default());
    let func = typed
        .global_func(typed.global("main").expect("a main"))
        .expect("a function");
    let mut rng = Rng::new(seed);
    let tensor = |p: &relax_ir::VarId| {
        let Type::Tensor(t) = &typed.types[typing.vars[*p]] else {
            panic!("a parameter is no tensor")
        };
        let dims = t.shape.dims().expect("a known rank").iter();
        let shape: Vec<i64> = dims
            .map(|d| d.as_const().expect("a known extent"))
            .collect();
        let dtype = t.dtype.known().expect("a known element type");
        let mut value = Tensor::zeros(dtype, &shape);
        for i in 0..value.len() {
            if dtype.is_float() {
                value.set_f64(i, 0.2 + 0.7 * rng.unit());
            } else {
                value.set_i64(i, 1 + rng.below(3) as i64);
            }
        }
        value
    };
    typed.funcs[func].params.iter().map(tensor).collect()
}

fn sum(tensors: &[Tensor]) -> f64 {
    let all = tensors
        .iter()
        .flat_map(|t| (0..t.len()).map(|i| t.get_f64(i)));
    all.sum()
}

/// Returns the difference between the gradients of a program and its finite differences.
fn compare(text: &str, pipeline: &str) -> Option<String> {
    let mut p = match read_or(text) {
        Ok(p) => p,
        Err(errors) => return Some(errors),
    };
    let gradient = match differentiate(&mut p, pipeline) {
        Ok(m) => m,
        Err(reason) => return Some(reason),
    };
    let at = inputs(&p.module, 3);
    let results = run(&p.module, &at);
    let found = run(&gradient, &at);
    if found.len() != results.len() + at.len() {
        return Some("another number of results".into());
    }
    for (a, b) in results.iter().zip(&found) {
        if !relax_testkit::agree(a, b, 1e-12, 1e-12) {
            return Some(format!("the result is {b:?}, not {a:?}"));
        }
    }
    const H: f64 = 1e-6;
    for (k, grad) in found[results.len()..].iter().enumerate() {
        if !at[k].dtype().is_float() {
            continue;
        }
        for i in 0..at[k].len() {
            let moved = |by: f64| {
                let mut at = at.clone();
                let value = at[k].get_f64(i);
                at[k].set_f64(i, value + by);
                sum(&run(&p.module, &at))
            };
            let expected = (moved(H) - moved(-H)) / (2.0 * H);
            let got = grad.get_f64(i);
            if (expected - got).abs() > 1e-5 * (1.0 + expected.abs()) {
                return Some(format!(
                    "parameter {k}, element {i}: {got}, but differences give {expected}"
                ));
            }
        }
    }
    None
}

#[test]
fn operators_agree_with_finite_differences() {
    let mut wrong = Vec::new();
    for (name, params, call) in CALLS {
        let text = format!("def @main({params}) {{ {call} }}");
        for mode in ["first-order", "higher-order"] {
            if let Some(reason) = compare(&text, &format!("gradient{{mode={mode}}}")) {
                wrong.push(format!("{name}, {mode}: {reason}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_operator_with_a_gradient_is_tried() {
    let tried: BTreeSet<&str> = CALLS
        .iter()
        .map(|c| c.0)
        .chain(NOTHING.iter().copied())
        .collect();
    let have = relax_ops::registry().iter();
    let missing: Vec<&str> = have
        .filter(|&(op, d)| {
            d.hooks.gradient.is_some() || !relax_resolve::prelude_gradients(op).is_empty()
        })
        .map(|(_, d)| d.name)
        .filter(|n| !tried.contains(n))
        .collect();
    assert!(missing.is_empty(), "no call of {missing:?}");
}

/// Computations of `op` items over the elements of `%x` and `%y`, between 0.2 and 0.9.
const ITEMS: &[&str] = &[
    "%x * 0.5 * (1.0 + erf(%x * 0.7071067811865476)) - %y",
    "select(%x > 0.55, log(1.0 + exp(%y)) * %x, tanh(%y) / %x)",
    "max(%x, %y * 0.99) + min(%x * %y, 0.3) * abs(%x - 0.55)",
    "pow(%x, %y) * sqrt(%y) + rsqrt(%x) * factor",
];

#[test]
fn op_items_agree_with_finite_differences() {
    let mut wrong = Vec::new();
    for item in ITEMS {
        let text = format!(
            "op my.f[s: Shape](%x: Tensor[s, float64], %y: Tensor[s, float64], factor: float64 = 1.5)
               -> Tensor[s, float64] {{ compute {item} }}
             op my.sum(%x: Tensor[(n, c), float64], %y: Tensor[(c,), float64])
               -> Tensor[(n, c), float64] {{ compute [%i, %j] => %x[%i, %j] * %y[%j] }}
             def @main({XY}, %z: Tensor[(3,), float64]) {{ my.sum(my.f(%x, %y, factor=0.25), %z) }}"
        );
        for mode in ["first-order", "higher-order"] {
            if let Some(reason) = compare(&text, &format!("gradient{{mode={mode}}}")) {
                wrong.push(format!("{item}, {mode}: {reason}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the file of the prelude says has no mistakes, and each item is found by its operator.
#[test]
fn all_gradients_of_the_prelude_are_read() {
    let files = relax_resolve::prelude_files();
    let (_, text) = files
        .iter()
        .find(|f| f.0 == "gradients.relay")
        .expect("it is there");
    let written = text.lines().filter(|l| l.starts_with("grad ")).count();
    let program = read(text);
    assert_eq!(program.module.grads.len(), written);
    let ops = relax_ops::registry().iter();
    let found: usize = ops
        .map(|(op, _)| relax_resolve::prelude_gradients(op).len())
        .sum();
    assert_eq!(found, written);
}

/// Operators of the text with a gradient of the text, and a call.
const GRADS: &[(&str, &str)] = &[
    (
        "op my.dot(%x: Tensor[(n, c), float64], %y: Tensor[(c,), float64], by: float64 = 3.0)
           -> Tensor[(n,), float64] { compute [%i] => sum(%k, c, %x[%i, %k] * %y[%k] * by) }
         grad my.dot(%x, %y, by) -> (%z, %g) {
           let %scaled = expand_dims(%g, axis=1) * by;
           (%scaled * %y, sum(%scaled * %x, axis=[0]))
         }",
        "exp(my.dot(%x, %z, by=0.5))",
    ),
    (
        "op my.square[s: Shape](%x: Tensor[s, float64]) -> Tensor[s, float64] { compute %x * %x }
         grad my.square(%x) -> (%y, %g) { %0 = %g * %x; %0 + %0 }",
        "my.square(my.square(%x))",
    ),
    // One item for each value of an attribute.
    (
        "op my.turned[s: Shape](%x: Tensor[s, float64], back: bool = False) -> Tensor[s, float64] {
           compute select(back, 0.0 - %x, %x)
         }
         grad my.turned(%x, back=True) -> (%y, %g) { negative(%g) }
         grad my.turned(%x) -> (%y, %g) { %g }",
        "multiply(my.turned(%x, back=True), my.turned(%y))",
    ),
    // The text's gradients come before the built-in ones: here those of exp, by its result.
    (
        "grad exp(%x) -> (%y, %g) { %g * %y }",
        "exp(multiply(%x, %y))",
    ),
];

#[test]
fn gradients_in_the_text_agree_with_finite_differences() {
    let mut wrong = Vec::new();
    for (items, call) in GRADS {
        let text = format!("{items}\n def @main({XY}, %z: Tensor[(3,), float64]) {{ {call} }}");
        for mode in ["first-order", "higher-order"] {
            if let Some(reason) = compare(&text, &format!("gradient{{mode={mode}}}")) {
                wrong.push(format!("{call}, {mode}: {reason}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What an item says is used, not what the computation implies.
#[test]
fn a_gradient_in_the_text_is_what_the_program_computes() {
    let text =
        "op my.half[s: Shape](%x: Tensor[s, float64]) -> Tensor[s, float64] { compute %x * 0.5 }
                grad my.half(%x) -> (%y, %g) { %g * 7 }
                def @main(%x: float64) { my.half(%x) }";
    let mut p = read(text);
    for mode in ["first-order", "higher-order"] {
        let m = differentiate(&mut p, &format!("gradient{{mode={mode}}}")).expect("has a gradient");
        let x = Tensor::scalar_f64(relax_tensor::DType::F64, 3.0);
        let values: Vec<f64> = run(&m, &[x]).iter().map(|t| t.get_f64(0)).collect();
        assert_eq!(values, [1.5, 7.0], "{mode}");
    }
}

/// Programs that require higher-order differentiation.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "recursion and a branch",
        "def @power(%x: float64, %n: int32) -> float64 {
           if (equal(%n, 0)) { 1f64 } else { multiply(%x, @power(%x, subtract(%n, 1))) }
         }
         def @main(%x: float64, %n: int32) { @power(%x, add(%n, 2)) }",
    ),
    (
        "closures and lists",
        "def @main(%x: float64, %y: Tensor[(3,), float64]) {
           let %f = fn (%a: Tensor[(3,), float64]) -> Tensor[(3,), float64] { multiply(%a, %x) };
           let %l = @map(%f, Cons(%y, Cons(exp(%y), Cons(%f(%y), Nil))));
           @foldl(fn (%s: Tensor[(3,), float64], %a: Tensor[(3,), float64]) { add(multiply(%s, %a), %y) }, %y, %l)
         }",
    ),
    (
        "constructors as functions",
        "def @main(%x: float64) { @hd(@tl(@concat(Cons(%x, Nil), Cons(exp(%x), Cons(%x, Nil))))) }",
    ),
    (
        "references",
        "def @main(%x: float64) {
           let %r = ref(%x);
           let %a = ref_read(%r);
           let %u = ref_write(%r, multiply(%a, %a));
           multiply(ref_read(%r), exp(%x))
         }",
    ),
    (
        "match on data and tuples",
        "type Form { Square, Circle }
         def @area(%s: Form, %x: (float64, float64)) -> float64 {
           match (%s) { Square => multiply(%x.0, %x.1), Circle => multiply(3.14f64, power(%x.0, 2f64)) }
         }
         def @main(%x: float64, %y: float64) { add(@area(Square, (%x, %y)), @area(Circle, (%x, %y))) }",
    ),
    (
        "a value used twice and one not at all",
        "def @main(%x: Tensor[(2, 2), float64], %z: float64) { %0 = exp(%x); add(%0, multiply(%0, %x)) }",
    ),
    (
        "a dataflow block",
        "def @main(%x: Tensor[(2, 2), float64]) { dataflow { %a = exp(%x); %b = multiply(%a, %x); output(%b); }; add(%b, %x) }",
    ),
    (
        "polymorphic functions",
        "def @twice[A](%f: fn (A) -> A, %x: A) -> A { %f(%f(%x)) }
         def @main(%x: float64) { @twice(fn (%y: float64) -> float64 { multiply(%y, exp(%y)) }, %x) }",
    ),
];

#[test]
fn programs_agree_with_finite_differences() {
    let mut wrong = Vec::new();
    for (name, text) in PROGRAMS {
        if let Some(reason) = compare(text, "gradient{mode=higher-order}") {
            wrong.push(format!("{name}: {reason}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_has_no_gradient_is_refused_with_a_reason() {
    for (text, reason) in [
        ("def @main(%x: float64) { floor(%x) }", "`floor` has none"),
        (
            "grad floor(%x) -> (%y, %g) { sum(%g) } def @main(%x: Tensor[(3,), float64]) { floor(%x) }",
            "the gradient of `%x` is of another type than the operand",
        ),
        (
            "grad floor(%x) -> (%y, %g) { reshape(%g, newshape=[7]) }
             def @main(%x: Tensor[(3,), float64]) { floor(%x) }",
            "the operands have no types here that this operator takes",
        ),
        (
            "grad sum(%x, keepdims=True) -> (%y, %g) { broadcast_to_like(%g, %x) }
             op my.count(%x: Tensor[(n,), float64], keep: bool) -> Tensor[(n,), float64] {
               compute [%i] => %x[%i] * float64(n)
             }
             grad my.count(%x, keep=True) -> (%y, %g) { %g }
             def @main(%x: Tensor[(3,), float64]) { my.count(%x, keep=False) }",
            "`my.count` has none in this form",
        ),
        (
            "def @main[A](%x: A) -> A { %x }",
            "the entry is polymorphic",
        ),
        (
            "def @main(%x: List[float64]) { @hd(%x) }",
            "neither tensor nor tuple",
        ),
    ] {
        let mut p = read(text);
        let errors = differentiate(&mut p, "gradient{mode=higher-order}").expect_err(text);
        assert!(errors.contains(reason), "{errors}");
    }
}

/// The gradient of a gradient, by name, as a program would use it.
#[test]
fn a_gradient_can_be_differentiated_again() {
    let mut p = read("def @main(%x: float64) { multiply(multiply(%x, %x), %x) }");
    let once = differentiate(&mut p, "gradient{mode=higher-order}").expect("has a gradient");
    let mut again = Program {
        session: Session::new(ReadOptions::default()),
        module: once,
    };
    let twice = differentiate(&mut again, "gradient{mode=higher-order}").expect("has a gradient");
    let x = Tensor::scalar_f64(relax_tensor::DType::F64, 0.5);
    let values: Vec<f64> = run(&twice, &[x]).iter().map(|t| t.get_f64(0)).collect();
    // The value, the gradient, and the gradient of the value again: only the first tensor of a
    // result is differentiated.
    assert_eq!(values, [0.125, 0.75, 0.75]);
}
