# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def twice(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        y: R.Tensor((4,), dtype="float32") = R.add(x, x)
        return y

    @R.function
    def main(c: R.Tensor((), dtype="bool"), x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        if c:
            a: R.Tensor((4,), dtype="float32") = cls.twice(x)
            r_then: R.Tensor((4,), dtype="float32") = R.exp(a)
            r: R.Tensor((4,), dtype="float32") = r_then
        else:
            b: R.Tensor((4,), dtype="float32") = R.multiply(x, x)
            r_else: R.Tensor((4,), dtype="float32") = cls.twice(b)
            r: R.Tensor((4,), dtype="float32") = r_else
        z: R.Tensor((4,), dtype="float32") = R.add(r, x)
        return z
