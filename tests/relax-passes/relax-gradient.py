# run: infer-type,gradient
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), w: R.Tensor((3, 4), dtype="float32")) -> R.Tensor((), dtype="float32"):
        with R.dataflow():
            p: R.Tensor((2, 4), dtype="float32") = R.matmul(x, w, out_dtype=None)
            s: R.Tensor((2, 4), dtype="float32") = R.sigmoid(p)
            gv: R.Tensor((), dtype="float32") = R.sum(s, axis=None, keepdims=False)
            R.output(gv)
        return gv
