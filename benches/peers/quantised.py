"""Workloads of 8 bits: a convolution and a dense layer, each with its bias or zero points and requantised.

Relay has them as `qnn` operators, ONNX as `QLinearConv` and `QLinearMatMul`. The rounding of halves differs (up in fixed
point, to even in floats), so results may differ by one.
"""
import numpy as np

from recursive import Program, Value


class Quantised(Program):
    #: What results may differ by.
    tolerance = 1

    def __init__(self, name, x, weights, relay, onnx, shape):
        super().__init__(name, [Value("x", x)], weights, Value("out", np.zeros(shape, "uint8")))
        self.relay, self.onnx = lambda: relay, onnx


X_SCALE, X_ZERO, W_SCALE, Y_SCALE, Y_ZERO = 0.02, 128, 0.01, 0.25, 121


def model(node, x, constants, shape):
    from onnx import TensorProto, helper, numpy_helper
    info = helper.make_tensor_value_info
    held = {"xs": np.float32(X_SCALE), "xz": np.uint8(X_ZERO), "ws": np.float32(W_SCALE), "wz": np.int8(0),
            "ys": np.float32(Y_SCALE), "yz": np.uint8(Y_ZERO), **constants}
    made = helper.make_graph([node], "quantised", [info("x", TensorProto.UINT8, x.shape)],
                             [info("out", TensorProto.UINT8, shape)],
                             [numpy_helper.from_array(np.array(v), k) for k, v in held.items()])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def conv():
    c, size = 64, 56
    random = np.random.default_rng(7)
    x = random.integers(0, 256, (1, c, size, size), dtype="uint8")
    weight = random.integers(-127, 128, (c, c, 3, 3)).astype("int8")
    bias = random.integers(-2000, 2000, c).astype("int32")
    shape = (1, c, size, size)
    relay = f"""#[version = "0.0.5"]
def @main(%x: Tensor[{shape}, uint8], %w: Tensor[{weight.shape}, int8], %b: Tensor[({c},), int32])
    -> Tensor[{shape}, uint8] {{
  let %sums = qnn.conv2d(%x, %w, {X_ZERO}, 0, {X_SCALE}f, {W_SCALE}f, padding=[1, 1, 1, 1], channels={c},
    kernel_size=[3, 3], out_dtype="int32");
  let %biased = nn.bias_add(%sums, %b);
  qnn.requantize(%biased, {X_SCALE * W_SCALE:.9g}f, 0, {Y_SCALE}f, {Y_ZERO}, out_dtype="uint8")
}}
"""

    def onnx():
        from onnx import helper
        node = helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["out"],
                                kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        return model(node, x, {"w": weight, "b": bias}, shape)

    return Quantised(f"int8 conv 3x3 {c} to {c}, {size} x {size}", x, {"w": weight, "b": bias}, relay, onnx, shape)


def dense():
    m, n, k = 64, 1024, 1024
    random = np.random.default_rng(7)
    x = random.integers(0, 256, (m, k), dtype="uint8")
    weight = random.integers(-127, 128, (n, k)).astype("int8")
    relay = f"""#[version = "0.0.5"]
def @main(%x: Tensor[({m}, {k}), uint8], %w: Tensor[({n}, {k}), int8]) -> Tensor[({m}, {n}), uint8] {{
  let %sums = qnn.dense(%x, %w, {X_ZERO}, 0, {X_SCALE}f, {W_SCALE}f, units={n}, out_dtype="int32");
  qnn.requantize(%sums, {X_SCALE * W_SCALE:.9g}f, 0, {Y_SCALE}f, {Y_ZERO}, out_dtype="uint8")
}}
"""

    def onnx():
        from onnx import helper
        node = helper.make_node("QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["out"])
        return model(node, x, {"w": np.ascontiguousarray(weight.T)}, (m, n))

    return Quantised(f"int8 dense {m} x {k} to {n}", x, {"w": weight}, relay, onnx, (m, n))


ALL = {"int8-conv": conv, "int8-dense": dense}
#: Who takes part: those that take ONNX models.
SYSTEMS = ["Relax", "ONNX Runtime", "OpenVINO", "TVM"]
