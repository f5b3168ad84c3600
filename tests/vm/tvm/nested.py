# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(c: R.Tensor((), dtype="bool"), d: R.Tensor((), dtype="bool"), x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        if c:
            if d:
                q_then: R.Tensor((4,), dtype="float32") = R.exp(x)
                q: R.Tensor((4,), dtype="float32") = q_then
            else:
                q_else: R.Tensor((4,), dtype="float32") = R.negative(x)
                q: R.Tensor((4,), dtype="float32") = q_else
            r_then: R.Tensor((4,), dtype="float32") = R.add(q, x)
            r: R.Tensor((4,), dtype="float32") = r_then
        else:
            r_else: R.Tensor((4,), dtype="float32") = R.sqrt(x)
            r: R.Tensor((4,), dtype="float32") = r_else
        z: R.Tensor((4,), dtype="float32") = R.multiply(r, r)
        return z
