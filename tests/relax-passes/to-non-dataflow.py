# run: infer-type,to-non-dataflow
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        with R.dataflow():
            a: R.Tensor((2, 3), dtype="float32") = R.add(x, x)
            b: R.Tensor((2, 3), dtype="float32") = R.multiply(a, x)
            R.output(b)
        c: R.Tensor((2, 3), dtype="float32") = R.exp(b)
        return c
