# run: infer-type,remove-unused-parameters
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
    @R.function(private=True)
    def f(x: R.Tensor((n, 3), dtype="float32"), y: R.Tensor((3,), dtype="float32")) -> R.Tensor((n, 3), dtype="float32"):
        z: R.Tensor((n, 3), dtype="float32") = R.zeros(R.shape([n, 3]), dtype="float32")
        s: R.Tensor((n, 3), dtype="float32") = R.add(z, y)
        return s

    @R.function
    def main(x: R.Tensor((n, 3), dtype="float32"), y: R.Tensor((3,), dtype="float32")) -> R.Tensor((n, 3), dtype="float32"):
        cls = Module
        z: R.Tensor((n, 3), dtype="float32") = cls.f(x, y)
        return z
