# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def compose(f: R.Any, g: R.Any) -> R.Any:
        cls = Module
        with R.dataflow():
            closure: R.Any = R.make_closure(cls.compose_lv, (f, g))
            R.output(closure)
        return closure

    @R.function
    def main(k: R.Tensor((), dtype="float32"), n: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="float32"):
        cls = Module
        with R.dataflow():
            closure: R.Any = R.make_closure(cls.main_scale, (k,))
            R.output(closure)
        h: R.Any = cls.main_power(n, closure, k)
        with R.dataflow():
            lv: R.Any = R.invoke_pure_closure(h, (R.const(2.0, "float32"),), ty_args=(R.Any(),))
            R.output(lv)
        lv_1: R.Tensor((), dtype="float32") = R.match_cast(lv, R.Tensor((), dtype="float32"))
        return lv_1

    @R.function(private=True)
    def compose_lv(x: R.Tensor((), dtype="float32"), f: R.Any, g: R.Any) -> R.Tensor((), dtype="float32"):
        with R.dataflow():
            lv: R.Any = R.invoke_pure_closure(f, (x,), ty_args=(R.Any(),))
            R.output(lv)
        lv_1: R.Tensor((), dtype="float32") = R.match_cast(lv, R.Tensor((), dtype="float32"))
        with R.dataflow():
            lv_2: R.Any = R.invoke_pure_closure(g, (lv_1,), ty_args=(R.Any(),))
            R.output(lv_2)
        lv_3: R.Tensor((), dtype="float32") = R.match_cast(lv_2, R.Tensor((), dtype="float32"))
        return lv_3

    @R.function(private=True)
    def main_scale(x: R.Tensor((), dtype="float32"), k: R.Tensor((), dtype="float32")) -> R.Tensor((), dtype="float32"):
        with R.dataflow():
            gv: R.Tensor((), dtype="float32") = R.multiply(x, k)
            R.output(gv)
        return gv

    @R.function(private=True)
    def main_power(i: R.Tensor((), dtype="int32"), f: R.Any, k: R.Tensor((), dtype="float32")) -> R.Any:
        cls = Module
        with R.dataflow():
            gv: R.Tensor((), dtype="bool") = R.equal(i, R.const(0, "int32"))
            R.output(gv)
        if gv:
            choice: R.Any = f
        else:
            choice: R.Any = cls.main_power_else(i, f, k)
        return choice

    @R.function(private=True)
    def main_power_else(i: R.Tensor((), dtype="int32"), f: R.Any, k: R.Tensor((), dtype="float32")) -> R.Any:
        cls = Module
        with R.dataflow():
            gv: R.Tensor((), dtype="int32") = R.subtract(i, R.const(1, "int32"))
            closure: R.Any = R.make_closure(cls.main_scale, (k,))
            R.output(gv, closure)
        lv: R.Any = cls.compose(f, closure)
        lv_1: R.Any = cls.main_power(gv, lv, k)
        return lv_1
