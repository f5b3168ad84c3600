"""What a model holds as a program of its own: compiled by `relaxc --weights external`, without the compiler.

The bound is its weights and one and a half times the largest pair of activations: the input and the output of an
operator, where the output is not written over the input (element by element it could be).
"""
import subprocess
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
#: Where every element of the output depends on one place of the input, it could be written there.
APART = {"conv", "max_pool", "global_pool", "dense", "matmul", "transpose", "softmax", "layer_norm"}


def nbytes(shape):
    return 4 * int(np.prod(shape))


def bound(graph):
    """Bytes of the weights, and of the largest pair of activations."""
    pair = 0
    for n in graph.nodes:
        ours = [a for a in n.args if a.op != "weight"]
        if n.op in APART and ours:
            pair = max(pair, nbytes(n.shape) + sum(nbytes(a.shape) for a in ours))
    return sum(w.nbytes for w in graph.weights.values()), pair


def measure(tools, runtime, room, graph, text, params, runs=50):
    """What one such program held; `None` where there is no C compiler, or it does not build."""
    room = Path(room)
    (room / "alone.relay").write_text(text)
    graph.inputs[0].value.tofile(room / "alone.input")
    library, program = room / "alone.a", room / "alone"
    shape = ",".join(map(str, graph.inputs[0].shape))
    steps = [
        [tools / "relaxc", room / "alone.relay", "--params", params, "--weights", "external", "--emit", "static",
         "-o", library],
        ["cc", "-O2", "-Wl,--gc-sections", f"-DSHAPE={shape}", "-I", runtime / "include", HERE / "alone.c", library, "-o", program,
         "-lpthread", "-ldl", "-lm"],
    ]
    try:
        for step in steps:
            subprocess.run(list(map(str, step)), check=True, capture_output=True)
        ran = subprocess.run([program, room / "alone.input", str(runs)], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    kib, heap, allocs, median, *parts = ran.stdout.split()
    weights, pair = bound(graph)
    file = (room / "alone.weights").stat().st_size
    return {"held": 1024 * int(kib), "heap": int(heap), "allocs": int(allocs), "median": float(median),
            "weights": weights, "pair": pair, "file": file, "parts": [1024 * int(p) for p in parts]}
