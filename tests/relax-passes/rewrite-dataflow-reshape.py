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

    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.Buffer((T.int64(6),), "float32"), y: T.Buffer((T.int64(6), T.int64(1)), "float32")):
        back = T.sblock_alloc_buffer((T.int64(3), T.int64(2)), "float32")
        for i, j in T.grid(T.int64(3), T.int64(2)):
            with T.sblock("back"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(x[vi * T.int64(2) + vj])
                T.writes(back[vi, vj])
                back[vi, vj] = x[vi * T.int64(2) + vj]
        for i, j in T.grid(T.int64(6), T.int64(1)):
            with T.sblock("there"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(back[vi // T.int64(2), vi % T.int64(2)])
                T.writes(y[vi, vj])
                y[vi, vj] = back[vi // T.int64(2), vi % T.int64(2)]

    @T.prim_func(private=True, s_tir=True)
    def crossed(x: T.Buffer((T.int64(6), T.int64(1)), "float32"), y: T.Buffer((T.int64(6),), "float32")):
        wide = T.sblock_alloc_buffer((T.int64(2), T.int64(3)), "float32")
        for i, j in T.grid(T.int64(2), T.int64(3)):
            with T.sblock("wide"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(x[vi * T.int64(3) + vj, T.int64(0)])
                T.writes(wide[vi, vj])
                wide[vi, vj] = x[vi * T.int64(3) + vj, T.int64(0)]
        for i in range(T.int64(6)):
            with T.sblock("crossed"):
                vi = T.axis.spatial(T.int64(6), i)
                T.reads(wide[vi % T.int64(2), vi // T.int64(2)])
                T.writes(y[vi])
                y[vi] = wide[vi % T.int64(2), vi // T.int64(2)]

    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((6,), dtype="float32"):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.flat, (x,), out_ty=R.Tensor((6,), dtype="float32"))
            z = R.call_tir(cls.turned, (y,), out_ty=R.Tensor((6,), dtype="float32"))
            u = R.call_tir(cls.twice, (z,), out_ty=R.Tensor((6, 1), dtype="float32"))
            v = R.call_tir(cls.crossed, (u,), out_ty=R.Tensor((6,), dtype="float32"))
            gv: R.Tensor((6,), dtype="float32") = R.exp(v)
            R.output(gv)
        return gv
