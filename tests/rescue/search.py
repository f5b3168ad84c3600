# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
m = TypeVar("m")
k = TypeVar("k")
n0 = TypeVar("n0")
n1 = TypeVar("n1")
p0_d0 = TypeVar("p0_d0")
extent0 = TypeVar("extent0")
extent1 = TypeVar("extent1")
extent2 = TypeVar("extent2")
p1_d0 = TypeVar("p1_d0")
p0_d1 = TypeVar("p0_d1")
@I.ir_module
class Module:
    @R.function
    def main(sorted: R.Tensor((n,), dtype="float32"), x: R.Tensor((m,), dtype="float32"), n_1: R.Tensor((3,), dtype="int64"), d: R.Tensor((k, n0, 4), dtype="float32"), slopes: R.Tensor((n1,), dtype="float32")) -> R.Tuple(R.Tensor((m,), dtype="int32"), R.Tensor(dtype="float32", ndim=3), R.Tensor((k, n0, 4), dtype="float32")):
        cls = Module
        n_2 = T.int64()
        n_3 = T.int64()
        n_4 = T.int64()
        with R.dataflow():
            at: R.Tensor((m,), dtype="int32") = R.call_tir(cls.tir_searchsorted, (sorted, x), out_ty=R.Tensor((m,), dtype="int32"))
            extents: R.Tensor((3,), dtype="int64") = R.call_tir(cls.tir_dyn_reshape_extents, (x, n_1), out_ty=R.Tensor((3,), dtype="int64"))
            extents_1: R.Shape(ndim=3) = R.tensor_to_shape(extents)
            R.output(at, extents_1)
        extents_2: R.Shape([n_2, n_3, n_4]) = R.match_cast(extents_1, R.Shape([n_2, n_3, n_4]))
        with R.dataflow():
            gv: R.Tensor((n_2, n_3, n_4), dtype="float32") = R.call_tir(cls.tir_dyn_reshape, (x, n_1), out_ty=R.Tensor((n_2, n_3, n_4), dtype="float32"))
            gv_1: R.Tensor((k, n0, 4), dtype="float32") = R.call_tir(cls.tir_nn_prelu, (d, slopes), out_ty=R.Tensor((k, n0, 4), dtype="float32"))
            gv_2: R.Tuple(R.Tensor((m,), dtype="int32"), R.Tensor(dtype="float32", ndim=3), R.Tensor((k, n0, 4), dtype="float32")) = (at, gv, gv_1)
            R.output(gv_2)
        return gv_2

    @T.prim_func(private=True, s_tir=True)
    def tir_dyn_reshape_extents(p0: T.Buffer((p0_d0,), "float32"), p1: T.Buffer((T.int64(3),), "int64"), extents: T.Buffer((T.int64(3),), "int64")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            part: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), p0_d0, T.if_then_else((p1[T.int64(0)] == T.int64(0)), p0_d0, p1[T.int64(0)]))
            part_1: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), T.int64(2), T.int64(1))
            part_2: T.let[T.int64] = T.if_then_else((part_1 == T.int64(0)), p0_d0, T.int64(1))
            part_3: T.let[T.int64] = T.if_then_else((p1[T.int64(1)] == T.int64(-3)), (part_2 * T.if_then_else(((part_1 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(1)] == T.int64(0)), part_2, p1[T.int64(1)]))
            part_4: T.let[T.int64] = (part_1 + T.if_then_else((p1[T.int64(1)] == T.int64(-3)), T.int64(2), T.int64(1)))
            part_5: T.let[T.int64] = T.if_then_else((part_4 == T.int64(0)), p0_d0, T.int64(1))
            part_6: T.let[T.int64] = T.if_then_else((p1[T.int64(2)] == T.int64(-3)), (part_5 * T.if_then_else(((part_4 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(2)] == T.int64(0)), part_5, p1[T.int64(2)]))
            assert (((T.if_then_else((part < T.int64(0)), (p0_d0 // ((T.if_then_else((part < T.int64(0)), T.int64(1), part) * T.if_then_else((part_3 < T.int64(0)), T.int64(1), part_3)) * T.if_then_else((part_6 < T.int64(0)), T.int64(1), part_6))), part) * T.if_then_else((part_3 < T.int64(0)), (p0_d0 // ((T.if_then_else((part < T.int64(0)), T.int64(1), part) * T.if_then_else((part_3 < T.int64(0)), T.int64(1), part_3)) * T.if_then_else((part_6 < T.int64(0)), T.int64(1), part_6))), part_3)) * T.if_then_else((part_6 < T.int64(0)), (p0_d0 // ((T.if_then_else((part < T.int64(0)), T.int64(1), part) * T.if_then_else((part_3 < T.int64(0)), T.int64(1), part_3)) * T.if_then_else((part_6 < T.int64(0)), T.int64(1), part_6))), part_6)) == p0_d0), "`dyn.reshape`: the new shape has another number of elements than the data"
            part_7: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), p0_d0, T.if_then_else((p1[T.int64(0)] == T.int64(0)), p0_d0, p1[T.int64(0)]))
            part_8: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), T.int64(2), T.int64(1))
            part_9: T.let[T.int64] = T.if_then_else((part_8 == T.int64(0)), p0_d0, T.int64(1))
            part_10: T.let[T.int64] = T.if_then_else((p1[T.int64(1)] == T.int64(-3)), (part_9 * T.if_then_else(((part_8 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(1)] == T.int64(0)), part_9, p1[T.int64(1)]))
            part_11: T.let[T.int64] = (part_8 + T.if_then_else((p1[T.int64(1)] == T.int64(-3)), T.int64(2), T.int64(1)))
            part_12: T.let[T.int64] = T.if_then_else((part_11 == T.int64(0)), p0_d0, T.int64(1))
            part_13: T.let[T.int64] = T.if_then_else((p1[T.int64(2)] == T.int64(-3)), (part_12 * T.if_then_else(((part_11 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(2)] == T.int64(0)), part_12, p1[T.int64(2)]))
            extents[T.int64(0)] = T.if_then_else((part_7 < T.int64(0)), (p0_d0 // ((T.if_then_else((part_7 < T.int64(0)), T.int64(1), part_7) * T.if_then_else((part_10 < T.int64(0)), T.int64(1), part_10)) * T.if_then_else((part_13 < T.int64(0)), T.int64(1), part_13))), part_7)
            part_14: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), T.int64(2), T.int64(1))
            part_15: T.let[T.int64] = T.if_then_else((part_14 == T.int64(0)), p0_d0, T.int64(1))
            part_16: T.let[T.int64] = T.if_then_else((p1[T.int64(1)] == T.int64(-3)), (part_15 * T.if_then_else(((part_14 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(1)] == T.int64(0)), part_15, p1[T.int64(1)]))
            part_17: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), p0_d0, T.if_then_else((p1[T.int64(0)] == T.int64(0)), p0_d0, p1[T.int64(0)]))
            part_18: T.let[T.int64] = (part_14 + T.if_then_else((p1[T.int64(1)] == T.int64(-3)), T.int64(2), T.int64(1)))
            part_19: T.let[T.int64] = T.if_then_else((part_18 == T.int64(0)), p0_d0, T.int64(1))
            part_20: T.let[T.int64] = T.if_then_else((p1[T.int64(2)] == T.int64(-3)), (part_19 * T.if_then_else(((part_18 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(2)] == T.int64(0)), part_19, p1[T.int64(2)]))
            extents[T.int64(1)] = T.if_then_else((part_16 < T.int64(0)), (p0_d0 // ((T.if_then_else((part_17 < T.int64(0)), T.int64(1), part_17) * T.if_then_else((part_16 < T.int64(0)), T.int64(1), part_16)) * T.if_then_else((part_20 < T.int64(0)), T.int64(1), part_20))), part_16)
            part_21: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), T.int64(2), T.int64(1))
            part_22: T.let[T.int64] = (part_21 + T.if_then_else((p1[T.int64(1)] == T.int64(-3)), T.int64(2), T.int64(1)))
            part_23: T.let[T.int64] = T.if_then_else((part_22 == T.int64(0)), p0_d0, T.int64(1))
            part_24: T.let[T.int64] = T.if_then_else((p1[T.int64(2)] == T.int64(-3)), (part_23 * T.if_then_else(((part_22 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(2)] == T.int64(0)), part_23, p1[T.int64(2)]))
            part_25: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), p0_d0, T.if_then_else((p1[T.int64(0)] == T.int64(0)), p0_d0, p1[T.int64(0)]))
            part_26: T.let[T.int64] = T.if_then_else((part_21 == T.int64(0)), p0_d0, T.int64(1))
            part_27: T.let[T.int64] = T.if_then_else((p1[T.int64(1)] == T.int64(-3)), (part_26 * T.if_then_else(((part_21 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(1)] == T.int64(0)), part_26, p1[T.int64(1)]))
            extents[T.int64(2)] = T.if_then_else((part_24 < T.int64(0)), (p0_d0 // ((T.if_then_else((part_25 < T.int64(0)), T.int64(1), part_25) * T.if_then_else((part_27 < T.int64(0)), T.int64(1), part_27)) * T.if_then_else((part_24 < T.int64(0)), T.int64(1), part_24))), part_24)

    @T.prim_func(private=True, s_tir=True)
    def tir_dyn_reshape(p0: T.Buffer((p0_d0,), "float32"), p1: T.Buffer((T.int64(3),), "int64"), reshape: T.Buffer((extent0, extent1, extent2), "float32")):
        T.func_attr({"tirx.noalias": True})
        part: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), p0_d0, T.if_then_else((p1[T.int64(0)] == T.int64(0)), p0_d0, p1[T.int64(0)]))
        part_1: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), T.int64(2), T.int64(1))
        part_2: T.let[T.int64] = T.if_then_else((part_1 == T.int64(0)), p0_d0, T.int64(1))
        part_3: T.let[T.int64] = T.if_then_else((p1[T.int64(1)] == T.int64(-3)), (part_2 * T.if_then_else(((part_1 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(1)] == T.int64(0)), part_2, p1[T.int64(1)]))
        part_4: T.let[T.int64] = (part_1 + T.if_then_else((p1[T.int64(1)] == T.int64(-3)), T.int64(2), T.int64(1)))
        part_5: T.let[T.int64] = T.if_then_else((part_4 == T.int64(0)), p0_d0, T.int64(1))
        part_6: T.let[T.int64] = T.if_then_else((p1[T.int64(2)] == T.int64(-3)), (part_5 * T.if_then_else(((part_4 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(2)] == T.int64(0)), part_5, p1[T.int64(2)]))
        assert (((T.if_then_else((part < T.int64(0)), (p0_d0 // ((T.if_then_else((part < T.int64(0)), T.int64(1), part) * T.if_then_else((part_3 < T.int64(0)), T.int64(1), part_3)) * T.if_then_else((part_6 < T.int64(0)), T.int64(1), part_6))), part) * T.if_then_else((part_3 < T.int64(0)), (p0_d0 // ((T.if_then_else((part < T.int64(0)), T.int64(1), part) * T.if_then_else((part_3 < T.int64(0)), T.int64(1), part_3)) * T.if_then_else((part_6 < T.int64(0)), T.int64(1), part_6))), part_3)) * T.if_then_else((part_6 < T.int64(0)), (p0_d0 // ((T.if_then_else((part < T.int64(0)), T.int64(1), part) * T.if_then_else((part_3 < T.int64(0)), T.int64(1), part_3)) * T.if_then_else((part_6 < T.int64(0)), T.int64(1), part_6))), part_6)) == p0_d0), "`dyn.reshape`: the new shape has another number of elements than the data"
        for i_i0, i_i1, i_i2 in T.grid(extent0, extent1, extent2):
            with T.sblock("reshape"):
                i0, i1, i2 = T.axis.remap("SSS", [i_i0, i_i1, i_i2])
                part_7: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), T.int64(2), T.int64(1))
                part_8: T.let[T.int64] = T.if_then_else((part_7 == T.int64(0)), p0_d0, T.int64(1))
                part_9: T.let[T.int64] = T.if_then_else((p1[T.int64(1)] == T.int64(-3)), (part_8 * T.if_then_else(((part_7 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(1)] == T.int64(0)), part_8, p1[T.int64(1)]))
                part_10: T.let[T.int64] = T.if_then_else((p1[T.int64(0)] == T.int64(-3)), p0_d0, T.if_then_else((p1[T.int64(0)] == T.int64(0)), p0_d0, p1[T.int64(0)]))
                part_11: T.let[T.int64] = (part_7 + T.if_then_else((p1[T.int64(1)] == T.int64(-3)), T.int64(2), T.int64(1)))
                part_12: T.let[T.int64] = T.if_then_else((part_11 == T.int64(0)), p0_d0, T.int64(1))
                part_13: T.let[T.int64] = T.if_then_else((p1[T.int64(2)] == T.int64(-3)), (part_12 * T.if_then_else(((part_11 + T.int64(1)) == T.int64(0)), p0_d0, T.int64(1))), T.if_then_else((p1[T.int64(2)] == T.int64(0)), part_12, p1[T.int64(2)]))
                reshape[i0, i1, i2] = p0[((((i0 * T.if_then_else((part_9 < T.int64(0)), (p0_d0 // ((T.if_then_else((part_10 < T.int64(0)), T.int64(1), part_10) * T.if_then_else((part_9 < T.int64(0)), T.int64(1), part_9)) * T.if_then_else((part_13 < T.int64(0)), T.int64(1), part_13))), part_9)) + i1) * T.if_then_else((part_13 < T.int64(0)), (p0_d0 // ((T.if_then_else((part_10 < T.int64(0)), T.int64(1), part_10) * T.if_then_else((part_9 < T.int64(0)), T.int64(1), part_9)) * T.if_then_else((part_13 < T.int64(0)), T.int64(1), part_13))), part_13)) + i2)]

    @T.prim_func(private=True, s_tir=True)
    def tir_searchsorted(p0: T.Buffer((p0_d0,), "float32"), p1: T.Buffer((p1_d0,), "float32"), y: T.Buffer((p1_d0,), "int32")):
        T.func_attr({"tirx.noalias": True})
        low = T.sblock_alloc_buffer((T.int64(16),), "int64")
        cell = T.sblock_alloc_buffer((), "int64")
        for i in T.serial(((p1_d0 + T.int64(15)) // T.int64(16))):
            for i_1 in T.serial(T.min((p1_d0 - (i * T.int64(16))), T.int64(16))):
                low[i_1] = T.int64(0)
            cell[()] = p0_d0
            while (cell[()] > T.int64(1)):
                t: T.let[T.int64] = (cell[()] // T.int64(2))
                for i_2 in T.serial(T.min((p1_d0 - (i * T.int64(16))), T.int64(16))):
                    t_1: T.let[T.int64] = low[i_2]
                    t_2: T.let[T.bool] = (p0[((t_1 + t) - T.int64(1))] < p1[((i * T.int64(16)) + i_2)])
                    low[i_2] = T.if_then_else(t_2, (t_1 + t), t_1)
                cell[()] = (cell[()] - t)
            if (cell[()] > T.int64(0)):
                for i_3 in T.serial(T.min((p1_d0 - (i * T.int64(16))), T.int64(16))):
                    t_3: T.let[T.int64] = low[i_3]
                    t_4: T.let[T.bool] = (p0[t_3] < p1[((i * T.int64(16)) + i_3)])
                    low[i_3] = T.if_then_else(t_4, (t_3 + T.int64(1)), t_3)
            for i_4 in T.serial(T.min((p1_d0 - (i * T.int64(16))), T.int64(16))):
                y[((i * T.int64(16)) + i_4)] = T.Cast("int32", low[i_4])

    @T.prim_func(private=True, s_tir=True)
    def tir_nn_prelu(p0: T.Buffer((p0_d0, p0_d1, T.int64(4)), "float32"), p1: T.Buffer((p1_d0,), "float32"), prelu: T.Buffer((p0_d0, p0_d1, T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        assert (p1_d0 == p0_d1), "`nn.prelu`: n1 is {} and n0 is {}, but they must be equal"
        for i_i0, i_i1, i_i2 in T.grid(p0_d0, p0_d1, T.int64(4)):
            with T.sblock("prelu"):
                i0, i1, i2 = T.axis.remap("SSS", [i_i0, i_i1, i_i2])
                prelu[i0, i1, i2] = T.if_then_else((p0[i0, i1, i2] > T.float32(0.0)), p0[i0, i1, i2], (p0[i0, i1, i2] * p1[T.if_then_else((p1_d0 == T.int64(1)), T.int64(0), i1)]))
