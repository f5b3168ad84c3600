//! Run-time failures are errors with a message, and leak nothing.
#![cfg(feature = "native")]

use relax::{InferOptions, ReadOptions, Session};
use relax_cli::native;
use relax_codegen::{Host, Value};
use relax_tensor::Tensor;

/// Runs `@main` of a text natively with this stack size in bytes.
fn run(text: &str, inputs: &[Tensor], stack: u64) -> (Result<Value, String>, u64) {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, diagnostics) = session.read("test.relay", text.as_bytes().to_vec());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    let (_, diagnostics) = relax::check(&mut module, &InferOptions::default());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    let typing = native::optimise(&mut session, &mut module, "infer-type").expect("it optimises");
    let main = module.global("main").expect("a main");
    let jit = native::lower(&module, &typing, &[main], &session.sources)
        .and_then(|lowered| native::jit(&lowered))
        .expect("it compiles");
    let host = Host::new(1).expect("memory");
    host.set_stack_size(stack).expect("a stack");
    let result = host.call(&jit, "main", inputs);
    let result = result.map_err(|e| e.to_string());
    (result, host.heap().live_objects)
}

/// A cast that fails many calls deep, with lists, closures, tuples, references and tensors in every
/// frame.
const DEEP: &str = "
type Seq { Empty, Cell(Tensor[(?,), float32], Seq) }
def @deep(%n: int32, %x: Tensor[(?,), float32], %kept: Seq) -> Tensor[(?,), float32] {
  let %cell = ref((%x, %kept));
  let %f = fn (%y: Tensor[(?,), float32]) -> Tensor[(?,), float32] { add(%y, ref_read(%cell).0) };
  let %more = Cell(%f(%x), %kept);
  if (%n == 0) {
    %bad = match_cast(%x, Tensor[(5,), float32]);
    %f(%bad)
  } else {
    add(@deep(%n - 1, add(%x, %x), %more), %f(%x))
  }
}
def @main(%x: Tensor[(?,), float32]) -> Tensor[(?,), float32] {
  @deep(20, add(%x, %x), Cell(%x, Empty))
}
";

#[test]
fn an_error_in_the_depths_leaves_nothing_behind() {
    let x = |n: i64| [Tensor::zeros(relax_tensor::DType::F32, &[n])];
    let (fine, left) = run(DEEP, &x(5), 1 << 24);
    assert!(fine.is_ok(), "{fine:?}");
    assert_eq!(left, 0);
    let (bad, left) = run(DEEP, &x(4), 1 << 24);
    let message = bad.expect_err("the cast fails");
    assert!(
        message.contains("axis 0 should be 5, but is 4"),
        "{message}"
    );
    assert_eq!(left, 0);
}

#[test]
fn a_recursion_without_end_is_an_error() {
    let text = "
type Seq { Empty, Cell(int32, Seq) }
def @endless(%n: int32, %xs: Seq) -> int32 { 1 + @endless(%n + 1, Cell(%n, %xs)) }
def @main() -> int32 { @endless(0, Empty) }
";
    let (result, left) = run(text, &[], 1 << 22);
    let message = result.expect_err("the stack ends");
    assert!(message.contains("calls nest deeper"), "{message}");
    assert_eq!(left, 0);
}
