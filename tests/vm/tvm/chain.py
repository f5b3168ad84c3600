# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 8), dtype="float32"), y: R.Tensor((4, 8), dtype="float32")) -> R.Tensor((4, 8), dtype="float32"):
        a: R.Tensor((4, 8), dtype="float32") = R.add(x, y)
        b: R.Tensor((4, 8), dtype="float32") = R.multiply(a, y)
        c: R.Tensor((4, 8), dtype="float32") = R.exp(b)
        return c
