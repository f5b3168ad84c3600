import numpy
@I.ir_module
class Module:
    @R.function
    def a(x: R.Tensor((2,), dtype="float33"), x: R.Tensor) -> R.Tensor((zz,), dtype="float32"):
        with R.dataflow()
            lv = R.addd(x, x)
            R.output(lv)
        y: R.Tensor = R.add(x)
        return nobody

    @R.function
    def b(x: R.Tensor((2,), dtype="float32")):
        import numpy
        cls = Module
        u = R.sum(x, axs=1)
        v = R.add(x, R.const([1, [2]], "float32"))
          w = R.exp(x)
        s = "open
        t = R.exp(R.log(x)
        q = cls.missing(x)
        in = x
        for i in range(3):
            pass
        k = R.call_tir("name", (x,), out_ty=R.Tensor((2,), dtype="float32"))

    @R.function
    def c(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        with R.dataflow():
            lv = R.add(x, x)
            gv = R.exp(lv)
            R.output(gv)
        return lv
        return gv
