"""Cells of the breadth bench that were named: operators as networks have them, and what was slow once."""
import numpy as np

from values import TYPES, Case, array, narrowed, owned, widened


def windows(x, k, stride, axes):
    view = np.lib.stride_tricks.sliding_window_view(x, k, axis=axes)
    cut = [slice(None)] * x.ndim
    for a, s in zip(axes, stride):
        cut[a] = slice(None, None, s)
    return view[tuple(cut)]


def conv(x, w, stride, pad, groups=1):
    """A convolution of any rank in float64 (or int64) by numpy."""
    n = x.ndim - 2
    exact = np.float64 if x.dtype.kind == "f" else np.int64
    x = np.pad(x.astype(exact), [(0, 0), (0, 0)] + [(p, p) for p in pad])
    v = windows(x, w.shape[2:], stride, tuple(range(2, 2 + n)))
    parts = []
    ci, co = x.shape[1] // groups, w.shape[0] // groups
    for g in range(groups):
        part, weight = v[:, g * ci:(g + 1) * ci], w[g * co:(g + 1) * co].astype(exact)
        axes = [1] + list(range(2 + n, 2 + 2 * n))
        y = np.tensordot(part, weight, axes=(axes, list(range(1, 2 + n))))
        parts.append(np.moveaxis(y, -1, 1))
    return np.concatenate(parts, 1)


def contractions():
    for dtype, sizes in [("float64", [256, 512]), ("float16", [256]), ("int32", [256]), ("int64", [192]), ("float32", [128, 512]),
                         ("bfloat16", [256])]:
        for n in sizes:
            x, w = array("x", dtype, n, n), array("w", dtype, n, n)
            yield Case("matmul", f"{n}² {dtype}", f"nn.matmul(%x, %w, units={n})", {"x": x, "w": w}, lambda x, w: x @ w, ("MatMul", {}),
                       each=2 * n)
    for dtype in ["float64", "float16", "int32"]:
        x, w = array("x", dtype, 1, 2048), array("w", dtype, 2048, 2048)
        yield Case("matmul", f"vector {dtype}", "nn.dense(%x, %w, units=2048)", {"x": x, "w": w},
                   lambda x, w: x @ w.T, ("Gemm", {"transB": 1}), each=2 * 2048)
    x, y = array("x", "float32", 8, 12, 128, 64), array("y", "float32", 8, 12, 128, 64)
    yield Case("einsum", "heads float32", 'einsum((%x, %y), equation="bhqd,bhkd->bhqk")', {"x": x, "y": y},
               lambda x, y: x @ y.swapaxes(2, 3), ("Einsum", {"equation": "bhqd,bhkd->bhqk"}), each=2 * 64)
    x, y = array("x", "float32", 32, 64, 48), array("y", "float32", 48, 80, 64)
    yield Case("einsum", "two axes float32", 'einsum((%x, %y), equation="ijk,klj->il")', {"x": x, "y": y},
               lambda x, y: np.einsum("ijk,klj->il", x, y, optimize=True), ("Einsum", {"equation": "ijk,klj->il"}),
               each=2 * 64 * 48)
    for dtype in ["float64", "float16"]:
        x, y = array("x", dtype, 16, 64, 96), array("y", dtype, 16, 80, 96)
        yield Case("batch_matmul", f"16×64×80 {dtype}", "nn.batch_matmul(%x, %y, transpose_b=True)", {"x": x, "y": y},
                   lambda x, y: x @ y.swapaxes(1, 2), each=2 * 96)
    for dtype in ["float32", "float64", "float16"]:
        x, w = array("x", dtype, 4, 64, 512), array("w", dtype, 64, 64, 3)
        yield Case("conv1d", f"64 channels {dtype}", "nn.conv1d(%x, %w, kernel_size=[3], padding=[1], channels=64)",
                   {"x": x, "w": w}, lambda x, w: conv(x, w, [1], [1]), ("Conv", {"pads": [1, 1]}), each=2 * 64 * 3)
    x, w = array("x", "float32", 1, 16, 16, 32, 32), array("w", "float32", 32, 16, 3, 3, 3)
    yield Case("conv3d", "16 to 32 channels float32",
               "nn.conv3d(%x, %w, kernel_size=[3, 3, 3], padding=[1, 1, 1], channels=32)", {"x": x, "w": w},
               lambda x, w: conv(x, w, [1] * 3, [1] * 3), ("Conv", {"pads": [1] * 6}), each=2 * 16 * 27)
    for dtype in ["float32", "float64"]:
        x, w = array("x", dtype, 1, 64, 28, 28), array("w", dtype, 64, 16, 3, 3)
        yield Case("conv2d", f"4 groups {dtype}",
                   "nn.conv2d(%x, %w, kernel_size=[3, 3], padding=[1, 1], channels=64, groups=4)", {"x": x, "w": w},
                   lambda x, w: conv(x, w, [1, 1], [1, 1], 4), ("Conv", {"pads": [1] * 4, "group": 4}),
                   each=2 * 16 * 9)
    x, w = array("x", "float64", 1, 32, 56, 56), array("w", "float64", 32, 1, 3, 3)
    yield Case("conv2d", "depthwise float64",
               "nn.conv2d(%x, %w, kernel_size=[3, 3], padding=[1, 1], channels=32, groups=32)", {"x": x, "w": w},
               lambda x, w: conv(x, w, [1, 1], [1, 1], 32), ("Conv", {"pads": [1] * 4, "group": 32}),
               each=2 * 9)
    x, w = array("x", "float32", 1, 32, 128), array("w", "float32", 32, 16, 4)
    yield Case("conv1d_transpose", "stride 2 float32",
               "nn.conv1d_transpose(%x, %w, kernel_size=[4], strides=[2], padding=[1], channels=16)", {"x": x, "w": w},
               None, ("ConvTranspose", {"strides": [2], "pads": [1, 1]}), each=2 * 32 * 2)


def elementwise():
    for dtype in TYPES[:-1]:
        x, y = array("x", dtype, 512, 1024), array("y", dtype, 512, 1024)
        row = array("r", dtype, 1024)
        yield Case("add", f"large {dtype}", "add(%x, %y)", {"x": x, "y": y}, np.add, ("Add", {}))
        yield Case("multiply", f"row {dtype}", "multiply(%x, %y)", {"x": x, "y": row}, np.multiply, ("Mul", {}))
        yield Case("maximum", f"odd {dtype}", "maximum(%x, %y)", {"x": x[:511, :1021].copy(), "y": row[:1021].copy()},
                   np.maximum, ("Max", {}))
        yield Case("less", f"large {dtype}", "less(%x, %y)", {"x": x, "y": y}, np.less, ("Less", {}))
        c = array("c", "bool", 512, 1024)
        yield Case("where", f"large {dtype}", "where(%c, %x, %y)", {"c": c, "x": x, "y": y}, np.where, ("Where", {}))
    for dtype in ["int64", "int32", "int8"]:
        x, y = array("x", dtype, 512, 1024, low=-100, high=100), array("y", dtype, 512, 1024, low=1, high=9)
        yield Case("divide", f"large {dtype}", "divide(%x, %y)", {"x": x, "y": y},
                   lambda x, y: np.trunc(x / y).astype(x.dtype), ("Div", {}))
    for source, target in [("float32", "int8"), ("int8", "float32"), ("float32", "float16"), ("float16", "float32"),
                           ("int64", "float32"), ("float64", "int32"), ("bool", "float32")]:
        x = array("x", source, 512, 1024)
        yield Case("cast", f"{source} to {target}", f'cast(%x, dtype="{target}")', {"x": x}, lambda x, t=target: x.astype(t))
    for name, op, low in [("exp", "Exp", None), ("tanh", "Tanh", None), ("sin", "Sin", None), ("atan", "Atan", None),
                          ("sinh", "Sinh", None), ("log", "Log", 0.1)]:
        for dtype in ["float32", "float64", "float16", "bfloat16"]:
            x = array("x", dtype, 256, 1024)
            if dtype == "bfloat16" and low is not None:
                x = narrowed(np.abs(widened(x)) + np.float32(low))
                low = None
            x = x if low is None else (np.abs(x) + dtype_of(low, dtype)).astype(dtype)
            reference = getattr(np, "arctan" if name == "atan" else name)
            yield Case(name, dtype, f"{name}(%x)", {"x": x}, reference, (op, {}))
    for dtype in ["float32", "float64"]:
        x, y = np.abs(array("x", dtype, 256, 1024)), array("y", dtype, 256, 1024)
        yield Case("power", dtype, "power(%x, %y)", {"x": x, "y": y}, np.power, ("Pow", {}))


def dtype_of(v, dtype):
    return np.dtype(dtype).type(v)


def reductions():
    for dtype in ["float64", "float32", "float16", "bfloat16", "int64", "int32"]:
        x = array("x", dtype, 512, 1024)
        for axis, what in [(1, "inner"), (0, "outer")]:
            yield Case("sum", f"{what} {dtype}", f"sum(%x, axis=[{axis}])", {"x": x}, lambda x, a=axis: x.sum(a, dtype=x.dtype),
                       None)
            yield Case("max", f"{what} {dtype}", f"max(%x, axis=[{axis}])", {"x": x}, lambda x, a=axis: x.max(a), None)
            yield Case("argmax", f"{what} {dtype}", f"argmax(%x, axis=[{axis}])", {"x": x},
                       lambda x, a=axis: x.argmax(a).astype("int32"), ("ArgMax", {"axis": axis, "keepdims": 0}))
            # Rounded at every step, sums of so few bits say nothing.
            if dtype == "bfloat16":
                continue
            yield Case("cumsum", f"{what} {dtype}", f"cumsum(%x, axis={axis})", {"x": x},
                       lambda x, a=axis: x.cumsum(a, dtype=x.dtype), None)
    x = array("x", "float32", 64, 32, 32, 8)
    yield Case("sum", "middle float32", "sum(%x, axis=[1, 2])", {"x": x}, lambda x: x.sum((1, 2)), None)
    for dtype, shape in [("float32", (1000, 10)), ("float32", (4096, 64)), ("float64", (512, 1024))]:
        x = array("x", dtype, *shape)

        def soft(x):
            e = np.exp(x - x.max(-1, keepdims=True))
            return e / e.sum(-1, keepdims=True)
        yield Case("softmax", f"{shape[0]}×{shape[1]} {dtype}", "nn.softmax(%x)", {"x": x}, soft, ("Softmax", {}))


def pooling():
    for dtype in ["float32", "float64"]:
        x = array("x", dtype, 1, 64, 56, 56)
        yield Case("max_pool2d", f"3×3 {dtype}", "nn.max_pool2d(%x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1])",
                   {"x": x}, None, ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}), each=2 * 9)
        yield Case("avg_pool2d", f"padded {dtype}", "nn.avg_pool2d(%x, pool_size=[3, 3], strides=[1, 1], padding=[1, 1])",
                   {"x": x}, None, ("AveragePool", {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4}), each=2 * 9)
    x = array("x", "float32", 1, 64, 56, 56)
    yield Case("avg_pool2d", "ceil float32",
               "nn.avg_pool2d(%x, pool_size=[3, 3], strides=[2, 2], padding=[0, 0], ceil_mode=True)", {"x": x}, None,
               ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}), each=2 * 9)
    x = array("x", "float32", 1, 64, 56, 56)
    yield Case("global_avg_pool2d", "float32", "nn.global_avg_pool2d(%x)", {"x": x},
               lambda x: x.mean((2, 3), keepdims=True), ("GlobalAveragePool", {}), each=2 * 56 * 56)
    x = array("x", "float32", 1, 16, 16, 32, 32)
    yield Case("max_pool3d", "2×2×2 float32", "nn.max_pool3d(%x, pool_size=[2, 2, 2], strides=[2, 2, 2])", {"x": x},
               None, ("MaxPool", {"kernel_shape": [2] * 3, "strides": [2] * 3}), each=2 * 8)
    x = array("x", "float32", 4, 64, 1024)
    yield Case("avg_pool1d", "4 float32", "nn.avg_pool1d(%x, pool_size=[4], strides=[4])", {"x": x}, None,
               ("AveragePool", {"kernel_shape": [4], "strides": [4]}), each=2 * 4)


def movement():
    for dtype in ["float32", "int8"]:
        x = array("x", dtype, 1, 64, 56, 56)
        for mode in ["constant", "reflect", "edge"]:
            value = f"0{'f' if dtype == 'float32' else 'i8'}"
            yield Case("pad", f"{mode} {dtype}",
                       f"nn.pad(%x, {value}, pad_width=[[0, 0], [0, 0], [2, 2], [2, 2]], pad_mode=\"{mode}\")", {"x": x},
                       lambda x, m=mode: np.pad(x, [(0, 0), (0, 0), (2, 2), (2, 2)], m),
                       ("Pad", {"mode": mode}), extra=[("pads", np.array([0, 0, 2, 2, 0, 0, 2, 2]))])
    for shape, axes in [((1, 64, 56, 56), (0, 2, 3, 1)), ((8, 128, 12, 64), (0, 1, 3, 2)), ((2048, 2048), (1, 0))]:
        x = array("x", "float32", *shape)
        yield Case("transpose", "".join(map(str, axes)), f"transpose(%x, axes={list(axes)})", {"x": x},
                   lambda x, a=axes: owned(x.transpose(a)), ("Transpose", {"perm": list(axes)}))
    x, i = array("x", "float32", 10000, 256), array("i", "int32", 512, low=0, high=10000)
    yield Case("take", "rows float32", "take(%x, %i, axis=0)", {"x": x, "i": i}, lambda x, i: x[i], ("Gather", {"axis": 0}))
    x, y = array("x", "float32", 1, 256, 28, 28), array("y", "float32", 1, 32, 28, 28)
    yield Case("concatenate", "channels float32", "concatenate((%x, %y), axis=1)", {"x": x, "y": y},
               lambda x, y: np.concatenate([x, y], 1), ("Concat", {"axis": 1}))
    x = array("x", "float32", 1, 64, 28, 28)
    yield Case("upsampling", "nearest float32", "nn.upsampling(%x, scale_h=2f, scale_w=2f)", {"x": x},
               lambda x: x.repeat(2, 2).repeat(2, 3), None)


def sorting():
    for dtype in ["float32", "int32", "float64"]:
        x = array("x", dtype, 16, 8192, low=-100000, high=100000)
        yield Case("sort", dtype, "sort(%x, axis=1)", {"x": x}, lambda x: np.sort(x, 1), None)
        yield Case("argsort", dtype, "argsort(%x, axis=1)", {"x": x},
                   lambda x: np.argsort(x, 1, kind="stable").astype("int32"), None)
    x = array("x", "float32", 16, 8192)
    yield Case("topk", "8 of 8192", "topk(%x, k=8, axis=1).0", {"x": x},
               lambda x: -np.sort(np.partition(-x, 8, 1)[:, :8], 1), ("TopK", {"axis": 1}),
               extra=[("k", np.array([8]))])


def networks():
    """Layers as networks have them: small images, many channels, channel factors, norms."""
    for shape, o, k, groups, what in [
            ((1, 512, 7, 7), 512, 3, 1, "3×3, 512 channels, 7×7"), ((1, 256, 14, 14), 256, 3, 1, "3×3, 256 channels, 14×14"),
            ((1, 64, 56, 56), 64, 3, 1, "3×3, 64 channels, 56×56"), ((1, 240, 14, 14), 480, 1, 1, "1×1, 240 channels, 14×14"),
            ((1, 576, 7, 7), 576, 5, 576, "depthwise 5×5, 7×7"), ((1, 240, 12, 40), 240, 5, 240, "depthwise 5×5, 12×40"),
            ((1, 96, 56, 56), 96, 3, 96, "depthwise 3×3, 56×56"), ((1, 3, 224, 224), 32, 3, 1, "3×3 from 3 channels")]:
        x, w = array("x", "float32", *shape), array("w", "float32", o, shape[1] // groups, k, k)
        pad = k // 2
        yield Case("conv2d", what, f"nn.conv2d(%x, %w, kernel_size=[{k}, {k}], padding=[{pad}, {pad}], channels={o}, "
                   f"groups={groups})", {"x": x, "w": w}, None, ("Conv", {"pads": [pad] * 4, "group": groups}),
                   each=2 * shape[1] // groups * k * k)
    x, s = array("x", "float32", 1, 576, 7, 7), array("s", "float32", 1, 576, 1, 1)
    yield Case("multiply", "channel factors 7×7", "multiply(%x, %s)", {"x": x, "s": s}, np.multiply, ("Mul", {}))
    x, s = array("x", "float32", 1, 576, 2, 2), array("s", "float32", 1, 576, 1, 1)
    yield Case("multiply", "channel factors 2×2", "multiply(%x, %s)", {"x": x, "s": s}, np.multiply, ("Mul", {}))
    x = array("x", "float32", 37, 8, 288)
    yield Case("heads", "split in three float32", "transpose(reshape(%x, newshape=[37, 8, 3, 4, 24]), axes=[2, 1, 3, 0, 4]) * 0.5f",
               {"x": x}, lambda x: np.multiply(x.reshape(37, 8, 3, 4, 24).transpose(2, 1, 3, 0, 4), np.float32(0.5), order="C"), None)
    x = array("x", "float32", 1, 116, 28, 28)
    yield Case("shuffle", "channels float32",
               "reshape(transpose(reshape(%x, newshape=[1, 2, 58, 28, 28]), axes=[0, 2, 1, 3, 4]), newshape=[1, 116, 28, 28])",
               {"x": x}, lambda x: x.reshape(1, 2, 58, 28, 28).transpose(0, 2, 1, 3, 4).reshape(1, 116, 28, 28).copy(), None)
    x, g, b = array("x", "float32", 4, 32, 28, 28), array("g", "float32", 32), array("b", "float32", 32)

    def instance(x, g, b):
        m, v = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
        return (x - m) / np.sqrt(v + 1e-5) * g[:, None, None] + b[:, None, None]
    yield Case("instance_norm", "float32", "nn.instance_norm(%x, %g, %b)", {"x": x, "g": g, "b": b},
               lambda x, g, b: instance(x, g, b).astype("float32"), ("InstanceNormalization", {"epsilon": 1e-5}))
    x, g, b = array("x", "float32", 512, 768), array("g", "float32", 768), array("b", "float32", 768)

    def layer(x, g, b):
        m, v = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return ((x - m) / np.sqrt(v + 1e-5) * g + b).astype("float32")
    yield Case("layer_norm", "512×768 float32", "nn.layer_norm(%x, %g, %b)", {"x": x, "g": g, "b": b}, layer,
               ("LayerNormalization", {"epsilon": 1e-5}))
    x = array("x", "float32", 1, 64, 56, 56)
    yield Case("lrn", "float32", "nn.lrn(%x, size=5)", {"x": x}, None,
               ("LRN", {"size": 5, "alpha": 0.0001, "beta": 0.75, "bias": 2.0}), each=2 * 5)


def by_hand():
    """Loops that people write, beside the operators that compute the same."""
    x, w = array("x", "float32", 256, 256), array("w", "float32", 256, 256)
    yield Case("loops", "matmul 256² float32", 'call_tir(@matmul, (%x, %w), shape(256, 256), dtype="float32")', {"x": x, "w": w},
               lambda x, w: x @ w, ("MatMul", {}), each=2 * 256, items="""
prim_func @matmul(%x: Buffer[(256, 256), float32], %w: Buffer[(256, 256), float32], %y: Buffer[(256, 256), float32]) {
  for %i, %j, %k in grid(256, 256, 256) {
    init { %y[%i, %j] = 0f; }
    %y[%i, %j] = %y[%i, %j] + %x[%i, %k] * %w[%k, %j];
  }
}
""")
    x = array("x", "float32", 512, 1024)

    def soft(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    yield Case("loops", "softmax 512×1024 float32", 'call_tir(@softmax, (%x,), shape(512, 1024), dtype="float32")', {"x": x},
               soft, ("Softmax", {}), items="""
prim_func @softmax(%x: Buffer[(512, 1024), float32], %y: Buffer[(512, 1024), float32]) {
  alloc %most: Buffer[(512,), float32];
  alloc %sum: Buffer[(512,), float32];
  for %i in grid(512) {
    %most[%i] = -3.4028234663852886e38f;
    for %k in grid(1024) { %most[%i] = max(%most[%i], %x[%i, %k]); }
  }
  for %i, %k in grid(512, 1024) { %y[%i, %k] = exp(%x[%i, %k] - %most[%i]); }
  for %i in grid(512) { %sum[%i] = 0f; }
  for %i, %k in grid(512, 1024) { %sum[%i] += exp(%x[%i, %k] - %most[%i]); }
  for %i, %k in grid(512, 1024) { %y[%i, %k] = %y[%i, %k] / %sum[%i]; }
}
""")
    x, w = array("x", "float32", 1, 64, 30, 30), array("w", "float32", 64, 64, 3, 3)
    yield Case("loops", "conv2d 3×3, 64 channels float32", 'call_tir(@conv, (%x, %w), shape(1, 64, 28, 28), dtype="float32")',
               {"x": x, "w": w}, lambda x, w: conv(x, w, [1, 1], [0, 0]), ("Conv", {}), each=2 * 64 * 9, items="""
prim_func @conv(%x: Buffer[(1, 64, 30, 30), float32], %w: Buffer[(64, 64, 3, 3), float32], %y: Buffer[(1, 64, 28, 28), float32]) {
  for %n, %o, %i, %j, %c, %a, %b in grid(1, 64, 28, 28, 64, 3, 3) {
    init { %y[%n, %o, %i, %j] = 0f; }
    %y[%n, %o, %i, %j] = %y[%n, %o, %i, %j] + %x[%n, %c, %i + %a, %j + %b] * %w[%o, %c, %a, %b];
  }
}
""")


def every():
    for part in [contractions, by_hand, networks, elementwise, reductions, pooling, movement, sorting]:
        yield from part()
