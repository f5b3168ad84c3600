# run: infer-type,VMShapeLower
# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

m = TypeVar("m")
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), y: R.Tensor(dtype="float32", ndim=2)) -> R.Tensor((2, 3), dtype="float32"):
        R.func_attr({"relax.force_pure": True})
        z: R.Tensor((2, 3), dtype="float32") = R.exp(x)
        return z

    @R.function
    def symbols(x: R.Tensor(("n * m", 4), dtype="float32"), y: R.Tensor((n,), dtype="float32"), s: R.Shape([m, n])) -> R.Tensor((n,), dtype="float32"):
        R.func_attr({"relax.force_pure": True})
        block: R.Any = R.vm.alloc_storage(R.shape([n * 4]), 0, R.dtype("uint8"), R.str("global"))
        z: R.Tensor((n,), dtype="float32") = R.vm.alloc_tensor(block, 0, R.shape([n]), R.dtype("float32"), 0)
        R.call_packed("write", y, z, ty_args=(R.Tuple,))
        return z
