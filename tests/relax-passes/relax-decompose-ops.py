# run: infer-type,simplify-inference
# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3, 4, 5), dtype="float32"), gamma: R.Tensor((3,), dtype="float32"), beta: R.Tensor((3,), dtype="float32"), mean: R.Tensor((3,), dtype="float32"), var: R.Tensor((3,), dtype="float32")) -> R.Tensor((2, 3, 4, 5), dtype="float32"):
        with R.dataflow():
            b: R.Tuple(R.Tensor((2, 3, 4, 5), dtype="float32"), R.Tensor((3,), dtype="float32"), R.Tensor((3,), dtype="float32")) = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1, epsilon=1e-05, center=True, scale=True, momentum=0.1, training=False)
            y: R.Tensor((2, 3, 4, 5), dtype="float32") = b[0]
            R.output(y)
        return y
