//! Repeated calls allocate nothing: memory freed by a call is reused by the next one of the same
//! sizes. A call that runs out of memory reports where, and leaks nothing.
#![cfg(feature = "native")]

use std::path::Path;

use relax::{InferOptions, ReadOptions, Session};
use relax_cli::native;
use relax_codegen::{Host, Jit};
use relax_tensor::{DType, Tensor};

mod common;
use common::Ledger;

fn compile(text: &str, pipeline: &str) -> Jit {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, diagnostics) = session.read("memory.relay", text.as_bytes().to_vec());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    let (_, diagnostics) = relax::check(&mut module, &InferOptions::default());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    let typing = native::optimise(&mut session, &mut module, pipeline).expect("the passes run");
    let entry = module.global("main").expect("a main");
    let lowered = native::lower(&module, &typing, &[entry], &session.sources).expect("lowers");
    native::jit(&lowered).expect("code")
}

/// Calls with each list of arguments in turn, round after round: only the first round may allocate.
fn steady(text: &str, arguments: &[Vec<Tensor>]) {
    for pipeline in [
        "O0",
        "O2",
        "infer-type,fuse-ops,legalize,lower-shapes,schedule{grain=1}",
    ] {
        let jit = compile(text, pipeline);
        for threads in [1, 3] {
            let ledger: &'static Ledger = Box::leak(Box::default());
            // SAFETY: the ledger lives as long as the process.
            let host = unsafe { Host::with_allocator(threads, &ledger.hooks()) }.expect("memory");
            let round = || {
                for inputs in arguments {
                    host.call(&jit, "main", inputs).expect("runs");
                }
            };
            round();
            let first = ledger.calls();
            assert!(first > 0, "the hooks are not used");
            for _ in 0..5 {
                round();
            }
            assert_eq!(
                ledger.calls(),
                first,
                "with {pipeline} on {threads} threads"
            );
            drop(host);
            assert_eq!((ledger.live(), ledger.wrong()), (0, 0), "with {pipeline}");
        }
    }
}

fn zeros(shape: &[i64]) -> Tensor {
    Tensor::zeros(DType::F32, shape)
}

#[test]
fn a_perceptron_is_steady() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mlp.relay");
    let text = std::fs::read_to_string(path).expect("the example");
    let shapes: [&[i64]; 5] = [&[1, 784], &[128, 784], &[128], &[10, 128], &[10]];
    steady(&text, &[shapes.map(zeros).to_vec()]);
}

#[test]
fn a_residual_block_is_steady() {
    let text = "def @main(%x: Tensor[(1, 8, 14, 14), float32], %w: Tensor[(8, 8, 3, 3), float32],
          %v: Tensor[(8, 8, 3, 3), float32], %b: Tensor[(8,), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]);
  %1 = nn.relu(nn.bias_add(%0, %b));
  %2 = nn.conv2d(%1, %v, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]);
  nn.relu(add(%2, %x))
}";
    let shapes: [&[i64]; 4] = [&[1, 8, 14, 14], &[8, 8, 3, 3], &[8, 8, 3, 3], &[8]];
    steady(text, &[shapes.map(zeros).to_vec()]);
}

#[test]
fn open_shapes_are_steady_at_sizes_that_come_again() {
    let text = "def @main(%x: Tensor[(n, 16), float32], %w: Tensor[(32, 16), float32]) {
  let %h = tanh(nn.dense(%x, %w, units=32));
  let %y = reshape(%h, newshape=[-1]);
  (nn.softmax(%h), concatenate((%y, %y), axis=0), cast(%h, dtype=\"float64\"))
}";
    let sizes = [3, 50, 7, 200, 3];
    let arguments: Vec<Vec<Tensor>> = (sizes.iter())
        .map(|&n| vec![zeros(&[n, 16]), zeros(&[32, 16])])
        .collect();
    steady(text, &arguments);
}

#[test]
fn recursion_over_a_list_is_steady() {
    let text = "type List[A] { Cons(A, List[A]), Nil, }
def @build(%n: int32, %x: Tensor[(k,), float32]) -> List[Tensor[(k,), float32]] {
  if (less(%n, 1)) { Nil } else { Cons(multiply(%x, cast(%n, dtype=\"float32\")), @build(subtract(%n, 1), %x)) }
}
def @total(%l: List[Tensor[(k,), float32]], %sum: Tensor[(k,), float32]) -> Tensor[(k,), float32] {
  match (%l) { Cons(%h, %t) => @total(%t, add(%sum, %h)), Nil => %sum, }
}
def @main(%x: Tensor[(k,), float32]) { @total(@build(40, %x), %x) }";
    steady(text, &[vec![zeros(&[5])], vec![zeros(&[900])]]);
}

#[test]
fn wherever_memory_ends_an_error_says_so_and_nothing_is_left() {
    let text = "type Seq[A] { More(A, Seq[A]), End, }
def @build(%n: int32, %x: Tensor[(k,), float32]) -> Seq[(Tensor[(k,), float32], ref(int32))] {
  if (%n < 1) { End } else { More((%x * cast(%n, dtype=\"float32\"), ref(%n)), @build(%n - 1, %x)) }
}
def @total(%l: Seq[(Tensor[(k,), float32], ref(int32))], %f: fn (Tensor[(k,), float32]) -> Tensor[(k,), float32], %s: Tensor[(k,), float32]) -> Tensor[(k,), float32] {
  match (%l) { More((%h, %r), %t) => @total(%t, %f, %f(%h) + %s * cast(ref_read(%r), dtype=\"float32\")), End => %s }
}
def @main(%x: Tensor[(k,), float32]) {
  let %l = @build(9, %x);
  (@total(%l, fn (%y: Tensor[(k,), float32]) { tanh(%y + %x) }, %x), nn.dense(expand_dims(%x, axis=0), expand_dims(%x, axis=0), units=1))
}";
    let input = [zeros(&[3000])];
    for pipeline in ["O0", "O2", "infer-type,legalize,lower-shapes,plan-memory"] {
        let jit = compile(text, pipeline);
        let mut calls = 0;
        loop {
            let ledger: &'static Ledger = Box::leak(Box::default());
            ledger.give_only(calls);
            // SAFETY: the ledger lives as long as the process.
            let host = unsafe { Host::with_allocator(1, &ledger.hooks()) }.expect("a context");
            let found = host.call(&jit, "main", &input);
            let left = host.heap().live_objects;
            drop(host);
            assert_eq!(
                (left, ledger.live(), ledger.wrong()),
                (0, 0, 0),
                "after {calls}"
            );
            match found.map_err(|e| e.to_string()) {
                Ok(_) => break,
                Err(said) if calls == 0 => assert!(said.contains("out of memory"), "{said}"),
                Err(said) => assert!(
                    said.starts_with("memory.relay:") && said.contains("out of memory"),
                    "with {pipeline}, after {calls}: {said}"
                ),
            }
            calls += 1;
        }
        assert!(calls > 3, "{pipeline}: the program takes memory");
    }
}
