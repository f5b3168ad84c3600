# run: infer-type,CombineParallelMatmul
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 8), dtype="float32"), a: R.Tensor((8, 16), dtype="float32"), b: R.Tensor((8, 32), dtype="float32")) -> R.Tuple(R.Tensor((4, 16), dtype="float32"), R.Tensor((4, 32), dtype="float32")):
        with R.dataflow():
            p: R.Tensor((4, 16), dtype="float32") = R.matmul(x, a, out_dtype=None)
            q: R.Tensor((4, 16), dtype="float32") = R.nn.relu(p)
            r: R.Tensor((4, 32), dtype="float32") = R.matmul(x, b, out_dtype=None)
            s: R.Tensor((4, 32), dtype="float32") = R.nn.relu(r)
            R.output(q, s)
        return (q, s)
