"""Cells of the breadth bench that are made: operators by kind, each kind with the element types and the classes of shapes
that it has. A line of a table is an operator; what a class means for it is said once for its kind."""
import numpy as np

from values import Case, array, narrowed, owned, widened

FLOATS = ["float64", "float32", "float16", "bfloat16"]
WHOLE = ["int64", "int32", "int16", "int8", "uint8"]
NUMBERS = FLOATS + WHOLE
ALL = NUMBERS + ["bool"]

#: Shapes of operators that treat all elements alike; the second operand of a class with a broadcast.
SHAPES = {
    "tiny": ((2, 3, 4), (2, 3, 4)), "short": ((65536, 7), (65536, 7)), "long": ((8, 65536), (65536,)),
    "outer": ((1024, 512), (1024, 1)), "odd": ((13, 37, 1021), (13, 1, 1021)), "batch": ((16, 64, 500), (64, 1)),
    "vector": ((524287,), (1,)), "large": ((2048, 2048), (2048, 2048)),
}
#: What is reduced of what.
REDUCED = {
    "tiny": ((4, 6), [1]), "short": ((65536, 7), [1]), "long": ((8, 65536), [1]), "outer": ((1024, 512), [0]),
    "odd": ((37, 129, 101), [1]), "batch": ((16, 64, 500), [0, 2]), "vector": ((524287,), [0]), "large": ((2048, 2048), [1]),
}
#: Images: number, channels, height, width.
IMAGES = {"tiny": (1, 2, 5, 5), "short": (1, 512, 7, 7), "long": (1, 8, 16, 4096), "outer": (1, 960, 14, 14), "odd": (1, 37, 61, 59),
          "batch": (16, 16, 28, 28), "vector": (1, 1, 512, 512), "large": (1, 64, 112, 112)}


def positive(x, low=0.1):
    """Floats from `low` on, integers from 1 on."""
    if x.dtype == np.uint16:
        return narrowed(np.abs(widened(x)) + np.float32(low))
    if x.dtype.kind == "f":
        return (np.abs(x) + x.dtype.type(low)).astype(x.dtype)
    return (np.abs(x) + 1).astype(x.dtype)


def inside(x):
    """Floats between -0.9 and 0.9."""
    if x.dtype == np.uint16:
        return narrowed(np.tanh(widened(x)) * np.float32(0.9))
    return (np.tanh(x) * x.dtype.type(0.9)).astype(x.dtype)


def about_one(x):
    """Floats whose products stay finite."""
    if x.dtype == np.uint16:
        return narrowed(np.ones(x.shape, "float32"))
    return (1 + inside(x) / x.dtype.type(1e4)).astype(x.dtype)


def onnx(op, **attributes):
    return (op, attributes) if op else None


#: Functions of one element: name, numpy's, ONNX's, types, what the operand is made into.
UNARY = [
    ("exp", np.exp, "Exp", FLOATS, None), ("log", np.log, "Log", FLOATS, positive), ("tanh", np.tanh, "Tanh", FLOATS, None),
    ("sigmoid", None, "Sigmoid", FLOATS, None), ("sqrt", np.sqrt, "Sqrt", FLOATS, positive), ("rsqrt", None, None, FLOATS, positive),
    ("erf", None, "Erf", FLOATS, None), ("sin", np.sin, "Sin", FLOATS, None), ("cos", np.cos, "Cos", FLOATS, None),
    ("tan", np.tan, "Tan", FLOATS, None), ("asin", np.arcsin, "Asin", FLOATS, inside), ("acos", np.arccos, "Acos", FLOATS, inside),
    ("atan", np.arctan, "Atan", FLOATS, None), ("sinh", np.sinh, "Sinh", FLOATS, None), ("cosh", np.cosh, "Cosh", FLOATS, None),
    ("asinh", np.arcsinh, "Asinh", FLOATS, None), ("atanh", np.arctanh, "Atanh", FLOATS, inside),
    ("acosh", np.arccosh, "Acosh", FLOATS, lambda x: positive(x, 1)), ("log2", np.log2, None, FLOATS, positive),
    ("log10", np.log10, None, FLOATS, positive), ("floor", np.floor, "Floor", FLOATS, None), ("ceil", np.ceil, "Ceil", FLOATS, None),
    ("round", None, None, FLOATS, None), ("round_half_to_even", np.rint, "Round", FLOATS, None), ("trunc", np.trunc, None, FLOATS, None),
    ("isnan", np.isnan, "IsNaN", FLOATS, None), ("isfinite", np.isfinite, None, FLOATS, None),
    ("abs", np.abs, "Abs", NUMBERS[:-1], None), ("negative", np.negative, "Neg", NUMBERS[:-1], None),
    ("sign", np.sign, "Sign", NUMBERS, None), ("nn.relu", lambda x: np.maximum(x, x.dtype.type(0)), "Relu", NUMBERS, None),
    ("bitwise_not", np.invert, "BitwiseNot", WHOLE, None), ("logical_not", np.logical_not, "Not", ["bool"], None),
    ("hardswish", None, "HardSwish", FLOATS, None), ("relax.nn.gelu", None, None, FLOATS, None),
    ("relax.nn.silu", None, None, FLOATS, None), ("relax.nn.softplus", None, "Softplus", FLOATS, None),
    ("relax.nn.selu", None, "Selu", FLOATS, None), ("relax.square", np.square, None, NUMBERS, None),
    ("clip", lambda x: np.clip(x, 0, 2), None, NUMBERS, None), ("nn.leaky_relu", None, "LeakyRelu", FLOATS, None),
]
ATTRIBUTES = {"clip": ", a_min=0.0, a_max=2.0", "nn.leaky_relu": ", alpha=0.01"}

#: Functions of two elements.
BINARY = [
    ("add", np.add, "Add", NUMBERS), ("subtract", np.subtract, "Sub", NUMBERS), ("multiply", np.multiply, "Mul", NUMBERS),
    ("divide", None, "Div", NUMBERS), ("maximum", np.maximum, "Max", NUMBERS), ("minimum", np.minimum, "Min", NUMBERS),
    ("power", np.power, "Pow", FLOATS), ("floor_divide", np.floor_divide, None, NUMBERS), ("floor_mod", np.mod, None, NUMBERS),
    ("mod", None, "Mod", NUMBERS), ("less", np.less, "Less", NUMBERS), ("equal", np.equal, "Equal", ALL),
    ("greater_equal", np.greater_equal, "GreaterOrEqual", NUMBERS), ("not_equal", np.not_equal, None, NUMBERS),
    ("logical_and", np.logical_and, "And", ["bool"]), ("logical_or", np.logical_or, "Or", ["bool"]),
    ("logical_xor", np.logical_xor, "Xor", ["bool"]), ("bitwise_and", np.bitwise_and, "BitwiseAnd", WHOLE),
    ("bitwise_xor", np.bitwise_xor, "BitwiseXor", WHOLE), ("left_shift", np.left_shift, None, WHOLE),
    ("right_shift", np.right_shift, None, WHOLE), ("relax.atan2", np.arctan2, None, FLOATS),
    ("relax.log_add_exp", np.logaddexp, None, FLOATS), ("where", np.where, "Where", ALL),
]
DIVIDES = {"divide", "floor_divide", "floor_mod", "mod"}


def elementwise():
    for op, of, node, types, made in UNARY:
        for dtype in types:
            for what, (shape, _) in SHAPES.items():
                x = array("x", dtype, *shape, made=made)
                attributes = {"alpha": 0.01} if op == "nn.leaky_relu" else {}
                yield Case(op, f"{what} {dtype}", f"{op}(%x{ATTRIBUTES.get(op, '')})", {"x": x}, of,
                           onnx(node, **attributes))
    for op, of, node, types in BINARY:
        for dtype in types:
            for what, (shape, other) in SHAPES.items():
                x = array("x", dtype, *shape, made=positive if op == "power" else None)
                y = array("y", dtype, *other, made=positive if op in DIVIDES or op.endswith("shift") else None)
                values = {"x": x, "y": y}
                if op == "where":
                    values = {"c": array("c", "bool", *shape), **values}
                # With the sign of the dividend, of integers, too.
                attributes = {"fmod": 1} if op == "mod" else {}
                yield Case(op, f"{what} {dtype}", f"{op}({', '.join('%' + k for k in values)})", values, of,
                           onnx(node, **attributes))
    for dtype in ALL:
        for target in ALL:
            if dtype != target:
                x = array("x", dtype, 512, 1024, made=positive if target == "uint8" and dtype != "bool" else None)
                of = None if target == "bfloat16" or dtype == "bfloat16" else lambda x, t=target: x.astype(t)
                yield Case("cast", f"{dtype} to {target}", f'cast(%x, dtype="{target}")', {"x": x}, of)


REDUCTIONS = [
    ("sum", np.sum, "ReduceSum", NUMBERS), ("mean", np.mean, "ReduceMean", FLOATS), ("max", np.max, "ReduceMax", NUMBERS),
    ("min", np.min, "ReduceMin", NUMBERS), ("prod", np.prod, "ReduceProd", NUMBERS), ("all", np.all, None, ["bool"]),
    ("any", np.any, None, ["bool"]), ("relax.variance", np.var, None, FLOATS), ("relax.std", np.std, None, FLOATS),
]


def reductions():
    for op, of, node, types in REDUCTIONS:
        for dtype in types:
            for what, (shape, axes) in REDUCED.items():
                x = array("x", dtype, *shape, made=about_one if op == "prod" and dtype in FLOATS else None)
                kept = {"dtype": x.dtype} if op in ("sum", "prod", "mean") else {}
                extra = [("axes", np.array(axes))]
                yield Case(op, f"{what} {dtype}", f"{op}(%x, axis={axes})", {"x": x},
                           lambda x, o=of, a=tuple(axes), k=kept: o(x, axis=a, **k), onnx(node, keepdims=0), extra=extra)
    for dtype in NUMBERS:
        for what, (shape, axes) in REDUCED.items():
            x, axis = array("x", dtype, *shape), axes[-1]
            for op, node in [("argmax", "ArgMax"), ("argmin", "ArgMin")]:
                yield Case(op, f"{what} {dtype}", f"{op}(%x, axis=[{axis}])", {"x": x},
                           lambda x, o=getattr(np, op), a=axis: o(x, a).astype("int32"), onnx(node, axis=axis, keepdims=0))
            extra = [("axis", np.array(axis))]
            yield Case("cumsum", f"{what} {dtype}", f"cumsum(%x, axis={axis})", {"x": x},
                       lambda x, a=axis: x.cumsum(a, dtype=x.dtype), onnx("CumSum"), extra=extra)
            yield Case("cumprod", f"{what} {dtype}", f"cumprod(%x, axis={axis})", {"x": x},
                       lambda x, a=axis: x.cumprod(a, dtype=x.dtype))
    for dtype in FLOATS:
        for what, (shape, axes) in REDUCED.items():
            x, axis = array("x", dtype, *shape), axes[-1]
            for op, node in [("nn.softmax", "Softmax"), ("nn.log_softmax", "LogSoftmax")]:
                yield Case(op, f"{what} {dtype}", f"{op}(%x, axis={axis})", {"x": x}, None, onnx(node, axis=axis))
            if what == "vector":
                continue
            g, b = array("g", dtype, shape[axis]), array("b", dtype, shape[axis])
            last = axis == len(shape) - 1
            yield Case("nn.layer_norm", f"{what} {dtype}", f"nn.layer_norm(%x, %g, %b, axis={axis})", {"x": x, "g": g, "b": b}, None,
                       onnx("LayerNormalization" if last else None, epsilon=1e-5))
            yield Case("relax.nn.rms_norm", f"{what} {dtype}", f"relax.nn.rms_norm(%x, %g, axes=[{axis}])", {"x": x, "g": g})


def norms():
    for dtype in FLOATS:
        for what, shape in IMAGES.items():
            x, c = array("x", dtype, *shape), shape[1]
            g, b, m = (array(k, dtype, c) for k in "gbm")
            v = array("v", dtype, c, made=positive)
            yield Case("nn.batch_norm", f"{what} {dtype}", "nn.batch_norm(%x, %g, %b, %m, %v).0",
                       {"x": x, "g": g, "b": b, "m": m, "v": v}, None, onnx("BatchNormalization"))
            yield Case("nn.instance_norm", f"{what} {dtype}", "nn.instance_norm(%x, %g, %b)", {"x": x, "g": g, "b": b}, None,
                       onnx("InstanceNormalization"))
            groups = next(n for n in (8, 2, 37, 1) if c % n == 0)
            yield Case("nn.group_norm", f"{what} {dtype}", f"nn.group_norm(%x, %g, %b, num_groups={groups})",
                       {"x": x, "g": g, "b": b})
            yield Case("nn.lrn", f"{what} {dtype}", "nn.lrn(%x, size=5)", {"x": x}, None,
                       onnx("LRN", size=5, alpha=0.0001, beta=0.75, bias=2.0), each=2 * 5)
            yield Case("nn.l2_normalize", f"{what} {dtype}", "nn.l2_normalize(%x, eps=0.001f, axis=[1])", {"x": x})
            yield Case("nn.bias_add", f"{what} {dtype}", "nn.bias_add(%x, %b)", {"x": x, "b": b})
            yield Case("nn.prelu", f"{what} {dtype}", "nn.prelu(%x, %b)", {"x": x, "b": b})


def placed(n, value):
    return "[" + ", ".join([str(value)] * n) + "]"


def windows():
    """Windows over one, two and three axes, with channels first and last."""
    for dtype in FLOATS + ["int32", "int8", "uint8"]:
        for what, (n, c, h, w) in IMAGES.items():
            for rank, shape in [(1, (n, c, h * w)), (2, (n, c, h, w)), (3, (n, c, 4, h, w) if h * w < 5000 else (n, c, 2, h, w // 2))]:
                if rank != 2 and what in ("outer", "vector", "large"):
                    continue
                for last in (False, True):
                    lay = "NCDHW"
                    layout = "N" + ("" if last else "C") + lay[5 - rank:] + ("C" if last else "")
                    axes = (0, *range(2, 2 + rank), 1)
                    x = array("x", dtype, *shape)
                    x = owned(x.transpose(axes)) if last else x
                    for op, k, s, p, more in [("max", 3, 2, 1, {}), ("avg", 3, 1, 1, {}), ("avg", 2, 2, 0, {"ceil_mode": 1}),
                                              ("max", 2, 1, 0, {"dilations": [2] * rank})]:
                        if op == "avg" and dtype not in FLOATS:
                            continue
                        said = {"ceil_mode": "ceil_mode=True", "dilations": f"dilation={placed(rank, 2)}"}
                        text = "".join(", " + said[m] for m in more)
                        node = onnx({"max": "MaxPool", "avg": "AveragePool"}[op] if not last else None,
                                    kernel_shape=[k] * rank, strides=[s] * rank, pads=[p] * 2 * rank, **more)
                        yield Case(f"nn.{op}_pool{rank}d", f"{what} {k}/{s} {'last ' if last else ''}{dtype}",
                                   f"nn.{op}_pool{rank}d(%x, pool_size={placed(rank, k)}, strides={placed(rank, s)}, "
                                   f'padding={placed(rank, p)}, layout="{layout}"{text})', {"x": x}, None, node, each=2 * k**rank)
                    for op in ("avg", "max"):
                        if op == "avg" and dtype not in FLOATS or what == "tiny" or rank == 3 and shape[2] < 4:
                            continue
                        out = [4, 4, 4][:rank]
                        yield Case(f"nn.adaptive_{op}_pool{rank}d", f"{what} {'last ' if last else ''}{dtype}",
                                   f'nn.adaptive_{op}_pool{rank}d(%x, output_size={out}, layout="{layout}")', {"x": x},
                                   each=2 * int(np.prod(shape[2:])) // 4**rank)


def images():
    for dtype in ["float32", "float16", "float64", "uint8"]:
        for what, shape in IMAGES.items():
            n, c, h, w = shape
            x = array("x", dtype, *shape)
            for method, mode in [("nearest_neighbor", "asymmetric"), ("linear", "half_pixel"), ("cubic", "half_pixel")]:
                for last in (False, True):
                    if dtype == "uint8" and method != "nearest_neighbor":
                        continue
                    y = owned(x.transpose(0, 2, 3, 1)) if last else x
                    node = onnx("Resize" if not last else None, mode=method.split("_")[0], coordinate_transformation_mode=mode,
                                nearest_mode="floor", **({"cubic_coeff_a": -0.5} if method == "cubic" else {}))
                    yield Case("image.resize2d", f"{what} {method} {'last ' if last else ''}{dtype}",
                               f'image.resize2d(%x, size=[{h * 2}, {w + w // 2}], method="{method}", '
                               f'layout="{"NHWC" if last else "NCHW"}", coordinate_transformation_mode="{mode}", '
                               'rounding_method="floor")', {"x": y}, None, node,
                               extra=[("", None), ("", None), ("sizes", np.array([n, c, h * 2, w + w // 2]))])
            if dtype != "uint8":
                grid = array("grid", dtype, n, 2, h, w, made=inside)
                yield Case("image.grid_sample", f"{what} {dtype}", "image.grid_sample(%x, %grid)",
                           {"x": x, "grid": grid})
                weight = array("w", dtype, c, 3, 3)
                yield Case("image.dilation2d", f"{what} {dtype}", "image.dilation2d(%x, %w, padding=[1, 1])", {"x": x, "w": weight},
                           each=2 * 9)
            yield Case("nn.upsampling", f"{what} {dtype}", "nn.upsampling(%x, scale_h=2f, scale_w=2f)", {"x": x})


def contractions():
    shapes = {"tiny": (1, 4, 5, 6), "short": (1, 4096, 64, 8), "long": (1, 32, 32, 8192), "outer": (1, 16, 1024, 512),
              "odd": (1, 127, 253, 61), "batch": (24, 64, 64, 48), "vector": (1, 1, 1024, 1024), "large": (1, 384, 384, 384)}
    for dtype in NUMBERS:
        for what, (b, m, n, k) in shapes.items():
            x, y = array("x", dtype, b, m, k), array("y", dtype, b, n, k)
            out = ', out_dtype="int32"' if dtype in ("int8", "uint8") else ""
            yield Case("nn.batch_matmul", f"{what} {dtype}", f"nn.batch_matmul(%x, %y, transpose_b=True{out})", {"x": x, "y": y},
                       None if out else lambda x, y: x @ y.swapaxes(1, 2), each=2 * k)
            x, y = x[0].copy(), owned(y[0].T)
            yield Case("nn.matmul", f"{what} {dtype}", f"nn.matmul(%x, %y, units={n}{out})", {"x": x, "y": y},
                       None if out else lambda x, y: x @ y, onnx(None if out else "MatMul"), each=2 * k)
            yield Case("nn.dense", f"{what} {dtype}", f"nn.dense(%x, %y, units={n}{out})", {"x": x, "y": y.T.copy()},
                       None if out else lambda x, y: x @ y.T, onnx(None if out else "Gemm", transB=1), each=2 * k)
    forms = [("1×1", 1, 1, 1, 1), ("3×3", 3, 1, 1, 1), ("stride 2", 3, 2, 1, 1), ("dilated", 3, 1, 2, 1), ("groups", 3, 1, 1, 4),
             ("depthwise", 3, 1, 1, 0)]
    for dtype in FLOATS + ["int32"]:
        for form, k, s, d, groups in forms:
            for rank, shape in [(1, (4, 64, 500)), (2, (1, 64, 28, 28)), (3, (1, 16, 12, 14, 14))]:
                for last in (False, True):
                    c = shape[1]
                    g = groups or c
                    x, w = array("x", dtype, *shape), array("w", dtype, c, c // g, *[k] * rank)
                    spatial = "DHW"[3 - rank:]
                    if last:
                        x = owned(np.moveaxis(x, 1, -1))
                        w = owned(w.transpose(*range(2, 2 + rank), 1, 0))
                        if g == c:
                            w = owned(w.swapaxes(-1, -2))
                    filters = (spatial + ("OI" if g == c else "IO")) if last else "OI" + spatial
                    pad = d * (k // 2)
                    yield Case(f"nn.conv{rank}d", f"{form} {'last ' if last else ''}{dtype}",
                               f"nn.conv{rank}d(%x, %w, kernel_size={placed(rank, k)}, strides={placed(rank, s)}, "
                               f"padding={placed(rank, pad)}, dilation={placed(rank, d)}, channels={c}, groups={g}, "
                               f'data_layout="{"N" + spatial + "C" if last else "NC" + spatial}", kernel_layout="{filters}")',
                               {"x": x, "w": w}, None,
                               onnx("Conv" if not last else None, strides=[s] * rank, pads=[pad] * 2 * rank, dilations=[d] * rank,
                                    group=g), each=2 * (c // g) * k**rank)
        for rank, shape in [(1, (4, 64, 500)), (2, (1, 32, 28, 28)), (3, (1, 16, 8, 8, 8))]:
            c = shape[1]
            x, w = array("x", dtype, *shape), array("w", dtype, c, c, *[4] * rank)
            yield Case(f"nn.conv{rank}d_transpose", f"stride 2 {dtype}",
                       f"nn.conv{rank}d_transpose(%x, %w, kernel_size={placed(rank, 4)}, strides={placed(rank, 2)}, "
                       f"padding={placed(rank, 1)}, channels={c})", {"x": x, "w": w}, None,
                       onnx("ConvTranspose", strides=[2] * rank, pads=[1] * 2 * rank),
                       each=2 * c * 2**rank)
        x, w = array("x", dtype, 1, 8, 28, 28, 8), array("w", dtype, 8, 8, 3, 3, 8, 8)
        yield Case("nn.contrib_conv2d_NCHWc", dtype,
                   'nn.contrib_conv2d_NCHWc(%x, %w, kernel_size=[3, 3], padding=[1, 1], channels=64, data_layout="NCHW8c", '
                   'kernel_layout="OIHW8i8o", out_layout="NCHW8c")', {"x": x, "w": w}, each=2 * 64 * 9)
        for equation, a, b in [("ij,jk->ik", (200, 300), (300, 250)), ("ij,ij->i", (512, 1024), (512, 1024)), ("i,j->ij", (700,), (800,)),
                               ("bij,bjk->bik", (16, 64, 50), (16, 50, 70)), ("ijk,jil->kl", (32, 40, 60), (40, 32, 50)),
                               ("bhqd,bkhd->bhqk", (4, 8, 64, 32), (4, 64, 8, 32)), ("ij,j->i", (1024, 1024), (1024,)),
                               ("ij,i->j", (1024, 1024), (1024,))]:
            x, y = array("x", dtype, *a), array("y", dtype, *b)
            sizes = dict(zip(equation.split("->")[0].replace(",", ""), a + b))
            yield Case("einsum", f"{equation} {dtype}", f'einsum((%x, %y), equation="{equation}")', {"x": x, "y": y},
                       lambda x, y, e=equation: np.einsum(e, x, y, optimize=True), onnx("Einsum", equation=equation),
                       each=2 * int(np.prod([n for k, n in sizes.items() if k not in equation.split("->")[1]])))


def movement():
    for dtype in ["float64", "float32", "float16", "int8", "bool"]:
        for what, shape in IMAGES.items():
            x = array("x", dtype, *shape)
            n, c, h, w = shape
            suffix = {"float64": "f64", "float32": "f", "float16": "f16", "int8": "i8"}.get(dtype)
            pads = [(0, 0), (0, 0), (2, 1), (1, 2)]
            flat = [p[i] for i in (0, 1) for p in pads]
            for mode in ["constant", "reflect", "edge"]:
                if suffix:
                    width = str([list(p) for p in pads])
                    yield Case("nn.pad", f"{mode} {what} {dtype}", f'nn.pad(%x, 0{suffix}, pad_width={width}, pad_mode="{mode}")', {"x": x},
                               lambda x, p=pads, m=mode: np.pad(x, p, m), onnx("Pad", mode=mode), extra=[("pads", np.array(flat))])
            for axes in [(0, 2, 3, 1), (0, 1, 3, 2), (2, 0, 1, 3), (3, 2, 1, 0), (1, 0, 2, 3)]:
                yield Case("transpose", f"{''.join(map(str, axes))} {what} {dtype}", f"transpose(%x, axes={list(axes)})", {"x": x},
                           lambda x, a=axes: owned(x.transpose(a)), onnx("Transpose", perm=list(axes)))
            for axis in (1, 3):
                yield Case("reverse", f"{axis} {what} {dtype}", f"reverse(%x, axis={axis})", {"x": x},
                           lambda x, a=axis: owned(np.flip(x, a)))
                yield Case("repeat", f"{axis} {what} {dtype}", f"repeat(%x, repeats=2, axis={axis})", {"x": x},
                           lambda x, a=axis: x.repeat(2, a))
                yield Case("concatenate", f"{axis} {what} {dtype}", f"concatenate((%x, %x), axis={axis})", {"x": x},
                           lambda x, a=axis: np.concatenate([x, x], a))
                yield Case("stack", f"{axis} {what} {dtype}", f"stack((%x, %x), axis={axis})", {"x": x},
                           lambda x, a=axis: np.stack([x, x], a))
                if shape[axis] % 2 == 0:
                    yield Case("split", f"{axis} {what} {dtype}", f"split(%x, indices_or_sections=2, axis={axis}).1", {"x": x},
                               lambda x, a=axis: owned(np.split(x, 2, a)[1]))
            yield Case("tile", f"{what} {dtype}", "tile(%x, reps=[1, 2, 1, 3])", {"x": x}, lambda x: np.tile(x, (1, 2, 1, 3)),
                       onnx("Tile"), extra=[("reps", np.array([1, 2, 1, 3]))])
            yield Case("strided_slice", f"inner step 2 {what} {dtype}",
                       f"strided_slice(%x, begin=[0, 0, 1, 1], end=[{n}, {c}, {h}, {w}], strides=[1, 1, 1, 2])", {"x": x},
                       lambda x: owned(x[:, :, 1:, 1::2]))
            yield Case("strided_slice", f"outer step 2 {what} {dtype}",
                       f"strided_slice(%x, begin=[0, 0, 1, 1], end=[{n}, {c}, {h}, {w}], strides=[1, 1, 2, 1])", {"x": x},
                       lambda x: owned(x[:, :, 1::2, 1:]))
            if h % 2 == 0 and w % 2 == 0:
                yield Case("nn.space_to_depth", f"{what} {dtype}", "nn.space_to_depth(%x, block_size=2)", {"x": x}, None,
                           onnx("SpaceToDepth", blocksize=2))
            if c % 4 == 0:
                yield Case("nn.depth_to_space", f"{what} {dtype}", "nn.depth_to_space(%x, block_size=2)", {"x": x}, None,
                           onnx("DepthToSpace", blocksize=2))
            if c % 8 == 0:
                yield Case("layout_transform", f"{what} {dtype}", 'layout_transform(%x, src_layout="NCHW", dst_layout="NCHW8c")', {"x": x},
                           lambda x: owned(x.reshape(x.shape[0], -1, 8, *x.shape[2:]).transpose(0, 1, 3, 4, 2)))
            yield Case("broadcast_to", f"{what} {dtype}", f"broadcast_to(%x, shape=[{n}, {c}, {h}, {w}])", {"x": x[:, :, :1, :].copy()},
                       lambda x, s=shape: np.broadcast_to(x, s).copy())
            if dtype != "bool":
                yield Case("nn.dilate", f"{what} {dtype}", "nn.dilate(%x, strides=[1, 1, 2, 2])", {"x": x})
                yield Case("trilu", f"{what} {dtype}", "trilu(%x, 0, upper=True)", {"x": x}, np.triu)
                lengths = array("l", "int32", n, low=1, high=c + 1)
                yield Case("reverse_sequence", f"{what} {dtype}", "reverse_sequence(%x, %l)", {"x": x, "l": lengths})
                yield Case("sequence_mask", f"{what} {dtype}", "sequence_mask(%x, %l, axis=1)", {"x": x, "l": lengths})


def indexed():
    tables = {"tiny": (4, 3, 5), "short": (100000, 3, 4096), "long": (64, 16384, 32), "outer": (1000, 1000, 500), "odd": (997, 61, 777),
              "batch": (30000, 128, 512), "vector": (100000, 1, 65536), "large": (4096, 512, 2048)}
    for dtype in ["float32", "float16", "int64", "uint8"]:
        for what, (rows, width, count) in tables.items():
            x, i = array("x", dtype, rows, width), array("i", "int32", count, low=0, high=rows)
            j = array("i", "int64", count, low=0, high=width)
            yield Case("take", f"rows {what} {dtype}", "take(%x, %i, axis=0)", {"x": x, "i": i}, lambda x, i: x[i],
                       onnx("Gather", axis=0))
            if width > 1:
                yield Case("take", f"columns {what} {dtype}", "take(%x, %i, axis=1)", {"x": x[:1024].copy(), "i": j},
                           lambda x, i: np.take(x, i, 1), onnx("Gather", axis=1))
            many = np.random.default_rng(7).integers(0, rows, (count, width))
            yield Case("gather", f"{what} {dtype}", "gather(%x, %i, axis=0)", {"x": x, "i": many},
                       lambda x, i: np.take_along_axis(x, i, 0), onnx("GatherElements", axis=0))
            across = np.random.default_rng(8).integers(0, width, (min(rows, 1024), width))
            yield Case("gather", f"inner {what} {dtype}", "gather(%x, %i, axis=1)", {"x": x[:1024].copy(), "i": across},
                       lambda x, i: np.take_along_axis(x, i, 1), onnx("GatherElements", axis=1))
            yield Case("gather_nd", f"rows {what} {dtype}", "gather_nd(%x, %i)", {"x": x, "i": i[None]}, lambda x, i: x[i[0]])
            both = np.stack([np.random.default_rng(9).integers(0, rows, count), j])
            yield Case("gather_nd", f"elements {what} {dtype}", "gather_nd(%x, %i)", {"x": x, "i": both}, lambda x, i: x[i[0], i[1]])
            u = array("u", dtype, count, width)
            for reduction in ("update", "add"):
                yield Case("scatter_elements", f"{reduction} {what} {dtype}",
                           f'scatter_elements(%x, %i, %u, axis=0, reduction="{reduction}")', {"x": x, "i": many, "u": u}, None,
                           onnx("ScatterElements", axis=0, **({"reduction": "add"} if reduction == "add" else {})))
                yield Case("scatter_nd", f"rows {reduction} {what} {dtype}", f'scatter_nd(%x, %i, %u, mode="{reduction}")',
                           {"x": x, "i": i[None], "u": u})
        for depth, count in [(10, 8192), (1000, 512), (50000, 16)]:
            i = array("i", "int32", count, low=0, high=depth)
            on, off = array("on", dtype, 1)[0:1].reshape(()), np.zeros((), dtype)
            for axis in (-1, 0):
                yield Case("one_hot", f"{count}×{depth} axis {axis} {dtype}",
                           f'one_hot(%i, %on, %off, depth={depth}, axis={axis}, dtype="{dtype}")', {"i": i, "on": on, "off": off})


def distinct(x):
    """The distinct elements in order, with zeros behind."""
    found = np.unique(x)
    return np.pad(found, (0, x.size - found.size))


def ordered():
    for dtype in ["float64", "float32", "float16", "int64", "int32", "int8", "uint8"]:
        for what, (shape, axes) in REDUCED.items():
            x, axis = array("x", dtype, *shape, low=-100, high=100), axes[-1]
            yield Case("sort", f"{what} {dtype}", f"sort(%x, axis={axis})", {"x": x}, lambda x, a=axis: np.sort(x, a))
            yield Case("argsort", f"{what} {dtype}", f"argsort(%x, axis={axis})", {"x": x},
                       lambda x, a=axis: np.argsort(x, a, kind="stable").astype("int32"))
            k = min(5, shape[axis])
            yield Case("topk", f"{what} {dtype}", f"topk(%x, k={k}, axis={axis}).0", {"x": x}, None, onnx("TopK", axis=axis),
                       extra=[("k", np.array([k]))])
        for count in (100, 100000):
            x = array("x", dtype, count, low=-1000 if dtype != "int8" else -100, high=100)
            yield Case("unique", f"{count} {dtype}", "unique(%x, sorted=True).0", {"x": x}, distinct)
            s, v = np.sort(array("s", dtype, 10000, low=-100, high=100)), x
            yield Case("searchsorted", f"{count} {dtype}", "searchsorted(%s, %v)", {"s": s, "v": v},
                       lambda s, v: np.searchsorted(s, v).astype("int32"))
    for dtype in ["float32", "float64"]:
        for shape in [(64, 512), (100, 300), (1, 65536), (37, 127), (512, 16)]:
            x, y = array("x", dtype, *shape), array("y", dtype, *shape)
            yield Case("dft", f"{shape[0]}×{shape[1]} {dtype}", "dft(%x, %y).0", {"x": x, "y": y},
                       lambda x, y: np.fft.fft(x + 1j * y).real.astype(x.dtype))


def every():
    for part in [elementwise, reductions, norms, windows, images, contractions, movement, indexed, ordered]:
        yield from part()
