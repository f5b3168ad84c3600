#!/usr/bin/env python3
"""Times `relax-opt -O2` beside TVM's default Relax pipeline without code generation, on the same models.

usage: run.py [--bin DIR] [--runs N] [--venv DIR] [--sizes 10000,100000,1000000] [--only NAME,…]

Models: ResNet-50 and a transformer of 24 layers, as text and as the same graph given to TVM. Relax's time
is that of the whole process (reading, typing, passes, printing), TVM's that of the pipeline alone on a
module in memory; both are the least of N runs, in turns. Then chains of so many operators, in one function and
in functions of 100 each: processor time (all threads) and memory for each operator, and how many times the
cost of the smallest size the largest has. Processor time is what is compared, because it depends least on what
else the machine does.

TVM comes from the virtual environment of benches/peers (`--venv`), whose graphs are used here too.
Without it only Relax is timed.
"""
import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "peers"))


def resnet50():
    from graph import Graph
    g = Graph("ResNet-50")
    conv_bn = lambda x, c, k, s: g.batch_norm(g.conv(x, c, k, s))
    x = g.unary("relu", conv_bn(g.input(1, 3, 224, 224), 64, 7, 2))
    x = g.max_pool(x, 3, 2, 1)
    for stage, (c, units) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for unit in range(units):
            s = 2 if stage and not unit else 1
            y = g.unary("relu", conv_bn(x, c, 1, 1))
            y = g.unary("relu", conv_bn(y, c, 3, s))
            y = conv_bn(y, 4 * c, 1, 1)
            x = x if unit else conv_bn(x, 4 * c, 1, s)
            x = g.unary("relu", g.add(y, x))
    x = g.reshape(g.global_pool(x), 1, 2048)
    return g.done(g.softmax(g.dense(x, 1000)))


def transformer(layers=24, n=128, d=512, h=8):
    from graph import Graph
    g = Graph(f"transformer, {layers} layers")
    x = g.input(n, d)
    heads = lambda v: g.reshape(v, n, h, d // h)
    for _ in range(layers):
        y = g.layer_norm(x)
        q = g.transpose(heads(g.dense(y, d)), 1, 0, 2)
        k = g.transpose(heads(g.dense(y, d)), 1, 2, 0)
        v = g.transpose(heads(g.dense(y, d)), 1, 0, 2)
        score = g.softmax(g.scaled(g.matmul(q, k), (d // h) ** -0.5))
        y = g.reshape(g.transpose(g.matmul(score, v), 1, 0, 2), n, d)
        x = g.add(x, g.dense(y, d))
        y = g.unary("gelu", g.dense(g.layer_norm(x), 4 * d))
        x = g.add(x, g.dense(y, d))
    return g.done(x)


MODELS = {"resnet-50": resnet50, "transformer": transformer}


def chain(n):
    """A function of n operators, one after the other."""
    lines = ["def @main(%x0: Tensor[(8, 8), float32], %w: Tensor[(8, 8), float32]) {"]
    ops = ("add(%x{i}, %w)", "nn.relu(%x{i})", "multiply(%x{i}, %w)", "nn.dense(%x{i}, %w, units=8)")
    lines += [f"  let %x{i + 1} = {ops[i % 4].format(i=i)};" for i in range(n)]
    return "\n".join([*lines, f"  %x{n}", "}", ""])


def functions(n, each=100):
    """So many operators in functions of `each`, all called by one more."""
    parts = [chain(each).replace("@main", f"@f{k}") for k in range(n // each)]
    calls = "\n".join(f"  let %y{k + 1} = @f{k}(%y{k}, %w);" for k in range(n // each))
    ty = "Tensor[(8, 8), float32]"
    main = f"def @main(%y0: {ty}, %w: {ty}) -> {ty} {{\n{calls}\n  %y{n // each}\n}}\n"
    return "".join([*parts, main])


def opt(relax_opt, file):
    begin = time.perf_counter()
    subprocess.run([relax_opt, file, "-O2", "-o", "/dev/null"], check=True)
    return time.perf_counter() - begin


# Runs a command and prints its processor time and the most memory that it held. In a small process of its own: what a
# child is said to have held is at least what its parent did.
ALONE = """
import os, subprocess, sys
_, status, usage = os.wait4(subprocess.Popen(sys.argv[1:]).pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
sys.exit(status != 0)
"""


def cost(relax_opt, file):
    """Processor time and the most memory of a run."""
    command = [sys.executable, "-c", ALONE, relax_opt, file, "-O2", "-o", "/dev/null"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return tuple(float(number) for number in said.split())


def tvm_pipeline(graph):
    """A function that runs TVM's default pipeline on a fresh copy of the graph's module, and times it."""
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx
    from to_onnx import to_onnx
    module = from_onnx(to_onnx(graph), keep_params_in_input=True)
    target = tvm.target.Target("llvm")

    def run():
        with target:
            begin = time.perf_counter()
            relax.get_default_pipeline(target)(module)
            return time.perf_counter() - begin

    return run


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--bin", default=str(ROOT / "target/release"))
    ask.add_argument("--runs", type=int, default=5)
    ask.add_argument("--venv", default=str(HERE.parent / "peers/.venv"))
    ask.add_argument("--sizes", default="10000,100000,1000000")
    ask.add_argument("--only", default="")
    args = ask.parse_args()
    python = Path(args.venv) / "bin/python"
    if python.exists() and Path(sys.prefix).resolve() != Path(args.venv).resolve():
        return subprocess.run([python, *sys.argv]).returncode
    relax_opt = str(Path(args.bin) / "relax-opt")
    if not Path(relax_opt).exists():
        print(f"no {relax_opt}: build it, or give --bin", file=sys.stderr)
        return 2
    only = [name for name in args.only.split(",") if name]
    room = Path(tempfile.mkdtemp())
    for name, make in MODELS.items():
        if only and name not in only:
            continue
        from graph import to_relay
        graph = make()
        file = room / f"{name}.relay"
        file.write_text(to_relay(graph))
        try:
            tvm = tvm_pipeline(graph)
        except ImportError as reason:
            tvm = None
            print(f"TVM is left out: {reason}", file=sys.stderr)
        ours, theirs = [], []
        for _ in range(args.runs):
            ours.append(opt(relax_opt, file))
            if tvm:
                theirs.append(tvm())
        line = f"{name}: relax-opt -O2 {min(ours):.3f} s"
        if theirs:
            line += f", TVM {min(theirs):.3f} s, ratio {min(theirs) / min(ours):.1f}"
        print(line, flush=True)
    sizes = [int(n) for n in args.sizes.split(",") if n]
    for name, make in (("one function", chain), ("functions of 100", functions)):
        if only and name not in only:
            continue
        each = []
        for n in sizes:
            file = room / f"chain-{n}.relay"
            file.write_text(make(n))
            # Small runs are repeated until they are worth measuring.
            runs = max(args.runs, min(50, 200_000 // n))
            took, memory = map(min, zip(*(cost(relax_opt, file) for _ in range(runs))))
            each.append(took / n)
            print(f"{name}, {n} operators: {took:.3f} s, {took / n * 1e6:.2f} us and "
                  f"{memory / n / 1024:.2f} KiB for each", flush=True)
        if len(each) > 1:
            print(f"{name}: an operator among {sizes[-1]} costs {each[-1] / each[0]:.2f} times one among {sizes[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
