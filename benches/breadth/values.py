"""The values of the breadth bench and what a cell is: a text over values, with what it is in numpy and, where there is
one, as a node of ONNX."""
import functools
import zlib

import numpy as np

#: Element types by numpy's names.
TYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]


class Narrow(np.ndarray):
    """The upper halves of float32: bfloat16, for which numpy has no type."""


def is_narrow(v):
    return isinstance(v, Narrow)


def widened(bits):
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def narrowed(v):
    """To the nearest, ties to even."""
    bits = np.ascontiguousarray(v, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).view(Narrow)


def owned(x):
    """An array with memory of its own, as every other system makes it: not a view of one that is contiguous as it is."""
    return np.array(x, order="C", subok=True)


class Case:
    """`body` is that of a function over the inputs by name, `items` what stands beside it; `node` is (operator, attributes) of ONNX over the same
    inputs and the constants `extra` (none, named "", where one is left out); `each` says how many operations an element of
    a contraction's or a window's result takes, two for each product that is added and for each element of a window."""

    def __init__(self, group, name, body, inputs, reference=None, node=None, extra=(), each=0, items=""):
        self.items = items
        self.group, self.name, self.body, self.inputs = group, name, body, inputs
        self.reference, self.node, self.extra, self.each = reference, node, extra, each

    def telling(self):
        """The case with operands that a narrower type cannot tell apart; `None` where no operand has 64 bits. What is
        only looked up (`extra`), and what says where elements are (`i`), stays."""
        if not any(v.dtype in (np.float64, np.int64) for k, v in self.inputs.items() if k != "i"):
            return None
        inputs = {k: v if k == "i" else beyond(v) for k, v in self.inputs.items()}
        return Case(self.group, self.name, self.body, inputs, self.reference, self.node, self.extra, self.each, self.items)

    def relay(self):
        def ty(v):
            shape = ", ".join(map(str, v.shape)) + ("," if v.ndim == 1 else "")
            return f"Tensor[({shape}), {'bfloat16' if is_narrow(v) else v.dtype.name}]"
        params = ", ".join(f"%{k}: {ty(v)}" for k, v in self.inputs.items())
        return f'#[version = "0.0.5"]\ndef @main({params}) {{\n  {self.body}\n}}\n{self.items}'


#: The most elements of an array, and how far into what arrays are cut from they begin.
MOST, SPREAD = 1 << 22, 1 << 20


@functools.cache
def numbers(dtype, low, high, made):
    """What arrays of a type are cut from: made once, as most of a run would be spent on making them."""
    values = np.resize(np.random.default_rng(1).standard_normal(SPREAD + 12345), MOST + SPREAD)
    if dtype == "bool":
        values = values > 0
    elif dtype == "bfloat16":
        values = narrowed(values)
    elif dtype.startswith("float"):
        values = values.astype(dtype)
    else:
        low = 0 if dtype.startswith("u") else low
        values = (low + (values * 2**20).astype(np.int64) % (high - low)).astype(dtype)
    return made(values) if made else values


def array(seed, dtype, *shape, low=-4, high=5, made=None):
    """Normal floats, or integers from `low` to before `high`, and what `made` makes of each."""
    count = int(np.prod(shape))
    begin = zlib.crc32(f"{seed}{dtype}{shape}".encode()) % (SPREAD // 64) * 64
    # A copy: arrays of one case that shared memory would need less of the caches than anyone has to spend.
    return numbers(dtype, low, high, made)[begin:begin + count].reshape(shape).copy()


def beyond(v):
    """Numbers of 64 bits like those given that lose something in 32: integers beyond 2^32 whose lower halves are all the
    same (and no zero, by which one may have to divide), floats a little more than the same few decimals."""
    if v.dtype == np.int64:
        return v * 2**33 + 3
    if v.dtype == np.float64:
        return np.round(v, 1) + 1e-10 * np.random.default_rng(v.size).random(v.shape)
    return v
