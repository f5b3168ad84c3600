# run: infer-type,rewrite-dataflow-reshape
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def flat(x: T.Buffer((T.int64(2), T.int64(3)), "float32"), y: T.Buffer((T.int64(6),), "float32")):
        for i in range(T.int64(6)):
            with T.sblock("flat"):
                vi = T.axis.spatial(T.int64(6), i)
                T.reads(x[vi // T.int64(3), vi % T.int64(3)])
                T.writes(y[vi])
                y[vi] = x[vi // T.int64(3), vi % T.int64(3)]

    @T.prim_func(private=True, s_tir=True)
    def turned(x: T.Buffer((T.int64(6),), "float32"), y: T.Buffer((T.int64(6),), "float32")):
        for i in range(T.int64(6)):
            with T.sblock("turned"):
                vi = T.axis.spatial(T.int64(6), i)
                T.reads(x[T.int64(5) - vi])
                T.writes(y[vi])
                y[vi] = x[T.int64(5) - vi]

    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((6,), dtype="float32"):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.flat, (x,), out_ty=R.Tensor((6,), dtype="float32"))
            z = R.call_tir(cls.turned, (y,), out_ty=R.Tensor((6,), dtype="float32"))
            gv: R.Tensor((6,), dtype="float32") = R.exp(z)
            R.output(gv)
        return gv
