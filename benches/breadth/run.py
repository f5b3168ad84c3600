#!/usr/bin/env python3
"""Times one operator at a time, over element types and classes of shapes, beside numpy and ONNX Runtime, and writes
docs/breadth.md.

usage: run.py [--bin DIR] [--before DIR] [--rounds N] [--only TEXT,…] [--no-page]

Each cell's systems take turns: in every round each of them runs for a while, with one thread, and what counts is the least
time of all rounds. Medians of wall time would tell how busy the machine was. Results are compared with numpy's. With
`--before` the tools of another build take turns, too.

It needs numpy, onnx and onnxruntime.
"""
import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402

import cases  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/breadth.md"
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}
#: Seconds that a system runs in a round.
SLICE = 0.05


def session(case):
    """A run of ONNX Runtime, and how its result is read; `None` where it has no such operator."""
    import onnx
    import onnxruntime as rt
    from onnx import helper
    if case.node is None:
        return None
    op, attributes = case.node
    element = lambda v: helper.np_dtype_to_tensor_dtype(v.dtype)  # noqa: E731
    inputs = [helper.make_tensor_value_info(k, element(v), v.shape) for k, v in case.inputs.items()]
    extra = [onnx.numpy_helper.from_array(v, k) for k, v in case.extra]
    names = list(case.inputs) + [k for k, _ in case.extra]
    outputs = ["y", "z"] if op == "TopK" else ["y"]
    infos = [helper.make_empty_tensor_value_info(o) for o in outputs]
    graph = helper.make_graph([helper.make_node(op, names, outputs, **attributes)], "g", inputs, infos, extra)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = rt.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        run = rt.InferenceSession(onnx.shape_inference.infer_shapes(model).SerializeToString(), options,
                                  providers=["CPUExecutionProvider"])
        binding = run.io_binding()
        for k, v in case.inputs.items():
            binding.bind_cpu_input(k, v)
        for o in outputs:
            binding.bind_output(o)
        run.run_with_iobinding(binding)
    except Exception:  # noqa: BLE001 what it cannot do is no peer
        return None
    return lambda: run.run_with_iobinding(binding), lambda: binding.copy_outputs_to_cpu()[0]


def least(run):
    """The least time of a few runs of a Python function."""
    best, end = math.inf, time.perf_counter() + SLICE
    while time.perf_counter() < end or best == math.inf:
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best


def ours(tool, room, expected):
    """The least time of a few runs of a tool on the case in `room`."""
    runs = max(2, min(200, int(SLICE / max(expected, 1e-7))))
    try:
        done = subprocess.run([tool, room / "case.relay", "--inputs", room / "in.npz", "--outputs", room / "out.npy",
                               "--bench", str(runs), "--warmup", "1", "--threads", "1"],
                              capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        return None, ["more than 30 seconds"]
    found = re.search(r"least ([\d.]+)(\w+)", done.stderr)
    if done.returncode or not found:
        return None, done.stderr.strip().splitlines()[:3]
    return float(found[1]) * UNITS[found[2]], None


def differs(found, wanted):
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    if wanted.dtype.kind in "biu":
        return None if np.array_equal(found, wanted) else f"{np.sum(found != wanted)} elements differ"
    loose = 2e-2 if found.dtype == np.float16 else 1e-3 if found.dtype == np.float32 else 1e-8
    scale = np.maximum(np.abs(wanted.astype(np.float64)), 1e-2 * np.max(np.abs(wanted), initial=1e-30).astype(np.float64))
    with np.errstate(invalid="ignore"):
        error = np.nanmax(np.abs(found.astype(np.float64) - wanted) / scale, initial=0)
    return None if error <= loose else f"differs by {error:.2g}"


def measure(case, options, room):
    (room / "case.relay").write_text(case.relay())
    np.savez(room / "in.npz", **case.inputs)
    values = list(case.inputs.values())
    peers = {}
    onnx = session(case)
    if onnx:
        peers["ONNX Runtime"] = onnx[0]
    if case.reference:
        peers["numpy"] = lambda: case.reference(*values)
    # Sums of narrow floats are compared with those that were not rounded at every step.
    summed = case.group in ("sum", "softmax")
    exact = [v.astype(np.float32) if v.dtype == np.float16 and summed else v for v in values]
    wanted = case.reference(*exact) if case.reference else onnx[1]() if onnx else None
    times, trouble = {}, None
    guess = SLICE
    for _ in range(options.rounds):
        for name, tool in [("relax", options.bin), ("before", options.before)]:
            if tool is None:
                continue
            took, why = ours(tool / "relax-run", room, guess)
            if took is None and name == "before":
                continue
            if took is None:
                return {}, why
            times[name] = min(times.get(name, math.inf), took)
            if name == "relax":
                guess = took
                if wanted is not None and trouble is None:
                    trouble = differs(np.load(room / "out.npy"), np.asarray(wanted))
        for name, run in peers.items():
            times[name] = min(times.get(name, math.inf), least(run))
    return times, trouble


def shown(seconds):
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=Path, default=ROOT / "target/release")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-page", action="store_true")
    options = parser.parse_args()
    only = [o for o in options.only.split(",") if o]
    rows, wrong = [], []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases.every():
            label = f"{case.group} {case.name}"
            if only and not any(o in label for o in only):
                continue
            times, trouble = measure(case, options, Path(folder))
            if trouble:
                wrong.append(f"{label}: {trouble}")
                print(f"{label}: {trouble}", file=sys.stderr)
            if not times:
                continue
            peers = {k: v for k, v in times.items() if k not in ("relax", "before")}
            fastest = min(peers, key=peers.get) if peers else None
            ratio = peers[fastest] / times["relax"] if fastest else None
            before = peers[fastest] / times["before"] if fastest and "before" in times else None
            rows.append((case, times, fastest, ratio, before))
            print(f"{label:40} {shown(times['relax']):>10} {fastest or '–':14} ratio {ratio or 0:.3f}"
                  + (f" before {before:.3f}" if before else ""), flush=True)
    ratios = [r[3] for r in rows if r[3]]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0
    below = sum(r < 0.8 for r in ratios)
    print(f"{len(ratios)} cells, geometric mean {mean:.2f}, {below} below 0.8, {sum(r < 0.5 for r in ratios)} below 0.5")
    if not options.no_page and not only:
        write(rows, ratios, mean, options.rounds)
    sys.exit(1 if wrong else 0)


def processor():
    """What the processor calls itself, and the vectors that it has."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "an unknown processor"
    name = re.search(r"model name\s*: (.*)", text)
    flags = re.search(r"flags\s*: (.*)", text)
    has = [f for f in ("avx2", "avx512f") if flags and f in flags[1].split()]
    return f"{name[1] if name else 'an unknown processor'} ({', '.join(has) or 'no wide vectors'})"


def write(rows, ratios, mean, rounds):
    slow = [f"{c.group} {c.name} {r:.2f}" for c, _, _, r, _ in sorted(rows, key=lambda r: r[3] or 9) if r and r < 0.5]
    lines = ["# Breadth", "",
             "One operator at a time, one thread, beside numpy and ONNX Runtime: the least time of all rounds, in which the "
             "systems took turns. *Ratio*: the fastest peer's time by ours, so more than 1 is faster. Made by "
             f"`python3 benches/breadth/run.py --rounds {rounds}` on {processor()}.", "",
             f"{len(ratios)} cells with a peer, geometric mean {mean:.2f}; {sum(r < 0.8 for r in ratios)} below 0.8, "
             f"{sum(r < 0.5 for r in ratios)} below 0.5.", "",
             "Below 0.5, the worst first: " + (", ".join(slow) or "none") + ".", "",
             "| operator | case | time | fastest peer | ratio |", "|---|---|---|---|---|"]
    for case, times, fastest, ratio, _ in rows:
        peer = f"{fastest}, {shown(times[fastest])}" if fastest else "–"
        lines.append(f"| `{case.group}` | {case.name} | {shown(times['relax'])} | {peer} | {ratio or 0:.2f} |")
    PAGE.write_text("\n".join(lines) + "\n")


main()
