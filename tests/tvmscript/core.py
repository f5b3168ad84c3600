# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R

n = TypeVar("n")
m = TypeVar("m")
@I.ir_module
class Net:
    I.module_attrs({"attr": 10})
    @R.function(private=True)
    def scale(x: R.Tensor((n, 4), dtype="float32"), by: T.float32) -> R.Tensor((n, 4), dtype="float32"):
        gv: R.Tensor((n, 4), dtype="float32") = R.multiply(x, R.const(2.0, "float32"))
        return gv

    @R.function(pure=False)
    def main(x: R.Tensor((n, 4), dtype="float32"), c: R.Tensor((), dtype="bool"), w: R.Tensor(("m * 2",), dtype="float32"), s: R.Shape([m]), o: R.Any) -> R.Tensor(dtype="float32", ndim=2):
        R.func_attr({"num_input": 2, "names": ["a", "b"], "bounds": {"n": 4}})
        cls = Net
        k = T.int64()
        with R.dataflow():
            lv: R.Tensor((n, 4), dtype="float32") = R.add(x, x)
            lv1: R.Tensor((4, n), dtype="float32") = R.permute_dims(lv, axes=[1, 0])
            lv2 = R.call_dps_packed("my.kernel", (lv1,), out_ty=R.Tensor((n * 4,), dtype="float32"))
            gv = (lv, (lv2,))
            R.output(lv1, gv)
        t: R.Tensor((n, 4), dtype="float32") = gv[0]
        R.print(t, format=R.str("\"{}\"\n"))
        d: R.Tensor((k, 4), dtype="float32") = R.match_cast(o, R.Tensor((k, 4), dtype="float32"))
        if c:
            a: R.Tensor((k, 4), dtype="float32") = R.exp(d)
            y: R.Tensor((k, 4), dtype="float32") = R.nn.relu(a)
        else:
            y: R.Tensor((k, 4), dtype="float32") = d
        p: R.Any = R.call_packed("f", y, 1, R.dtype("float32"), ty_args=(R.Any,))
        q = R.call_pure_packed("g", p, ty_args=(R.Tensor(dtype="float32", ndim=2),))
        @R.function
        def inner(z: R.Tensor((2, 2), dtype="float32")) -> R.Tensor((2, 2), dtype="float32"):
            r: R.Tensor((2, 2), dtype="float32") = R.add(z, R.const([[1, 2.5], [float("inf"), -3]], "float32"))
            return r
        u: R.Tensor((2, 2), dtype="float32") = inner(R.const([[0, 1], [2, 3]], "float32"))
        v: R.Tensor((n, 4), dtype="float32") = cls.scale(t, T.float32(0.5))
        return q
