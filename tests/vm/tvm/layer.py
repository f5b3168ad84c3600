# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 8), dtype="float32"), w: R.Tensor((8, 16), dtype="float32"), b: R.Tensor((16,), dtype="float32")) -> R.Tensor((2, 16), dtype="float32"):
        with R.dataflow():
            y: R.Tensor((2, 16), dtype="float32") = R.matmul(x, w, out_dtype=None)
            z: R.Tensor((2, 16), dtype="float32") = R.add(y, b)
            r: R.Tensor((2, 16), dtype="float32") = R.nn.relu(z)
            s: R.Tensor((2, 16), dtype="float32") = R.nn.softmax(r, axis=1)
            R.output(s)
        return s
