#!/usr/bin/env python3
"""How long compilation takes, from text (or graph) to object code: relaxc, TVM with LLVM, iree-compile.

    cargo build --release -p relax-cli
    python benches/compile_time.py [--relaxc PATH] [--runs N] [--instructions]

Two models: ResNet-18 for 224 x 224 images with its weights as parameters, and a module of two operators. The
others get the same graphs through ONNX; what is not installed is left out. Times are the least of several
runs, on one core (pinned where the system can). For relaxc the time is that of the whole process, start and
output included; for TVM that of `relax.build` and exporting the object, for IREE that of the compiler's process
on the MLIR that was imported before. `--instructions` counts relaxc's user instructions by `perf stat`
instead, which a busy machine does not disturb.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TWO = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 1024), float32], %y: Tensor[(1, 1024), float32]) {
  nn.relu(add(%x, %y))
}
"""


def least(runs, work):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def onnx_models():
    """The two models as ONNX, weights as inputs."""
    from onnx import TensorProto, helper

    def value(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes, inputs = [], []

    def param(name, *shape):
        inputs.append(value(name, list(shape)))
        return name

    def emit(op, args, **attrs):
        out = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, args, [out], **attrs))
        return out

    def conv_bn(x, name, cin, cout, k, stride):
        w = param(f"{name}_weight", cout, cin, k, k)
        y = emit("Conv", [x, w], strides=[stride] * 2, pads=[k // 2] * 4, kernel_shape=[k, k])
        return emit("BatchNormalization", [y] + [param(f"{name}_{s}", cout) for s in ("g", "b", "m", "v")])

    def block(x, name, cin, cout, stride):
        y = emit("Relu", [conv_bn(x, name + "_1", cin, cout, 3, stride)])
        y = conv_bn(y, name + "_2", cout, cout, 3, 1)
        if stride != 1 or cin != cout:
            x = conv_bn(x, name + "_sc", cin, cout, 1, stride)
        return emit("Relu", [emit("Add", [y, x])])

    x = emit("Relu", [conv_bn(param("data", 1, 3, 224, 224), "conv0", 3, 64, 7, 2)])
    x = emit("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    cin = 64
    for stage, cout in enumerate((64, 128, 256, 512), 1):
        for unit in (1, 2):
            x = block(x, f"s{stage}_{unit}", cin, cout, 2 if stage > 1 and unit == 1 else 1)
            cin = cout
    x = emit("Flatten", [emit("GlobalAveragePool", [x])])
    x = emit("Gemm", [x, param("fc", 1000, 512), param("fc_bias", 1000)], transB=1)
    x = emit("Softmax", [x], axis=1)

    def model(nodes, inputs, out, shape):
        graph = helper.make_graph(nodes, "main", inputs, [value(out, shape)])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)

    resnet = model(nodes, inputs, x, [1, 1000])
    two = [helper.make_node("Add", ["x", "y"], ["s"]), helper.make_node("Relu", ["s"], ["r"])]
    pair = [value("x", [1, 1024]), value("y", [1, 1024])]
    return {"resnet18": resnet, "two operators": model(two, pair, "r", [1, 1024])}


def ours(relaxc, texts, runs, room):
    out = str(Path(room) / "out.o")
    return {n: least(runs, lambda: subprocess.run([relaxc, t, "-o", out], check=True)) for n, t in texts.items()}


def instructions(relaxc, texts, room):
    """User instructions of one run each, in millions."""
    found = {}
    for name, text in texts.items():
        command = ["perf", "stat", "-x,", "-e", "instructions:u", relaxc, text, "-o", str(Path(room) / "out.o")]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        found[name] = int(ran.stderr.split(",")[0]) / 1e6
    return found


def tvm(models, runs, room):
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    found = {}
    target = tvm.target.Target("llvm")
    for name, model in models.items():
        imported = from_onnx(model, keep_params_in_input=True)
        # The importer knows no parameters here: all weights are inputs.
        module = imported[0] if isinstance(imported, tuple) else imported

        def build(module=module):
            built = relax.build(module, target)
            built.export_library(str(Path(room) / "tvm.o"), fcompile=lambda *args, **kwargs: None)

        try:
            found[name] = least(runs, build)
        except Exception as error:  # noqa: BLE001: any failure is a line of the table
            print(f"tvm: {name}: {str(error).splitlines()[-1]}", file=sys.stderr)
    return found


def iree(models, runs, room):
    import iree.compiler  # noqa: F401: only to know whether it is there
    import onnx

    tools = Path(iree.compiler.__file__).parent
    compiler = next(p for p in tools.rglob("iree-compile") if os.access(p, os.X_OK))
    found = {}
    for name, model in models.items():
        graph, mlir = str(Path(room) / "m.onnx"), str(Path(room) / "m.mlir")
        onnx.save(model, graph)
        importer = [sys.executable, "-m", "iree.compiler.tools.import_onnx", graph, "-o", mlir]
        command = [
            str(compiler), mlir, "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=host", "-o", str(Path(room) / "m.vmfb"),
        ]
        try:
            subprocess.run(importer, check=True, capture_output=True)
            found[name] = least(runs, lambda: subprocess.run(command, check=True, capture_output=True))
        except subprocess.CalledProcessError as error:
            text = error.stderr.decode(errors="replace").strip()
            print(f"iree: {name}: {text.splitlines()[-1] if text else error}", file=sys.stderr)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relaxc", default=str(ROOT / "target/release/relaxc"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--instructions", action="store_true", help="count instructions of relaxc only")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as room:
        two = Path(room) / "two.relay"
        two.write_text(TWO)
        texts = {"resnet18": str(ROOT / "examples/models/resnet18.relay"), "two operators": str(two)}
        if args.instructions:
            for name, millions in instructions(args.relaxc, texts, room).items():
                print(f"{name:<16} {millions:>10.1f} M instructions")
            return
        columns = {"relaxc": ours(args.relaxc, texts, args.runs, room)}
        try:
            models = onnx_models()
        except ImportError as error:
            print(f"left out: TVM and IREE ({error})", file=sys.stderr)
            models = {}
        for name, work in [("tvm", tvm), ("iree", iree)] if models else []:
            try:
                columns[name] = work(models, args.runs, room)
            except ImportError as error:
                print(f"left out: {name} ({error})", file=sys.stderr)
        print(f"{'ms (ratio)':<16}" + "".join(f"{c:>24}" for c in columns))
        for model in texts:
            base = columns["relaxc"][model]
            cells = []
            for column in columns.values():
                took = column.get(model)
                cells.append(f"{'-':>24}" if took is None else f"{f'{1e3 * took:.1f} ({took / base:.1f}x)':>24}")
            print(f"{model:<16}" + "".join(cells))


if __name__ == "__main__":
    main()
