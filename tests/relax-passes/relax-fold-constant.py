# run: infer-type,fold-constant
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def exp(x: T.Buffer((T.int64(2), T.int64(3)), "float32"), y: T.Buffer((T.int64(2), T.int64(3)), "float32")):
        T.func_attr({"tirx.noalias": True})
        for i, j in T.grid(T.int64(2), T.int64(3)):
            with T.sblock("exp"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(x[vi, vj])
                T.writes(y[vi, vj])
                y[vi, vj] = T.exp(x[vi, vj])

    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        cls = Module
        with R.dataflow():
            a: R.Tensor((2, 3), dtype="float32") = R.add(R.const([[1, 2, 3], [4, 5, 6]], "float32"), R.const(-1.0, "float32"))
            b: R.Tensor((2, 3), dtype="float32") = R.multiply(a, R.const(0.0, "float32"))
            c = R.call_tir(cls.exp, (b,), out_ty=R.Tensor((2, 3), dtype="float32"))
            d: R.Tensor((2, 3), dtype="float32") = R.add(c, x)
            R.output(d)
        return d
