#!/usr/bin/env python3
"""Forms of ai.onnx's operators that ONNX's own suite leaves out, against ONNX Runtime and onnx.reference.

usage: forms.py --bin DIR [--only TEXT] [--jobs N]
Each is a model of one node: older versions with attributes instead of inputs, combinations of attributes, ranks and element
types, inputs that are constants, and the same with the extents of the data open. DIR holds relax-run, which reads the models as they are.
Needs numpy, onnx and onnxruntime. A case passes when it agrees with one of the two; exit 1 where some do not.
"""
import argparse, concurrent.futures, os, subprocess, sys, tempfile, warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

warnings.filterwarnings("ignore")
ort.set_default_logger_severity(4)
R = np.random.default_rng(11)
ort_names = {"float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"}


def f(*shape, t="f4", scale=1.0):
    return ((R.random(shape) * 2 - 1) * scale).astype(t)


def i(*shape, low=-5, high=6, t="i8"):
    return R.integers(low, high, shape).astype(t)


def b(*shape):
    return R.integers(0, 2, shape).astype(bool)


def v(*values, t="i8"):
    return np.array(values, t)


class Const:
    """An input that is an initialiser in every variant."""

    def __init__(self, array):
        self.array = array


K = Const
CASES = []


def case(op, inputs, opset=17, outs=1, near=(1e-3, 1e-5), domain="", **attrs):
    CASES.append((op, inputs, opset, outs, near, domain, attrs))


def elementwise():
    for op in "Add", "Sub", "Mul", "Div":
        case(op, [f(2, 3, 4, 5), f(3)], 6, axis=1, broadcast=1)
        case(op, [f(2, 3, 4), f(4)], 6, broadcast=1)
        case(op, [f(2, 3, 4), f(3, 4)], 1, axis=1, broadcast=1, consumed_inputs=[0, 0])
        case(op, [i(2, 3, low=1), i(1, 3, low=1, high=9)], 14)
        case(op, [i(2, 3, low=-9, high=9, t="i4"), i(3, low=1, high=4, t="i4")], 13)
        case(op, [i(2, 3, low=7, high=20, t="u1"), i(3, low=1, high=6, t="u1")], 14)
        case(op, [f(2, 3, t="f2"), f(1, t="f2") + np.float16(2)], 14)
        case(op, [f(2, 3, t="f8"), f(2, 1, t="f8") + 2], 7)
    case("Pow", [f(2, 3) + 2, f(3)], 6, axis=1, broadcast=1)
    case("Pow", [f(2, 3) + 2, i(3, low=0, high=3, t="i4")], 13)
    case("Pow", [i(2, 3, t="i4"), f(3) * 0 + 2], 13)
    case("Pow", [i(2, 3), i(3, low=0, high=4)], 15)
    for op in "And", "Or", "Xor":
        case(op, [b(2, 3, 4), b(3)], 6, axis=1, broadcast=1)
        case(op, [b(2, 3, 4), b(4)], 7)
    for op in "Equal", "Greater", "Less":
        t = i if op == "Equal" else f
        case(op, [t(2, 3, 4), t(3)], 6, axis=1, broadcast=1)
        case(op, [i(2, 3, 4), i(1, 4)], 13)
    case("Equal", [b(2, 3), b(3)], 13)
    case("Equal", [f(2, 3, t="f8"), f(3, t="f8")], 13)
    for op in "GreaterOrEqual", "LessOrEqual":
        case(op, [i(4, 3, t="i4"), i(3, t="i4")], 12)
        case(op, [f(4, 3), f(3)], 16)
    for fm in 0, 1:
        case("Mod", [i(20, low=-9, high=10), i(20, low=1, high=5) * v(*[1, -1] * 10)], 13, fmod=fm)
        case("Mod", [i(20, low=-9, high=10, t="i4"), v(4, t="i4")], 10, fmod=fm)
    case("Mod", [f(20) * 9, f(20)], 13, fmod=1)
    for op in "Max", "Min", "Sum", "Mean":
        case(op, [f(2, 3)], 8)
        case(op, [f(2, 3), f(3), f(2, 1)], 8)
        case(op, [f(2, 3), f(2, 3)], 6)
        case(op, [f(2, 3), f(2, 3)], 1, consumed_inputs=[0, 0])
    case("Max", [i(3, 4, t="i4"), i(4, t="i4"), i(1, t="i4")], 13)
    case("Min", [i(3, 4, t="u8", low=0), i(4, t="u8", low=0)], 12)
    case("Max", [v(1, np.nan, 3, t="f4"), v(np.nan, 2, 1, t="f4")], 13)
    case("Min", [f(3, t="f2"), f(3, t="f2")], 13)
    for d in "LEFT", "RIGHT":
        case("BitShift", [i(8, low=0, high=200, t="u1"), i(8, low=0, high=7, t="u1")], 11, direction=d)
        case("BitShift", [i(4, 2, low=0, high=200, t="u4"), i(2, low=0, high=31, t="u4")], 11, direction=d)
    for op in "BitwiseAnd", "BitwiseOr", "BitwiseXor":
        case(op, [i(3, 4, t="i4"), i(4, t="i4")], 18)
    case("BitwiseNot", [i(5, t="i2")], 18)
    x = f(3, 4) * 0.9
    for op, o in [("Abs", 1), ("Abs", 6), ("Neg", 1), ("Exp", 1), ("Log", 6), ("Sqrt", 6), ("Reciprocal", 1), ("Floor", 1), ("Ceil", 6),
                  ("Relu", 1), ("Relu", 6), ("Tanh", 1), ("Sigmoid", 1), ("Erf", 9), ("Sign", 9), ("Round", 11), ("Sin", 7), ("Tan", 7),
                  ("Asin", 7), ("Acos", 7), ("Atan", 7), ("Sinh", 9), ("Cosh", 9), ("Asinh", 9), ("Atanh", 9), ("Softplus", 1), ("Softsign", 1)]:
        given = np.abs(x) + 0.1 if op in ("Log", "Sqrt", "Reciprocal") else x
        case(op, [given], o, **({"consumed_inputs": [0]} if o == 1 and op not in ("Softplus", "Softsign") else {}))
        if o >= 6:
            case(op, [given.astype("f2")], max(o, 13), near=(4e-3, 4e-3))
            case(op, [given.astype("f8")], max(o, 13))
    case("Acosh", [np.abs(x) + 1.1], 9)
    for t in "i1", "i2", "i4", "i8":
        case("Abs", [i(7, t=t)], 13)
        case("Neg", [i(7, t=t)], 13)
        case("Sign", [i(7, t=t)], 13)
    case("Relu", [i(7, t="i4")], 14)
    case("Sign", [i(7, low=0, t="u1")], 13)
    case("Round", [v(0.5, 1.5, 2.5, -0.5, -1.5, 1.4999, -2.5, t="f4")], 11)
    case("Not", [b(4)], 1)
    case("IsNaN", [v(1, np.nan, np.inf, t="f2")], 13)
    for p, q in (1, 0), (0, 1), (0, 0):
        case("IsInf", [v(1, np.nan, np.inf, -np.inf, t="f4")], 10, detect_positive=p, detect_negative=q)
    case("IsInf", [v(1, np.nan, np.inf, -np.inf, t="f8")], 20)
    for op, attrs in [("Elu", {"alpha": 0.5}), ("LeakyRelu", {"alpha": 0.3}), ("Selu", {"alpha": 1.2, "gamma": 0.9}), ("Celu", {"alpha": 0.7}),
                      ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("ThresholdedRelu", {"alpha": 0.3}), ("Shrink", {"bias": 0.2, "lambd": 0.4})]:
        o = {"Celu": 12, "ThresholdedRelu": 10, "Shrink": 9}.get(op, 6)
        case(op, [x], o)
        case(op, [x], o, **attrs)
        if o == 6:
            case(op, [x], 1, consumed_inputs=[0], **attrs)
    case("Shrink", [i(8)], 9, bias=1.5, lambd=2.0)
    case("HardSwish", [x * 5], 14)
    case("Mish", [x * 5], 18)
    case("Gelu", [x * 3], 20)
    case("Gelu", [x.astype("f8")], 20, approximate="tanh")
    case("PRelu", [f(2, 3, 4), f(3)], 6)
    case("PRelu", [f(2, 3, 4), f(1)], 6)
    case("PRelu", [f(2, 3, 4), f(3, 1)], 7)
    case("PRelu", [f(2, 3, 4), f(2, 3, 4)], 16)
    case("PRelu", [i(2, 3, t="i4"), i(3, t="i4")], 9)
    case("Clip", [x], 1, min=-0.2, max=0.3, consumed_inputs=[0])
    case("Clip", [x], 6, min=-0.2)
    case("Clip", [x], 6, max=0.1)
    case("Clip", [x], 6)
    case("Clip", [x], 11)
    case("Clip", [x, v(-0.1, t="f4").reshape(())], 11)
    case("Clip", [x, None, np.float32(0.1).reshape(())], 12)
    case("Clip", [i(9, t="i1"), np.int8(-2).reshape(()), np.int8(3).reshape(())], 12)
    case("Clip", [i(9, low=0, t="u8"), np.uint64(1).reshape(()), np.uint64(3).reshape(())], 12)
    case("Clip", [x, np.float32(0.5).reshape(()), np.float32(-0.5).reshape(())], 13)
    case("Clip", [v(np.nan, 1, -9, t="f4"), np.float32(-1).reshape(()), np.float32(0.5).reshape(())], 13)
    for o in 1, 6:
        case("Cast", [f(2, 3) * 5], o, to="INT32" if o == 1 else 6)
    for src in "f4", "f8", "f2", "i4", "i8", "u1", "?":
        for to in 1, 2, 3, 5, 6, 7, 9, 10, 11, 12:
            data = b(6) if src == "?" else (i(6, low=0, high=9, t=src) if src[0] in "iu" else (f(6) * 9).astype(src))
            if src[0] == "f" and to in (2, 12):
                data = np.abs(data)
            case("Cast", [data], 13, to=to)
    case("CastLike", [f(4) * 9, v(1, t="i4")], 15)
    case("Where", [b(2, 1), f(3), f(2, 3)], 9)
    case("Where", [b(2, 3), i(3, t="i4"), i(1, t="i4")], 16)
    case("Where", [b(3), b(2, 3), b(1)], 16)
    case("Identity", [b(2, 3)], 14)
    case("Dropout", [f(2, 3)], 6, ratio=0.3, is_test=1)
    case("Dropout", [f(2, 3)], 7, ratio=0.3)
    case("Dropout", [f(2, 3)], 10, outs=2)
    case("Dropout", [f(2, 3), np.float32(0.2).reshape(())], 12, outs=2)
    case("Dropout", [f(2, 3), np.float32(0.2).reshape(()), np.bool_(False).reshape(())], 13)


def moves():
    x = f(2, 3, 4)
    for perm in None, [2, 0, 1], [0, 2, 1]:
        case("Transpose", [x], 13, **({"perm": perm} if perm else {}))
    case("Transpose", [np.float32(3).reshape(())], 13)
    case("Transpose", [b(2, 3)], 13)
    for o in 1, 4, 13:
        case("Concat", [x, f(2, 1, 4)], o, axis=1)
    case("Concat", [f(2, 3), f(2, 1)], 1)
    case("Concat", [x, x], 13, axis=-1)
    case("Concat", [x], 13, axis=-3)
    case("Concat", [b(2), b(3), b(0)], 13, axis=0)
    for attrs in {"starts": [0, 1], "ends": [2, 3]}, {"starts": [1], "ends": [-1], "axes": [2]}, {"starts": [-3, 0], "ends": [1000, -2], "axes": [2, 1]}:
        case("Slice", [x], 1, **attrs)
        case("Slice", [x], 9, **attrs)
    sl = [([0, 1], [2, 3], None, None), ([3], [0], [2], [-1]), ([-1], [-9], [2], [-2]), ([1], [2 ** 31 - 1], [1], None), ([0], [2 ** 63 - 1], [-1], [3]),
          ([-1], [-2 ** 63], [0], [-1]), ([5], [9], [2], [1]), ([2], [1], [2], [1]), ([1, 0, 1], [3, 2, 9], [2, 0, 1], [2, 1, 1])]
    for s, e, a, t in sl:
        case("Slice", [x, v(*s), v(*e), v(*a) if a else None, v(*t) if t else None], 13)
        case("Slice", [x, v(*s).astype("i4") if max(map(abs, s + e)) < 2 ** 31 else v(*s), v(*e).astype("i4") if max(map(abs, s + e)) < 2 ** 31 else v(*e), v(*a) if a and max(map(abs, s + e)) >= 2 ** 31 else (v(*a).astype("i4") if a else None)], 10) if t is None else None
    case("Split", [f(6, 4)], 2, outs=3)
    case("Split", [f(6, 4)], 1, outs=2, axis=1, split=[1, 3])
    case("Split", [f(6, 4)], 2, outs=2, axis=-1, split=[1, 3])
    case("Split", [f(6, 4), v(2, 4)], 13, outs=2)
    case("Split", [f(6, 4), v(2, 0, 4)], 13, outs=3)
    case("Split", [f(6, 4)], 11, outs=1)
    case("Split", [f(7, 4)], 18, outs=3, num_outputs=3)
    case("Split", [f(6, 8)], 18, outs=4, num_outputs=4, axis=-1)
    for mode in "constant", "reflect", "edge":
        case("Pad", [f(1, 2, 4, 5)], 1, mode=mode, paddings=[0, 0, 1, 2, 0, 0, 2, 1], **({"value": 1.5} if mode == "constant" else {}))
        case("Pad", [f(1, 2, 4, 5)], 2, mode=mode, pads=[0, 0, 1, 2, 0, 0, 2, 1])
        case("Pad", [f(2, 4, 5), v(0, 1, 2, 0, 2, 1)], 11, mode=mode)
        case("Pad", [f(2, 4, 5), v(1, 2), None, v(-1)], 18, mode=mode)
        case("Pad", [f(2, 4, 5), v(1, 0, 2, 1), None, v(2, 1)], 18, mode=mode)
        case("Pad", [i(2, 4, 5, t="i4"), v(0, 1, 2, 0, 2, 1)], 13, mode=mode)
    case("Pad", [f(2, 4, 5), v(0, -1, 2, 0, 1, -2), np.float32(7).reshape(())], 13)
    case("Pad", [f(2, 4, 5), v(0, -1, -1, 0, -1, -2)], 11)
    case("Pad", [f(4, 5), v(1, 2, 0, 1)], 19, mode="wrap")
    case("Pad", [b(4, 5), v(1, 2, 0, 1), np.bool_(True).reshape(())], 13)
    case("Pad", [i(4, 5), v(1, 2, 0, 1), v(9)], 18)
    case("Pad", [f(3), v(1, 2)], 13)
    for mode in "DCR", "CRD":
        case("DepthToSpace", [f(2, 8, 3, 2)], 11, blocksize=2, mode=mode)
    case("DepthToSpace", [f(2, 18, 3, 2)], 1, blocksize=3)
    case("SpaceToDepth", [f(2, 2, 4, 6)], 1, blocksize=2)
    case("ReverseSequence", [f(5, 3, 2), v(1, 5, 3)], 10)
    case("ReverseSequence", [f(3, 5, 2), v(1, 5, 3)], 10, batch_axis=0, time_axis=1)
    for up in 0, 1:
        for k in -2, 0, 1, 9:
            case("Trilu", [f(2, 3, 4), np.int64(k).reshape(())], 14, upper=up)
        case("Trilu", [i(3, 3)], 14, upper=up)
    case("Trilu", [b(3, 3), K(np.int64(1).reshape(()))], 14)
    case("Reshape", [x], 1, shape=[4, 6], consumed_inputs=[0])
    case("Reshape", [x], 4, shape=[0, -1])
    case("Reshape", [x, K(v(0, -1))], 5)
    case("Reshape", [x, K(v(-1))], 13)
    case("Reshape", [x, v(4, 0, -1)], 13)
    case("Reshape", [f(2, 0, 3), K(v(0, 3, 2))], 14, allowzero=1)
    case("Reshape", [np.float32(3).reshape(()), K(v(1, 1))], 13)
    case("Reshape", [f(1), K(np.zeros(0, "i8"))], 13)
    for a in 0, 1, 2, 3:
        case("Flatten", [x], 1 if a else 9, axis=a)
    case("Flatten", [x], 11, axis=-1)
    case("Flatten", [x, ], 9)
    case("Squeeze", [f(1, 3, 1, 2)], 1, axes=[0, 2])
    case("Squeeze", [f(1, 3, 1, 2)], 11, axes=[-2])
    case("Squeeze", [f(1, 3, 1, 2), v(0, -2)], 13)
    case("Unsqueeze", [x], 1, axes=[0, 2])
    case("Unsqueeze", [x], 11, axes=[-1, 0])
    case("Unsqueeze", [x, v(3, 0)], 13)
    case("Unsqueeze", [np.float32(3).reshape(()), v(0)], 13)
    case("Expand", [f(3, 1), v(2, 1, 4)], 8)
    case("Expand", [f(3, 1), v(3, 4)], 13)
    case("Expand", [f(2, 3, 1), v(1, 4)], 13)
    case("Expand", [b(1), v(2, 2)], 13)
    case("Expand", [i(3, t="i4"), v(1, 1)], 8)
    case("Tile", [x, v(1, 2, 3)], 6)
    case("Tile", [b(2, 3), v(2, 2)], 13)
    case("Tile", [f(2, 3), v(2, 0)], 13)
    case("Tile", [f(2, 3), v(2, t="f4"), v(1, t="f4")], 1)
    for a, e, s in (0, 10, 3), (10, 0, -4), (3, 3, 1):
        case("Range", [np.int64(a).reshape(()), np.int64(e).reshape(()), np.int64(s).reshape(())], 11)
        case("Range", [np.float32(a).reshape(()), np.float32(e).reshape(()), np.float32(s * 0.5).reshape(())], 11)
        case("Range", [np.int32(a).reshape(()), np.int32(e).reshape(()), np.int32(s).reshape(())], 11)
    case("EyeLike", [f(3, 5)], 9, k=1)
    case("EyeLike", [i(4, 3, t="i4")], 9, k=-1, dtype=1)
    case("EyeLike", [f(4, 3)], 9, k=-7, dtype=7)
    for axis in -1, 0, 1, -2:
        case("OneHot", [i(2, 3, low=-4, high=4), np.int64(4).reshape(()), v(2, 5, t="f4")], 11, axis=axis)
    case("OneHot", [i(3, low=0, high=9, t="i4"), v(4, t="i4"), v(0, 1, t="i4")], 9)
    case("OneHot", [f(3) * 0 + 2, v(4, t="f4"), v(0, 1, t="f4")], 9)
    case("ConstantOfShape", [v(2, 3)], 9, value=helper.make_tensor("v", 6, [1], [7]))
    case("ConstantOfShape", [v(2, 0)], 9)
    case("ConstantOfShape", [np.zeros(0, "i8")], 9, value=helper.make_tensor("v", 9, [1], [True]))
    case("ConstantOfShape", [K(v(2, 3))], 20, value=helper.make_tensor("v", 10, [1], [np.float16(1.5)]))
    for s, e in (None, None), (1, None), (-2, None), (0, -1), (1, 2), (-9, 9), (2, 1):
        case("Shape", [x], 15, **{k: n for k, n in (("start", s), ("end", e)) if n is not None})
    case("Size", [x], 1)
    case("Compress", [f(3, 4), v(0, 1, 1, t="?")], 9, axis=0)
    case("Compress", [f(3, 4), v(0, 1, 1, 0, 1, t="?")], 11)
    case("Compress", [f(3, 4), v(1, 0, 1, t="?")], 11, axis=-1)
    case("CenterCropPad", [f(5, 7, 3), v(7, 4)], 18, axes=[1, 0])
    case("CenterCropPad", [f(5, 7, 3), v(4, 9, 3)], 18)


def indices():
    x = f(3, 4, 5)
    for axis in 0, 1, -1:
        case("Gather", [x, i(2, 2, low=-3, high=3)], 11, axis=axis)
    case("Gather", [x, np.int64(1).reshape(())], 1)
    case("Gather", [b(4, 2), v(3, 1, t="i4")], 13)
    case("Gather", [f(4, 0), v(3, 1)], 13)
    for axis in 0, 1, -1:
        case("GatherElements", [x, i(2, 3, 4, low=-3, high=3)], 13, axis=axis)
    case("GatherElements", [f(6), v(5, -1, 0, t="i4")], 11)
    case("GatherND", [x, v(0, 1, 2, 3).reshape(2, 2)], 11)
    case("GatherND", [x, v(-1, -2, -3).reshape(1, 3)], 13)
    case("GatherND", [x, i(3, 2, 1, low=-4, high=4)], 12, batch_dims=1)
    case("GatherND", [x, i(3, 4, 2, 1, low=-5, high=5)], 13, batch_dims=2)
    case("GatherND", [x, i(2, 3, 1, low=0, high=3)], 13)
    at = np.stack([R.permutation(3)[:2] for _ in range(4)], 1).astype("i8")
    for red in "none", "add", "mul", "min", "max":
        o = 18 if red in ("min", "max") else 16
        a = {} if red == "none" else {"reduction": red}
        case("ScatterElements", [f(3, 4), at - 3, f(2, 4)], o, axis=0, **a)
        case("ScatterElements", [f(3, 4), v(2, -1, 0).reshape(3, 1), f(3, 1)], o, axis=-1, **a)
        case("ScatterElements", [i(3, 4, t="i4"), at, i(2, 4, t="i4")], o, **a)
        case("ScatterND", [f(4, 3, 2), v(1, 3, -4).reshape(3, 1), f(3, 3, 2)], o, **a)
        case("ScatterND", [f(4, 3), v(1, 2, 3, -1, 0, 0).reshape(3, 2), f(3)], o, **a)
        case("ScatterND", [i(4, 3), v(1, 2, 3, -2).reshape(2, 1, 2), i(2, 1)], o, **a)
    for red in "add", "mul", "max":
        case("ScatterElements", [f(4), v(1, 1, 1, 0), f(4)], 18, reduction=red)
        case("ScatterND", [f(4, 2), v(1, 1, -3).reshape(3, 1), f(3, 2)], 18, reduction=red)
    case("Scatter", [f(3, 4), at, f(2, 4)], 9)
    case("ScatterND", [f(4), v(1, 3).reshape(2, 1), f(2)], 11)
    case("ScatterElements", [b(3), v(1, 0), b(2)], 13)
    case("NonZero", [i(3, 4, low=0, high=2)], 13)
    case("NonZero", [b(2, 3, 2)], 9)
    case("NonZero", [f(4)], 9)
    y = R.permutation(60).reshape(3, 4, 5).astype("f4")
    case("TopK", [y], 1, outs=2, k=2)
    case("TopK", [y], 9, outs=2, k=3, axis=1)
    case("TopK", [y, v(2)], 10, outs=2, axis=0)
    for big in 0, 1:
        for axis in -1, 1, -3:
            case("TopK", [y, v(2)], 11, outs=2, largest=big, axis=axis)
    case("TopK", [i(5, 6), v(3)], 11, outs=2)
    case("TopK", [v(3, 1, 3, 1, 2, t="f4"), v(5)], 11, outs=2)
    case("TopK", [v(3, 1, 3, 1, 2, t="i4"), v(4)], 11, outs=2, largest=0)
    case("TopK", [y.astype("f2"), v(1)], 11, outs=2)
    case("TopK", [y.astype("f8"), v(4)], 11, outs=1, axis=1)
    z = v(2, 1, 1, 3, 4, 3, t="f4")
    for s in 0, 1:
        case("Unique", [z], 11, outs=4, sorted=s)
        case("Unique", [v(1, 0, 0, 1, 0, 0, 2, 3, 4).reshape(3, 3)], 11, outs=4, axis=0, sorted=s)
        case("Unique", [v(1, 0, 1, 1, 0, 1, 2, 3, 2).reshape(3, 3)], 11, outs=4, axis=-1, sorted=s)
    for e in 0, 1:
        for r in 0, 1:
            case("CumSum", [f(3, 4), np.int64(-1).reshape(())], 11, exclusive=e, reverse=r)
            case("CumSum", [i(3, 4, t="i4"), v(0, t="i4").reshape(())], 14, exclusive=e, reverse=r)
    for t in "f4", "i4", "f8", "i8", "u1":
        for op in "ArgMax", "ArgMin":
            for a in {"axis": 1}, {"axis": -1, "keepdims": 0}, {"axis": 0, "select_last_index": 1}:
                if t == "u1" and "keepdims" not in a: continue
                case(op, [i(3, 4, 2, low=0, t=t)], 13, **a)
    case("ArgMax", [f(3, 4)], 1)
    case("ArgMin", [f(3, 4)], 11, axis=-2, keepdims=0)


def reductions():
    x = f(2, 3, 4)
    for op in "Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare":
        d = np.abs(x) + 0.2 if op == "LogSum" else x
        last = 13 if op == "Sum" else 18
        case("Reduce" + op, [d], 1)
        case("Reduce" + op, [d], 1, axes=[1], keepdims=0)
        case("Reduce" + op, [d], 11, axes=[-1, 0])
        case("Reduce" + op, [d], 11, axes=[-2], keepdims=0)
        case("Reduce" + op, [d, v(1)], last)
        case("Reduce" + op, [d, v(-1, 0)], last, keepdims=0)
        case("Reduce" + op, [d], last, keepdims=0)
        case("Reduce" + op, [d], last, noop_with_empty_axes=1)
        case("Reduce" + op, [d, K(np.zeros(0, "i8"))], last, noop_with_empty_axes=1)
        case("Reduce" + op, [d, K(np.zeros(0, "i8"))], last)
        case("Reduce" + op, [d.astype("f8"), K(v(0, 2))], last)
        if op in ("Sum", "Mean", "Max", "Min", "Prod", "SumSquare", "L1"):
            case("Reduce" + op, [i(2, 3, 4, t="i4", low=1)], 11, axes=[1])
            case("Reduce" + op, [i(2, 3, 4, low=1)], 13 if op == "Sum" else 12)
        case("Reduce" + op, [np.float32(2.5).reshape(())], last)
    case("ReduceMax", [i(2, 3, t="u1", low=0)], 12, axes=[1])
    case("ReduceMin", [b(2, 3), v(1)], 20)
    case("ReduceMax", [f(2, 3, t="f2")], 13)
    case("ReduceMean", [f(2, 3, t="f2")], 13, axes=[1])
    case("ReduceSum", [f(2, 0, 3), K(v(1))], 13)
    case("ReduceLogSumExp", [f(2, 3) * 200], 13, axes=[1])


def products():
    for sa, sb in [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((1, 2, 3, 4), (2, 1, 4, 5)), ((3, 0), (0, 4))]:
        case("MatMul", [f(*sa), f(*sb)], 13)
    case("MatMul", [f(3, 4, t="f8"), f(4, 2, t="f8")], 9)
    case("MatMul", [i(3, 4), i(4, 2)], 9)
    case("MatMul", [i(2, 3, 4, t="i4"), i(4, 2, t="i4")], 13)
    case("MatMul", [f(3, 4, t="f2"), f(4, 2, t="f2")], 13, near=(1e-2, 2e-3))
    for ta in 0, 1:
        for tb in 0, 1:
            a, c = f(*((4, 3) if ta else (3, 4))), f(*((5, 4) if tb else (4, 5)))
            case("Gemm", [a, c, f(3, 5)], 7, transA=ta, transB=tb)
            case("Gemm", [a, c, f(5)], 9, transA=ta, transB=tb, alpha=0.5, beta=2.0)
            case("Gemm", [a, c, f(3, 1)], 11, transA=ta, transB=tb)
            case("Gemm", [a, c], 11, transA=ta, transB=tb, alpha=-1.5)
            case("Gemm", [a, c, f(5)], 6, transA=ta, transB=tb, broadcast=1)
    case("Gemm", [f(3, 4), f(4, 5), np.float32(2).reshape(())], 13)
    case("Gemm", [f(3, 4), f(4, 5), f(3, 5)], 13, beta=0.0)
    case("Gemm", [f(3, 4, t="f8"), f(4, 5, t="f8"), f(1, 5, t="f8")], 13)
    for eq, shapes in [("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("bij, bjk -> bik", [(2, 3, 4), (2, 4, 5)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("i,i", [(3,), (3,)]), ("i,j->ij", [(3,), (4,)]),
                       ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]), ("...i->...", [(2, 3, 4)]), ("ba", [(2, 3)]), ("ij->", [(2, 3)]), ("bhwc,hkc->bhwk", [(1, 2, 3, 4), (2, 5, 4)]), ("ij,ij->ij", [(2, 3), (2, 3)]), ("a...,b...->ab...", [(2, 3), (4, 3)]),
                       ("bij,bj,k->bik", [(2, 3, 4), (2, 4), (5,)]), ("iij->j", [(3, 3, 2)]), ("bnqd,bnkd->bnqk", [(1, 2, 3, 4), (1, 2, 5, 4)]), ("i...->...i", [(2, 3, 4)]), ("abc->cba", [(2, 3, 4)]), ("ij,kj->ik", [(2, 1), (3, 4)])]:
        case("Einsum", [f(*s) for s in shapes], 12, equation=eq)
    case("Einsum", [i(2, 3), i(3, 2)], 12, equation="ij,jk->ik")
    case("Det", [f(2, 3, 3)], 11)
    case("Det", [f(4, 4)], 11)


def windows():
    x1, x2, x3 = f(2, 4, 9), f(2, 4, 9, 8), f(1, 4, 5, 6, 7)
    for x, w in (x1, f(6, 4, 3)), (x2, f(6, 4, 3, 2)), (x3, f(6, 4, 2, 3, 2)):
        k = x.ndim - 2
        for attrs in {}, {"strides": [2] * k}, {"dilations": [2] * k}, {"pads": [1, 2, 1][:k] + [2, 0, 1][:k]}, {"auto_pad": "SAME_UPPER", "strides": [2] * k}, {"auto_pad": "SAME_LOWER", "strides": [2] * k}, {"auto_pad": "VALID", "strides": [2] * k}, {"auto_pad": "SAME_UPPER", "dilations": [2] * k}:
            case("Conv", [x, w, f(6)], 11, **attrs)
            case("Conv", [x, K(w)], 1, kernel_shape=list(w.shape[2:]), **attrs)
        case("Conv", [x, f(6, 2, *[2] * k)], 11, group=2, pads=[1] * 2 * k)
        case("Conv", [x, f(8, 1, *[2] * k), f(8)], 11, group=4)
        for attrs in {}, {"strides": [2] * k}, {"strides": [2] * k, "output_padding": [1] * k}, {"pads": [1] * 2 * k, "strides": [3] * k}, {"dilations": [2] * k}, {"auto_pad": "SAME_UPPER", "strides": [2] * k}, {"auto_pad": "SAME_LOWER", "strides": [2] * k}, {"auto_pad": "VALID"}, {"output_shape": [int(n) * 2 + 1 for n in x.shape[2:]], "strides": [2] * k}, {"output_shape": [int(n) * 2 for n in x.shape[2:]], "strides": [2] * k, "auto_pad": "SAME_UPPER"}, {"pads": [0, 1, 0][:k] + [1, 0, 1][:k]}:
            case("ConvTranspose", [x, f(4, 3, *[3] * k), f(3)], 11, **attrs)
        case("ConvTranspose", [x, K(f(4, 3, *[2] * k))], 1, group=2, strides=[2] * k)
        for op in "MaxPool", "AveragePool":
            for attrs in {}, {"strides": [2] * k}, {"strides": [2] * k, "pads": [1] * 2 * k}, {"strides": [2] * k, "ceil_mode": 1}, {"strides": [2] * k, "ceil_mode": 1, "pads": [1] * 2 * k}, {"strides": [3] * k, "ceil_mode": 1, "pads": [0] * k + [1] * k}, {"auto_pad": "SAME_UPPER", "strides": [2] * k}, {"auto_pad": "SAME_LOWER", "strides": [2] * k}, {"auto_pad": "VALID", "strides": [2] * k}:
                case(op, [x], 11, kernel_shape=[3, 2, 3][:k], **attrs)
                if op == "AveragePool" and "auto_pad" not in attrs:
                    case(op, [x], 19 if "ceil_mode" in attrs else 11, kernel_shape=[3, 2, 3][:k], count_include_pad=1, **attrs)
            case(op, [x], 19, kernel_shape=[2] * k, dilations=[2] * k)
            case(op, [x], 1, kernel_shape=[2] * k)
        case("AveragePool", [x], 19, kernel_shape=[2] * k, dilations=[2] * k, pads=[1] * 2 * k, count_include_pad=1)
        case("MaxPool", [x], 12, outs=2, kernel_shape=[2] * k, strides=[2] * k)
        case("MaxPool", [x], 12, outs=2, kernel_shape=[3] * k, strides=[2] * k, pads=[1] * 2 * k, ceil_mode=1)
        case("MaxPool", [x], 12, outs=2, kernel_shape=[2] * k, storage_order=1)
        case("LpPool", [x], 11, kernel_shape=[2] * k, strides=[2] * k, p=3)
        case("LpPool", [x], 11, kernel_shape=[3] * k, pads=[1] * 2 * k)
        case("LpPool", [x], 18, kernel_shape=[2] * k, dilations=[2] * k, ceil_mode=1, strides=[2] * k)
        case("LpPool", [x], 11, kernel_shape=[2] * k, auto_pad="SAME_UPPER", p=1)
        for op in "GlobalAveragePool", "GlobalMaxPool":
            case(op, [x], 1)
        case("GlobalLpPool", [x], 2, p=3)
    case("MaxPool", [i(1, 2, 5, 5, t="u1", low=0, high=255)], 12, kernel_shape=[2, 2])
    case("MaxPool", [i(1, 2, 5, 5, t="i1")], 12, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    case("MaxPool", [f(1, 2, 5, 5, t="f2")], 12, kernel_shape=[2, 2])
    case("MaxPool", [f(1, 2, 5, 5, t="f8")], 12, kernel_shape=[2, 2])
    case("MaxPool", [-np.abs(f(1, 1, 5, 5)) - 1], 12, kernel_shape=[3, 3], pads=[2, 2, 2, 2])
    case("Conv", [f(1, 2, 5, 5, t="f8"), f(3, 2, 2, 2, t="f8")], 11)
    case("Conv", [f(0, 2, 5, 5), f(3, 2, 2, 2)], 11)
    case("ConvTranspose", [f(1, 4, 3, 3), f(4, 2, 2, 2), f(8)], 11, group=4)
    case("MaxUnpool", [f(1, 1, 2, 2), K(v(5, 7, 13, 15).reshape(1, 1, 2, 2))], 11, kernel_shape=[2, 2], strides=[2, 2])
    case("LRN", [f(2, 7, 3, 3)], 13, size=4, alpha=0.5, beta=0.6, bias=2.0)
    case("LRN", [f(2, 7, 3, 3)], 1, size=3)


def norms():
    x = f(2, 3, 4)
    for op in "Softmax", "LogSoftmax", "Hardmax":
        for axis in 0, 1, 2, -1, -2:
            case(op, [x], 13, axis=axis)
            if axis >= 0:
                case(op, [x], 1, axis=axis)
            case(op, [x], 11, axis=axis)
        case(op, [x], 11)
        case(op, [x], 13)
        case(op, [f(5)], 13)
    case("Softmax", [f(3, 4, t="f2")], 13)
    case("Softmax", [f(3, 4, t="f8") * 500], 13)
    case("Softmax", [v(-np.inf, 0, 1, t="f4")], 13)
    ch = [np.abs(f(3)) + 0.5 for _ in range(4)]
    for o in 6, 7, 9, 14, 15:
        case("BatchNormalization", [f(2, 3, 4, 5), *ch], o, epsilon=1e-3, **({"is_test": 1} if o == 6 else {}))
    case("BatchNormalization", [f(2, 3), *ch], 15)
    case("BatchNormalization", [f(2, 3, 4), *map(K, ch)], 15)
    case("BatchNormalization", [f(2, 3, 4, t="f2"), *ch], 15, near=(4e-3, 4e-3))
    case("BatchNormalization", [f(2, 3, 4), *ch], 15, outs=3, training_mode=1, momentum=0.7)
    case("BatchNormalization", [f(2, 3, 2), *[np.abs(f(3, 2)) + 0.5 for _ in range(4)]], 7, spatial=0)
    case("InstanceNormalization", [f(2, 3, 4, 5), f(3), f(3)], 6, epsilon=1e-3)
    case("InstanceNormalization", [f(2, 3, 7), f(3), f(3)], 1)
    for axis in -1, 1, 2, -3:
        n = x.ndim + axis if axis < 0 else axis
        case("LayerNormalization", [x, f(*x.shape[n:]), f(*x.shape[n:])], 17, axis=axis, outs=1)
        case("LayerNormalization", [x, f(*x.shape[n:])], 17, axis=axis, epsilon=1e-2, outs=3)
    case("LayerNormalization", [x.astype("f8"), f(4, t="f8"), f(4, t="f8")], 17)
    case("LayerNormalization", [x.astype("f2"), f(4, t="f2"), f(4, t="f2")], 17, near=(1e-2, 1e-2))
    case("GroupNormalization", [f(2, 4, 3, 3), f(2), f(2)], 18, num_groups=2)
    case("GroupNormalization", [f(2, 4, 3), f(4), f(4)], 21, num_groups=2, epsilon=1e-2)
    case("RMSNormalization", [x, f(4)], 23)
    case("RMSNormalization", [x, f(3, 4)], 23, axis=1, epsilon=1e-2)
    case("MeanVarianceNormalization", [f(2, 3, 4, 5)], 9)
    case("MeanVarianceNormalization", [f(2, 3, 4, 5)], 13, axes=[0, 1])
    for p in 1, 2:
        for axis in 0, -1:
            case("LpNormalization", [x], 1, p=p, axis=axis)
    for red in "none", "sum", "mean":
        t = i(2, 4, low=0, high=3)
        case("SoftmaxCrossEntropyLoss", [f(2, 3, 4), t], 13, reduction=red)
        case("SoftmaxCrossEntropyLoss", [f(2, 3, 4), t, np.abs(f(3))], 13, outs=2, reduction=red, ignore_index=1)
        case("NegativeLogLikelihoodLoss", [f(2, 3, 4), t.astype("i4"), np.abs(f(3))], 13, reduction=red)
        case("NegativeLogLikelihoodLoss", [f(2, 3), i(2, low=0, high=3)], 12, reduction=red)


def recurrent():
    T, B, I, H = 5, 3, 4, 2
    for op, g in ("LSTM", 4), ("GRU", 3), ("RNN", 1):
        outs = 3 if op == "LSTM" else 2
        for way, d in ("forward", 1), ("reverse", 1), ("bidirectional", 2):
            x, w, r, bias = f(T, B, I), f(d, g * H, I), f(d, g * H, H), f(d, 2 * g * H)
            h0, c0, lens = f(d, B, H), f(d, B, H), v(5, 2, 3, t="i4")
            base = dict(hidden_size=H, direction=way)
            case(op, [x, K(w), K(r)], 7, outs=outs, **base)
            case(op, [x, w, r, bias], 14, outs=outs, **base)
            case(op, [x, w, r, bias, lens], 7, outs=outs, **base)
            case(op, [x, w, r, None, None, h0] + ([c0] if op == "LSTM" else []), 7, outs=outs, **base)
            case(op, [x, w, r, bias, lens, h0] + ([c0, f(d, 3 * H)] if op == "LSTM" else []), 14, outs=outs, clip=0.3, **base)
            acts = {"LSTM": ["HardSigmoid", "Tanh", "LeakyRelu"], "GRU": ["HardSigmoid", "Affine"], "RNN": ["ScaledTanh"]}[op]
            case(op, [x, w, r, bias], 7, outs=outs, activations=acts * d, activation_alpha=[0.3, 0.6][:2 if op != "RNN" else 1] * d, activation_beta=([0.4] if op == "LSTM" else [0.4, 0.2] if op == "GRU" else [0.7]) * d, **base)
            acts = {"LSTM": ["Sigmoid", "LeakyRelu", "Elu"], "GRU": ["Sigmoid", "LeakyRelu"], "RNN": ["Relu"]}[op]
            case(op, [x, w, r, bias], 7, outs=outs, activations=acts * d, **({"activation_alpha": [0.3, 0.6][:1 if op == "GRU" else 2] * d} if op != "RNN" else {}), **base)
            case(op, [x.transpose(1, 0, 2), w, r, bias, lens, h0.transpose(1, 0, 2)], 14, outs=outs, layout=1, **base)
        if op == "GRU":
            case(op, [x, w, r, bias], 7, outs=2, linear_before_reset=1, **base)
            case(op, [x, w, r], 3, outs=2, linear_before_reset=1, **base)
        if op == "LSTM":
            case(op, [x, w, r, bias], 7, outs=3, input_forget=1, **base)
            case(op, [x, w, r], 1, outs=3, output_sequence=1, **base)
        case(op, [x, w, r, bias], 7, outs=1, **base)
        case(op, [x.astype("f8"), w.astype("f8"), r.astype("f8")], 14, outs=2, **base)


def images():
    x = f(1, 2, 4, 5)
    roi = np.zeros(0, "f4")
    for mode in "nearest", "linear":
        case("Upsample", [x], 7, mode=mode, scales=[1.0, 1.0, 2.0, 3.0])
        case("Upsample", [x, K(v(1, 1, 2, 1.5, t="f4"))], 9, mode=mode)
        case("Resize", [x, K(v(1, 1, 2, 1.5, t="f4"))], 10, mode=mode)
        case("Resize", [x, K(v(1, 1, 0.6, 0.5, t="f4"))], 10, mode=mode)
    for mode in "nearest", "linear", "cubic":
        for c in "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric":
            for s in [2, 1.7], [0.6, 0.8], [1, 2.5]:
                case("Resize", [x, None, K(v(1, 1, *s, t="f4"))], 19 if c == "half_pixel_symmetric" else 13, mode=mode, coordinate_transformation_mode=c)
            case("Resize", [x, None, None, K(v(1, 2, 7, 3))], 19 if c == "half_pixel_symmetric" else 11, mode=mode, coordinate_transformation_mode=c)
        case("Resize", [x, v(0.1, 0.2, 0.7, 0.8, t="f4"), None, v(6, 5)], 18, mode=mode, axes=[2, 3], coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=3.0)
        for pol in "not_larger", "not_smaller":
            case("Resize", [x, None, None, v(7, 7)], 18, mode=mode, axes=[2, 3], keep_aspect_ratio_policy=pol)
        case("Resize", [x, None, None, v(7, 3)], 18, mode=mode, axes=[3, 2])
    for n in "floor", "ceil", "round_prefer_floor", "round_prefer_ceil":
        for c in "half_pixel", "asymmetric", "align_corners":
            case("Resize", [x, None, K(v(1, 1, 0.7, 1.8, t="f4"))], 13, mode="nearest", nearest_mode=n, coordinate_transformation_mode=c)
    for mode in "linear", "cubic":
        case("Resize", [f(1, 1, 8, 8), None, K(v(1, 1, 0.5, 0.4, t="f4"))], 18, mode=mode, antialias=1)
        case("Resize", [f(1, 1, 8, 8), None, None, K(v(1, 1, 3, 5))], 18, mode=mode, antialias=1)
    case("Resize", [f(1, 1, 8, 8), None, K(v(1, 1, 0.5, 0.4, t="f4"))], 18, mode="cubic", antialias=1, exclude_outside=1)
    case("Resize", [f(1, 1, 8, 8), None, K(v(1, 1, 1.5, 2, t="f4"))], 13, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)
    case("Resize", [f(1, 2, 9), None, K(v(1, 1, 2, t="f4"))], 13, mode="linear")
    case("Resize", [f(1, 2, 3, 4, 3), None, K(v(1, 1, 2, 1.5, 2, t="f4"))], 13, mode="linear")
    case("Resize", [f(3, 4), None, K(v(2, 1.5, t="f4"))], 13, mode="linear")
    case("Resize", [i(1, 1, 4, 4, t="u1", low=0, high=255), None, K(v(1, 1, 2, 2, t="f4"))], 13, mode="nearest")
    for mode in "linear", "nearest", "cubic":
        for pad in "zeros", "border", "reflection":
            for al in 0, 1:
                case("GridSample", [f(1, 2, 4, 5), f(1, 3, 3, 2) * 1.5], 20, mode=mode, padding_mode=pad, align_corners=al)
    case("GridSample", [f(1, 2, 4, 5), f(1, 3, 3, 2)], 16, mode="bilinear")
    case("GridSample", [f(1, 2, 3, 4, 5), f(1, 2, 2, 2, 3)], 20)
    case("AffineGrid", [f(2, 2, 3), v(2, 3, 4, 5)], 20)
    case("AffineGrid", [f(1, 3, 4), K(v(1, 3, 4, 5, 2))], 20, align_corners=1)
    rois = v(0, 0, 5, 5, 1, 2, 7, 6, 3, 3, 3.5, 3.2, t="f4").reshape(3, 4)
    for attrs in {}, {"sampling_ratio": 2}, {"spatial_scale": 0.5, "sampling_ratio": 1}, {"mode": "max", "sampling_ratio": 2}, {"coordinate_transformation_mode": "output_half_pixel", "sampling_ratio": 2}:
        case("RoiAlign", [f(2, 2, 8, 9), rois, v(0, 1, 1)], 16, output_height=3, output_width=2, **attrs)
    case("RoiAlign", [f(2, 2, 8, 9), rois, v(0, 1, 1)], 10, output_height=2, output_width=2, sampling_ratio=2)
    case("MaxRoiPool", [f(2, 2, 8, 9), v(0, 0, 0, 5, 5, 1, 1, 2, 7, 6, t="f4").reshape(2, 5)], 1, pooled_shape=[2, 2])
    boxes = R.random((1, 8, 4)).astype("f4") * 5
    boxes[..., 2:] += boxes[..., :2] + 1
    case("NonMaxSuppression", [boxes, np.abs(f(1, 2, 8)), v(3), v(0.4, t="f4"), v(0.1, t="f4")], 11)
    case("NonMaxSuppression", [boxes, np.abs(f(1, 2, 8)), v(20)], 11)
    case("NonMaxSuppression", [boxes, np.abs(f(1, 2, 8)), K(v(3)), K(v(0.2, t="f4"))], 10, center_point_box=1)
    case("NonMaxSuppression", [np.concatenate([boxes, boxes[:, ::-1]]), np.abs(f(2, 1, 8)), v(2), v(0.5, t="f4"), v(0.3, t="f4")], 11)
    case("NonMaxSuppression", [boxes, np.abs(f(1, 2, 8))], 11)
    for m in None, 1:
        case("DeformConv", [f(1, 2, 5, 5), f(3, 2, 2, 2), f(1, 8, 4, 4), f(3) if m else None, np.abs(f(1, 4, 4, 4)) if m else None][:5 if m else 3], 19, kernel_shape=[2, 2])
        case("DeformConv", [f(1, 4, 6, 6), f(4, 2, 3, 3), f(1, 36, 6, 6), None, np.abs(f(1, 18, 6, 6)) if m else None][:5 if m else 3], 22, pads=[1, 1, 1, 1], group=2, offset_group=2)
    case("Col2Im", [f(1, 8, 9), K(v(4, 4)), K(v(2, 2))], 18)
    case("Col2Im", [f(1, 8, 4), v(4, 4), v(2, 2)], 18, strides=[2, 2])
    case("Col2Im", [f(2, 4, 16), K(v(5, 5)), K(v(2, 2))], 18, dilations=[1, 1], pads=[0, 0, 0, 0]) if False else None


def quantised():
    for t in "u1", "i1":
        low, high = (0, 255) if t == "u1" else (-128, 127)
        q = lambda *s: i(*s, low=low, high=high, t=t)
        case("DequantizeLinear", [q(3, 4), np.float32(0.1).reshape(()), q().reshape(())], 10)
        case("DequantizeLinear", [q(3, 4), f(4), q(4)], 13, axis=-1)
        case("DequantizeLinear", [q(2, 3, 4), f(3), q(3)], 13)
        case("DequantizeLinear", [q(3, 4), f(3)], 13, axis=0)
        case("DequantizeLinear", [q(4, 6), f(4, 3), q(4, 3)], 21, axis=1, block_size=2)
        case("QuantizeLinear", [f(3, 4) * 9, np.float32(0.1).reshape(()), q().reshape(())], 10)
        case("QuantizeLinear", [f(2, 3, 4) * 9, np.abs(f(3)) + 0.05, q(3)], 13)
        case("QuantizeLinear", [f(2, 3, 4) * 9, np.abs(f(4)) + 0.05, q(4)], 13, axis=-1)
        case("QuantizeLinear", [f(4, 6) * 9, np.abs(f(2, 6)) + 0.05, q(2, 6)], 21, axis=0, block_size=2)
        for t2 in "u1", "i1":
            z2 = i(low=0, high=100, t=t2).reshape(())
            w = i(4, 5, low=0, high=120, t=t2)
            case("MatMulInteger", [q(3, 4), w, q().reshape(()), z2], 10)
            case("MatMulInteger", [q(2, 3, 4), w], 10)
            case("MatMulInteger", [q(3, 4), w, q().reshape(()), i(5, low=0, high=9, t=t2)], 10)
            case("QLinearMatMul", [q(3, 4), np.float32(0.02).reshape(()), q().reshape(()), w, np.float32(0.03).reshape(()), z2, np.float32(0.2).reshape(()), q().reshape(())], 10)
            cw = i(5, 3, 2, 2, low=0, high=120, t=t2)
            case("ConvInteger", [q(1, 3, 5, 5), cw, q().reshape(()), z2], 10, pads=[1, 1, 1, 1])
            case("QLinearConv", [q(1, 3, 5, 5), np.float32(0.02).reshape(()), q().reshape(()), cw, np.abs(f(5)) * 0.05 + 0.01, i(5, low=0, high=1, t=t2), np.float32(0.3).reshape(()), q().reshape(()), i(5, t="i4", low=-99, high=99)], 10, strides=[2, 2])
    case("QuantizeLinear", [f(3, 4) * 9, np.float32(0.1).reshape(())], 13)
    case("DequantizeLinear", [i(3, t="i4", low=-999, high=999), np.float32(0.1).reshape(())], 13)
    case("DynamicQuantizeLinear", [f(3, 4) * 3], 11, outs=3)
    case("DynamicQuantizeLinear", [np.abs(f(3, 4)) + 1], 11, outs=3)


def signals():
    for op in "HannWindow", "HammingWindow", "BlackmanWindow":
        for p in 0, 1:
            case(op, [np.int64(9).reshape(())], 17, periodic=p)
        case(op, [K(np.int32(6).reshape(()))], 17, output_datatype=11)
    case("DFT", [f(2, 8, 1)], 17, axis=1, onesided=1)
    case("DFT", [f(2, 8, 2)], 17, axis=1, inverse=1)
    case("DFT", [f(2, 6, 3, 1)], 17, axis=2)
    case("DFT", [f(2, 8, 1), np.int64(5).reshape(())], 17, axis=1)
    case("DFT", [f(2, 8, 1), K(np.int64(12).reshape(())), K(np.int64(-2).reshape(()))], 20)
    case("STFT", [f(1, 32, 1), np.int64(8).reshape(()), np.abs(f(16)), np.int64(16).reshape(())], 17)
    case("STFT", [f(1, 32, 1), K(np.int64(8).reshape(())), None, K(np.int64(16).reshape(()))], 17, onesided=0)
    case("MelWeightMatrix", [np.int64(8).reshape(()), np.int64(16).reshape(()), np.int64(8192).reshape(()), np.float32(0).reshape(()), np.float32(4096).reshape(())], 17)


def attention():
    q, k, w = f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 8)
    case("Attention", [q, k, w], 23)
    case("Attention", [q, k, w], 23, is_causal=1, scale=0.2, softcap=1.5)
    case("Attention", [q, k, w, f(4, 6)], 23)
    case("Attention", [q, k, w, b(2, 1, 4, 6) | True], 23)
    case("Attention", [f(2, 4, 24), f(2, 6, 24), f(2, 6, 24)], 23, q_num_heads=3, kv_num_heads=3)
    case("Attention", [f(2, 4, 32), f(2, 6, 16), f(2, 6, 16)], 23, q_num_heads=4, kv_num_heads=2)
    case("Attention", [q, f(2, 3, 4, 8), f(2, 3, 4, 8), None, f(2, 3, 2, 8), f(2, 3, 2, 8)], 23, outs=3)
    cos, sin = f(2, 4, 4), f(2, 4, 4)
    case("RotaryEmbedding", [q, cos, sin], 23)
    case("RotaryEmbedding", [f(2, 4, 24), cos, sin], 23, num_heads=3, interleaved=1)
    case("RotaryEmbedding", [f(2, 3, 4, 8), f(9, 2), f(9, 2), i(2, 4, low=0, high=9)], 23, rotary_embedding_dim=4)


def model(op, inputs, opset, outs, domain, attrs, constant, open_):
    names, infos, init, given = [], [], [], {}
    for n, a in enumerate(inputs):
        if a is None:
            names.append("")
            continue
        name = f"x{n}"
        names.append(name)
        fixed = isinstance(a, Const) or constant and n > 0
        a = a.array if isinstance(a, Const) else a
        a = np.asarray(a)
        if fixed:
            init.append(numpy_helper.from_array(a, name))
            if opset >= 9:
                continue
        dims = a.shape
        if open_ and n == 0 and not fixed and a.ndim > 1:
            # What a head or a number consists of is known.
            opened = a.ndim - (op in ("Attention", "RotaryEmbedding", "DFT", "STFT"))
            dims = [f"{name}_{k}" for k in range(opened)] + list(a.shape[opened:])
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), dims))
        if not fixed:
            given[name] = a
    while names and not names[-1]:
        names.pop()
    results = [f"y{k}" for k in range(outs)]
    node = helper.make_node(op, names, results, name="the_node", domain=domain, **attrs)
    g = helper.make_graph([node], op, infos, [helper.make_empty_tensor_value_info(r) for r in results], initializer=init)
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    ir = 3 if opset < 9 else 8 if opset < 21 else 10
    return helper.make_model(g, opset_imports=opsets, ir_version=ir), given


def wanted(m, given):
    """Each answer that somebody gives."""
    found = []
    try:
        s = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
        found.append(("ONNX Runtime", s.run(None, given)))
    except Exception as e:
        found.append(("ONNX Runtime", str(e).replace("\n", " ")[:160]))
    return found


def reference(m, given):
    try:
        m2 = onnx.ModelProto(); m2.CopyFrom(m)
        return ReferenceEvaluator(m2).run(None, given)
    except Exception as e:
        return f"{type(e).__name__}: {e}".replace("\n", " ")[:160]


def differs(got, want, near):
    for k, w in enumerate(want):
        w = np.asarray(w)
        if f"out{k}" not in got.files:
            return f"no out{k}"
        g = got[f"out{k}"]
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"output {k}: {g.dtype}{g.shape}, want {w.dtype}{w.shape}"
        if w.dtype.kind == "f":
            g, w = g.astype("f8"), w.astype("f8")
            ok = np.isclose(g, w, rtol=near[0], atol=near[1], equal_nan=True)
        else:
            ok = g == w
        if not ok.all():
            d = np.abs(g.astype("f8") - w.astype("f8"))
            return f"output {k}: {(~ok).sum()} of {w.size} differ, by up to {np.nanmax(d):.3g}"
    return None


def check(tools, one, constant, open_):
    op, inputs, opset, outs, near, domain, attrs = one
    m, given = model(op, inputs, opset, outs, domain, attrs, constant, open_)
    with tempfile.TemporaryDirectory() as d:
        onnx.save(m, d + "/m.onnx")
        np.savez(d + "/in.npz", **given)
        r = subprocess.run([os.path.join(tools, "relax-run"), d + "/m.onnx", "--inputs", d + "/in.npz", "--outputs", d + "/out.npz"], capture_output=True, text=True, timeout=300)
        ours = None
        if r.returncode:
            ours = f"exit {r.returncode}: " + " | ".join(r.stderr.strip().split("\n"))[:400]
        else:
            ours = np.load(d + "/out.npz")
    theirs = wanted(m, given)
    said = []
    for who, want in theirs:
        if isinstance(want, str):
            said.append(f"{who} fails: {want}")
        elif isinstance(ours, str):
            said.append(f"{who} gives an answer")
        elif (why := differs(ours, want, near)) is None:
            return None
        else:
            said.append(f"{who}: {why}")
    ref = reference(m, given)
    if isinstance(ref, str):
        said.append(f"reference fails: {ref}")
        if isinstance(theirs[0][1], str):
            return "NOBODY " + (ours if isinstance(ours, str) else "we answer") + " ; " + "; ".join(said)
    elif isinstance(ours, str):
        said.append("reference gives an answer")
    elif (why := differs(ours, ref, near)) is None:
        return None if isinstance(theirs[0][1], str) else "ONLY-ORT " + "; ".join(said)
    else:
        said.append(f"reference: {why}")
    return (ours + " ; " if isinstance(ours, str) else "") + "; ".join(said)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bin", default="target/release")
    a.add_argument("--only", default="")
    a.add_argument("--jobs", type=int, default=2)
    a.add_argument("--shard", default="0/1", help="K/N: the K-th of N parts")
    a = a.parse_args()
    for family in elementwise, moves, indices, reductions, products, windows, norms, recurrent, images, quantised, signals, attention:
        family()
    work = []
    for n, one in enumerate(CASES):
        if a.only not in one[0]:
            continue
        variants = [(False, False), (False, True)]
        if sum(x is not None and not isinstance(x, Const) for x in one[1]) > 1:
            variants.append((True, True))
        work += [(n, one, *w) for w in variants]
    k, parts = map(int, a.shard.split("/"))
    work = work[k::parts]
    bad = 0

    def run(w):
        try:
            return w, check(a.bin, *w[1:])
        except Exception as e:
            return w, f"{type(e).__name__}: {e}"

    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for w, why in pool.map(run, work):
            if why:
                bad += 1
                n, one, constant, open_ = w
                shapes = [None if x is None else f"{np.asarray(x.array if isinstance(x, Const) else x).dtype}{list(np.asarray(x.array if isinstance(x, Const) else x).shape)}" for x in one[1]]
                attrs = {k: v for k, v in one[6].items() if k != "consumed_inputs"}
                print(f"{one[0]}-{one[2]} #{n}{' const' if constant else ''}{' open' if open_ else ''} {shapes} {attrs}: {why}", flush=True)
    print(f"{len(work) - bad} of {len(work)} agree")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
