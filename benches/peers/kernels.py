"""Where a model's time goes: `relax-run --profile`, its kernels put together by what each begins with."""
import re
import subprocess

ROW = re.compile(r"^ *(\d+) +([\d.]+) +[\d.]+% +([\d.]+) +([\d.]+) +([\d.]+)  (.+)$", re.M)
#: Kernels below this share of a run are put together.
SMALL = 0.03
#: What `examples/bench_network` calls workloads.
NETWORKS = {"mobilenet": "mobilenet", "resnet-18": "resnet"}


def split(relax, runs=40):
    """For each operator that kernels begin with: seconds of a run (the shortest calls), operations and bytes of a run,
    kernels. The model is the one that `relax` has loaded; `None` where it does not run."""
    answer = relax.call("--bench", str(runs), "--profile")
    if "error" in answer:
        return None
    found = {}
    for calls, micros, gflops, gbytes, least, label in ROW.findall(answer["text"]):
        times = int(calls) / runs
        # Rates are those of all calls: work is rate times time.
        work, moved = (float(r) * 1e3 * float(micros) / int(calls) * times for r in (gflops, gbytes))
        entry = found.setdefault(re.split(r"[+ ]", label)[0], [0.0, 0.0, 0.0, 0])
        for k, v in enumerate((float(least) * 1e-6 * times, work, moved, 1)):
            entry[k] += v
    return found


def table(splits, names, gflops, bandwidth):
    """Lines of Markdown: for each workload the kernels that count, with their share of the run and the part of the
    machine's peaks that they reach."""
    lines = ["## Where the time goes (one thread)", "",
             "`relax-run --profile`: kernels by the operator that they begin with (an epilogue belongs to its product), the "
             "shortest call of each. *Peak*: multiplications and additions by the measured peak; minimal filtering "
             "counts those that it saves. *Copy*: bytes of arguments and results by the measured copy.", "",
             "| workload | kernels | share | time | peak | copy |", "|---|---|---|---|---|---|"]
    for workload, found in splits.items():
        whole = sum(e[0] for e in found.values())
        if not whole:
            continue
        rest = [0.0, 0.0, 0.0, 0]
        rows = sorted(found.items(), key=lambda r: -r[1][0])
        large = [(f"{e[3]} `{op}`", e) for op, e in rows if e[0] >= SMALL * whole]
        for _, e in rows[len(large):]:
            rest = [a + b for a, b in zip(rest, e)]
        large += [(f"{rest[3]} others", rest)] if rest[3] else []
        for k, (name, (time, work, moved, _)) in enumerate(large):
            peak = f"{100 * work / time / 1e9 / gflops:.0f}%" if gflops and time else "–"
            copy = f"{100 * moved / time / 1e9 / bandwidth:.0f}%" if time else "–"
            lines.append(f"| {names[workload] if k == 0 else ''} | {name} | {100 * time / whole:.1f}% | "
                         f"{1e6 * time:.3g} µs | {peak} | {copy} |")
    return lines


def network(tools, name):
    """The convolutions of a network by kind, run in turn by `examples/bench_network`: kind to layers, seconds,
    operations. Nothing where the example was not built."""
    example = tools / "examples/bench_network"
    if not example.exists():
        return {}
    text = subprocess.run([example, "1", name], capture_output=True, text=True, check=False).stdout
    found = {}
    for window, step, rest, micros, gflops in re.findall(r"^(\d+x\d+)/(\d+) (.+?) +([\d.]+) us +([\d.]+) GFLOP", text, re.M):
        kind = f"{window}, step {step}" + (", depthwise" if "depthwise" in rest else "")
        entry = found.setdefault(kind, [0, 0.0, 0.0])
        seconds = 1e-6 * float(micros)
        for k, v in enumerate((1, seconds, 1e9 * float(gflops) * seconds)):
            entry[k] += v
    return found


def kinds(networks, gflops):
    """Lines of Markdown for what [`network`] found."""
    lines = ["### Convolutions by kind", "",
             "`cargo run --release -p relax-runtime --example bench_network`: the shortest time of every layer, run one after "
             "the other.", "",
             "| network | kind | layers | time | share | peak |", "|---|---|---|---|---|---|"]
    for name, found in networks.items():
        whole = sum(e[1] for e in found.values())
        for k, (kind, (layers, seconds, work)) in enumerate(sorted(found.items(), key=lambda r: -r[1][1])):
            peak = f"{100 * work / seconds / 1e9 / gflops:.0f}%" if gflops else "–"
            lines.append(f"| {name if k == 0 else ''} | {kind} | {layers} | {1e6 * seconds:.4g} µs | "
                         f"{100 * seconds / whole:.0f}% | {peak} |")
    return lines
