# run: infer-type,eliminate-common-subexpr
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), c: R.Tensor((), dtype="bool")) -> R.Tensor((2, 3), dtype="float32"):
        a: R.Tensor((2, 3), dtype="float32") = R.add(x, x)
        if c:
            b: R.Tensor((2, 3), dtype="float32") = R.add(x, x)
            d_then: R.Tensor((2, 3), dtype="float32") = R.exp(b)
            d: R.Tensor((2, 3), dtype="float32") = d_then
        else:
            e: R.Tensor((2, 3), dtype="float32") = R.exp(x)
            d: R.Tensor((2, 3), dtype="float32") = e
        f: R.Tensor((2, 3), dtype="float32") = R.exp(x)
        g: R.Tensor((2, 3), dtype="float32") = R.multiply(d, f)
        h: R.Tensor((2, 3), dtype="float32") = R.add(a, g)
        return h
