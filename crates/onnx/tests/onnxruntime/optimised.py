#!/usr/bin/env python3
"""What ONNX Runtime's optimiser writes: models of a folder are optimised by it, read and run here, and compared with what it
gives for the originals.

usage: optimised.py --bin DIR FOLDER
DIR holds relax-check and relax-run; each MODEL.onnx of FOLDER stands beside MODEL.0.in.npz, its arguments by their names.
Needs numpy and onnxruntime. Exit 1 where results differ, or where a model that is laid out for one processor is not refused
for that reason.
"""
import argparse, pathlib, subprocess, sys, tempfile

import numpy as np
import onnxruntime as ort

LEVELS = {
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def session(model, level, out=None):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    if out is not None:
        options.optimized_model_filepath = str(out)
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def ours(tools, model, inputs, out):
    """The results, or what is wrong."""
    checked = subprocess.run([tools / "relax-check", model], capture_output=True, text=True)
    if checked.returncode != 0:
        return checked.stdout + checked.stderr
    command = [tools / "relax-run", model, "--inputs", inputs, "--outputs", out]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        return run.stderr
    with np.load(out) as file:
        return [file[name] for name in sorted(file, key=lambda n: int(n.removeprefix("out")))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("folder", type=pathlib.Path)
    args = parser.parse_args()
    bad = 0
    for model in sorted(args.folder.glob("*.onnx")):
        inputs = model.with_name(f"{model.stem}.0.in.npz")
        with np.load(inputs) as file:
            want = session(model, ort.GraphOptimizationLevel.ORT_DISABLE_ALL).run(None, dict(file))
        for name, level in LEVELS.items():
            with tempfile.TemporaryDirectory() as room:
                made = pathlib.Path(room) / model.name
                session(model, level, made)
                got = ours(args.bin, made, inputs, pathlib.Path(room) / "out.npz")
            if isinstance(got, str):
                fine = name == "all" and "ORT_ENABLE_EXTENDED" in got and "RX1301" in got
                said = "laid out for one processor" if fine else got[:300]
            else:
                # What is quantised may differ by one step.
                far = [np.abs(g.astype("f8") - w.astype("f8")).max() / max(1e-6, np.abs(w).max()) for g, w in zip(got, want)]
                fine = len(got) == len(want) and max(far) < (2e-2 if "qdq" in model.stem else 1e-3)
                said = f"{max(far):.1e}"
            bad += not fine
            print(f"{'ok' if fine else 'BAD':4} {model.stem:24} {name:9} {said}", flush=True)
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
