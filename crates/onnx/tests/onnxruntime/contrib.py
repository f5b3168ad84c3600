#!/usr/bin/env python3
"""Operators of com.microsoft against ONNX Runtime: a model of one node each, imported and run here and there.

usage: contrib.py --bin DIR [--only TEXT]
DIR holds relax-import and relax-run. Needs numpy, onnx and onnxruntime. Exit 1 where results differ.
"""
import argparse, os, subprocess, sys, tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

R = np.random.default_rng(7)
TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int16": 5, "int64": 7, "bool": 9, "float16": 10}


def f(*shape):
    return (R.random(shape, dtype="f4") * 2 - 1).astype("f4")


def u8(*shape, low=0, high=256):
    return R.integers(low, high, shape).astype("u1")


def i8(*shape):
    return R.integers(-128, 128, shape).astype("i1")


def s(v):
    return np.array(v, "f4")


def z(v, t="u1"):
    return np.array(v, t)


OLD = {"Affine", "Crop", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"}
B, S, H, N = 2, 5, 16, 4


def cases():
    yield "Gelu", [f(3, 4)], 1, {}
    yield "BiasGelu", [f(3, 4), f(4)], 1, {}
    yield "FastGelu", [f(3, 4)], 1, {}
    yield "FastGelu", [f(3, 4), f(4)], 1, {}
    yield "QuickGelu", [f(3, 4)], 1, {"alpha": 1.5}
    yield "SkipLayerNormalization", [f(B, S, H), f(B, S, H), f(H), f(H), f(H)], 4, {"epsilon": 1e-5}
    yield "SkipLayerNormalization", [f(B, S, H), f(B, S, H), f(H)], 1, {}
    yield "SkipSimplifiedLayerNormalization", [f(B, S, H), f(B, S, H), f(H)], [0, 3], {"epsilon": 1e-5}
    yield ":SimplifiedLayerNormalization", [f(B, S, H), f(H)], 1, {"axis": -1, "epsilon": 1e-5}
    ids, seg = R.integers(0, 9, (B, S)).astype("i4"), R.integers(0, 2, (B, S)).astype("i4")
    mask = np.ones((B, S), "i4"); mask[0, 3:] = 0
    embed = [ids, seg, f(9, H), f(8, H), f(2, H), f(H), f(H)]
    yield "EmbedLayerNormalization", embed, 2, {}
    yield "EmbedLayerNormalization", embed + [mask], 3, {}
    yield "EmbedLayerNormalization", [ids, None, f(9, H), f(8, H), None, f(H), f(H)], 2, {}
    q = [u8(2, 3, 4), s(0.02), z(120), u8(2, 3, 4), s(0.03), z(100), s(0.05), z(128)]
    yield "QLinearAdd", q, 1, {}
    yield "QLinearMul", q, 1, {}
    yield "QLinearAdd", [i8(2, 3), s(0.02), z(3, "i1"), i8(3), s(0.03), z(-7, "i1"), s(0.05), z(1, "i1")], 1, {}
    one = [u8(1, 3, 6, 6), s(0.05), z(120), s(0.04), z(110)]
    yield "QLinearAveragePool", one, 1, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    yield "QLinearAveragePool", one, 1, {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    yield "QLinearGlobalAveragePool", one, 1, {}
    yield "QLinearGlobalAveragePool", one, 1, {"channels_last": 1}
    yield "QLinearLeakyRelu", one, 1, {"alpha": 0.1}
    yield "QLinearSigmoid", [u8(3, 5), s(0.05), z(120), s(1 / 256), z(0)], 1, {}
    yield "QLinearSoftmax", [u8(3, 5), s(0.05), z(120), s(1 / 256), z(0)], 1, {"axis": -1, "opset": 13}
    yield "QLinearConcat", [s(0.05), z(120), u8(2, 3), s(0.04), z(110), u8(2, 2), s(0.06), z(130)], 1, {"axis": 1}
    yield "QGemm", [u8(3, 4), s(0.02), z(120), u8(4, 5), s(0.03), z(110), R.integers(-99, 99, 5).astype("i4"), s(0.1), z(128)], 1, {}
    yield "QGemm", [u8(3, 4), s(0.02), z(120), u8(5, 4), s(0.03), z(110)], 1, {"transB": 1, "alpha": 0.5}
    yield "MatMulIntegerToFloat", [u8(3, 4), u8(4, 5), s(0.02), s(0.03), z(120), z(110)], 1, {}
    yield "MatMulIntegerToFloat", [u8(3, 4), i8(4, 5), s(0.02), f(5), z(120), None, f(5)], 1, {}
    yield "DynamicQuantizeMatMul", [f(3, 4), i8(4, 5), s(0.03)], 1, {}
    yield "DynamicQuantizeMatMul", [f(3, 4), u8(4, 5), s(0.03), z(120), f(5)], 1, {}
    yield "FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)], 1, {"activation": "Relu", "pads": [1, 1, 1, 1]}
    yield "FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)], 1, {"activation": "LeakyRelu", "activation_params": [0.2]}
    yield "FusedGemm", [f(3, 4), f(4, 5), f(5)], 1, {"activation": "Relu"}
    yield "FusedMatMul", [f(2, 3, 4), f(2, 5, 4)], 1, {"transB": 1, "alpha": 0.25}
    yield "NhwcMaxPool", [u8(1, 6, 6, 3)], 1, {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield "DequantizeLinear", [u8(3, 4), s(0.05), z(120)], 1, {}
    yield "QuantizeLinear", [f(3, 4), s(0.05), z(120)], 1, {}
    for bits, block, k in (4, 16, 32), (4, 32, 40), (8, 16, 32):
        blocks = -(-k // block)
        w, scales = u8(6, blocks, block * bits // 8), f(6 * blocks)
        attrs = {"K": k, "N": 6, "bits": bits, "block_size": block}
        yield "MatMulNBits", [f(2, 3, k), w, scales], 1, attrs
        yield "MatMulNBits", [f(2, 3, k), w, scales, u8(6 * -(-blocks * bits // 8))], 1, attrs
    att = [f(B, S, H), f(H, 3 * H), f(3 * H)]
    yield "Attention", att, 1, {"num_heads": N}
    yield "Attention", att, 2, {"num_heads": N, "unidirectional": 1}
    yield "Attention", att + [mask], 1, {"num_heads": N}
    yield "Attention", att + [np.array([3, 5], "i4")], 1, {"num_heads": N}
    yield "Attention", att + [None, f(2, B, N, 3, H // N)], 2, {"num_heads": N, "unidirectional": 1}
    qkv = [f(B, S, H), f(B, 7, H), f(B, 7, H)]
    yield "MultiHeadAttention", qkv, 1, {"num_heads": N}
    yield "MultiHeadAttention", qkv + [f(3 * H)], 1, {"num_heads": N, "scale": 0.3}
    pad = np.ones((B, 7), "i4"); pad[1, 4:] = 0
    yield "MultiHeadAttention", qkv + [None, pad], 1, {"num_heads": N}
    yield "MultiHeadAttention", qkv + [None, None, f(1, N, S, 7)], 1, {"num_heads": N}
    same = [f(B, S, H), f(B, S, H), f(B, S, H)]
    yield "MultiHeadAttention", same + [None, None, None, f(B, N, 3, H // N), f(B, N, 3, H // N)], 3, {"num_heads": N}
    yield "MultiHeadAttention", same, 1, {"num_heads": N, "unidirectional": 1}
    cos, sin = np.cos(f(32, 2) * 3), np.sin(f(32, 2) * 3)
    at = np.tile(np.arange(S), (B, 1)).astype("i8")
    yield "RotaryEmbedding", [f(B, S, H), at, cos, sin], 1, {}
    yield "RotaryEmbedding", [f(B, N, S, 4), np.array([2], "i8"), cos, sin], 1, {"interleaved": 1}
    H2 = 64
    cos, sin = np.cos(f(32, 8) * 3), np.sin(f(32, 8) * 3)
    kv = [f(1, S, 32), f(1, S, 32)]
    yield "GroupQueryAttention", [f(1, S, H2), *kv, None, None, np.array([S - 1], "i4"), np.array(S, "i4")], 3, {"num_heads": 4, "kv_num_heads": 2}
    past = [f(1, 2, 3, 16), f(1, 2, 3, 16)]
    new = [f(1, 1, H2), f(1, 1, 32), f(1, 1, 32)]
    yield "GroupQueryAttention", [*new, *past, np.array([3], "i4"), np.array(4, "i4"), cos, sin], 3, {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    yield "GroupQueryAttention", [f(1, S, H2), *kv, None, None, np.array([S - 1], "i4"), np.array(S, "i4"), cos, sin], 3, {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": 2}

    qconv = [u8(1, 6, 6, 3), s(0.02), z(120), u8(4, 3, 3, 3, high=99), s(0.03), z(0), s(0.3), z(128), R.integers(-99, 99, 4).astype("i4")]
    yield "QLinearConv", qconv, 1, {"channels_last": 1, "pads": [1, 1, 1, 1]}
    w8 = u8(H, 3 * H, low=90, high=160)
    yield "QAttention", [u8(B, S, H), w8, f(3 * H), s(0.02), s(0.02), None, z(128), z(128)], 1, {"num_heads": N}
    yield "QAttention", [u8(B, S, H), w8, f(3 * H), s(0.02), s(0.02), mask, z(128), z(128)], 1, {"num_heads": N}
    q = [u8(9, H), u8(8, H), u8(2, H), u8(H), u8(H)]
    yield "QEmbedLayerNormalization", [ids, seg, *q, None, *[s(0.02)] * 5, *[z(128)] * 5], 2, {}
    lstm = [f(5, 2, 4), i8(1, 4, 12) // 3, i8(1, 3, 12) // 3, f(1, 24), None, None, None, None, s([0.01]), z([3], "i1"), s([0.01]), z([-2], "i1")]
    yield "DynamicQuantizeLSTM", lstm, 3, {"hidden_size": 3}
    yield "GatherBlockQuantized", [u8(9, 32), R.integers(0, 9, (2, 3)).astype("i8"), f(9, 2), u8(9, 2)], 1, {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": 8}
    yield "GatherBlockQuantized", [u8(9, 16), R.integers(0, 9, (2, 3)).astype("i8"), f(9, 2), u8(9, 1)], 1, {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": 4}
    yield "GatherBlockQuantized", [u8(9, 16), R.integers(0, 9, 4).astype("i8"), f(9, 2)], 1, {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": 4}
    yield "TransposeMatMul", [f(4, 3), f(5, 4)], 1, {"transA": 1, "transB": 1, "alpha": 0.5}
    yield "FusedMatMul", [f(3, 2, 4), f(2, 4, 5)], 1, {"transBatchA": 1}
    yield "MatMulInteger16", [R.integers(-999, 999, (3, 4)).astype("i2"), R.integers(-999, 999, (4, 2)).astype("i2")], 1, {}
    yield "CDist", [f(3, 4), f(5, 4)], 1, {"metric": "euclidean"}
    yield "CDist", [f(3, 4), f(5, 4)], 1, {"metric": "sqeuclidean"}
    yield "Trilu", [f(3, 4), np.array(1, "i8")], 1, {"upper": 0}
    yield "Range", [np.array(1, "i8"), np.array(9, "i8"), np.array(2, "i8")], 1, {}
    yield "Range", [s(1), s(4)], 1, {}
    yield "GatherND", [f(3, 4), np.array([[0, 1], [2, 3]], "i8")], 1, {}
    yield "Pad", [f(3, 4), np.array([0, 1, 2, 0], "i8"), s(1.5)], 1, {"mode": "constant"}
    yield "Pad", [f(3, 4), np.array([0, 1, 2, 0], "i8")], 1, {"mode": "reflect"}
    yield "Unique", [s([3, 1, 3, 2, 1])], 3, {}
    yield "GridSample", [f(1, 2, 4, 5), f(1, 3, 3, 2)], 1, {"mode": "bilinear", "padding_mode": "border"}
    yield ":Affine", [f(2, 3)], 1, {"alpha": 2.0, "beta": 0.5}
    yield ":ScaledTanh", [f(2, 3)], 1, {"alpha": 2.0, "beta": 0.5}
    yield ":ParametricSoftplus", [f(2, 3)], 1, {"alpha": 2.0, "beta": 0.5}
    yield ":Scale", [f(2, 3)], 1, {"scale": 2.0}
    yield ":ImageScaler", [f(1, 3, 4, 4)], 1, {"scale": 2.0, "bias": [0.1, 0.2, 0.3]}
    yield ":Crop", [f(1, 2, 6, 7)], 1, {"border": [1, 0, 2, 1]}
    yield ":Crop", [f(1, 2, 6, 7)], 1, {"border": [1, 2, 0, 0], "scale": [3, 4]}


def model(op, arrays, outs, attrs):
    domain, op = ("", op[1:]) if op.startswith(":") else ("com.microsoft", op)
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    infos = [helper.make_tensor_value_info(n, TYPES[str(a.dtype)], a.shape) for n, a in zip(names, arrays) if n]
    wanted = range(outs) if isinstance(outs, int) else outs
    results = [f"y{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
    node = helper.make_node(op, names, results, domain=domain, **attrs)
    g = helper.make_graph([node], op, infos, [helper.make_empty_tensor_value_info(r) for r in results if r])
    # Experiments of the first versions ended with version 10.
    opsets = [helper.make_opsetid("", 9 if op in OLD else 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(g, opset_imports=opsets, ir_version=8), {n: a for n, a in zip(names, arrays) if n}


def check(tools, op, arrays, outs, attrs):
    m, given = model(op, arrays, outs, attrs)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        theirs = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        want = theirs.run(None, given)
    except Exception as e:
        return f"ONNX Runtime: {str(e)[:200]}"
    with tempfile.TemporaryDirectory() as d:
        onnx.save(m, d + "/m.onnx")
        np.savez(d + "/in.npz", **given)
        for args in (["relax-import", d + "/m.onnx", "-o", d + "/m.relay", "--weights", d + "/w.npz"],
                     ["relax-run", d + "/m.relay", "--inputs", d + "/in.npz", "--outputs", d + "/out.npz"]):
            if args[0] == "relax-run" and os.path.exists(d + "/w.npz"):
                args += ["--params", d + "/w.npz"]
            r = subprocess.run([os.path.join(tools, args[0]), *args[1:]], capture_output=True, text=True)
            if r.returncode:
                return f"{args[0]}: {r.stderr.strip()[-400:]}"
        got = np.load(d + "/out.npz")
        for i, w in enumerate(want):
            # Results that ONNX Runtime leaves empty are not compared.
            if w.size == 0 or f"out{i}" not in got.files:
                continue
            g = got[f"out{i}"]
            if g.shape != w.shape or g.dtype != w.dtype:
                return f"output {i}: {g.dtype}{g.shape}, want {w.dtype}{w.shape}"
            near = np.abs(g.astype("f8") - w.astype("f8")) <= (1.01 if w.dtype.kind in "iu" and w.dtype.itemsize == 1 else 2e-3 + 1e-3 * np.abs(w))
            if not near.all():
                worst = np.abs(g.astype("f8") - w.astype("f8")).max()
                return f"output {i}: {(~near).sum()} of {w.size} differ, by up to {worst:.3g}"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bin", default="target/release")
    a.add_argument("--only", default="")
    a = a.parse_args()
    bad = done = 0
    for op, arrays, outs, attrs in cases():
        if a.only not in op:
            continue
        why = check(a.bin, op, arrays, outs, attrs)
        done += 1
        if why:
            bad += 1
            print(f"{op} {attrs}: {why}")
    print(f"{done - bad} of {done} agree with ONNX Runtime {ort.__version__}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
