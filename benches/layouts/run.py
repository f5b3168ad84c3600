#!/usr/bin/env python3
"""Times networks with channels last, as TensorFlow writes them, with and without `choose-layouts`, and writes the table in
docs/kernels.md.

usage: run.py [--bin DIR] [--runs N] [--rounds N] [--threads T] [--only NAME,…] [--no-page]

The networks are those of benches/peers. `relax-opt` brings them to channels last (`convert-layout`); what it moves at the
boundary becomes the form of parameters and of the result, so that the program is one with channels last from end to end.
Then it runs natively: as -O2 does, and by the same pipeline without `choose-layouts`; beside it the network with channels
first. The three take turns; each time is the least of N runs in each of the rounds, and a ratio is one of times of
the same round, its median over the rounds. Results are compared, too.

It needs numpy.
"""
import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs/kernels.md"
BEGIN, END = "<!-- made: layouts -->\n", "<!-- end -->\n"
LAST = ", ".join(
    f"{name}: NHWC" for name in ("nn.conv2d", "nn.conv2d_transpose", "nn.max_pool2d", "nn.global_avg_pool2d")
)
UNITS = {"s": 1e3, "ms": 1.0, "µs": 1e-3, "us": 1e-3, "ns": 1e-6}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout, done.stderr


def axes(source, target):
    return [source.index(letter) for letter in target]


def channels_last(text, values):
    """The program without the transforms of its parameters and its result, and the values in their order."""
    values = dict(values)
    transform = r'layout_transform\((%\w+), src_layout="([A-Z]+)", dst_layout="([A-Z]+)"\)'
    for name, param, source, target in re.findall(rf"^ *(?:let )?(%\w+) = {transform};\n", text, re.M):
        key = param[1:]
        if key not in values:
            continue
        values[key] = np.ascontiguousarray(values[key].transpose(axes(source, target)))
        text = re.sub(rf"^ *(?:let )?{name} = {transform};\n", "", text, flags=re.M)
        shape = ", ".join(map(str, values[key].shape))
        text = re.sub(rf"({param}): Tensor\[\([^)]*\), float32\]", rf"\1: Tensor[({shape}), float32]", text)
        text = re.sub(rf"{name}(?!\w)", param, text)
    text = re.sub(rf"^( *){transform}\n}}", r"\1\2\n}", text, flags=re.M)
    return re.sub(r"\) -> Tensor\[[^\]]*\] \{", ") {", text), values


def without(pipeline, name):
    """A pipeline without a pass: commas inside of braces and brackets separate options."""
    depth, parts = 0, [""]
    for c in pipeline:
        depth += (c in "{(") - (c in "})")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return ",".join(p for p in parts if p.split("{")[0] != name)


class Model:
    def __init__(self, name, graph, tools, room):
        from graph import to_relay
        self.name, self.tools, self.room = name, tools, room
        first = room / f"{name}-first.relay"
        first.write_text(to_relay(graph))
        # Bindings keep parameters from standing in the transforms of others.
        plain = f'to-graph-normal-form{{into-functions=false}},convert-layout{{layouts="{LAST}"}}'
        moved, _ = run(tools / "relax-opt", first, "--no-types", "--pipeline", plain)
        inputs = {x.name: x.value for x in graph.inputs}
        text, values = channels_last(moved, {**graph.weights, **inputs})
        last = room / f"{name}-last.relay"
        last.write_text(text)
        _, said = run(tools / "relax-opt", last, "--pipeline", "native2", "--dump-pipeline", "-o", "/dev/null")
        pipeline = without(said.strip(), "choose-layouts")
        assert pipeline != said.strip(), "the pipeline has no choose-layouts"
        self.ways = {"first": (first, []), "written": (last, ["--pipeline", pipeline]), "chosen": (last, [])}
        for way, held in (("first", {**graph.weights, **inputs}), ("last", values)):
            weights = {k: v for k, v in held.items() if k not in inputs}
            np.savez(room / f"{name}-{way}.weights.npz", **weights)
            np.savez(room / f"{name}-{way}.inputs.npz", **{k: held[k] for k in inputs})

    def call(self, way, *more):
        file, options = self.ways[way]
        stem = file.with_suffix("")
        return run(self.tools / "relax-run", file, *options, "--params", f"{stem}.weights.npz",
                   "--inputs", f"{stem}.inputs.npz", *more)

    def result(self, way):
        out = self.room / "out.npz"
        self.call(way, "--outputs", out)
        value = np.load(out)["out0"]
        if way != "first" and value.ndim == 4:
            value = value.transpose(axes("NHWC", "NCHW"))
        return value

    def time(self, way, runs, threads):
        """The least of some runs, in milliseconds."""
        _, said = self.call(way, "--threads", threads, "--bench", runs, "--outputs", self.room / "out.npz")
        number, unit = re.search(r"least ([\d.]+)(s|ms|µs|us|ns)", said).groups()
        return float(number) * UNITS[unit]


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--bin", type=Path, default=ROOT / "target/release")
    ask.add_argument("--runs", type=int, default=30)
    ask.add_argument("--rounds", type=int, default=5)
    ask.add_argument("--threads", type=int, default=1)
    ask.add_argument("--only", default="")
    ask.add_argument("--no-page", action="store_true")
    args = ask.parse_args()
    if not (args.bin / "relax-run").exists():
        sys.exit(f"no {args.bin / 'relax-run'}: build it, or give --bin")
    sys.path.insert(0, str(HERE.parent / "peers"))
    import workloads
    models = {"ResNet-18": workloads.resnet18, "MobileNet": workloads.mobilenet, "DCGAN": workloads.dcgan}
    only = [name for name in args.only.split(",") if name]
    lines = [
        "| network, channels last | without `choose-layouts` | with it | gain | the network with channels first | with it, of that |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as room:
        for name, make in models.items():
            if only and name not in only:
                continue
            model = Model(name, make(), args.bin, Path(room))
            reference = model.result("first")
            for way in ("written", "chosen"):
                error = np.abs(model.result(way) - reference).max()
                if not error <= 1e-3 * np.abs(reference).max():
                    sys.exit(f"{name}: the results differ by {error}")
            took = {way: [] for way in model.ways}
            for _ in range(args.rounds):
                for way in model.ways:
                    took[way].append(model.time(way, args.runs, args.threads))
            ratio = lambda a, b: statistics.median(x / y for x, y in zip(took[a], took[b]))
            least = {way: min(times) for way, times in took.items()}
            lines.append(
                f"| {name} | {least['written']:.2f} ms | {least['chosen']:.2f} ms | {ratio('written', 'chosen'):.1f} "
                f"| {least['first']:.2f} ms | {ratio('chosen', 'first'):.2f} |"
            )
            print(lines[-1], flush=True)
    threads = "one thread" if args.threads == 1 else f"{args.threads} threads"
    made = (
        f"{BEGIN}\nThe least of {args.runs} runs on {threads}, in {args.rounds} rounds; ratios are medians over the rounds. "
        "Made by\n`python3 benches/layouts/run.py`.\n\n" + "\n".join(lines) + f"\n\n{END}"
    )
    if args.no_page or only:
        return 0
    text = PAGE.read_text()
    begin = text.index(BEGIN)
    end = text.index(END, begin) + len(END)
    PAGE.write_text(text[:begin] + made + text[end:])
    print(f"{PAGE.relative_to(ROOT)} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
