# run: infer-type,remove-unused-outputs
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function(private=True)
    def f(x: R.Tensor((2, 3), dtype="float32")) -> R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32")):
        a: R.Tensor((2, 3), dtype="float32") = R.exp(x)
        b: R.Tensor((2, 3), dtype="float32") = R.tanh(x)
        c: R.Tensor((2, 3), dtype="float32") = R.sqrt(x)
        return (a, b, c)

    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        cls = Module
        t: R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32")) = cls.f(x)
        a: R.Tensor((2, 3), dtype="float32") = t[0]
        c: R.Tensor((2, 3), dtype="float32") = t[2]
        s: R.Tensor((2, 3), dtype="float32") = R.add(a, c)
        return s
