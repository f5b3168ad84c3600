#!/usr/bin/env python3
"""Measures Relax and five other systems on the same workloads and writes docs/performance.md.

usage: run.py [--quick] [--only NAME,…] [--threads 1,2] [--venv DIR] [--no-write]

Makes a virtual environment with what `requirements.txt` names (once), then lets the systems take turns,
round by round, on every workload. A system that fails is reported in the table. Relax is measured by
`relax-run --bench` from target/release (or --bin DIR), weights bound with --params.
"""
import argparse
import datetime
import functools
import json
import os
import platform
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "benches"))
from processor import processor  # noqa: E402

PEERS = ["ONNX Runtime", "OpenVINO", "TVM", "IREE", "JAX"]
#: A system that takes this many times as long as the fastest has one turn: further ones would not change a ratio.
SLOW = 10


def in_venv(folder):
    """Goes on in the virtual environment, made and filled where it is not there yet."""
    if Path(sys.prefix).resolve() == folder.resolve():
        return
    python, stamp = folder / "bin/python", folder / "requirements.txt"
    wanted = (HERE / "requirements.txt").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        if not python.exists():
            venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    os.execv(python, [str(python), str(HERE / "run.py"), *sys.argv[1:]])


class Peer:
    """Another system's process."""

    def __init__(self, name, threads, cache, limit):
        self.name, self.threads, self.cache, self.limit = name, threads, cache, limit
        self.process = None

    def ask(self, request):
        if self.process is None:
            self.process = subprocess.Popen([sys.executable, HERE / "worker.py", self.name, str(self.threads),
                                             self.cache], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True)
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            ready, _, _ = select.select([self.process.stdout], [], [], self.limit)
            line = self.process.stdout.readline() if ready else ""
        except OSError:
            line, ready = "", True
        if line:
            return json.loads(line)
        self.stop()
        return {"error": "it crashed" if ready else f"no answer in {self.limit} s"}

    def load(self, workload):
        return self.ask({"do": "load", "workload": workload})

    def run(self, runs):
        return self.ask({"do": "run", "runs": runs})

    def result(self):
        return self.ask({"do": "result"})

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def safetensors(path, arrays):
    """Writes arrays in the safetensors format: its data are aligned, so they can be mapped."""
    names = {"float32": "F32", "int32": "I32", "int8": "I8"}
    entries, at = {}, 0
    for name, value in arrays.items():
        entries[name] = {"dtype": names[str(value.dtype)], "shape": value.shape, "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 64 + 56)
    with open(path, "wb") as f:
        f.write(len(head).to_bytes(8, "little") + head)
        for value in arrays.values():
            f.write(value.tobytes())


class Relax:
    """Our tools, a process for each round."""

    name = "Relax"

    def __init__(self, tools, threads, room, limit):
        self.tools, self.threads, self.room, self.limit = tools, threads, Path(room), limit

    def call(self, *extra):
        command = [self.tools / "relax-run", self.room / "model.relay", "--inputs", self.room / "inputs.npz",
                   "--outputs", self.room / "out.npz", "--threads", str(self.threads), "--summary", *extra]
        if (self.room / "params.safetensors").exists():
            command += ["--params", self.room / "params.safetensors"]
        begin = time.perf_counter()
        try:
            ran = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 timeout=self.limit)
        except subprocess.TimeoutExpired:
            return {"error": f"no answer in {self.limit} s"}
        took = time.perf_counter() - begin
        if ran.returncode:
            return {"error": " ".join(ran.stdout.split())[-300:]}
        held = re.search(r"held at most (\d+) KiB", ran.stdout)
        memory = int(held[1]) * 1024 if held else None
        return {"first": took, "memory": memory, "text": ran.stdout}

    def load(self, workload):
        import numpy as np
        from graph import to_relay
        from workloads import ALL
        graph = ALL[workload]()
        text = graph.relay() if hasattr(graph, "relay") else to_relay(graph)
        for old in [*self.room.glob("*.npz"), *self.room.glob("*.safetensors")]:
            old.unlink()
        (self.room / "model.relay").write_text(text)
        np.savez(self.room / "inputs.npz", **{n.name: n.value for n in graph.inputs})
        if graph.weights:
            safetensors(self.room / "params.safetensors", graph.weights)
        answer = self.call()
        if "error" in answer:
            return answer
        made = self.room / "model.o"
        begin = time.perf_counter()
        compiler = [self.tools / "relaxc", self.room / "model.relay", "-o", made]
        if graph.weights:
            compiler += ["--params", self.room / "params.safetensors"]
        subprocess.run(list(map(str, compiler)), check=False, capture_output=True)
        answer["compile"] = time.perf_counter() - begin
        answer["size"] = made.stat().st_size if made.exists() else None
        return answer

    def run(self, runs):
        answer = self.call("--bench", str(runs))
        if "error" in answer:
            return answer
        # One run has no least: it is its median.
        found = re.search(r"least ([\d.]+)(ns|µs|ms|s)", answer["text"]) or re.search(
            r"median ([\d.]+)(ns|µs|ms|s)", answer["text"])
        if not found:
            return {"error": "relax-run printed no times"}
        unit = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
        # What a process holds is what the first call says: here relax-run also copies the inputs.
        return {"times": [float(found[1]) * unit[found[2]]], "memory": None}

    def result(self):
        return {"path": str(self.room / "out.npz")}

    def stop(self):
        pass


def close(ours, theirs, tolerance):
    import numpy as np
    a, b = (x.astype("float64") for x in (np.load(ours)["out0"], np.load(theirs)))
    return a.size == b.size and np.allclose(a.reshape(b.shape), b, rtol=1e-3, atol=tolerance)


def measure(systems, workload, graph, rounds, seconds, before, copied):
    """Every system in turn, `rounds` times; each turn takes about `seconds`. Ours does the work `per` times a run.
    What took too long `before` is not tried again. An entry's `least` are the shortest runs of its turns. Where memory limits
    the work, a copy of as many bytes is measured (`copied`) before and after each of our turns: others use the machine's
    memory too, and what it gives changes from second to second."""
    found, per = {}, getattr(graph, "per", 1)
    moved = getattr(graph, "bytes_moved", None)
    for s in systems:
        error = before.get(s.name, {}).get("error", "")
        if error.startswith("no answer"):
            found[s.name] = {"error": error}
            continue
        print(f"  {s.name}: loading", flush=True)
        found[s.name] = s.load(workload)
        if "error" in found[s.name]:
            print(f"  {s.name}: {found[s.name]['error']}", flush=True)
    runs, once = {}, {}
    for turn in range(rounds + 1):
        for s in systems:
            entry = found[s.name]
            slow = s.name != "Relax" and once.get(s.name, 0) > SLOW * min(once.values(), default=0)
            if "error" in entry or (turn > 1 and slow):
                continue
            beside = moved and turn and s.name == "Relax"
            bandwidth = copied(moved // 2) if beside else None
            answer = s.run(runs.get(s.name, 1))
            if "error" in answer:
                entry["error"] = answer["error"]
                continue
            share = per if s.name == "Relax" else 1
            least = min(answer["times"]) / share
            if turn == 0:
                # The first turn says how many runs a turn may have.
                runs[s.name] = max(1, min(2000, int(seconds / max(least * share, 1e-6))))
                once[s.name] = least
                continue
            entry.setdefault("least", []).append(least)
            if beside:
                entry.setdefault("copy", []).append(max(bandwidth, copied(moved // 2)))
            entry["memory"] = max(entry.get("memory") or 0, answer["memory"] or 0)
    relax = next((s for s in systems if s.name == "Relax"), None)
    for s in systems:
        entry = found[s.name]
        if s is not relax and relax and "least" in entry and "error" not in found["Relax"]:
            answer = s.result()
            if "path" in answer:
                tolerance = getattr(graph, "tolerance", 1e-4)
                entry["agrees"] = close(relax.result()["path"], answer["path"], tolerance)
    return found


# ---- a tree in C --------------------------------------------------------------------------

def tree_in_c(room, rounds, sums):
    """Seconds of growing a tree, summing it `sums` times and dropping it, in C; the least of each round."""
    from recursive import LEAVES, TREE_C
    (room / "tree.c").write_text(TREE_C)
    if subprocess.run(["cc", "-O2", "-o", room / "tree", room / "tree.c"], capture_output=True).returncode:
        return None
    least = []
    for _ in range(rounds):
        out = subprocess.run([room / "tree", "200", str(LEAVES), str(sums)], capture_output=True, text=True).stdout
        least.append(min(map(float, out.split())))
    return least


def trees(relax, rounds):
    """The tree's sum, and growing, summing once and dropping it, beside the same in C."""
    import numpy as np
    from recursive import SUMS, TREE
    found = {"sum": {"C": tree_in_c(relax.room, rounds, SUMS)}, "grow": {"C": tree_in_c(relax.room, rounds, 1)}}
    if not found["sum"]["C"]:
        return {}
    for old in [*relax.room.glob("*.npz"), *relax.room.glob("*.safetensors")]:
        old.unlink()
    np.savez(relax.room / "inputs.npz", v=np.float32(0.25))
    for what, sums in (("sum", SUMS), ("grow", 1)):
        (relax.room / "model.relay").write_text(TREE.replace("SUMS", str(sums)))
        answers = [relax.run(100) for _ in range(rounds)]
        if any("error" in a for a in answers):
            return {}
        found[what]["Relax"] = [a["times"][0] for a in answers]
    return found


def held_alone(relax, graph):
    """What a model holds as a program of its own."""
    from alone import measure as program
    from graph import to_relay
    params = relax.room / "alone.safetensors"
    safetensors(params, graph.weights)
    runtime = ROOT / "crates/runtime"
    return program(relax.tools, runtime, relax.room, graph, to_relay(graph), params) or {}


# ---- the machine --------------------------------------------------------------------------

def machine():
    memory = int(re.search(r"MemTotal:\s+(\d+)", open("/proc/meminfo").read())[1]) / 2**20
    return (f"{processor()}, {len(os.sched_getaffinity(0))} processors, {memory:.0f} GiB, "
            f"{platform.system()} {platform.release()}")


def asked(tools, *words):
    """What the runtime's example says; `None` where it is not there, or not for this processor."""
    example = tools / "examples/bench_gemm"
    if not example.exists():
        return None
    try:
        text = subprocess.run([example, *words], capture_output=True, text=True, timeout=60).stdout
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r"of one thread: ([\d.]+)", text)
    return float(found[1]) if found else None


def peaks(tools):
    """GFLOP/s of one thread (`None` without the program that measures it) and GB/s of a large copy, measured now."""
    return asked(tools, "peak"), copy_of(tools)(1 << 26)


def copy_of(tools):
    """What measures the bandwidth of a copy of some bytes: GB/s of the best of some, by numpy's copy and by stores that go
    past the caches. The first reads the lines that it replaces, which makes it slower on large arrays than what need not."""
    import numpy as np

    @functools.cache
    def arrays(size):
        a = np.zeros(max(1, size // 4), np.float32)
        return a, np.ones_like(a)

    def copied(size, times=8):
        took, (a, b) = [], arrays(size)
        for _ in range(times):
            begin = time.perf_counter()
            np.copyto(a, b)
            took.append(time.perf_counter() - begin)
        return max(2 * a.nbytes / min(took) / 1e9, asked(tools, "copy", str(size)) or 0)
    return copied


# ---- the page -----------------------------------------------------------------------------

def show(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"


def size(count):
    return "–" if not count else f"{count / 2**20:.1f} MiB"


def least(entry):
    """The shortest run of all rounds; `None` where there was none."""
    return min(entry["least"]) if entry.get("least") else None


def spread(entry):
    """How much more than the shortest run the middle round's shortest took, as the table says it."""
    more = statistics.median(entry["least"]) / least(entry) - 1
    return f" +{100 * more:.0f}%" if len(entry["least"]) > 1 else ""


def page(results, graphs, tree, alone, splits, networks, gflops, bandwidth, args, load, about):
    import kernels
    import recursive
    from recursive import NODES, SUMS
    lines = [
        "# Performance", "",
        "Written by `benches/peers/run.py`; no number here is written by hand.", "",
        f"Machine: {about}. Measured {datetime.date.today()}; load average before the run {load:.1f}"
        + (" — **other programs were running, so times are too long and spread widely**" if load > 0.5 else "") + ".",
        f"Relax is its `{args.bin.name}` build" + ("" if args.bin.name == "release" else
                                                    ", **which is not optimised: only release builds count**") + ".",
        f"One thread reaches {f'{gflops:.0f} GFLOP/s' if gflops else 'an unmeasured rate'} of fused multiply-adds"
        f" and copies {bandwidth:.1f} GB/s.", "",
        f"Each cell is the shortest run of {args.rounds} rounds in which the systems take turns; `+` is how much longer the "
        "shortest run of the middle round took. Medians would tell how busy the machine was. A system that takes "
        f"{SLOW} times as long as the fastest has one turn. *Ratio* is the fastest other "
        "system's time by ours: above 1 ours is faster. *Share* is the part of the measured peak that ours reaches on one "
        "thread: of arithmetic (a convolution by fewer products may exceed it), or, for workloads that memory limits, of a copy "
        "of as many bytes, the faster of numpy's and one that writes past the caches, measured before and after each turn (between "
        "arrays in small pages, as the system gives them; results of ours lie in huge ones, so it can be exceeded). With T "
        "threads every system's process may use T processors and no more. TVM compiles with its default schedules for this "
        "processor: nothing is tuned. The tree's time is that of one sum. Results of all systems are compared with ours "
        "(relative 1e-3, absolute 1e-4; numbers of 8 bits to within one); those that differ are marked ≠.", "",
    ]
    means = {}
    for threads in args.threads:
        lines += [f"## {threads} thread{'s' if threads > 1 else ''}", "",
                  "| workload | Relax | " + " | ".join(PEERS) + " | ratio | share |",
                  "|---|" + "---|" * (len(PEERS) + 3)]
        for workload, per in results.items():
            found = per.get(threads)
            if not found:
                continue
            cells, best = [], None
            for name in ["Relax", *PEERS]:
                e = found.get(name, {})
                took = least(e)
                if not took:
                    cells.append("fails" if "error" in e else "–")
                    continue
                cells.append(f"{show(took)}{spread(e)}" + (" ≠" if e.get("agrees") is False else ""))
                if name != "Relax":
                    best = min(best or took, took)
                    if ours := least(found.get("Relax", {})):
                        ratio = took / ours
                        means.setdefault((threads, name), []).append((workload, ratio))
            ratio = share = "–"
            if ours := least(found.get("Relax", {})):
                if best:
                    ratio = f"{best / ours:.2f}"
                g = graphs.get(workload)
                if g and threads == 1:
                    if "copy" in found["Relax"]:
                        share = f"{100 * g.bytes_moved / ours / 1e9 / max(found['Relax']['copy']):.0f}% of copy"
                    elif g.flops and gflops:
                        share = f"{100 * g.flops / ours / 1e9 / gflops:.0f}% of peak"
            lines.append(f"| {g.name if (g := graphs.get(workload)) else workload} | " + " | ".join(cells)
                         + f" | {ratio} | {share} |")
        lines.append("")
    lines += ["## Geometric means of the ratios", "", "| against | threads | workloads | ratio | without those that recurse |",
              "|---|---|---|---|---|"]
    for (threads, name), ratios in sorted(means.items()):
        mean = lambda r: f"{statistics.geometric_mean(r):.2f}" if r else "–"
        graph_only = [r for w, r in ratios if w not in recursive.ALL]
        lines.append(f"| {name} | {threads} | {len(ratios)} | {mean([r for _, r in ratios])} | {mean(graph_only)} |")
    lines += ["", "## Building, sizes, memory (one thread)", "",
              "*First answer*: from text or model to the first result; for Relax from the start of the process, for the "
              "others without the start of Python. *Memory*: the most that the process held; the others' includes "
              "Python and earlier workloads of the run.", "",
              "| workload | system | compile | first answer | artifact | memory |", "|---|---|---|---|---|---|"]
    for workload, per in results.items():
        found = per.get(args.threads[0], {})
        for name in ["Relax", *PEERS]:
            e = found.get(name, {})
            if "first" in e and least(e):
                compiled = "–" if e.get("compile") is None else show(e["compile"])
                lines.append(f"| {workload} | {name} | {compiled} | {show(e['first'])} | {size(e.get('size'))} | "
                             f"{size(e.get('memory'))} |")
    if tree:
        rows = (("sum", f"One sum of the tree (grown once, summed {SUMS} times, dropped; the time of that by {SUMS})", SUMS),
                ("grow", "Growing the tree, summing it once and dropping it", 1))
        lines += ["", "## The tree beside C", "",
                  f"{NODES} nodes of a data type; C grows it by `malloc` and is built with `cc -O2`.", ""]
        for what, text, per in rows:
            ours, theirs = (min(tree[what][k]) / per for k in ("Relax", "C"))
            lines.append(f"- {text}: Relax {show(ours)}, C {show(theirs)}: {ours / theirs:.1f} times.")
    failures = [(w, t, n, e["error"]) for w, per in results.items() for t, f in per.items()
                for n, e in f.items() if "error" in e]
    if failures:
        lines += ["", "## What failed", ""]
        lines += [f"- {w}, {t} thread(s), {n}: {text}" for w, t, n, text in failures]
    short = []
    for workload, per in results.items():
        for threads, found in per.items():
            ours = least(found.get("Relax", {}))
            others = [(least(e), n) for n, e in found.items() if n != "Relax" and least(e)]
            if ours and others and min(others)[0] / ours < 0.6:
                short.append((min(others)[0] / ours, workload, threads, min(others)[1]))
    if alone:
        asked = alone["weights"] + 1.5 * alone["pair"]
        lines += ["", "## ResNet-18 as a program of its own", "",
                  "Compiled by `relaxc --weights external`: no compiler is in the process, the packed weights are mapped.", "",
                  f"- Weights {size(alone['weights'])} (packed {size(alone['file'])}); the largest pair of activations "
                  f"{size(alone['pair'])}; weights and 1.5 times that pair: {size(asked)}.",
                  f"- Packed weights and the most that the heap held (activations, scratch memory, the input): "
                  f"{size(alone['file'] + alone['heap'])}, {(alone['file'] + alone['heap']) / asked:.2f} of that.",
                  f"- The most that the whole process held, with the program's code and the C library: "
                  f"{size(alone['held'])}, {alone['held'] / asked:.2f} of that. At the end it holds "
                  + ", ".join(f"{size(n)} {what}" for n, what in
                              zip(alone["parts"], ("of mapped weights", "of memory without a file (the heap, stacks)",
                                                   "of the program's file", "of the C library"))) + ".",
                  f"- Allocations of all runs after the second: {alone['allocs']}. A run takes {show(alone['median'])}."]
    if splits:
        names = {w: g.name if (g := graphs.get(w)) else w for w in splits}
        lines += ["", *kernels.table(splits, names, gflops, bandwidth)]
    if networks:
        lines += ["", *kernels.kinds(networks, gflops)]
    lines += ["", "## Where it falls short", ""]
    if short:
        lines += ["Below 0.6 of the fastest:", ""]
        lines += [f"- {w}, {t} thread(s): {r:.2f} of {n}" for r, w, t, n in sorted(short)]
    else:
        lines.append("No workload is below 0.6 of the fastest system.")
    notes = HERE / "notes.md"
    if notes.exists():
        lines += ["", notes.read_text().strip()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds and short turns: below ten minutes")
    parser.add_argument("--only", help="workloads, separated by commas")
    parser.add_argument("--systems", help="other systems to measure, separated by commas")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="how long a turn takes")
    parser.add_argument("--budget", type=float, help="seconds after which no further workload is begun")
    parser.add_argument("--limit", type=float, help="seconds that a system may take for one answer")
    parser.add_argument("--bin", type=Path, default=ROOT / "target/release", help="where relax-run and relaxc are")
    parser.add_argument("--venv", type=Path, default=ROOT / "target/peers")
    parser.add_argument("--no-write", action="store_true", help="prints the page instead of writing it")
    args = parser.parse_args()
    in_venv(args.venv)
    sys.path.insert(0, str(HERE))
    import kernels
    import quantised
    import recursive
    from workloads import ALL
    args.rounds = args.rounds or (3 if args.quick else 9)
    args.seconds = args.seconds or (0.08 if args.quick else 0.5)
    args.limit = args.limit or (20 if args.quick else 600)
    budget = args.budget or (500 if args.quick else float("inf"))
    args.threads = [int(t) for t in args.threads.split(",")]
    chosen = args.only.split(",") if args.only else list(ALL)
    unknown = [w for w in chosen if w not in ALL]
    if unknown:
        sys.exit(f"no workload {', '.join(unknown)}; there are: {', '.join(ALL)}")
    if not (args.bin / "relax-run").exists():
        sys.exit(f"{args.bin}/relax-run is not there: cargo build --release, and --examples -p relax-runtime for the peak")
    peers = args.systems.split(",") if args.systems else PEERS
    load, about = os.getloadavg()[0], machine()
    # The machine's speed varies while others use it: the best of all measurements counts.
    gflops, bandwidth = peaks(args.bin)
    copied = copy_of(args.bin)
    begin = time.monotonic()
    results, graphs, tree, alone, splits, networks = {}, {}, {}, {}, {}, {}
    processors = sorted(os.sched_getaffinity(0))

    def write():
        text = page(results, graphs, tree, alone, splits, networks, gflops, bandwidth, args, load, about)
        if not args.no_write:
            (ROOT / "docs/performance.md").write_text(text)
        return text

    # What was measured is written down whatever happens.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    try:
        with tempfile.TemporaryDirectory() as room:
            for threads in args.threads:
                # All systems alike: their processes inherit it.
                os.sched_setaffinity(0, processors[-threads:])
                relax = Relax(args.bin, threads, room, args.limit)
                systems = [relax, *(Peer(n, threads, room, args.limit) for n in peers)]
                for workload in chosen:
                    if time.monotonic() - begin > budget * (threads == args.threads[-1] or 0.6):
                        print(f"{workload}, {threads} thread(s): left out, the time is over", flush=True)
                        continue
                    print(f"{workload}, {threads} thread(s), after {time.monotonic() - begin:.0f} s", flush=True)
                    graphs[workload] = graph = ALL[workload]()
                    now = peaks(args.bin)
                    gflops, bandwidth = max(gflops or 0, now[0] or 0) or None, max(bandwidth, now[1])
                    by_hand = next((m for m in (recursive, quantised) if workload in m.ALL), None)
                    taking = [s for s in systems if not by_hand or s.name in by_hand.SYSTEMS]
                    before = next(iter(results.get(workload, {}).values()), {})
                    found = measure(taking, workload, graph, args.rounds, args.seconds, before, copied)
                    results.setdefault(workload, {})[threads] = found
                    # The model that was measured is still the one that is loaded.
                    if threads == 1 and (parts := kernels.split(relax)):
                        splits[workload] = parts
                    if threads == 1 and workload in kernels.NETWORKS:
                        if found := kernels.network(args.bin, kernels.NETWORKS[workload]):
                            networks[graph.name] = found
                    if workload == "tree" and threads == args.threads[0]:
                        tree.update(trees(relax, args.rounds))
                    if workload == "resnet-18" and threads == 1:
                        alone.update(held_alone(relax, graph))
                    write()
                for s in systems:
                    s.stop()
    finally:
        text = write()
    if args.no_write:
        print(text)
    else:
        print("docs/performance.md is written")


if __name__ == "__main__":
    main()
