#!/usr/bin/env python3
"""Relax in TVMScript: how fast it is read, printed and transformed, beside TVM 0.27 itself.

    cargo build --release --workspace
    pip install apache-tvm==0.27.0.post1 numpy      # Python 3.11
    python benches/tvmscript/run.py [--bin DIR] [--modules DIR] [--rounds N] [--turns N] [--again N] [--bindings N,N,…] [--write]

Reading and printing: a chain of operators in one dataflow block, of 10,000, 100,000 and 1,000,000 bindings, on one
thread. TVM's own reader gets chains that it comes through with in seconds: its time grows with the square of their length.

Passes: the largest modules under `--modules` (the conformance cases of TVMScript unless given), each through the passes
of Relax's default pipeline that work on any target; of both sides only the passes are timed, not reading and printing.
TVM's reader finds the types of what it reads, so finding these for the first time is none of ours either, nor is starting
threads; finding types again after each pass is. TVM's passes verify nothing: ours run without the verifier, and beside
that once more with it, as relax-opt does unless told otherwise.
A module that one side does not come through with counts for neither, and is named.

Both sides are measured in two ways, each like the other. From the start of a process: relax-opt, and a Python process that
calls TVM's passes for the first time (without the time of importing TVM). In a process that goes on: the bench
`script_passes`, which runs the pipeline again and again on copies of a module that was read, and TVM's passes called again
and again in one Python process, on a module that was read anew each time.

Both sides take turns in the same run, ours with more runs, since what interrupts one is longer than it takes; of all the
least counts. Of relax-opt the time is what `--timing` says; TVM's is taken in its process around the calls. `--write` puts
the tables into docs/tvmscript-speed.md.
"""

import argparse
import datetime
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT.parent / "shared" / "conformance" / "tvmscript" / "ok"
PASSES = (
    "LegalizeOps AnnotateTIROpPattern FoldConstant FuseOps FuseTIR RewriteDataflowReshape ToNonDataflow CallTIRRewrite"
    " StaticPlanBlockMemory LowerAllocTensor KillAfterLastUse VMShapeLower"
).split()
OPERATORS = ["R.add({}, y)", "R.nn.relu({})", "R.multiply({}, y)", "R.reshape({}, R.shape([4, 8]))", "R.exp({})"]
# Steps of relax-opt that are no passes.
OUTSIDE = ["reading", "finding types of what was read", "starting threads", "printing"]
# How long TVM may take for one module.
PATIENCE = 120


def chain(bindings):
    """The text of a chain of operators, of so many bindings."""
    tensor = 'R.Tensor((4, 8), dtype="float32")'
    lines = [
        "# from tvm.script import ir as I",
        "# from tvm.script import relax as R",
        "",
        "@I.ir_module",
        "class Module:",
        "    @R.function",
        f"    def main(x: {tensor}, y: {tensor}) -> {tensor}:",
        "        with R.dataflow():",
    ]
    last = "x"
    for i in range(bindings - 1):
        lines.append(f"            lv{i}: {tensor} = {OPERATORS[i % len(OPERATORS)].format(last)}")
        last = f"lv{i}"
    lines += [f"            gv: {tensor} = R.add({last}, y)", "            R.output(gv)", "        return gv", ""]
    return "\n".join(lines)


def ours(tool, source, out, pipeline, *flags):
    """The milliseconds that each step took, the processor's seconds for all, and what went wrong."""
    command = [tool, source, "--from", "tvmscript", "--print-style", "tvmscript", "-o", out, "--timing"]
    if pipeline:
        command += ["--pipeline", pipeline, *flags]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return None, None, done.stderr.strip().splitlines()[0][:120] if done.stderr else f"exit {done.returncode}"
    steps = {}
    for line in done.stderr.splitlines():
        if found := re.match(r"\s*([\d.]+) ms\s+[\d.]+ %\s+(.*)", line):
            steps[found[2]] = steps.get(found[2], 0.0) + float(found[1])
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return steps, spent, None


class Tvm:
    """TVM in a process of its own, which is begun anew when it dies or takes too long."""

    def __init__(self):
        self.process = None

    def ask(self, **question):
        if self.process is None:
            command = [sys.executable, __file__, "--worker"]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        import select

        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.process.kill()
            self.process.wait()
            self.process = None
            return {"error": "TVM takes too long" if not ready else "TVM dies"}
        return json.loads(line)

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def worker():
    """Answers questions, a line each: times of TVM's reader or passes."""
    import threading

    sys.setrecursionlimit(1_000_000)
    threading.stack_size(1 << 29)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def serve():
        import tvm
        from tvm import relax

        transforms = relax.transform
        for line in sys.stdin:
            question = json.loads(line)
            try:
                text = Path(question["path"]).read_text()
                start = (time.perf_counter(), time.process_time())
                module = tvm.script.from_source(text)
                if question["what"] == "passes":
                    passes = tvm.transform.Sequential([getattr(transforms, name)() for name in PASSES])
                    start = (time.perf_counter(), time.process_time())
                    with tvm.target.Target("llvm"):
                        passes(module)
                answer = {"wall": time.perf_counter() - start[0], "cpu": time.process_time() - start[1]}
            except Exception as error:  # whatever TVM finds
                answer = {"error": " ".join(str(error).split())[-120:]}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()


def reading(args, tvm, folder):
    """Chains of several lengths, ours and TVM's in turns."""
    ours_of = {n: f"{folder}/chain{n}.py" for n in args.bindings}
    theirs_of = {n: f"{folder}/tvm{n}.py" for n in args.tvm_bindings}
    for n, path in {**ours_of, **theirs_of}.items():
        Path(path).write_text(chain(n))
    for n, path in theirs_of.items():
        Path(path).write_text(chain(n))
    least, tvms = {}, {}
    for _ in range(args.rounds):
        # A short chain more often: what interrupts it takes longer than it does.
        for n, path in [(n, path) for n, path in ours_of.items() for _ in range(max(1, min(args.turns, 100_000 // n)))]:
            steps, spent, wrong = ours(args.tool, path, "/dev/null", "")
            if wrong:
                sys.exit(f"{path}: {wrong}")
            total = sum(steps.values())
            for what in ("reading", "printing"):
                wall = steps[f"({what})"] / 1e3
                old = least.get((n, what), (1e9, 1e9))
                least[n, what] = min(old[0], wall), min(old[1], spent * wall * 1e3 / total)
        for n, path in theirs_of.items():
            answer = tvm.ask(what="read", path=path)
            if "error" not in answer:
                old = tvms.get(n, (1e9, 1e9))
                tvms[n] = min(old[0], answer["wall"]), min(old[1], answer["cpu"])
    rows = [f"{'':28}{'bindings':>9} {'MB':>7} {'seconds':>9} {'MB/s':>7} {'processor s':>12} {'MB/s':>7}"]

    def row(name, n, path, wall, cpu):
        size = os.path.getsize(path) / 1e6
        rows.append(f"{name:28}{n:9} {size:7.2f} {wall:9.3f} {size / wall:7.2f} {cpu:12.3f} {size / cpu:7.2f}")

    for what in ("reading", "printing"):
        for n, path in ours_of.items():
            row(f"relax-opt, {what}", n, path, *least[n, what])
    for n, path in theirs_of.items():
        if n in tvms:
            row("tvm.script.from_source", n, path, *tvms[n])
    first, last = min(args.bindings), max(args.bindings)
    grown = least[last, "reading"][1] / least[first, "reading"][1]
    rows.append(f"reading {last} bindings takes {grown:.1f} times the processor's time of reading {first}")
    return rows


def built_bench():
    """The path of the bench that runs a pipeline in one process."""
    command = ["cargo", "bench", "-q", "--workspace", "--bench", "script_passes", "--no-run", "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    built = [json.loads(line) for line in done.stdout.splitlines()]
    found = [b["executable"] for b in built if b.get("executable") and b["target"]["name"] == "script_passes"]
    return found[-1]


def passes(args, tvm):
    """The largest modules through the pipeline, ours and TVM's in turns."""
    modules = sorted(Path(args.modules).glob("*.py"), key=lambda p: -p.stat().st_size)[: args.count]
    pipeline, bench = ",".join(PASSES), built_bench()
    tables, out = {}, {}

    def tool(path, *flags):
        """The least elapsed seconds of the passes in some processes."""
        runs = []
        for _ in range(args.turns):
            steps, _, wrong = ours(args.tool, str(path), "/dev/null", pipeline, *flags)
            if wrong:
                return None, f"relax-opt: {wrong}"
            runs.append(sum(steps.values()) - sum(steps.get(f"({what})", 0.0) for what in OUTSIDE))
        return min(runs) / 1e3, None

    def measured(path):
        """The seconds of each column, or what went wrong."""
        started, wrong = tool(path, "--verify-each=false")
        checked, wrong = (None, wrong) if wrong else tool(path)
        if wrong:
            return None, wrong
        done = subprocess.run([bench, pipeline, "0.2", str(path)], capture_output=True, text=True, check=True)
        again, checked_again = map(float, done.stdout.splitlines()[0].split()[1:])
        first = Tvm()
        answers = [first.ask(what="passes", path=str(path)), *(tvm.ask(what="passes", path=str(path)) for _ in range(args.again))]
        first.close()
        if errors := [a["error"] for a in answers if "error" in a]:
            return None, f"TVM: {errors[0]}"
        walls = [a["wall"] for a in answers]
        return (started, walls[0], again, min(walls[1:]), checked, checked_again), None

    for _ in range(args.rounds):
        for path in modules:
            if path in out:
                continue
            found, wrong = measured(path)
            if wrong:
                out[path] = wrong
                continue
            tables[path] = tuple(map(min, tables.get(path, found), found))
    rows = [
        f"{'':24} {'from the start of a process, ms':>40} {'in a process that goes on, ms':>40} {'verified, ms':>17}",
        f"{'module':16} {'kB':>7} {'relax-opt':>18} {'TVM':>12} {'times':>8} {'pipeline':>18} {'TVM':>12} {'times':>8}"
        f" {'first':>9} {'again':>7}",
    ]

    def row(name, size, all):
        a, b, c, d, e, f = (t * 1e3 for t in all)
        rows.append(
            f"{name:16} {size:7.1f} {a:18.2f} {b:12.1f} {b / a:8.1f} {c:18.2f} {d:12.1f} {d / c:8.1f} {e:9.2f} {f:7.2f}"
        )

    done = [p for p in modules if p in tables and p not in out]
    for path in done:
        row(path.stem, path.stat().st_size / 1e3, tables[path])
    if done:
        size = sum(p.stat().st_size for p in done) / 1e3
        row("all", size, [sum(tables[p][k] for p in done) for k in range(6)])
    rows += [f"{path.stem} counts for neither: {why}" for path, why in out.items()]
    return rows


def page(sections):
    load = os.getloadavg()[0]
    head = [
        "# Speed of reading, printing and transforming TVMScript",
        "",
        "Written by `benches/tvmscript/run.py --write`; no number here is written by hand.",
        "",
        f"Machine: {platform.machine()}, {os.cpu_count()} processors. Measured {datetime.date.today()};"
        f" load average {load:.1f}. The least of several rounds counts, of elapsed and of processor time, each for itself.",
    ]
    for title, text, rows in sections:
        head += ["", f"## {title}", "", text, "", "```text", *(r.rstrip() for r in rows), "```"]
    return "\n".join(head) + "\n"


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "target" / "release"))
    parser.add_argument("--modules", default=str(CORPUS))
    parser.add_argument("--count", type=int, default=16, help="how many of the largest modules")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=8, help="runs of ours for each of TVM's, whose passes take longer")
    parser.add_argument("--again", type=int, default=2, help="runs of TVM's passes in a process that goes on")
    parser.add_argument("--bindings", type=numbers, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--tvm-bindings", type=numbers, default=[250, 500, 1000, 2000])
    parser.add_argument("--only", choices=["reading", "passes"])
    parser.add_argument("--write", action="store_true", help="writes docs/tvmscript-speed.md")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker()
    args.tool = os.path.join(args.bin, "relax-opt")
    if not os.path.exists(args.tool):
        sys.exit(f"no relax-opt in {args.bin}: cargo build --release --workspace")
    tvm, sections = Tvm(), []
    try:
        if args.only != "passes":
            with tempfile.TemporaryDirectory() as folder:
                rows = reading(args, tvm, folder)
            text = (
                "A chain of operators in one dataflow block, on one thread: from bytes to a module with names resolved, and"
                " from that to a text again. TVM's reader beside it."
            )
            sections.append(("Reading and printing", text, rows))
        if args.only != "reading":
            if not os.path.isdir(args.modules):
                sys.exit(f"no modules in {args.modules}: --modules DIR")
            rows = passes(args, tvm)
            text = f"The passes {', '.join(PASSES)} on the largest modules of TVM's own tests and importers, without reading (with the types of what was read) and printing. TVM's passes verify nothing, so ours run with `--verify-each=false`; the last columns are ours with the verifier, which is relax-opt's default: after each pass it holds the module and each new tensor program against all that must be true of them. Both sides are measured from the start of a process (TVM's without importing it, but with what its passes import when they first need it), and called again and again in one."
            sections.append(("Relax's default pipeline", text, rows))
    finally:
        tvm.close()
    result = page(sections)
    print(result, end="")
    if args.write:
        (ROOT / "docs" / "tvmscript-speed.md").write_text(result)


if __name__ == "__main__":
    main()
