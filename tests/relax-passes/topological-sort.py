# run: infer-type,topological-sort
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        with R.dataflow():
            a: R.Tensor((2, 3), dtype="float32") = R.exp(x)
            b: R.Tensor((2, 3), dtype="float32") = R.tanh(x)
            c: R.Tensor((2, 3), dtype="float32") = R.sqrt(a)
            d: R.Tensor((2, 3), dtype="float32") = R.abs(b)
            e: R.Tensor((2, 3), dtype="float32") = R.add(c, d)
            R.output(e)
        return e
