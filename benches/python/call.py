"""What a call from Python costs, beside the same call from C and ONNX Runtime's: the sum of two arrays of 16 floats, the
start of the package, and a large argument.

    pip install relax-ir onnxruntime onnx
    python benches/python/call.py [--held]

Where onnxruntime or a C compiler is not installed, their rows are left out. With `--held` it fails where the package does not
keep what it promises: 1.5 microseconds above C, less than ONNX Runtime, a start of 50 ms and 20 MiB, no copy of arguments.
"""

import ctypes
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

import relax_ir as rx

A = np.arange(16, dtype="float32")
B = np.ones(16, dtype="float32")
OUT = np.empty(16, dtype="float32")


def nanoseconds(call, rounds=60, repeat=5_000):
    """What one call takes, in the round that other programs disturbed least."""
    each = range(repeat)
    times = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        for _ in each:
            call()
        times.append((time.perf_counter_ns() - begin) / repeat)
    return min(times)


SUM = "def @main(%a: Tensor[(16,), float32], %b: Tensor[(16,), float32]) { %a + %b }"
LOOP = """
#include "relax_runtime.h"
#include <time.h>
int32_t relax_main(RxContext *ctx, RxObject *const *args, int32_t nargs, RxObject **out);
double nanoseconds(int times) {
  RxContext *ctx = rx_context_create();
  static float a[16], b[16];
  int64_t shape[1] = {16};
  DLDataType f32 = {kDLFloat, 32, 1};
  RxObject *args[2] = {rx_tensor_borrow(ctx, f32, 1, shape, a), rx_tensor_borrow(ctx, f32, 1, shape, b)}, *out;
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int i = 0; i < times; i++) {
    if (relax_main(ctx, args, 2, &out) != RX_OK) return -1;
    rx_release(ctx, out);
  }
  clock_gettime(CLOCK_MONOTONIC, &to);
  rx_release(ctx, args[0]);
  rx_release(ctx, args[1]);
  rx_context_destroy(ctx);
  return ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / times;
}
"""


def in_c(rounds=60, repeat=5_000):
    """What a call takes of a C program, with making and releasing its result; `None` without a compiler."""
    if shutil.which("cc") is None or sys.platform != "linux":
        return None
    headers = pathlib.Path(__file__).resolve().parents[2] / "crates" / "runtime" / "include"
    with tempfile.TemporaryDirectory() as room:
        path = {name: f"{room}/{name}" for name in ("model.o", "loop.c", "loop.so")}
        rx.parse(SUM).compile().save(path["model.o"])
        pathlib.Path(path["loop.c"]).write_text(LOOP)
        parts = [path["loop.c"], path["model.o"], rx._native.__file__]
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{headers}", "-o", path["loop.so"], *parts], check=True)
        loop = ctypes.CDLL(path["loop.so"]).nanoseconds
    loop.restype = ctypes.c_double
    return min(loop(repeat) for _ in range(rounds))


def ours():
    program = rx.parse(SUM).compile()
    np.testing.assert_array_equal(program(A, B), A + B)
    yield "relax_ir", lambda: program(A, B)
    yield "relax_ir, by name", lambda: program(a=A, b=B)
    yield "relax_ir, out=", lambda: program(A, B, out=OUT)


def theirs():
    try:
        import onnx
        import onnxruntime
        from onnx import TensorProto, helper
    except ImportError:
        return
    def of(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [16])

    node = helper.make_node("Add", ["a", "b"], ["c"])
    graph = helper.make_graph([node], "add", [of("a"), of("b")], [of("c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    yield "onnxruntime, run", lambda: session.run(None, {"a": A, "b": B})
    binding = session.io_binding()
    binding.bind_cpu_input("a", A)
    binding.bind_cpu_input("b", B)
    binding.bind_output("c")
    yield "onnxruntime, io-binding", lambda: session.run_with_iobinding(binding)


def started(name):
    """Milliseconds of the processor and MiB that a process takes for an import; `None` where it is not installed."""
    # Not the largest so far, which a process has from the one that started it.
    code = (
        "import time; m = lambda: int(open('/proc/self/statm').read().split()[1]) * 4;"
        f"b, t = m(), time.process_time(); import {name};"
        "print((time.process_time() - t) * 1e3, (m() - b) / 1024)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True) for _ in range(7)]
    if any(run.returncode != 0 for run in runs):
        return None
    return [min(column) for column in zip(*(map(float, run.stdout.split()) for run in runs))]


def large():
    """Microseconds of a call with an argument of 64 MB of which four numbers are looked at, and MiB more in memory."""
    program = rx.parse("def @main(%x: Tensor[(n,), float32]) { strided_slice(%x, begin=[0], end=[4]) }").compile()
    x = np.ones(1 << 24, dtype="float32")
    program(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = nanoseconds(lambda: program(x), rounds=5, repeat=200)
    return took / 1e3, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main():
    broken = []
    print("| call | ns |\n|---|---|")
    took = {}
    for name, call in [*ours(), ("numpy, a + b", lambda: A + B), *theirs()]:
        took[name] = nanoseconds(call)
        print(f"| {name} | {took[name]:.0f} |")
    took["C"] = in_c()
    if took["C"] is not None:
        print(f"| the same code, from C | {took['C']:.0f} |")
        if took["relax_ir"] - took["C"] > 1500:
            broken.append("a call takes more than 1.5 µs above C")
    if any(took["relax_ir"] > took[name] for name in took if name.startswith("onnxruntime")):
        broken.append("a call takes more than ONNX Runtime's")
    print("\n| import | ms | MiB |\n|---|---|---|")
    for name in ("relax_ir", "numpy", "relax_ir, numpy", "onnxruntime", "tvm", "torch"):
        found = started(name)
        if found is not None:
            print(f"| {name} | {found[0]:.1f} | {found[1]:.1f} |")
        if name == "relax_ir" and not (found[0] < 50 and found[1] < 20):
            broken.append("the package takes more than 50 ms or 20 MiB to start")
    microseconds, mib = large()
    print(f"\nargument of 64 MB: {microseconds:.1f} µs, {mib:.1f} MiB more")
    if microseconds > 1000 or mib > 1:
        broken.append("a large argument is copied")
    if "--held" in sys.argv:
        sys.exit("\n".join(broken) or 0)


if __name__ == "__main__":
    main()
