# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def width(f: R.Any, s: R.Tuple(R.Tensor((), dtype="int32"), R.Any)) -> R.Tensor((), dtype="int32"):
        cls = Module
        with R.dataflow():
            tag: R.Tensor((), dtype="int32") = s[0]
            is_: R.Tensor((), dtype="bool") = R.equal(tag, R.const(0, "int32"))
            R.output(is_)
        if is_:
            choice: R.Tensor((), dtype="int32") = cls.width_Point(s, f)
        else:
            choice: R.Tensor((), dtype="int32") = cls.width_rest(s, f)
        return choice

    @R.function
    def main(n: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        cls = Module
        with R.dataflow():
            line: R.Any = (n,)
            lv: R.Tuple(R.Tensor((), dtype="int32"), R.Any) = (R.const(1, "int32"), line)
            line_1: R.Any = (R.const(3, "int32"),)
            lv_1: R.Tuple(R.Tensor((), dtype="int32"), R.Any) = (R.const(1, "int32"), line_1)
            both: R.Any = (lv, lv_1)
            gv: R.Tuple(R.Tensor((), dtype="int32"), R.Any) = (R.const(2, "int32"), both)
            closure: R.Any = R.make_closure(cls.main_double, R.tuple())
            R.output(gv, closure)
        lv_2: R.Tensor((), dtype="int32") = cls.width(closure, gv)
        return lv_2

    @R.function(private=True)
    def width_Point(s: R.Tuple(R.Tensor((), dtype="int32"), R.Any), f: R.Any) -> R.Tensor((), dtype="int32"):
        gv: R.Tensor((), dtype="int32") = R.const(0, "int32")
        return gv

    @R.function(private=True)
    def width_rest(s: R.Tuple(R.Tensor((), dtype="int32"), R.Any), f: R.Any) -> R.Tensor((), dtype="int32"):
        cls = Module
        with R.dataflow():
            tag: R.Tensor((), dtype="int32") = s[0]
            is_: R.Tensor((), dtype="bool") = R.equal(tag, R.const(2, "int32"))
            R.output(is_)
        if is_:
            choice: R.Tensor((), dtype="int32") = cls.width_rest_Both(s, f)
        else:
            choice: R.Tensor((), dtype="int32") = cls.width_rest_rest(s, f)
        return choice

    @R.function(private=True)
    def width_rest_Both(s: R.Tuple(R.Tensor((), dtype="int32"), R.Any), f: R.Any) -> R.Tensor((), dtype="int32"):
        cls = Module
        payload: R.Any = s[1]
        fields: R.Tuple(R.Tuple(R.Tensor((), dtype="int32"), R.Any), R.Tuple(R.Tensor((), dtype="int32"), R.Any)) = R.match_cast(payload, R.Tuple(R.Tuple(R.Tensor((), dtype="int32"), R.Any), R.Tuple(R.Tensor((), dtype="int32"), R.Any)))
        with R.dataflow():
            field: R.Tuple(R.Tensor((), dtype="int32"), R.Any) = fields[0]
            field_1: R.Tuple(R.Tensor((), dtype="int32"), R.Any) = fields[1]
            tag: R.Tensor((), dtype="int32") = field[0]
            is_: R.Tensor((), dtype="bool") = R.equal(tag, R.const(1, "int32"))
            R.output(field, field_1, is_)
        if is_:
            choice: R.Tensor((), dtype="int32") = cls.width_rest_Both_Line(field_1, field, s, f)
        else:
            choice: R.Tensor((), dtype="int32") = cls.width_rest_rest(s, f)
        return choice

    @R.function(private=True)
    def width_rest_rest(s: R.Tuple(R.Tensor((), dtype="int32"), R.Any), f: R.Any) -> R.Tensor((), dtype="int32"):
        cls = Module
        with R.dataflow():
            tag: R.Tensor((), dtype="int32") = s[0]
            is_: R.Tensor((), dtype="bool") = R.equal(tag, R.const(2, "int32"))
            R.output(is_)
        if is_:
            choice: R.Tensor((), dtype="int32") = cls.width_rest_rest_Both(s, f)
        else:
            choice: R.Tensor((), dtype="int32") = cls.width_rest_rest_rest(s, f)
        return choice

    @R.function(private=True)
    def width_rest_rest_Both(s: R.Tuple(R.Tensor((), dtype="int32"), R.Any), f: R.Any) -> R.Tensor((), dtype="int32"):
        cls = Module
        payload: R.Any = s[1]
        fields: R.Tuple(R.Tuple(R.Tensor((), dtype="int32"), R.Any), R.Tuple(R.Tensor((), dtype="int32"), R.Any)) = R.match_cast(payload, R.Tuple(R.Tuple(R.Tensor((), dtype="int32"), R.Any), R.Tuple(R.Tensor((), dtype="int32"), R.Any)))
        x: R.Tuple(R.Tensor((), dtype="int32"), R.Any) = fields[0]
        lv: R.Tensor((), dtype="int32") = cls.width(f, x)
        return lv

    @R.function(private=True)
    def width_rest_rest_rest(s: R.Tuple(R.Tensor((), dtype="int32"), R.Any), f: R.Any) -> R.Tensor((), dtype="int32"):
        payload: R.Any = s[1]
        fields: R.Tuple(R.Any) = R.match_cast(payload, R.Tuple(R.Any))
        with R.dataflow():
            a: R.Any = fields[0]
            lv: R.Any = R.invoke_pure_closure(f, (a,), ty_args=(R.Any(),))
            R.output(lv)
        lv_1: R.Tensor((), dtype="int32") = R.match_cast(lv, R.Tensor((), dtype="int32"))
        return lv_1

    @R.function(private=True)
    def width_rest_Both_Line(field: R.Tuple(R.Tensor((), dtype="int32"), R.Any), field_1: R.Tuple(R.Tensor((), dtype="int32"), R.Any), s: R.Tuple(R.Tensor((), dtype="int32"), R.Any), f: R.Any) -> R.Tensor((), dtype="int32"):
        cls = Module
        payload: R.Any = field_1[1]
        fields: R.Tuple(R.Any) = R.match_cast(payload, R.Tuple(R.Any))
        with R.dataflow():
            a: R.Any = fields[0]
            tag: R.Tensor((), dtype="int32") = field[0]
            is_: R.Tensor((), dtype="bool") = R.equal(tag, R.const(1, "int32"))
            R.output(a, is_)
        if is_:
            choice: R.Tensor((), dtype="int32") = cls.width_rest_Both_Line_Line(field, s, f, a)
        else:
            choice: R.Tensor((), dtype="int32") = cls.width_rest_rest(s, f)
        return choice

    @R.function(private=True)
    def width_rest_Both_Line_Line(field: R.Tuple(R.Tensor((), dtype="int32"), R.Any), s: R.Tuple(R.Tensor((), dtype="int32"), R.Any), f: R.Any, a: R.Any) -> R.Tensor((), dtype="int32"):
        payload: R.Any = field[1]
        fields: R.Tuple(R.Any) = R.match_cast(payload, R.Tuple(R.Any))
        with R.dataflow():
            b: R.Any = fields[0]
            lv: R.Any = R.invoke_pure_closure(f, (a,), ty_args=(R.Any(),))
            R.output(b, lv)
        lv_1: R.Tensor((), dtype="int32") = R.match_cast(lv, R.Tensor((), dtype="int32"))
        with R.dataflow():
            lv_2: R.Any = R.invoke_pure_closure(f, (b,), ty_args=(R.Any(),))
            R.output(lv_2)
        lv_3: R.Tensor((), dtype="int32") = R.match_cast(lv_2, R.Tensor((), dtype="int32"))
        with R.dataflow():
            gv: R.Tensor((), dtype="int32") = R.add(lv_1, lv_3)
            R.output(gv)
        return gv

    @R.function(private=True)
    def main_double(x: R.Tensor((), dtype="int32")) -> R.Tensor((), dtype="int32"):
        with R.dataflow():
            gv: R.Tensor((), dtype="int32") = R.add(x, x)
            R.output(gv)
        return gv
