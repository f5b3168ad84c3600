# The chain of check_scale.rs by TVM 0.27's Relax: `python tvm_chain.py OPERATORS` prints the version and the
# seconds that building and normalising takes.
import sys
import time

import tvm
from tvm import relax

from tvm import tirx

count = int(sys.argv[1])
n = tirx.Var("n", "int64")
x = relax.Var("x", relax.TensorType([n, 64], "float32"))
w = relax.Var("w", relax.TensorType([64, 64], "float32"))
start = time.process_time()
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
print(tvm.__version__, time.process_time() - start)
