# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
p0_d0 = TypeVar("p0_d0")
extent0 = TypeVar("extent0")
@I.ir_module
class Module:
    @R.function
    def grow(n_1: R.Tensor((), dtype="int32"), x: R.Tensor(dtype="float32", ndim=2)) -> R.Tensor(dtype="float32", ndim=2):
        cls = Module
        n_2 = T.int64()
        n_3 = T.int64()
        x_1: R.Tensor((n_2, 2), dtype="float32") = R.match_cast(x, R.Tensor((n_2, 2), dtype="float32"))
        with R.dataflow():
            gv: R.Tensor((), dtype="bool") = R.equal(n_1, R.const(0, "int32"))
            R.output(gv)
        if gv:
            choice: R.Tensor((n_2, 2), dtype="float32") = x_1
        else:
            choice: R.Tensor((n_2, 2), dtype="float32") = cls.grow_else(n_1, x_1)
        lv: R.Tensor((n_3, 2), dtype="float32") = R.match_cast(choice, R.Tensor((n_3, 2), dtype="float32"))
        return lv

    @R.function
    def main(n_1: R.Tensor((), dtype="int32"), x: R.Tensor((3, 2), dtype="float32")) -> R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="int32", ndim=2)):
        cls = Module
        n_4 = T.int64()
        n_5 = T.int64()
        y: R.Tensor(dtype="float32", ndim=2) = cls.grow(n_1, x)
        y_1: R.Tensor((n_4, 2), dtype="float32") = R.match_cast(y, R.Tensor((n_4, 2), dtype="float32"))
        with R.dataflow():
            gv: R.Tensor((n_4, 2), dtype="float32") = R.add(y_1, y_1)
            extents: R.Tensor((1,), dtype="int64") = R.call_tir(cls.tir_argwhere_extents, (y_1,), out_ty=R.Tensor((1,), dtype="int64"))
            extents_1: R.Shape(ndim=1) = R.tensor_to_shape(extents)
            R.output(gv, extents_1)
        extents_2: R.Shape([n_5]) = R.match_cast(extents_1, R.Shape([n_5]))
        with R.dataflow():
            gv_1: R.Tensor((n_5, 2), dtype="int32") = R.call_tir(cls.tir_argwhere, (y_1,), out_ty=R.Tensor((n_5, 2), dtype="int32"))
            gv_2: R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tensor(dtype="int32", ndim=2)) = (gv, gv_1)
            R.output(gv_2)
        return gv_2

    @T.prim_func(private=True, s_tir=True)
    def tir_argwhere_extents(p0: T.Buffer((p0_d0, T.int64(2)), "float32"), extents: T.Buffer((T.int64(1),), "int64")):
        T.func_attr({"tirx.noalias": True})
        count = T.sblock_alloc_buffer((), "int64")
        places = T.sblock_alloc_buffer((((p0_d0 * T.int64(2)) + T.int64(1)), T.int64(2)), "int32")
        cell = T.sblock_alloc_buffer((), "int64")
        cell[()] = T.int64(0)
        for i0 in T.serial(p0_d0):
            for i1 in T.serial(T.int64(2)):
                places[cell[()], T.int64(0)] = T.Cast("int32", i0)
                places[cell[()], T.int64(1)] = T.Cast("int32", i1)
                cell[()] = (cell[()] + T.Cast("int64", (p0[i0, i1] != T.float32(0.0))))
        count[()] = cell[()]
        extents[T.int64(0)] = count[()]

    @T.prim_func(private=True, s_tir=True)
    def tir_argwhere(p0: T.Buffer((p0_d0, T.int64(2)), "float32"), y: T.Buffer((extent0, T.int64(2)), "int32")):
        T.func_attr({"tirx.noalias": True})
        count = T.sblock_alloc_buffer((), "int64")
        places = T.sblock_alloc_buffer((((p0_d0 * T.int64(2)) + T.int64(1)), T.int64(2)), "int32")
        cell = T.sblock_alloc_buffer((), "int64")
        cell[()] = T.int64(0)
        for i0 in T.serial(p0_d0):
            for i1 in T.serial(T.int64(2)):
                places[cell[()], T.int64(0)] = T.Cast("int32", i0)
                places[cell[()], T.int64(1)] = T.Cast("int32", i1)
                cell[()] = (cell[()] + T.Cast("int64", (p0[i0, i1] != T.float32(0.0))))
        count[()] = cell[()]
        for i_i0, i_i1 in T.grid(extent0, T.int64(2)):
            with T.sblock("y"):
                i0_1, i1_1 = T.axis.remap("SS", [i_i0, i_i1])
                y[i0_1, i1_1] = places[i0_1, i1_1]

    @R.function(private=True)
    def grow_else(n_1: R.Tensor((), dtype="int32"), x: R.Tensor((n, 2), dtype="float32")) -> R.Tensor((n, 2), dtype="float32"):
        cls = Module
        n_6 = T.int64()
        with R.dataflow():
            lv: R.Tensor((), dtype="int32") = R.subtract(n_1, R.const(1, "int32"))
            lv_1: R.Tensor((n * 2, 2), dtype="float32") = R.concat((x, x), axis=0)
            R.output(lv, lv_1)
        gv: R.Tensor(dtype="float32", ndim=2) = cls.grow(lv, lv_1)
        gv_1: R.Tensor((n_6, 2), dtype="float32") = R.match_cast(gv, R.Tensor((n_6, 2), dtype="float32"))
        return gv_1
