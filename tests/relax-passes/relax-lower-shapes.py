# run: infer-type,VMShapeLower
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), y: R.Tensor(dtype="float32", ndim=2)) -> R.Tensor((2, 3), dtype="float32"):
        R.func_attr({"relax.force_pure": True})
        z: R.Tensor((2, 3), dtype="float32") = R.exp(x)
        return z
