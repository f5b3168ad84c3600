# run: infer-type,gradient
# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5, 3), dtype="float32"), t: R.Tensor((5,), dtype="int64")) -> R.Tensor((), dtype="float32"):
        with R.dataflow():
            p: R.Tensor((5, 3), dtype="float32") = R.nn.log_softmax(x, axis=-1)
            gv: R.Tensor((), dtype="float32") = R.nn.nll_loss(p, t, reduction="sum", ignore_index=1)
            R.output(gv)
        return gv
