"""ResNet-18 on an image: the model's text, made-up weights, an array of numpy.

    python examples/python/resnet18.py [threads]
"""

import pathlib
import sys
import time

import numpy as np

import relax_ir as rx

MODEL = pathlib.Path(__file__).parent.parent / "models" / "resnet18.relay"


def made_up(param, random):
    """A weight as a network would have it before it has learned anything."""
    if param.name.endswith(("gamma", "var")):
        return np.ones(param.shape, dtype=param.dtype)
    fan_in = int(np.prod(param.shape[1:]))
    values = random.standard_normal(param.shape) * np.sqrt(2 / fan_in) * (len(param.shape) > 1)
    return values.astype(param.dtype)


def model():
    """The module, with weights as its constants."""
    module = rx.load(MODEL)
    random = np.random.default_rng(1)
    params = module.functions[0].params
    module.bind({p.name: made_up(p, random) for p in params if p.name != "data"})
    return module


def image():
    """A red disc on blue, as networks take images: one of three channels of 224 by 224."""
    y, x = np.mgrid[-1:1:224j, -1:1:224j]
    disc = (x * x + y * y < 0.5).astype("float32")
    return np.stack([disc, np.zeros_like(disc), 1 - disc])[None]


if __name__ == "__main__":
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    begin = time.perf_counter()
    program = model().compile(threads=threads)
    print(f"compiled in {time.perf_counter() - begin:.2f} s")
    begin = time.perf_counter()
    scores = program(image())
    print(f"one image in {(time.perf_counter() - begin) * 1e3:.0f} ms")
    for k in np.argsort(scores[0])[:-6:-1]:
        print(f"class {k:4}  {scores[0, k]:.4f}")
