//! Vectorised, parallel and unrolled loops compute exactly what the reference computes, for every
//! element type; their errors are independent of the number of threads, and leak no memory.
#![cfg(feature = "native")]

use std::fmt::Write as _;

use relax::{InferOptions, ReadOptions, Session};
use relax_cli::{evaluator, native};
use relax_codegen::{Host, Jit, Target, Value};
use relax_tensor::{DType, Tensor};
use relax_testkit::{Rng, same};

/// A module with its evaluator's result and its native code.
struct Made {
    expected: Result<Value, String>,
    lowered: relax_lower::lir::Lowered,
    jit: Jit,
}

fn make(text: &str, inputs: &[Tensor]) -> Made {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, diagnostics) = session.read("loops.relay", text.as_bytes().to_vec());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}\n{text}");
    let (typing, diagnostics) = relax::check(&mut module, &InferOptions::default());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}\n{text}");
    let entry = module.global("main").expect("a main");
    let expected =
        evaluator::run(&module, &typing, entry, inputs).map_err(|d| d.message.to_string());
    let typing = native::optimise(&mut session, &mut module, "infer-type").expect("passes");
    let entry = module.global("main").expect("a main");
    let lowered = native::lower(&module, &typing, &[entry], &session.sources).expect("lowers");
    let jit = native::jit(&lowered).expect("code");
    Made {
        expected,
        lowered,
        jit,
    }
}

fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => same(a, b),
        (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        _ => a == b,
    }
}

/// Compares both engines on one and on three threads; nothing may leak.
fn agree(text: &str, inputs: &[Tensor]) -> Made {
    let made = make(text, inputs);
    for threads in [1, 3] {
        let host = Host::new(threads).expect("memory");
        let found = host.call(&made.jit, "main", inputs);
        match (&made.expected, &found) {
            (Ok(a), Ok(b)) => {
                if let (Value::Tuple(a), Value::Tuple(b)) = (a, b) {
                    for (k, (a, b)) in a.iter().zip(b).enumerate() {
                        assert!(equal(a, b), "result {k}: {a:?}\n{b:?}\n{text}");
                    }
                }
                assert!(equal(a, b), "{a:?}\n{b:?}\n{text}");
            }
            (Err(_), Err(_)) => {}
            _ => panic!("evaluator: {:?}\nnative: {found:?}\n{text}", made.expected),
        }
        assert_eq!(host.heap().live_objects, 0, "{text}");
    }
    made
}

fn numbers(dtype: DType, n: i64, seed: u64) -> Tensor {
    let mut rng = Rng::new(seed);
    let mut t = Tensor::zeros(dtype, &[n]);
    for i in 0..t.len() {
        if dtype.is_float() {
            let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0];
            t.set_f64(
                i,
                match rng.below(10) {
                    0 => *rng.pick(&odd),
                    _ => (rng.below(97) as f64 - 48.0) / 16.0,
                },
            );
        } else if dtype.is_bool() {
            t.set_i64(i, rng.below(2) as i64);
        } else {
            let low = if dtype.is_int() { 100 } else { 0 };
            t.set_i64(i, rng.below(228) as i64 - low);
        }
    }
    t
}

const TYPES: [&str; 13] = [
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64", "bool",
];

fn dtype(name: &str) -> DType {
    name.parse().expect("an element type")
}

/// Returns expressions over `%X[%i]` and `%Y[%i]`, of their own type (`=`) or `bool`.
fn expressions(t: DType) -> Vec<(&'static str, bool)> {
    let compare = [
        ("X < Y", true),
        ("X <= Y", true),
        ("X > Y", true),
        ("X == Y", true),
        ("X != Y", true),
    ];
    let mut all: Vec<(&str, bool)> = compare.to_vec();
    if t.is_bool() {
        return vec![
            ("X && Y", true),
            ("X || Y", true),
            ("not(X)", true),
            ("select(X, Y, not(Y))", true),
        ];
    }
    all.extend([
        ("X + Y", false),
        ("X - Y", false),
        ("X * Y", false),
        ("min(X, Y)", false),
        ("max(X, Y)", false),
        ("abs(X)", false),
        ("select(X < Y, X + X, Y)", false),
        ("select(X < Y && Y != X, X, Y - X)", false),
    ]);
    if t.is_float() {
        all.extend([
            ("X / Y", false),
            ("sqrt(X)", false),
            ("rsqrt(X)", false),
            ("floor(X)", false),
            ("ceil(X)", false),
            ("trunc(X)", false),
            ("rint(X)", false),
            ("round(X)", false),
            ("round(X) + Y", false),
            ("isnan(X)", true),
        ]);
    } else {
        all.extend([
            ("bit_and(X, Y)", false),
            ("bit_or(X, Y)", false),
            ("bit_xor(X, Y)", false),
            ("shift_left(X, Y)", false),
            ("popcount(X)", false),
        ]);
    }
    all
}

/// Returns a module with one program per expression, its loops annotated.
fn module(t: &str, mark: &str) -> String {
    let mut text = String::new();
    let mut calls = Vec::new();
    for (k, (e, boolean)) in expressions(dtype(t)).into_iter().enumerate() {
        let out = if boolean { "bool" } else { t };
        let e: String = e.replace('X', "%X[%i]").replace('Y', "%Y[%i]");
        let _ = writeln!(
            text,
            "prim_func @p{k}(%X: Buffer[(n,), {t}], %Y: Buffer[(n,), {t}], %Z: Buffer[(n,), {out}]) {{\n  \
             {mark} for %i in grid(n) {{ %Z[%i] = {e}; }}\n}}"
        );
        calls.push(format!("call_tir(@p{k}, (%x, %y), shape(n), dtype={out})"));
    }
    let _ = writeln!(
        text,
        "def @main(%x: Tensor[(n,), {t}], %y: Tensor[(n,), {t}]) {{\n  ({})\n}}",
        calls.join(",\n   ")
    );
    text
}

#[test]
fn every_operation_of_every_type_is_the_same_in_vectors() {
    for t in TYPES {
        for mark in ["", "vectorize(4)", "vectorize(16)"] {
            let n = 37;
            agree(
                &module(t, mark),
                &[numbers(dtype(t), n, 1), numbers(dtype(t), n, 2)],
            );
        }
    }
}

#[test]
fn short_and_empty_ranges_are_the_same() {
    for n in [0, 1, 3, 4, 15, 16, 17] {
        let inputs = [numbers(DType::F64, n, 1), numbers(DType::F64, n, 2)];
        agree(&module("float64", ""), &inputs);
    }
}

#[test]
fn every_cast_is_the_same() {
    for from in TYPES {
        let casts: Vec<String> = (TYPES.iter())
            .map(|to| format!("cast(%x, dtype=\"{to}\")"))
            .collect();
        let text = format!(
            "def @main(%x: Tensor[(n,), {from}]) {{ ({}) }}",
            casts.join(", ")
        );
        let mut x = numbers(dtype(from), 40, 5);
        for i in 0..x.len() {
            if dtype(from).is_float() && !x.get_f64(i).is_finite() {
                x.set_f64(i, 3.5);
            }
        }
        agree(&text, &[x]);
    }
}

#[test]
fn long_loops_are_shared_among_threads() {
    for t in ["float64", "int32", "bool"] {
        for mark in ["", "parallel"] {
            let inputs = [numbers(dtype(t), 70_001, 1), numbers(dtype(t), 70_001, 2)];
            // With a condition it is no computation, which a kernel would divide itself.
            let text = module(t, mark)
                .replace("{ %Z", "{ if (%Y[%i] == %Y[%i]) { %Z")
                .replace("; }\n}", "; }; }\n}");
            let made = agree(&text, &inputs);
            let code = relax_codegen::listing(
                &made.lowered,
                &Target::default(),
                "loops",
                relax_codegen::Listing::Clif,
            );
            assert!(code.expect("code").contains("shared loop"), "{t} {mark}");
        }
    }
}

/// Nests of several loops, reductions, guards, strided elements.
const NESTS: &str = r#"
prim_func @product(%A: Buffer[(m, k), ELEM], %B: Buffer[(k, n), ELEM], %C: Buffer[(m, n), ELEM]) {
  for %i, %j, %p in grid(m, n, k) {
    init { %C[%i, %j] = 0; }
    %C[%i, %j] = %C[%i, %j] + %A[%i, %p] * %B[%p, %j];
  }
}
prim_func @scheduled(%A: Buffer[(m, k), ELEM], %B: Buffer[(k, n), ELEM], %C: Buffer[(m, n), ELEM]) {
  parallel for %i in grid(m) {
    vectorize(4) for %j in grid(n) {
      %C[%i, %j] = 0;
      for %p in grid(k) { %C[%i, %j] = %C[%i, %j] + %A[%i, %p] * %B[%p, %j]; }
    }
  }
}
prim_func @guarded(%A: Buffer[(m, k), ELEM], %C: Buffer[(m, k), ELEM]) {
  for %i in grid(m) {
    for %o in grid((k + 7) // 8) {
      vectorize(8) for %q in grid(8) {
        if (%o * 8 + %q < k) { %C[%i, %o * 8 + %q] = %A[%i, %o * 8 + %q] + %A[%i, 0]; }
      }
    }
  }
}
prim_func @apart(%A: Buffer[(m, k), ELEM], %C: Buffer[(k, m), ELEM]) {
  parallel for %i in grid(k) {
    vectorize(4) for %j in grid(m) {
      let %v = %A[m - 1 - %j, %i];
      %C[%i, %j] = select(%j > 0, %v - %A[%j, %i], %v);
    }
  }
}
prim_func @prefix(%A: Buffer[(m, k), ELEM], %C: Buffer[(m, k), ELEM]) {
  for %i in grid(m) {
    vectorize(4) for %j in grid(k) {
      %C[%i, %j] = select(%j > 0, %C[%i, %j - 1] + %A[%i, %j], %A[%i, %j]);
    }
  }
}
prim_func @taps(%A: Buffer[(m, k), ELEM], %C: Buffer[(m, k), ELEM]) {
  for %i, %j in grid(m, k) {
    %C[%i, %j] = 0;
    unroll for %t in grid(3) {
      if (%j + %t < k) { %C[%i, %j] = %C[%i, %j] + %A[%i, %j + %t]; }
    }
  }
}
def @main(%a: Tensor[(m, k), ELEM], %b: Tensor[(k, n), ELEM]) {
  (call_tir(@product, (%a, %b), shape(m, n), dtype=ELEM),
   call_tir(@scheduled, (%a, %b), shape(m, n), dtype=ELEM),
   call_tir(@guarded, (%a,), shape(m, k), dtype=ELEM),
   call_tir(@apart, (%a,), shape(k, m), dtype=ELEM),
   call_tir(@prefix, (%a,), shape(m, k), dtype=ELEM),
   call_tir(@taps, (%a,), shape(m, k), dtype=ELEM),
   nn.matmul(%a, %b, units=None),
   add(cast(%a, dtype="float64"), cast(sum(%a, axis=[0]), dtype="float64")), greater(%a, sum(%a, axis=[0])),
   less(zeros_like(%a), sum(%a, axis=[0])), cumsum(%a, axis=1), transpose(%a, axes=None), sum(%a, axis=[0]), reverse(%a, axis=1))
}
"#;

#[test]
fn nests_are_the_same() {
    for t in ["float32", "float64", "int32", "int64", "uint8"] {
        for (m, k, n) in [(5, 13, 19), (64, 70, 65), (1, 1, 1), (3, 4, 0)] {
            let shaped = |a, b, seed| {
                let mut x = numbers(dtype(t), a * b, seed);
                for i in 0..x.len() {
                    // Sums of few small integers are exact in any order.
                    x.set_f64(i, (i * 7 % 11) as f64);
                }
                x.reshape(&[a, b]).expect("as many elements")
            };
            agree(
                &NESTS.replace("ELEM", t),
                &[shaped(m, k, 1), shaped(k, n, 2)],
            );
        }
    }
}

/// A parallel loop that gathers from a tensor; before it, a large local buffer is allocated.
const GATHER: &str = r#"
prim_func @gather(%X: Buffer[(n,), float64], %I: Buffer[(k,), int64], %Z: Buffer[(k,), float64]) {
  alloc %T: Buffer[(n,), float64];
  for %i in grid(n) { %T[%i] = %X[%i] * 2; }
  parallel for %i in grid(k) { %Z[%i] = %T[%I[%i]]; }
}
def @main(%x: Tensor[(n,), float64], %i: Tensor[(k,), int64]) {
  call_tir(@gather, (%x, %i), shape(k), dtype=float64)
}
"#;

#[test]
fn the_first_failure_is_told_and_nothing_is_left() {
    let n = 100_000;
    let mut index = Tensor::zeros(DType::I64, &[n]);
    (0..n as usize).for_each(|i| index.set_i64(i, (i as i64 * 31) % 1000));
    let x = numbers(DType::F64, 1000, 3);
    let made = agree(GATHER, &[x.clone(), index.clone()]);
    for (at, value) in [(99_000, 1234), (70_001, 1000), (40_000, -7)] {
        index.set_i64(at, value);
        for threads in [1, 4] {
            let host = Host::new(threads).expect("memory");
            let inputs = [x.clone(), index.clone()];
            // What the host holds for its own arguments also exists after a successful call.
            let error = host
                .call(&made.jit, "main", &inputs)
                .expect_err("an index outside")
                .to_string();
            assert!(
                error.contains(&format!(
                    "index {value} of axis 0 is outside `T`, whose extent there is 1000"
                )),
                "{error}"
            );
            let held = host.heap().live_bytes;
            for _ in 0..3 {
                host.call(&made.jit, "main", &inputs)
                    .expect_err("an index outside");
            }
            assert_eq!(
                host.heap().live_bytes,
                held,
                "a failing program leaves its buffers behind"
            );
            assert_eq!(host.heap().live_objects, 0);
        }
    }
}

#[test]
fn loops_compile_for_all_targets() {
    for t in TYPES {
        let lowered = make(
            &module(t, ""),
            &[numbers(dtype(t), 3, 1), numbers(dtype(t), 3, 2)],
        )
        .lowered;
        for triple in [
            "x86_64-unknown-linux-gnu",
            "aarch64-unknown-linux-gnu",
            "riscv64gc-unknown-linux-gnu",
        ] {
            let target = Target {
                triple: Some(triple.to_owned()),
                optimize: true,
                ..Target::default()
            };
            if let Err(d) = relax_codegen::object(&lowered, &target, "loops", None, &|_| ()) {
                panic!("{t} for {triple}: {}", d.message);
            }
        }
    }
}
