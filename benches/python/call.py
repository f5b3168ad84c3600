"""What a call from Python costs, beside ONNX Runtime's: the sum of two arrays of 16 floats, the start of the package, and a
large argument.

    pip install relax-ir onnxruntime onnx
    python benches/python/call.py

Where onnxruntime is not installed, its rows are left out.
"""

import resource
import subprocess
import sys
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


def ours():
    module = rx.parse("def @main(%a: Tensor[(16,), float32], %b: Tensor[(16,), float32]) { %a + %b }")
    program = module.compile()
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


def started():
    """Milliseconds and MiB that an import takes besides numpy's."""
    code = (
        "import numpy, resource, time; m = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "b, t = m(), time.perf_counter(); import relax_ir;"
        "print((time.perf_counter() - t) * 1e3, (m() - b) / 1024)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return [min(column) for column in zip(*(map(float, r.stdout.split()) for r in runs))]


def large():
    """Microseconds of a call with an argument of 64 MB of which four numbers are looked at, and MiB more in memory."""
    program = rx.parse("def @main(%x: Tensor[(n,), float32]) { strided_slice(%x, begin=[0], end=[4]) }").compile()
    x = np.ones(1 << 24, dtype="float32")
    program(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = nanoseconds(lambda: program(x), rounds=5, repeat=200)
    return took / 1e3, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


if __name__ == "__main__":
    print("| call | ns |\n|---|---|")
    for name, call in [*ours(), ("numpy, a + b", lambda: A + B), *theirs()]:
        print(f"| {name} | {nanoseconds(call):.0f} |")
    milliseconds, mib = started()
    print(f"\nimport: {milliseconds:.1f} ms and {mib:.1f} MiB more than numpy")
    microseconds, mib = large()
    print(f"argument of 64 MB: {microseconds:.1f} µs, {mib:.1f} MiB more")
