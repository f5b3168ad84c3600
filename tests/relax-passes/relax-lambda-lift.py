# run: infer-type,lambda-lift
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        @R.function
        def twice(y: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
            s: R.Tensor((2, 3), dtype="float32") = R.add(y, y)
            return s

        @R.function
        def more(y: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
            s: R.Tensor((2, 3), dtype="float32") = R.add(y, x)
            return s

        a: R.Tensor((2, 3), dtype="float32") = twice(x)
        b: R.Tensor((2, 3), dtype="float32") = more(a)
        return b
