# run: infer-type,ToMixedPrecision
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 8), dtype="float32"), w: R.Tensor((8, 16), dtype="float32")) -> R.Tensor((4, 16), dtype="float32"):
        with R.dataflow():
            p: R.Tensor((4, 16), dtype="float32") = R.matmul(x, w, out_dtype="float32")
            r: R.Tensor((4, 16), dtype="float32") = R.nn.relu(p)
            s: R.Tensor((4, 16), dtype="float32") = R.add(r, R.const(1.0, "float32"))
            R.output(s)
        return s
