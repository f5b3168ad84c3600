# run: infer-type,canonicalize-bindings
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), t: R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32"))) -> R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32"))):
        with R.dataflow():
            c: R.Tensor((), dtype="float32") = R.const(2.0, "float32")
            a: R.Tensor((2, 3), dtype="float32") = R.multiply(x, c)
            p: R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32")) = (a, x)
            q: R.Tensor((2, 3), dtype="float32") = p[0]
            s: R.Tensor((2, 3), dtype="float32") = R.add(q, x)
            out: R.Tensor((2, 3), dtype="float32") = s
            t0: R.Tensor((2, 3), dtype="float32") = t[0]
            t1: R.Tensor((2, 3), dtype="float32") = t[1]
            u: R.Tuple(R.Tensor((2, 3), dtype="float32"), R.Tensor((2, 3), dtype="float32")) = (t0, t1)
            R.output(out, a, u)
        return (out, u)
