//! The arguments that callers of compiled entries pass are validated before anything runs: data
//! values part by part, tuples, functions. Each of these calls is an error with a location, and
//! leaks nothing.
#![cfg(feature = "native")]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is a call of the interface, which holds what it is given against what it is"
)]

use std::ffi::CStr;
use std::ptr::null_mut;

use relax::{ReadOptions, Session};
use relax_cli::native;
use relax_codegen::{Host, Jit, Value};
use relax_runtime::capi::context::{rx_context_create, rx_context_destroy, rx_heap_stats};
use relax_runtime::capi::counts::{rx_release, rx_retain};
use relax_runtime::capi::errors::{rx_clear_error, rx_last_error};
use relax_runtime::capi::functions::rx_call_closure;
use relax_runtime::capi::tensors::rx_tensor_copy;
use relax_runtime::capi::values::{rx_alloc_closure, rx_make_tuple};
use relax_runtime::context::RxContext;
use relax_runtime::heap::RxHeapStats;
use relax_runtime::object::{DLDataType, RxObject};
use relax_tensor::{DType, Tensor};

const TEXT: &str = "
type Tree { Leaf, Node(Tree, Tensor[(2,), float32], Tree) }
def @tree(%t: Tree) -> Tensor[(2,), float32] {
  match (%t) {
    Leaf => ones(shape=[2], dtype=\"float32\"),
    Node(%a, %x, %b) => add(%x, add(@tree(%a), @tree(%b)))
  }
}
def @sum(%l: List[Tensor[(2,), float32]]) -> Tensor[(2,), float32] {
  match (%l) { Nil => zeros(shape=[2], dtype=\"float32\"), Cons(%h, %t) => add(%h, @sum(%t)) }
}
def @pair(%p: (Tensor[(2,), float32], (Tensor[(2,), float32],))) { add(%p.0, %p.1.0) }
def @apply(%f: fn (Tensor[(2,), float32]) -> Tensor[(2,), float32], %x: Tensor[(2,), float32])
    -> Tensor[(2,), float32] { %f(%x) }
def @adder(%x: Tensor[(2,), float32]) { fn (%y: Tensor[(2,), float32]) { add(%x, %y) } }
";

fn code() -> Jit {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, said) = session.read("borders.relay", TEXT.as_bytes().to_vec());
    assert!(!said.has_errors(), "{said:?}");
    let typing = native::optimise(&mut session, &mut module, "O2").expect("it optimises");
    let names = ["tree", "sum", "pair", "apply", "adder"];
    let roots: Vec<_> = names.iter().filter_map(|n| module.global(n)).collect();
    let lowered = native::lower(&module, &typing, &roots, &session.sources).expect("it lowers");
    native::jit(&lowered).expect("it compiles")
}

fn floats() -> Value {
    Value::Tensor(Tensor::from_slice(&[2], &[1f32, 2.0]))
}

#[test]
fn data_values_are_looked_at_part_by_part() {
    let jit = code();
    let host = Host::new(1).expect("memory");
    let leaf = || Value::Adt(0, vec![]);
    let node = |x: Value| Value::Adt(1, vec![leaf(), x, leaf()]);
    let fine = host.call_timed(&jit, "tree", &[node(floats())]);
    assert!(fine.is_ok(), "{fine:?}");
    let bytes = Value::Tensor(Tensor::zeros(DType::U8, &[2]));
    let matrix = Value::Tensor(Tensor::zeros(DType::F32, &[1, 2]));
    for (value, why) in [
        (
            Value::Adt(7, vec![]),
            "has constructor 7, and its type has 2",
        ),
        (
            Value::Adt(1, vec![leaf(), floats()]),
            "takes 3 values, but there are 2",
        ),
        (
            Value::Adt(0, vec![leaf()]),
            "takes 0 values, but there are 1",
        ),
        (node(bytes), "an element type is another one"),
        (node(matrix), "the rank should be 1, but is 2"),
        (node(leaf()), "is no tensor"),
        (
            Value::Adt(1, vec![floats(), floats(), leaf()]),
            "is no instance of a data type",
        ),
        (floats(), "is no instance of a data type"),
    ] {
        let said = host.call_timed(&jit, "tree", &[value]);
        let said = said.expect_err(why).to_string();
        assert!(said.contains(why), "{said}");
        assert!(
            said.contains("borders.relay:3:11: argument %t of @tree"),
            "{said}"
        );
    }
    // The elements of a list must have its element type.
    let cons = |x: Value| Value::Adt(0, vec![x, Value::Adt(1, vec![])]);
    let said = host.call_timed(&jit, "sum", &[cons(leaf())]);
    assert!(
        said.expect_err("a tree in a list of tensors")
            .to_string()
            .contains("is no tensor")
    );
    let long = (0..100_000).fold(Value::Adt(1, vec![]), |l, _| {
        Value::Adt(0, vec![floats(), l])
    });
    // Values of any depth; the sum itself recurses no deeper than the stack allows.
    let _ = host.call_timed(&jit, "sum", &[long]);
    assert_eq!(host.heap().live_objects, 0);
}

/// A context as used by a C program.
struct Caller {
    ctx: *mut RxContext,
    jit: Jit,
}

impl Caller {
    /// Calls an entry; consumes the arguments' references.
    fn call(&self, name: &str, args: &[*mut RxObject]) -> Result<*mut RxObject, String> {
        let entry = self.jit.entry(name).expect("an entry");
        let mut out: *mut RxObject = null_mut();
        // SAFETY (here and below): values are live or null, the context lives.
        let status = unsafe {
            entry(
                self.ctx.cast(),
                args.as_ptr().cast(),
                args.len() as i32,
                (&raw mut out).cast(),
            )
        };
        args.iter()
            .for_each(|&a| unsafe { rx_release(self.ctx, a) });
        match status {
            0 => Ok(out),
            _ => Err(self.said()),
        }
    }

    fn said(&self) -> String {
        let text = unsafe { CStr::from_ptr(rx_last_error(self.ctx)) };
        let text = text.to_string_lossy().into_owned();
        rx_clear_error(self.ctx);
        text
    }

    fn tensor(&self, dtype: DLDataType, n: i64) -> *mut RxObject {
        let data = [0u64; 8];
        unsafe { rx_tensor_copy(self.ctx, dtype, 1, &n, data.as_ptr().cast()) }
    }

    fn floats(&self) -> *mut RxObject {
        self.tensor(DLDataType::F32, 2)
    }

    fn tuple(&self, fields: &[*mut RxObject]) -> *mut RxObject {
        unsafe { rx_make_tuple(self.ctx, fields.len() as u32, fields.as_ptr()) }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut stats = RxHeapStats::default();
        unsafe {
            rx_heap_stats(self.ctx, &mut stats);
            rx_context_destroy(self.ctx);
        }
        assert_eq!(stats.live_objects, 0);
    }
}

#[test]
fn null_and_functions_of_another_kind_are_refused() {
    let jit = code();
    let c = Caller {
        ctx: rx_context_create(),
        jit,
    };
    let refused = |found: Result<*mut RxObject, String>, why: &str| {
        let said = found.expect_err(why);
        assert!(said.contains(why), "{said}");
    };
    refused(
        c.call("pair", &[c.tuple(&[c.floats(), null_mut()])]),
        "is or holds NULL",
    );
    let inner = c.tuple(&[null_mut()]);
    refused(
        c.call("pair", &[c.tuple(&[c.floats(), inner])]),
        "is or holds NULL",
    );
    let inner = c.tuple(&[c.tensor(DLDataType::U8, 2)]);
    refused(
        c.call("pair", &[c.tuple(&[c.floats(), inner])]),
        "an element type is another one",
    );
    // A function without code, one with two parameters, and a value that is not a function.
    let empty = unsafe { rx_alloc_closure(c.ctx, 1, 0) };
    refused(
        c.call("apply", &[empty, c.floats()]),
        "is a function without code",
    );
    let two = unsafe { rx_alloc_closure(c.ctx, 2, 0) };
    refused(
        c.call("apply", &[two, c.floats()]),
        "takes 2 arguments, but should take 1",
    );
    refused(c.call("apply", &[c.floats(), c.floats()]), "is no function");
    let closure = c.call("adder", &[c.floats()]).expect("a closure");
    unsafe { rx_retain(closure) };
    let sum = c.call("apply", &[closure, c.floats()]).expect("a sum");
    unsafe { rx_release(c.ctx, sum) };
    // Arguments of a closure that is called from outside are validated too.
    for (bad, why) in [
        (
            c.tensor(DLDataType::U8, 2),
            "an element type is another one",
        ),
        (null_mut(), "is or holds NULL"),
        (c.tuple(&[]), "is no tensor"),
    ] {
        let mut out = null_mut();
        let status = unsafe { rx_call_closure(c.ctx, closure, &bad, 1, &mut out) };
        assert_ne!(status, 0);
        let said = c.said();
        assert!(said.contains(why), "{said}");
    }
    // It still belongs to its caller, who may call it again.
    for _ in 0..2 {
        let (x, mut out) = (c.floats(), null_mut());
        let status = unsafe { rx_call_closure(c.ctx, closure, &x, 1, &mut out) };
        assert_eq!(status, 0);
        unsafe { rx_release(c.ctx, out) };
    }
    unsafe { rx_release(c.ctx, closure) };
}
