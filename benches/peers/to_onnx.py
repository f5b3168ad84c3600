"""Graphs as ONNX models, for ONNX Runtime, OpenVINO and TVM's importer."""
import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper


def to_onnx(graph):
    nodes, initializers = [], [numpy_helper.from_array(v, k) for k, v in graph.weights.items()]

    def constant(value, dtype="float32"):
        name = f"c{len(initializers)}"
        initializers.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def node(op, inputs, output, **attrs):
        nodes.append(helper.make_node(op, inputs, [output], **attrs))

    plain = {"relu": "Relu", "tanh": "Tanh", "exp": "Exp", "sigmoid": "Sigmoid", "erf": "Erf", "sqrt": "Sqrt",
             "add": "Add", "mul": "Mul", "matmul": "MatMul"}
    for n in graph.nodes:
        a, t, out = [x.name for x in n.args], n.attrs, n.name
        if n.op in ("input", "weight"):
            continue
        if n.op in plain:
            node(plain[n.op], a, out)
        elif n.op == "scaled":
            node("Mul", [a[0], constant(t["factor"])], out)
        elif n.op == "gelu":
            node("Gelu", a, out)
        elif n.op == "dense":
            if len(n.shape) == 2:
                node("Gemm", a, out, transB=1)
            else:
                node("Transpose", [a[1]], out + "_t", perm=[1, 0])
                node("MatMul", [a[0], out + "_t"], out)
        elif n.op == "conv":
            node("Conv", a, out, kernel_shape=[t["k"]] * 2, strides=[t["stride"]] * 2, pads=[t["pad"]] * 4,
                 group=t["groups"])
        elif n.op == "conv_transpose":
            node("ConvTranspose", a, out, kernel_shape=[t["k"]] * 2, strides=[t["stride"]] * 2, pads=[t["pad"]] * 4)
        elif n.op == "batch_norm":
            node("BatchNormalization", a, out, epsilon=1e-5)
        elif n.op == "layer_norm":
            node("LayerNormalization", a, out, axis=-1, epsilon=1e-5)
        elif n.op == "softmax":
            node("Softmax", a, out, axis=-1)
        elif n.op == "max_pool":
            node("MaxPool", a, out, kernel_shape=[t["k"]] * 2, strides=[t["stride"]] * 2, pads=[t["pad"]] * 4)
        elif n.op == "global_pool":
            node("GlobalAveragePool", a, out)
        elif n.op == "reshape":
            node("Reshape", [a[0], constant(list(n.shape), "int64")], out)
        elif n.op == "transpose":
            node("Transpose", a, out, perm=t["axes"])
        elif n.op == "lstm":
            hidden = t["hidden"]
            for k, w in ((1, "w"), (2, "r")):
                node("Unsqueeze", [a[k], constant([0], "int64")], f"{out}_{w}")
            zeros = constant(np.zeros(4 * hidden))
            node("Concat", [a[3], zeros], out + "_b1", axis=0)
            node("Unsqueeze", [out + "_b1", constant([0], "int64")], out + "_b")
            nodes.append(helper.make_node("LSTM", [a[0], out + "_w", out + "_r", out + "_b"],
                                          ["", out + "_h"], hidden_size=hidden))
            node("Reshape", [out + "_h", constant([1, hidden], "int64")], out)
        else:
            raise ValueError(n.op)
    describe = lambda n: helper.make_tensor_value_info(n.name, TensorProto.FLOAT, n.shape)
    made = helper.make_graph(nodes, graph.name.replace(" ", "_"), [describe(n) for n in graph.inputs],
                             [describe(graph.output)], initializers)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    checker.check_model(model)
    return model
