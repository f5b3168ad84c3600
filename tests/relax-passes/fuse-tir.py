# run: infer-type,FuseTIR
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def add(x: T.Buffer((n,), "float32"), y: T.Buffer((n,), "float32"), m: T.int64, z: T.Buffer((n,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        both = T.sblock_alloc_buffer((n,))
        for i in range(n):
            with T.sblock("sum"):
                v = T.axis.spatial(n, i)
                T.reads(x[v], y[v])
                T.writes(both[v])
                both[v] = x[v] + y[v]
        for i in range(n):
            with T.sblock("shifted"):
                v = T.axis.spatial(n, i)
                T.reads(both[v])
                T.writes(z[v])
                z[v] = both[v] + T.Cast("float32", m)

    @T.prim_func(private=True, s_tir=True)
    def double(x: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.sblock("double"):
                v = T.axis.spatial(T.int64(4), i)
                T.reads(x[v])
                T.writes(x[v])
                x[v] = x[v] + x[v]

    @T.prim_func(private=True, s_tir=True)
    def exp(x: T.Buffer((T.int64(2), T.int64(3)), "float32"), y: T.Buffer((T.int64(2), T.int64(3)), "float32")):
        T.func_attr({"tirx.noalias": True})
        for i, j in T.grid(T.int64(2), T.int64(3)):
            with T.sblock("exp"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(x[vi, vj])
                T.writes(y[vi, vj])
                y[vi, vj] = T.exp(x[vi, vj])

    @R.function(private=True)
    def fused_exp_exp(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        R.func_attr({"Primitive": True})
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.exp, (x,), out_ty=R.Tensor((2, 3), dtype="float32"))
            b = R.call_tir(cls.exp, (a,), out_ty=R.Tensor((2, 3), dtype="float32"))
            R.output(b)
        return b

    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        cls = Module
        with R.dataflow():
            y: R.Tensor((2, 3), dtype="float32") = cls.fused_exp_exp(x)
            R.output(y)
        return y

    @R.function(private=True)
    def fused_double(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        R.func_attr({"Primitive": True})
        cls = Module
        a = R.call_tir_inplace(cls.double, (x,), out_ty=R.Tensor((4,), dtype="float32"), inplace_indices=[0])
        b = R.call_tir_inplace(cls.double, (a,), out_ty=R.Tensor((4,), dtype="float32"), inplace_indices=[0])
        return b

    @R.function
    def inplace(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        y: R.Tensor((4,), dtype="float32") = cls.fused_double(x)
        return y

    @R.function(private=True)
    def fused_symbols(p: R.Tuple(R.Tensor((n, 2), dtype="float32"), R.Tensor((n * 2,), dtype="float32")), q: R.Tensor((n * 2,), dtype="float32"), extents: R.Shape([n])) -> R.Tensor((n * 2,), dtype="float32"):
        R.func_attr({"Primitive": True})
        cls = Module
        with R.dataflow():
            a: R.Tensor((n * 2,), dtype="float32") = p[1]
            b = R.call_tir(cls.add, (a, a, n), out_ty=R.Tensor((n * 2,), dtype="float32"))
            c = R.call_tir(cls.add, (b, q, n), out_ty=R.Tensor((n * 2,), dtype="float32"))
            R.output(c)
        return c

    @R.function
    def symbols(x: R.Tensor((n, 2), dtype="float32"), y: R.Tensor((n * 2,), dtype="float32")) -> R.Tensor((n * 2,), dtype="float32"):
        cls = Module
        z: R.Tensor((n * 2,), dtype="float32") = cls.fused_symbols((x, y), y, R.shape([n]))
        return z
