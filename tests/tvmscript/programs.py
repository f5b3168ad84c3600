n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def sum(x: T.Buffer((n, T.int64(4)), "float32"), y: T.Buffer((n,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i, k in T.grid(n, T.int64(4)):
            with T.sblock("sum"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                T.reads(x[v_i, v_k])
                T.writes(y[v_i])
                with T.init():
                    y[v_i] = T.float32(0.0)
                y[v_i] = y[v_i] + x[v_i, v_k]

    @T.prim_func(private=True, s_tir=True)
    def bound(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        for i in T.thread_binding(T.int64(4), thread="threadIdx.x"):
            y[i] = x[i]

    @R.function
    def main(x: R.Tensor((n, 4), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        cls = Module
        gv = R.call_tir(cls.sum, (x,), out_ty=R.Tensor((n,), dtype="float32"))
        return gv

    @R.function
    def count(x: R.Tensor((n,), dtype="float32")) -> T.int64:
        if n % 2 == 0:
            k: T.int64 = 2
        else:
            k: T.int64 = n
        return k

    @R.function(pure=False)
    def checked(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        R.assert_op(n % 2 == 0, format=R.str("even"))
        R.tuple()
        return x
