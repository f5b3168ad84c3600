#!/usr/bin/env python3
"""Reading and formatting speed beside the peers' readers, in one run.

usage: benches/reading.py [--megabytes N] [--peer-megabytes N] [--python PYTHON] [--iree-opt PATH] [--write]

Measures `cargo bench -p relax-resolve --bench reading` (one thread) on a model dump of 10 MB, then
  - TVM's TVMScript reader on a Relax module of the same operations (PyPI: apache-tvm, imported by
    PYTHON; its reader takes minutes for 10 MB, so it gets --peer-megabytes of text),
  - iree-opt on an MLIR module of the same operations (PyPI: iree-base-compiler),
and prints megabytes per second, operations per second and how many times faster ours is by
operations. Peers that are not installed are named and left out. With --write, `cargo bench -p relax --bench graphs` (JSON graphs)
and `check_scale` (crates/relax/examples: reading and checking of 100,000 and 1,000,000 operators, TVM's block builder
beside it) run too, and all tables become docs/reading.md.
"""
import argparse, datetime, os, platform, shutil, subprocess, sys, tempfile, time

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
    a.add_argument("--write", action="store_true")
    a = a.parse_args()
    load = os.getloadavg()[0]
    rows, missing = [], []
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
            missing.append("TVMScript's reader")
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
            missing.append("iree-opt")
            print("iree-opt: left out: not found", file=sys.stderr)
    mine = ours[3] / ours[2]
    table = [f"{'':28} {'MB':>8} {'seconds':>9} {'MB/s':>8} {'ops/s':>12} {'ours is … times faster':>24}"]
    for what, size, seconds, n in rows:
        rate = n / seconds
        ratio = "" if what.startswith("relax") else f"{mine / rate:.1f}"
        table.append(f"{what:28} {size / 1e6:8.2f} {seconds:9.3f} {size / 1e6 / seconds:8.1f} {rate:12.0f} {ratio:>24}")
    print("\n".join(table))
    if a.write:
        write(a, load, table, missing)


def write(a, load, table, missing):
    """Runs `check_scale` and makes docs/reading.md of everything."""
    root = os.path.dirname(HERE)
    graphs = subprocess.run(["cargo", "bench", "-q", "-p", "relax", "--bench", "graphs"],
                            cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout
    saved = [f"{'':10} {'MB':>8} {'seconds':>9} {'MB/s':>8}"]
    for line in filter(None, graphs.split("\n")):
        what, size, seconds = line.split()
        size, seconds = int(size) / 1e6, float(seconds)
        saved.append(f"{what:10} {size:8.2f} {seconds:9.3f} {size / seconds:8.1f}")
    command = ["cargo", "run", "-q", "--release", "-p", "relax", "--example", "check_scale", "--"]
    r = subprocess.run(command + ["--beside", a.python], cwd=root, stdout=subprocess.PIPE, text=True)
    if r.returncode != 0:
        missing.append("TVM's block builder")
        r = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    busy = " — **other programs were running, so times are too long**" if load > 0.5 else ""
    lines = [
        "# Speed of reading, formatting and checking", "",
        "Written by `benches/reading.py --write`; no number here is written by hand.", "",
        f"Machine: {platform.machine()}, {len(os.sched_getaffinity(0))} processors, {platform.system()} "
        f"{platform.release()}. Measured {datetime.date.today()}; load average before the run {load:.1f}{busy}. "
        "Everything of ours runs on one thread; the least of several runs counts.", "",
        "## Reading and formatting a model dump", "",
        f"A residual network as TVM prints it with its types, {a.megabytes:g} MB. *lex*, *parse*, *read* and *format* "
        "are ours: tokens, tree, module with names resolved, formatted text. Peers read the same operations in their "
        "own languages; the last column compares operations a second with our *read*.", "",
        "```text", *table, "```", "",
        "## Reading what TVM saved", "",
        "JSON graphs, from bytes to a module whose names are resolved: one of a network with all its types and no "
        "constants, and one that is nearly all constants, in base64.", "",
        "```text", *saved, "```", "",
        "## Reading and checking by size", "",
        "A chain of operators on tensors of symbolic length, from bytes to checked types in 1 MiB of stack. The peer "
        "builds the chain with its block builder, without a text to read.", "",
        "```text", r.stdout.rstrip(), "```", "",
    ]
    if missing:
        lines += [f"Left out, because it is not installed: {', '.join(missing)}.", ""]
    with open(os.path.join(root, "docs/reading.md"), "w") as out:
        out.write("\n".join(lines))
    print("docs/reading.md is written")


if __name__ == "__main__":
    main()
