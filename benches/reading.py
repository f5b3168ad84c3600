#!/usr/bin/env python3
"""Reading and formatting speed beside the peers' readers, in one run.

usage: benches/reading.py [--megabytes N] [--peer-megabytes N] [--python PYTHON] [--iree-opt PATH]

Measures `cargo bench -p relax-resolve --bench reading` (one thread) on a model dump of 10 MB, then
  - TVM's TVMScript reader on a Relax module of the same operations (PyPI: apache-tvm, imported by
    PYTHON; its reader takes minutes for 10 MB, so it gets --peer-megabytes of text),
  - iree-opt on an MLIR module of the same operations (PyPI: iree-base-compiler),
and prints megabytes per second, operations per second and how many times faster ours is by
operations. Peers that are not installed are named and left out.
"""
import argparse, os, shutil, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPE, WEIGHT = (1, 64, 56, 56), (64, 64, 3, 3)


def blocks(megabytes, per_block):
    return max(1, int(megabytes * 1e6 / per_block))


def tvmscript(n):
    """The network of `reading.rs` with n blocks in TVMScript: 7 operations a block."""
    t = lambda s: f'R.Tensor({s}, dtype="float32")'
    params, body, last, k = [f"data: {t(SHAPE)}"], [], "data", 0

    def line(call):
        nonlocal k
        body.append(f"        lv{k}: {t(SHAPE)} = {call}\n")
        k += 1
        return f"lv{k - 1}"

    for b in range(n):
        x = last
        for i in range(2):
            w, c = f"stage{b}_conv{i}_weight", f"stage{b}_conv{i}_bias"
            params += [f"{w}: {t(WEIGHT)}", f"{c}: {t((1, 64, 1, 1))}"]
            x = line(f'R.nn.conv2d({x}, {w}, padding=[1, 1, 1, 1], data_layout="NCHW", kernel_layout="OIHW")')
            x = line(f"R.add({x}, {c})")
            x = line(f"R.nn.relu({x})")
        last = line(f"R.add({x}, {last})")
    return ("# from tvm.script import ir as I\n# from tvm.script import relax as R\n\n@I.ir_module\nclass Module:\n"
            f"    @R.function\n    def main({', '.join(params)}) -> {t(SHAPE)}:\n" + "".join(body) +
            f"        return {last}\n"), 7 * n


def mlir(n):
    """The same number of operations on tensors in MLIR."""
    t = "tensor<1x64x56x56xf32>"
    body, last, k = [], "%data", 0
    for _ in range(7 * n):
        body.append(f'  %{k} = "tosa.add"({last}, %data) : ({t}, {t}) -> {t}\n')
        last, k = f"%{k}", k + 1
    return f"func.func @main(%data: {t}) -> {t} {{\n" + "".join(body) + f"  return {last} : {t}\n}}\n", 7 * n


PEER = """
import sys, time
import tvm
from tvm.script import parser
text = open(sys.argv[1]).read()
begin = time.perf_counter()
parser.parse(text) if hasattr(parser, "parse") else tvm.script.from_source(text)
print(time.perf_counter() - begin)
"""


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--megabytes", type=float, default=10)
    a.add_argument("--peer-megabytes", type=float, default=0.25)
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--iree-opt", default=shutil.which("iree-opt"))
    a = a.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as d:
        dump = os.path.join(d, "dump.relay")
        out = subprocess.run(
            ["cargo", "bench", "-q", "-p", "relax-resolve", "--bench", "reading", "--",
             "--megabytes", str(a.megabytes), "--write", dump],
            cwd=os.path.dirname(HERE), check=True, stdout=subprocess.PIPE, text=True).stdout
        ops = sum(line.startswith("  %") for line in open(dump))
        for line in out.split("\n"):
            if line:
                what, size, seconds = line.split()
                rows.append((f"relax {what}", int(size), float(seconds), ops))
        ours = rows[0]
        per_block = ours[1] / (ops / 7)
        text, n = tvmscript(blocks(a.peer_megabytes, per_block))
        path = os.path.join(d, "module.py")
        open(path, "w").write(text)
        r = subprocess.run([a.python, "-c", PEER, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if r.returncode == 0:
            rows.append(("TVMScript read", len(text), float(r.stdout.split()[-1]), n))
        else:
            print("TVMScript: left out:", r.stderr.strip().split("\n")[-1], file=sys.stderr)
        if a.iree_opt:
            text, n = mlir(ops // 7)
            path = os.path.join(d, "module.mlir")
            open(path, "w").write(text)
            best = float("inf")
            for _ in range(3):
                begin = time.perf_counter()
                subprocess.run([a.iree_opt, "--mlir-disable-threading", path, "-o", os.devnull], check=True)
                best = min(best, time.perf_counter() - begin)
            rows.append(("iree-opt (reads and prints)", len(text), best, n))
        else:
            print("iree-opt: left out: not found", file=sys.stderr)
    mine = ours[3] / ours[2]
    print(f"{'':28} {'MB':>8} {'seconds':>9} {'MB/s':>8} {'ops/s':>12} {'ours is … times faster':>24}")
    for what, size, seconds, n in rows:
        rate = n / seconds
        ratio = "" if what.startswith("relax") else f"{mine / rate:.1f}"
        print(f"{what:28} {size / 1e6:8.2f} {seconds:9.3f} {size / 1e6 / seconds:8.1f} {rate:12.0f} {ratio:>24}")


if __name__ == "__main__":
    main()
