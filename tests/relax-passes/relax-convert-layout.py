# run: infer-type,convert-layout
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def blocks(x: R.Tensor((2, 16, 28, 28), dtype="float32"), w: R.Tensor((4, 16, 3, 3), dtype="float32"), gamma: R.Tensor((26, 26), dtype="float32"), beta: R.Tensor((26, 26), dtype="float32")) -> R.Tuple(R.Tensor((2, 4, 26, 26), dtype="float32"), R.Tensor((2, 26), dtype="float32")):
        with R.dataflow():
            c: R.Tensor((2, 4, 26, 26), dtype="float32") = R.nn.conv2d(x, w, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype="float32")
            n: R.Tensor((2, 4, 26, 26), dtype="float32") = R.nn.layer_norm(c, gamma, beta, axes=[-2, -1], epsilon=1e-05, center=True, scale=True)
            s: R.Tensor((2, 26), dtype="float32") = R.sum(n, axis=[1, 2], keepdims=False)
            R.output(n, s)
        return (n, s)

    @R.function
    def last(x: R.Tensor((2, 3, 28, 28), dtype="float32"), w: R.Tensor((4, 3, 3, 3), dtype="float32"), gamma: R.Tensor((4,), dtype="float32"), beta: R.Tensor((4,), dtype="float32"), mean: R.Tensor((4,), dtype="float32"), var: R.Tensor((4,), dtype="float32")) -> R.Tensor((2, 8, 26, 26), dtype="float32"):
        with R.dataflow():
            c: R.Tensor((2, 4, 26, 26), dtype="float32") = R.nn.conv2d(x, w, strides=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], groups=1, data_layout="NCHW", kernel_layout="OIHW", out_layout="NCHW", out_dtype="float32")
            b: R.Tuple(R.Tensor((2, 4, 26, 26), dtype="float32"), R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")) = R.nn.batch_norm(c, gamma, beta, mean, var, axis=1, epsilon=1e-05, center=True, scale=True, momentum=0.1, training=False)
            n: R.Tensor((2, 4, 26, 26), dtype="float32") = b[0]
            t: R.Tensor((2, 8, 26, 26), dtype="float32") = R.concat((c, n), axis=1)
            R.output(t)
        return t
