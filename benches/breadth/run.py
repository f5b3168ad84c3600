#!/usr/bin/env python3
"""Times one operator at a time, over element types and classes of shapes, beside numpy, ONNX Runtime and OpenVINO, and
writes docs/breadth.md and docs/breadth.svg; on another kind of machine, `--page breadth-zen2` writes pages of that name.

usage: run.py [--bin DIR] [--before DIR] [--threads N] [--rounds N] [--minutes N] [--every N] [--only TEXT,…] [--quick]
              [--again] [--page NAME] [--no-page]

Each cell's systems take turns: in every round each of them runs for a while, and what counts is the least time of all
rounds. Medians of wall time would tell how busy the machine was. Results are compared with numpy's. With `--before` the
tools of another build take turns, too. A system that computes a cell of 64 bits in fewer is none of its peers: operands
that only the whole type tells apart show it.

The cells are those that are named (`cases.py`) and every 13th that is made (`table.py`; `--every` takes another number,
which should have no factor in common with the eight classes of shapes, so that element types meet all of them). With
`--quick`, ours runs alone and once, and what is printed is its share of the machine, the worst last.

A cell's *share* is what the machine needs by what we take. It needs the greater of two: the time of a copy of as many bytes
as operands and result have, and the time that a product of matrices in numpy takes for as many operations as the cell's
contraction or windows have (an element of a window counts as a multiplication with its addition). The product is of float32,
or of float64 where elements have 64 bits; operations on bytes are four at a time where float32 has one.

Where no peer computes a cell, the peers' time for the same cell in float32, with channels first, stands *beside* it; for
elements of 64 bits, twice that time.

Cells that were measured are kept in `target/breadth.json` (by thread counts; the page has all of them): a run goes on
where the last one ended, after `--minutes` or any other way, and `--again` begins anew (for its number of threads).

It needs numpy, onnx and onnxruntime; openvino where it is there.
"""
import argparse
import functools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

ARGUMENTS = argparse.ArgumentParser()
ROOT = Path(__file__).resolve().parent.parent.parent
ARGUMENTS.add_argument("--bin", type=Path, default=ROOT / "target/release")
ARGUMENTS.add_argument("--before", type=Path)
ARGUMENTS.add_argument("--threads", type=int, default=1)
ARGUMENTS.add_argument("--rounds", type=int, default=2)
ARGUMENTS.add_argument("--minutes", type=float, default=15)
ARGUMENTS.add_argument("--every", type=int, default=13)
ARGUMENTS.add_argument("--only", default="")
ARGUMENTS.add_argument("--quick", action="store_true")
ARGUMENTS.add_argument("--again", action="store_true")
ARGUMENTS.add_argument("--page", default="breadth")
ARGUMENTS.add_argument("--no-page", action="store_true")
OPTIONS = ARGUMENTS.parse_args()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(OPTIONS.threads)

import numpy as np  # noqa: E402

import cases  # noqa: E402
import page  # noqa: E402
import table  # noqa: E402
from values import TYPES, is_narrow, widened  # noqa: E402

KEPT = ROOT / "target/breadth.json"
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}
#: Seconds that a system runs in a round.
SLICE = 0.05


def model_of(case):
    """The case as a model of ONNX; `None` where it has no such operator, or types that cannot be given."""
    import onnx
    from onnx import helper
    if case.node is None or any(is_narrow(v) for v in case.inputs.values()):
        return None
    op, attributes = case.node
    element = lambda v: helper.np_dtype_to_tensor_dtype(v.dtype)  # noqa: E731
    inputs = [helper.make_tensor_value_info(k, element(v), v.shape) for k, v in case.inputs.items()]
    extra = [onnx.numpy_helper.from_array(v, k) for k, v in case.extra if v is not None]
    names = list(case.inputs) + [k for k, _ in case.extra]
    outputs = ["y", "z"] if op == "TopK" else ["y"]
    infos = [helper.make_empty_tensor_value_info(o) for o in outputs]
    graph = helper.make_graph([helper.make_node(op, names, outputs, **attributes)], "g", inputs, infos, extra)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model).SerializeToString(), outputs


def onnx_runtime(case, model, outputs):
    import onnxruntime as rt
    options = rt.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = OPTIONS.threads
    options.log_severity_level = 4
    run = rt.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = run.io_binding()
    for k, v in case.inputs.items():
        binding.bind_cpu_input(k, v)
    for o in outputs:
        binding.bind_output(o)
    run.run_with_iobinding(binding)
    return lambda: run.run_with_iobinding(binding), lambda: binding.copy_outputs_to_cpu()[0]


def openvino(case, model, _):
    import openvino as ov
    core = ov.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", {
        "INFERENCE_NUM_THREADS": OPTIONS.threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
        "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    for i, value in enumerate(case.inputs.values()):
        request.set_input_tensor(i, ov.Tensor(value, shared_memory=True))
    request.infer()
    return request.infer, lambda: request.get_output_tensor(0).data


def sessions(case):
    """What runs the case in other systems, and how their results are read. What they cannot do is no peer."""
    try:
        model = model_of(case)
    except Exception:  # noqa: BLE001
        model = None
    found = {}
    for name, make in [("ONNX Runtime", onnx_runtime), ("OpenVINO", openvino)]:
        try:
            if model:
                found[name] = make(case, *model)
        except Exception:  # noqa: BLE001
            pass
    return found


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
                               "--bench", str(runs), "--warmup", "1", "--threads", str(OPTIONS.threads)],
                              capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        return None, ["more than 30 seconds"]
    found = re.search(r"least ([\d.]+)(\w+)", done.stderr)
    if done.returncode or not found:
        return None, done.stderr.strip().splitlines()[:3]
    return float(found[1]) * UNITS[found[2]], None


def differs(found, wanted, narrow, running=False):
    loose = 2e-2 if found.dtype == np.float16 else 1e-3 if found.dtype == np.float32 else 1e-8
    if narrow and found.dtype.itemsize == 2:
        found, loose = widened(found.view(np.uint16)), 5e-2
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    if wanted.dtype.kind in "biu":
        return None if np.array_equal(found, wanted) else f"{np.sum(found != wanted)} elements differ"
    # Where large numbers cancel, what is left errs by a part of these; `running` results are rounded at every step.
    part = 1 if running else 5e-2
    scale = np.maximum(np.abs(wanted.astype(np.float64)), part * np.max(np.abs(wanted), initial=1e-30).astype(np.float64))
    with np.errstate(invalid="ignore"):
        error = np.nanmax(np.abs(found.astype(np.float64) - wanted) / scale, initial=0)
    return None if error <= loose else f"differs by {error:.2g}"


@functools.cache
def copied(size):
    """The bytes that a copy of 2^`size` bytes, read and written, moves in a second."""
    source = np.ones(2**size // 2, "uint8")
    target = source.copy()
    return 2**size / least(lambda: np.copyto(target, source))


@functools.cache
def multiplied(wide):
    """Additions and multiplications of floats in a second."""
    x = np.ones((512, 512), "float64" if wide else "float32")
    return 2 * 512**3 / least(lambda: np.matmul(x, x))


def share(case, result, took):
    """What the machine needs for a case by what we take; `None` where it needs less than a microsecond, as a call's own
    time is most of ours then."""
    size = result.nbytes + sum(v.nbytes for v in case.inputs.values())
    needed = size / copied(max(16, size.bit_length() - 1))
    if case.each:
        width = max(v.dtype.itemsize for v in case.inputs.values())
        needed = max(needed, case.each * result.size / multiplied(width == 8) / (4 if width == 1 else 1))
    return needed / took if needed > 1e-6 else None


def beside(label):
    """The cell that peers may compute where none computes the one of this label, and how much longer that one may take."""
    *words, dtype = label.split(" ")
    if dtype not in TYPES:
        return label, 1
    return " ".join([w for w in words if w != "last"] + ["float32"]), 2 if dtype.endswith("64") else 1


def place(case, room):
    (room / "case.relay").write_text(case.relay())
    np.savez(room / "in.npz", **case.inputs)


def narrower(case, room):
    """The systems that compute a case of 64 bits in a narrower type."""
    telling = case.telling()
    others = sessions(telling) if telling else {}
    if not others:
        return []
    if telling.reference:
        wanted = telling.reference(*telling.inputs.values())
    else:
        place(telling, room)
        if ours(OPTIONS.bin / "relax-run", room, SLICE)[0] is None:
            return []
        wanted = np.load(room / "out.npy")
    return [name for name, (_, result) in others.items() if differs(result(), np.asarray(wanted), False)]


def peers_of(case, others):
    """What runs a case elsewhere: in the sessions given, and in numpy."""
    peers = {name: run for name, (run, _) in others.items()}
    if case.reference and not any(is_narrow(v) for v in case.inputs.values()):
        peers["numpy"] = lambda: case.reference(*case.inputs.values())
    return peers


def yardsticks(kept):
    """Times the peers of what stands beside cells without one."""
    wanted = {}
    for cell in kept.values():
        label = f"{cell['group']} {cell['name']}"
        other, factor = beside(label)
        alone = not any(k not in ("relax", "before") for k in cell["times"])
        if cell["threads"] == OPTIONS.threads and alone and "beside" not in cell and other != label:
            wanted.setdefault(other, []).append((cell, factor))
    for case in everything():
        cells = wanted.pop(f"{case.group} {case.name}", [])
        peers = peers_of(case, sessions(case)) if cells else {}
        times = [(min(least(run) for _ in range(OPTIONS.rounds)), name) for name, run in peers.items()]
        for cell, factor in cells if times else []:
            cell["beside"] = min(times)[1], factor * min(times)[0]
            print(f"{cell['group']} {cell['name']}: beside float32 {cell['beside'][1] / cell['times']['relax']:.2f}", flush=True)


def measure(case, room):
    """The times of all systems, what is wrong with our result, which systems computed in a narrower type, and our share of
    the machine."""
    values = list(case.inputs.values())
    narrow = any(is_narrow(v) for v in values)
    less = narrower(case, room)
    place(case, room)
    others = {name: s for name, s in sessions(case).items() if name not in less}
    peers = peers_of(case, others)
    # Sums of narrow floats are compared with those that were not rounded at every step.
    summed = case.group in ("sum", "softmax")
    exact = [v.astype(np.float32) if v.dtype == np.float16 and summed else widened(v) if is_narrow(v) else v
             for v in values]
    wanted = None
    if case.reference:
        wanted = case.reference(*exact)
    elif others:
        wanted = next(iter(others.values()))[1]()
    times, trouble = {}, None
    # How many runs fill a turn is known after the first one.
    guess = ours(OPTIONS.bin / "relax-run", room, SLICE)[0] or SLICE
    for _ in range(OPTIONS.rounds):
        for name, tool in [("relax", OPTIONS.bin), ("before", OPTIONS.before)]:
            if tool is None:
                continue
            took, why = ours(tool / "relax-run", room, guess)
            if took is None and name == "before":
                continue
            if took is None:
                return {}, " ".join(why), less, None
            times[name] = min(times.get(name, math.inf), took)
            if name == "relax":
                guess = took
                if wanted is not None and trouble is None:
                    running = narrow and case.group in ("cumsum", "cumprod")
                    trouble = differs(np.load(room / "out.npy"), np.asarray(wanted), narrow, running)
        for name, run in peers.items():
            times[name] = min(times.get(name, math.inf), least(run))
    return times, trouble, less, share(case, np.load(room / "out.npy"), times["relax"])


def everything():
    yield from cases.every()
    yield from table.every()


def chosen(only):
    """The named cells, and of those that are made every nth of each operator, beginning where its name says."""
    yield from cases.every()
    seen = {}
    for case in table.every():
        count = seen.setdefault(case.group, zlib.crc32(case.group.encode()) % OPTIONS.every)
        seen[case.group] = count + 1
        if only or count % OPTIONS.every == 0:
            yield case


def alone(room, only):
    """Ours alone: what share of the machine each cell gets."""
    rows, wrong = [], 0
    for case in chosen(only):
        label = f"{case.group} {case.name}"
        if only and not any(o in label for o in only):
            continue
        place(case, room)
        took, why = ours(OPTIONS.bin / "relax-run", room, SLICE / 5)
        if took is None:
            wrong += 1
            print(f"{label}: {' '.join(why)}", file=sys.stderr, flush=True)
            continue
        result = np.load(room / "out.npy")
        part = share(case, result, took)
        size = result.nbytes + sum(v.nbytes for v in case.inputs.values())
        line = f"{label:50} {page.shown(took):>10} {size / took / 1e9:8.2f} GB/s {case.each * result.size / took / 1e9:8.2f} GFLOP/s"
        rows.append((9.99 if part is None else part, line))
        print(f"{line} share {rows[-1][0]:.3f}", flush=True)
    for part, line in sorted(rows, reverse=True)[-60:]:
        print(f"{line} share {part:.3f}")
    return wrong


def main():
    only = [o for o in OPTIONS.only.split(",") if o]
    if OPTIONS.quick:
        with tempfile.TemporaryDirectory() as folder:
            sys.exit(1 if alone(Path(folder), only) else 0)
    kept = {}
    if KEPT.exists() and not only:
        kept = json.loads(KEPT.read_text())
        if OPTIONS.again:
            kept = {k: v for k, v in kept.items() if not k.startswith(f"{OPTIONS.threads} ")}
    end = time.monotonic() + 60 * OPTIONS.minutes
    wrong, left = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for case in chosen(only):
            label = f"{case.group} {case.name}"
            key = f"{OPTIONS.threads} {label}"
            if key in kept or only and not any(o in label for o in only):
                continue
            if time.monotonic() > end:
                left += 1
                continue
            times, trouble, less, part = measure(case, Path(folder))
            if trouble:
                wrong.append(f"{label}: {trouble}")
                print(f"{label}: {trouble}", file=sys.stderr)
            if not times:
                continue
            kept[key] = {"threads": OPTIONS.threads, "group": case.group, "name": case.name, "times": times,
                         "narrower": less, "share": part}
            cell = page.Cell(kept[key])
            before = f" before {times['relax'] / times['before'] * (cell.ratio or 1):.3f}" if "before" in times else ""
            print(f"{label:40} {page.shown(times['relax']):>10} {cell.fastest or '–':14} ratio {cell.ratio or 0:.3f}{before}"
                  + (f" without {', '.join(less)}" if less else "") + (f" share {part:.2f}" if part else ""),
                  flush=True)
            if not only:
                KEPT.parent.mkdir(parents=True, exist_ok=True)
                KEPT.write_text(json.dumps(kept))
        if not left:
            yardsticks(kept)
            if not only:
                KEPT.write_text(json.dumps(kept))
    cells = [page.Cell(k) for k in kept.values()]
    print(page.summary([c for c in cells if c.threads == OPTIONS.threads]))
    if left:
        print(f"{left} cells are left for the next run")
    elif not OPTIONS.no_page and not only:
        page.write(ROOT / "docs", OPTIONS.page, cells)
    sys.exit(1 if wrong else 0)


main()
