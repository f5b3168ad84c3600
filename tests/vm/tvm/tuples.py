# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(p: R.Tuple(R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32"))) -> R.Tuple(R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")):
        a: R.Tensor((4,), dtype="float32") = p[0]
        b: R.Tensor((4,), dtype="float32") = p[1]
        c: R.Tensor((4,), dtype="float32") = R.add(a, b)
        d: R.Tensor((4,), dtype="float32") = R.subtract(a, b)
        return (c, d)
