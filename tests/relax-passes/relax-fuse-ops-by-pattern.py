# run: infer-type,merge-composite
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 8), dtype="float32"), w: R.Tensor((8, 16), dtype="float32"), b: R.Tensor((16,), dtype="float32")) -> R.Tensor((4, 16), dtype="float32"):
        with R.dataflow():
            p: R.Tensor((4, 16), dtype="float32") = R.matmul(x, w, out_dtype=None)
            s: R.Tensor((4, 16), dtype="float32") = R.add(p, b)
            r: R.Tensor((4, 16), dtype="float32") = R.nn.relu(s)
            R.output(r)
        return r
