# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        a = R.call_dps_packed("mine.double", (x,), out_ty=R.Tensor((4,), dtype="float32"))
        b: R.Tensor((4,), dtype="float32") = R.exp(a)
        return b
