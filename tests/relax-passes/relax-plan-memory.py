# run: infer-type,StaticPlanBlockMemory
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def exp(A: T.handle, B: T.handle):
        T.evaluate(0)

    @R.function
    def bounded(x: R.Tensor((n, 4), dtype="float32")) -> R.Tensor((n, 4), dtype="float32"):
        R.func_attr({"relax.force_pure": True, "tir_var_upper_bound": {"n": 8}})
        cls = Module
        a: R.Tensor((n, 4), dtype="float32") = R.builtin.alloc_tensor(R.shape([n, 4]), R.dtype("float32"), 0, R.str("global"))
        cls.exp(x, a)
        b: R.Tensor((n, 4), dtype="float32") = R.builtin.alloc_tensor(R.shape([n, 4]), R.dtype("float32"), 0, R.str("global"))
        cls.exp(a, b)
        c: R.Tensor((n, 4), dtype="float32") = R.builtin.alloc_tensor(R.shape([n, 4]), R.dtype("float32"), 0, R.str("global"))
        cls.exp(b, c)
        d: R.Tensor((n, 4), dtype="float32") = R.builtin.alloc_tensor(R.shape([n, 4]), R.dtype("float32"), 0, R.str("global"))
        cls.exp(c, d)
        return d

    @R.function
    def grows(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        R.func_attr({"relax.force_pure": True, "relax.memory_plan_dynamic_func_output": 1})
        cls = Module
        a: R.Tensor((2,), dtype="float32") = R.builtin.alloc_tensor(R.shape([2]), R.dtype("float32"), 0, R.str("global"))
        cls.exp(x, a)
        b: R.Tensor((2,), dtype="float32") = R.builtin.alloc_tensor(R.shape([2]), R.dtype("float32"), 0, R.str("global"))
        cls.exp(a, b)
        c: R.Tensor((6,), dtype="float32") = R.builtin.alloc_tensor(R.shape([6]), R.dtype("float32"), 0, R.str("global"))
        cls.exp(b, c)
        d: R.Tensor((2,), dtype="int32") = R.builtin.alloc_tensor(R.shape([2]), R.dtype("int32"), 0, R.str("global"))
        cls.exp(c, d)
        e: R.Tensor((2,), dtype="float32") = R.builtin.alloc_tensor(R.shape([2]), R.dtype("float32"), 0, R.str("global"))
        cls.exp(d, e)
        return e
