//! TVMScript's TensorIR runs: blocks with axes and reductions, in-place programs, memory.
#![cfg(feature = "native")]

use relax::{CompileOptions, Module, Tensor, Value};

/// Returns the native results of `@main` on vectors of these elements.
fn run(text: &str, arguments: &[&[f32]]) -> Vec<f32> {
    let module = Module::parse(text).expect("it reads");
    let program = module.compile(&CompileOptions::default());
    let arguments: Vec<Value> = (arguments.iter())
        .map(|a| Value::Tensor(Tensor::from_slice(&[a.len() as i64], a)))
        .collect();
    let result = program.expect("it compiles").call(&arguments);
    let Value::Tensor(t) = &result.expect("it runs") else {
        panic!("a tensor");
    };
    t.slice().to_vec()
}

const BLOCKS: &str = r#"
n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def around(x: T.Buffer((n,), "float32"), y: T.Buffer(("n + T.int64(2)",), "float32")):
        T.func_attr({"tirx.noalias": True})
        for i in range(n + T.int64(2)):
            with T.sblock("pad"):
                v_i = T.axis.spatial(n + T.int64(2), i)
                T.reads(x[v_i - T.int64(1)])
                T.writes(y[v_i])
                y[v_i] = T.if_then_else(T.int64(1) <= v_i and v_i < n + T.int64(1), x[v_i - T.int64(1)], T.float32(0.0))

    @T.prim_func(private=True, s_tir=True)
    def windows(x: T.Buffer((T.int64(6),), "float32"), k: T.int64, y: T.Buffer((T.int64(4),), "float32")):
        scaled = T.sblock_alloc_buffer((T.int64(6),))
        for i in T.serial(T.int64(6)):
            with T.sblock("scaled"):
                v = T.axis.spatial(T.int64(6), i)
                scaled[v] = x[v] * T.Cast("float32", k)
        for i, r in T.grid(4, 3):
            with T.sblock("sum"):
                v_i, v_r = T.axis.remap("SR", [i, r])
                with T.init():
                    y[v_i] = T.float32(0.0)
                y[v_i] = y[v_i] + T.max(scaled[v_i + v_r], T.float32(0.0))

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        lv = R.call_tir(cls.around, (x,), out_ty=R.Tensor((6,), dtype="float32"))
        gv = R.call_tir(cls.windows, (lv, 2), out_ty=R.Tensor((4,), dtype="float32"))
        return gv
"#;

#[test]
fn blocks_become_loops() {
    assert_eq!(
        run(BLOCKS, &[&[1.0, -2.0, 3.0, 4.0]]),
        [2.0, 8.0, 14.0, 14.0]
    );
}

const INPLACE: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def increase(a: T.Buffer((T.int64(3),), "float32"), b: T.Buffer((T.int64(3),), "float32")):
        for i in range(T.int64(3)):
            with T.sblock("add"):
                v = T.axis.spatial(T.int64(3), i)
                a[v] = a[v] + b[v]

    @R.function
    def main(x: R.Tensor((3,), dtype="float32"), y: R.Tensor((3,), dtype="float32")) -> R.Tensor((3,), dtype="float32"):
        cls = Module
        z: R.Tensor((3,), dtype="float32") = R.call_tir_inplace(cls.increase, (x, y), out_ty=R.Tensor((3,), dtype="float32"), inplace_indices=[0])
        return z
"#;

#[test]
fn what_is_changed_is_new() {
    assert_eq!(
        run(INPLACE, &[&[1.0, 2.0, 3.0], &[1.0, 1.0, 1.0]]),
        [2.0, 3.0, 4.0]
    );
}

const MEMORY: &str = r#"
n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def add(x: T.Buffer((n,), "float32"), k: T.int64, y: T.Buffer((n,), "float32")):
        for i in range(n):
            with T.sblock("add"):
                v = T.axis.spatial(n, i)
                y[v] = x[v] + T.Cast("float32", k)

    @R.function
    def main(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        R.func_attr({"relax.force_pure": True})
        cls = Module
        storage: R.Any = R.memory.alloc_storage(R.shape([4 * n]), 0, R.str("global"), R.dtype("uint8"))
        alloc: R.Tensor((n,), dtype="float32") = R.memory.alloc_tensor(storage, 0, R.shape([n]), R.dtype("float32"), 0)
        cls.add(x, n + 1, alloc)
        y: R.Tensor((n,), dtype="float32") = alloc
        alloc1: R.Tensor((n,), dtype="float32") = R.memory.alloc_tensor(storage, 0, R.shape([n]), R.dtype("float32"), 0)
        cls.add(y, n, alloc1)
        R.memory.kill_tensor(alloc)
        R.memory.kill_storage(storage)
        return alloc1
"#;

#[test]
fn memory_is_values() {
    assert_eq!(run(MEMORY, &[&[1.0, 2.0]]), [6.0, 7.0]);
}
