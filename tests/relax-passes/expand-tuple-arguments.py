# run: infer-type,expand-tuple-arguments
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function(private=True)
    def f(t: R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32"))) -> R.Tensor((2, 3), dtype="float32"):
        a: R.Tensor((2, 3), dtype="float32") = t[0]
        b: R.Tensor((2, 3), dtype="float32") = t[1]
        c: R.Tensor((2, 3), dtype="float32") = R.add(a, b)
        return c

    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), p: R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32"))) -> R.Tensor((2, 3), dtype="float32"):
        cls = Module
        y: R.Tensor((2, 3), dtype="float32") = cls.f(p)
        z: R.Tensor((2, 3), dtype="float32") = cls.f((x, y))
        return z
