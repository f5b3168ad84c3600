#!/usr/bin/env python3
"""ONNX models beside ONNX Runtime and OpenVINO, from the same files: import, the first answer, and runs.

usage: models.py MODELS [--bin DIR] [--rounds N] [--runs N] [--threads N] [--only NAME,…] [--write PAGE]

MODELS is a folder of `NAME.onnx` with inputs beside them (`NAME.0.in.npz`), as `fetch_models.py` of the evidence makes it.
Needs numpy and onnxruntime; OpenVINO is measured where it is installed. Everything that is measured is a process of its own.

- import: `relax-import` with weights, and the bytes of the text.
- first: from the start of a process to the first results. Ours is `relax-run`, which reads the model, compiles and runs it.
  Theirs is what loading their library takes, reading the model and the first run; Python's own start and that of numpy do
  not count.
- loaded: the same of theirs without loading their library, beside the whole process of ours: what a program waits for that
  has run other models before.
- run: one run, warm. The systems take turns, round by round; what counts is the least time of each, and the median of the
  ratios of the pairs of a round.

With --write the table takes the place of the one between `<!-- models: … -->` and `<!-- end of models -->` in PAGE.
"""
import argparse, json, os, re, statistics, subprocess, sys, tempfile, time
from pathlib import Path

import numpy as np

BEGIN, END = "<!-- models: by benches/peers/models.py -->\n", "<!-- end of models -->"

WORKER = """
import json, sys, time
import numpy as np
kind, model, inputs, threads, runs = sys.argv[1], sys.argv[2], dict(np.load(sys.argv[3])), int(sys.argv[4]), int(sys.argv[5])
begin = time.perf_counter()
if kind == "ONNX Runtime":
    import onnxruntime as rt
    rt.set_default_logger_severity(4)
    options = rt.SessionOptions()
    options.intra_op_num_threads = threads
else:
    import openvino as ov
start = time.perf_counter()
if kind == "ONNX Runtime":
    session = rt.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    given = dict(zip(names, [inputs[n] if n in inputs else inputs[f"in{k}"] for k, n in enumerate(names)]))
    call = lambda: session.run(None, given)
else:
    ready = ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"})
    given = [inputs[n] if n in inputs else inputs[f"in{k}"] for k, n in enumerate(i.any_name for i in ready.inputs)]
    request = ready.create_infer_request()
    call = lambda: request.infer(given)
call()
first, loaded = time.perf_counter() - begin, time.perf_counter() - start
for _ in range(3 if runs else 0):
    call()
times = []
for _ in range(runs):
    at = time.perf_counter()
    call()
    times.append(time.perf_counter() - at)
print(json.dumps({"first": first, "loaded": loaded, "run": min(times) if times else None}))
"""

UNITS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def theirs(kind, model, inputs, threads, runs):
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    got = subprocess.run([sys.executable, "-c", WORKER, kind, model, inputs, str(threads), str(runs)],
                         capture_output=True, text=True, env=env, timeout=600)
    if got.returncode:
        raise RuntimeError(got.stderr.strip().split("\n")[-1][:120])
    return json.loads(got.stdout.strip().split("\n")[-1])


def ours(tools, model, inputs, threads, runs, scratch):
    command = [tools / "relax-run", model, "--inputs", inputs, "--outputs", scratch / "out.npz", "--threads", str(threads)]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    first = time.perf_counter() - start
    if not runs:
        return {"first": first, "loaded": first, "run": None}
    got = subprocess.run([*command, "--bench", str(runs)], check=True, capture_output=True, text=True, timeout=600)
    return {"first": first, "loaded": first, "run": least_of(got.stderr + got.stdout)}


def least_of(said):
    """The least time of a run, in seconds, of what `--bench` says."""
    least = re.search(r"least ([0-9.]+)([a-zµ]+)", said)
    return float(least[1]) * UNITS[least[2]]


def put(page, begin, end, table):
    """Puts a table between two marks of a page."""
    text = page.read_text()
    first, last = text.index(begin) + len(begin), text.index(end)
    page.write_text(text[:first] + "\n" + table + "\n" + text[last:])


def by_place(inputs, scratch):
    """The inputs under names that parameters have: by their places where some names are no identifiers."""
    given = np.load(inputs)
    if all(name.isidentifier() for name in given.files):
        return inputs
    np.savez(scratch / "in.npz", **{f"in{k}": given[name] for k, name in enumerate(given.files)})
    return scratch / "in.npz"


def imported(tools, model, scratch):
    """The least time of three imports, and the size of the text."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([tools / "relax-import", model, "-o", scratch / "m.relay", "--weights", scratch / "m.safetensors"],
                       check=True, capture_output=True, timeout=600)
        times.append(time.perf_counter() - start)
    return min(times), (scratch / "m.relay").stat().st_size


def row(name, text, size, found, peers):
    cells = [f"{name}", f"{text * 1e3:.0f} ms", f"{size / 1e3:.1f} kB"]
    for what in "first", "loaded", "run":
        least = {k: min(r[what] for r in v if r[what] is not None) for k, v in found.items() if v and v[0][what] is not None}
        if what != "loaded":
            cells.append(f"{least['Relax'] * 1e3:.2f}" if "Relax" in least else "–")
        for peer in peers:
            if peer not in least or "Relax" not in least:
                cells.append("–")
                continue
            pairs = [t[what] / r[what] for t, r in zip(found[peer], found["Relax"])]
            cells.append(f"{least[peer] * 1e3:.2f} ({statistics.median(pairs):.2f})")
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--bin", type=Path, default=Path("target/release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    tools = args.bin.absolute()
    peers = ["ONNX Runtime"]
    if subprocess.run([sys.executable, "-c", "import openvino"], capture_output=True).returncode == 0:
        peers.append("OpenVINO")
    head = ["model", "import", "text"]
    for what in "first answer, ms: Relax", "", "run, ms: Relax":
        loaded = "" if what else ", library loaded before"
        head += [what] * bool(what) + [f"{p}{loaded} (theirs / ours)" for p in peers]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    wanted = set(filter(None, args.only.split(",")))
    for model in sorted(args.models.absolute().glob("*.onnx")):
        inputs = model.with_name(model.stem + ".0.in.npz")
        if not inputs.exists() or wanted and model.stem not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            found = {s: [] for s in ["Relax", *peers]}
            try:
                text, size = imported(tools, model, scratch)
                for _ in range(args.rounds):
                    found["Relax"].append(ours(tools, model, by_place(inputs, scratch), args.threads, args.runs, scratch))
                    for peer in list(found)[1:]:
                        try:
                            found[peer].append(theirs(peer, str(model), str(inputs), args.threads, args.runs))
                        except (RuntimeError, subprocess.SubprocessError) as e:
                            print(f"{model.stem}: {peer}: {e}", file=sys.stderr)
                            del found[peer]
            except subprocess.SubprocessError as e:
                print(f"{model.stem}: {e}", file=sys.stderr)
                continue
        lines.append(row(model.stem, text, size, found, peers))
        print(lines[-1], flush=True)
    table = "\n".join(lines) + "\n"
    print("\n" + table)
    if args.write:
        put(args.write, BEGIN, END, table)


if __name__ == "__main__":
    main()
