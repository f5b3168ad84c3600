# The chain of check_scale.rs by TVM's Relax: `python tvm_chain.py OPERATORS` prints the version and the
# seconds that building and normalising takes.
import sys
import time

import tvm
from tvm import relax

try:
    from tvm import tirx as tir
except ImportError:
    from tvm import tir

count = int(sys.argv[1])
n = tir.Var("n", "int64")
x = relax.Var("x", relax.TensorStructInfo([n, 64], "float32"))
w = relax.Var("w", relax.TensorStructInfo([64, 64], "float32"))
start = time.perf_counter()
builder = relax.BlockBuilder()
with builder.function("main", [x, w]):
    with builder.dataflow():
        values = []
        for i in range(count):
            last = values[-1] if values else x
            if i % 4 == 0:
                value = relax.op.matmul(last, w)
            elif i % 4 == 1:
                value = relax.op.nn.relu(last)
            elif i % 4 == 2:
                value = relax.op.add(last, values[max(0, i - 3)])
            else:
                value = relax.op.multiply(last, x)
            values.append(builder.emit(value))
        out = builder.emit_output(values[-1])
    builder.emit_func_output(out)
module = builder.finalize()
print(tvm.__version__, time.perf_counter() - start)
