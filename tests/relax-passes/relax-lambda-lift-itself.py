# run: infer-type,lambda-lift
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        @R.function(pure=False)
        def more(y: R.Tensor((2, 3), dtype="float32"), again: R.Tensor((), dtype="bool")) -> R.Tensor((2, 3), dtype="float32"):
            R.call_packed("note", more, sinfo_args=(R.Tuple,))
            s: R.Tensor((2, 3), dtype="float32") = R.add(y, x)
            if again:
                t: R.Tensor((2, 3), dtype="float32") = more(s, R.const(False, "bool"))
                u: R.Tensor((2, 3), dtype="float32") = t
            else:
                u: R.Tensor((2, 3), dtype="float32") = s
            return u

        b: R.Tensor((2, 3), dtype="float32") = more(x, R.const(True, "bool"))
        return b
