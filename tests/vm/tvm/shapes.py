# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 4), dtype="float32")) -> R.Tensor((n, 8), dtype="float32"):
        a: R.Tensor((n, 8), dtype="float32") = R.concat((x, x), axis=1)
        b: R.Tensor((n, 8), dtype="float32") = R.exp(a)
        return b
