# from typing import TypeVar
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.script import relax as R

n = TypeVar("n")
@I.ir_module
class Module:
  I.module_global_infos({"vdevice": [I.vdevice({"kind": "llvm"}, 0, "global")]})
  @T.prim_func(private=True, s_tir=True)
  def twice(x: T.Buffer((n,), "float32"), y: T.Buffer((n,), "float32")):
      for i in range(n):
          y[i] = x[i] * T.float32(2.0)

  @R.function
  def main(x: R.Tensor((n,), dtype='float32')) -> R.Tensor((n,), dtype='float32'):
    cls = Module
    gv = R.call_tir(cls.twice, (x,),
                    out_ty=R.Tensor((n,),
                                    dtype="float32"))  # over several lines
    return cls.placed(gv)

  @R.function
  def placed(x: R.Tensor((n,), dtype="float32", vdevice="llvm:0:global")) -> R.Tensor((n,), dtype="float32"):
    return x
