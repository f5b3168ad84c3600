# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function(pure=False)
    def count(cell: R.Any, n: R.Tensor((), dtype="int32")) -> R.Any:
        cls = Module
        with R.dataflow():
            gv: R.Tensor((), dtype="bool") = R.greater(n, R.const(0, "int32"))
            R.output(gv)
        if gv:
            choice: R.Any = cls.count_then(cell, n)
        else:
            choice: R.Any = cls.count_else()
        return choice

    @R.function(pure=False)
    def main(n: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        cls = Module
        cell: R.Any = cls.ref_new(R.const(0, "int32"))
        _: R.Any = cls.count(cell, n)
        lv: R.Any = cls.ref_read(cell)
        lv_1: R.Tensor((), dtype="int32") = R.match_cast(lv, R.Tensor((), dtype="int32"))
        return lv_1

    @R.function(pure=False, private=True)
    def count_then(cell: R.Any, n: R.Tensor((), dtype="int32")) -> R.Any:
        cls = Module
        lv: R.Any = cls.ref_read(cell)
        lv_1: R.Tensor((), dtype="int32") = R.match_cast(lv, R.Tensor((), dtype="int32"))
        with R.dataflow():
            gv: R.Tensor((), dtype="int32") = R.add(lv_1, n)
            R.output(gv)
        _: R.Any = cls.ref_write(cell, gv)
        with R.dataflow():
            gv_1: R.Tensor((), dtype="int32") = R.subtract(n, R.const(1, "int32"))
            R.output(gv_1)
        lv_2: R.Any = cls.count(cell, gv_1)
        return lv_2

    @R.function(private=True)
    def count_else() -> R.Any:
        gv: R.Any = R.tuple()
        return gv

    @R.function(pure=False, private=True)
    def ref_new(value: R.Any) -> R.Any:
        result: R.Any = R.call_packed("ffi.List", value, ty_args=(R.Any(),))
        return result

    @R.function(pure=False, private=True)
    def ref_read(cell: R.Any) -> R.Any:
        result: R.Any = R.call_packed("ffi.ListGetItem", cell, 0, ty_args=(R.Any(),))
        return result

    @R.function(pure=False, private=True)
    def ref_write(cell: R.Any, value: R.Any) -> R.Any:
        result: R.Any = R.call_packed("ffi.ListSetItem", cell, 0, value, ty_args=(R.Any(),))
        return result
