"""A small graph language in which every workload is written once.

Emitters turn a graph into each system's own format: Relay text (here), ONNX (`to_onnx.py`) and a JAX
function (`to_jax.py`). All tensors are float32.
"""
import numpy as np


class Node:
    def __init__(self, op, args, attrs, shape, name):
        self.op, self.args, self.attrs, self.shape, self.name = op, args, attrs, tuple(shape), name


class Graph:
    """`inputs` are given at every call, `weights` are constants of the model."""

    def __init__(self, name, flops=0, bytes_moved=0):
        self.name, self.flops, self.bytes_moved = name, flops, bytes_moved
        self.nodes, self.inputs, self.weights, self.output = [], [], {}, None
        self.random = np.random.default_rng(7)

    def _add(self, op, args, shape, **attrs):
        node = Node(op, args, attrs, shape, f"v{len(self.nodes)}")
        self.nodes.append(node)
        return node

    def input(self, *shape):
        node = self._add("input", [], shape)
        node.value = self.random.standard_normal(shape).astype("float32")
        self.inputs.append(node)
        return node

    def weight(self, *shape, scale=None, positive=False):
        node = self._add("weight", [], shape)
        if scale is None:
            scale = (1.0 / max(1, int(np.prod(shape[1:])))) ** 0.5
        value = self.random.standard_normal(shape) * scale
        self.weights[node.name] = (np.abs(value) + 0.5 if positive else value).astype("float32")
        return node

    # Element by element; shapes broadcast as in NumPy.
    def _binary(self, op, a, b):
        return self._add(op, [a, b], np.broadcast_shapes(a.shape, b.shape))

    def add(self, a, b):
        return self._binary("add", a, b)

    def mul(self, a, b):
        return self._binary("mul", a, b)

    def unary(self, op, a):
        return self._add(op, [a], a.shape)

    def scaled(self, a, factor):
        return self._add("scaled", [a], a.shape, factor=float(factor))

    def matmul(self, a, b):
        """The last two axes; equal leading axes."""
        self.flops += 2 * int(np.prod(a.shape)) * b.shape[-1]
        return self._add("matmul", [a, b], (*a.shape[:-1], b.shape[-1]))

    def dense(self, x, units, bias=True):
        """`x · wᵀ + b`, the weight stored as (units, inputs)."""
        w = self.weight(units, x.shape[-1])
        self.flops += 2 * int(np.prod(x.shape)) * units
        y = self._add("dense", [x, w], (*x.shape[:-1], units))
        return self.add(y, self.weight(units, scale=0.1)) if bias else y

    def conv(self, x, channels, k, stride=1, groups=1, bias=False):
        n, c, h, w = x.shape
        pad = k // 2
        weight = self.weight(channels, c // groups, k, k)
        oh, ow = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1
        self.flops += 2 * n * channels * oh * ow * (c // groups) * k * k
        y = self._add("conv", [x, weight], (n, channels, oh, ow), k=k, stride=stride, pad=pad, groups=groups)
        return self.add(y, self.weight(channels, 1, 1, scale=0.1)) if bias else y

    def conv_transpose(self, x, channels, k, stride, pad):
        """Each pixel spreads over a window of the output; the weight is stored as (inputs, outputs, k, k)."""
        n, c, h, w = x.shape
        weight = self.weight(c, channels, k, k, scale=(stride * stride / (c * k * k)) ** 0.5)
        oh, ow = ((s - 1) * stride + k - 2 * pad for s in (h, w))
        self.flops += 2 * n * c * h * w * channels * k * k
        return self._add("conv_transpose", [x, weight], (n, channels, oh, ow), k=k, stride=stride, pad=pad)

    def batch_norm(self, x):
        c = x.shape[1]
        parts = [self.weight(c, scale=0.1, positive=True), self.weight(c, scale=0.1),
                 self.weight(c, scale=0.1), self.weight(c, scale=0.1, positive=True)]
        return self._add("batch_norm", [x, *parts], x.shape)

    def layer_norm(self, x):
        n = x.shape[-1]
        parts = [self.weight(n, scale=0.1, positive=True), self.weight(n, scale=0.1)]
        return self._add("layer_norm", [x, *parts], x.shape)

    def softmax(self, x):
        return self._add("softmax", [x], x.shape)

    def max_pool(self, x, k, stride, pad):
        n, c, h, w = x.shape
        out = [(s + 2 * pad - k) // stride + 1 for s in (h, w)]
        return self._add("max_pool", [x], (n, c, *out), k=k, stride=stride, pad=pad)

    def global_pool(self, x):
        return self._add("global_pool", [x], (*x.shape[:2], 1, 1))

    def reshape(self, x, *shape):
        return self._add("reshape", [x], shape)

    def transpose(self, x, *axes):
        return self._add("transpose", [x], [x.shape[a] for a in axes], axes=list(axes))

    def lstm(self, x, hidden):
        """Over (steps, 1, inputs); the last hidden state, (1, hidden). Gates in the order i, o, f, c."""
        steps, inputs = x.shape[0], x.shape[2]
        parts = [self.weight(4 * hidden, inputs), self.weight(4 * hidden, hidden),
                 self.weight(4 * hidden, scale=0.1)]
        self.flops += 2 * steps * 4 * hidden * (inputs + hidden)
        return self._add("lstm", [x, *parts], (1, hidden), hidden=hidden)

    def done(self, node):
        self.output = node
        return self


def relay_type(shape):
    inside = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    return f"Tensor[({inside}), float32]"


LSTM = """def @lstm_{name}(%i: int32, %g: {gates}, %w: {w}, %h: {h}, %c: {h}) -> {h} {{
  if (%i == {steps}) {{
    %h
  }} else {{
    %row = take(%g, reshape(%i, newshape=[1]), axis=0);
    %z = add(%row, nn.dense(%h, %w, units={units}));
    %s = split(%z, indices_or_sections=4, axis=1);
    %cell = add(multiply(sigmoid(%s.2), %c), multiply(sigmoid(%s.0), tanh(%s.3)));
    %out = multiply(sigmoid(%s.1), tanh(%cell));
    @lstm_{name}(%i + 1, %g, %w, %out, %cell)
  }}
}}
"""


def to_relay(graph):
    """The module's text; weights are parameters with the names of `graph.weights`."""
    params, lines, functions = [], [], []

    def simple(op, n):
        a = [f"%{x.name}" for x in n.args]
        t = n.attrs
        one = {"relu": "nn.relu", "tanh": "tanh", "exp": "exp", "sigmoid": "sigmoid", "erf": "erf", "sqrt": "sqrt"}
        if op in one:
            return f"{one[op]}({a[0]})"
        if op in ("add", "mul"):
            return f"{'add' if op == 'add' else 'multiply'}({a[0]}, {a[1]})"
        if op == "scaled":
            return f"multiply({a[0]}, {t['factor']!r}f)"
        if op == "gelu":
            inner = f"erf(multiply({a[0]}, 0.70710678f))"
            return f"multiply(multiply({a[0]}, 0.5f), add(1f, {inner}))"
        if op == "dense":
            return f"nn.dense({a[0]}, {a[1]}, units={n.shape[-1]})"
        if op == "matmul":
            call = "nn.batch_matmul" if len(n.shape) == 3 else "nn.matmul"
            transposed = ", transpose_b=False" if len(n.shape) == 3 else ""
            units = transposed if len(n.shape) == 3 else f", units={n.shape[-1]}"
            return f"{call}({a[0]}, {a[1]}{units})"
        if op == "conv":
            k, p, s = t["k"], t["pad"], t["stride"]
            return (f"nn.conv2d({a[0]}, {a[1]}, strides=[{s}, {s}], padding=[{p}, {p}, {p}, {p}], "
                    f"groups={t['groups']}, channels={n.shape[1]}, kernel_size=[{k}, {k}])")
        if op == "conv_transpose":
            k, p, s = t["k"], t["pad"], t["stride"]
            return (f"nn.conv2d_transpose({a[0]}, {a[1]}, strides=[{s}, {s}], padding=[{p}, {p}, {p}, {p}], "
                    f"channels={n.shape[1]}, kernel_size=[{k}, {k}])")
        if op == "batch_norm":
            return f"nn.batch_norm({', '.join(a)}).0"
        if op == "layer_norm":
            return f"nn.layer_norm({', '.join(a)})"
        if op == "softmax":
            return f"nn.softmax({a[0]})"
        if op == "max_pool":
            k, p, s = t["k"], t["pad"], t["stride"]
            return f"nn.max_pool2d({a[0]}, pool_size=[{k}, {k}], strides=[{s}, {s}], padding=[{p}, {p}, {p}, {p}])"
        if op == "global_pool":
            return f"nn.global_avg_pool2d({a[0]})"
        if op == "reshape":
            return f"reshape({a[0]}, newshape={list(n.shape)})"
        if op == "transpose":
            return f"transpose({a[0]}, axes={t['axes']})"
        if op == "lstm":
            steps, hidden = n.args[0].shape[0], t["hidden"]
            gates, w, h = (relay_type(s) for s in ((steps, 4 * hidden), (4 * hidden, hidden), (1, hidden)))
            functions.append(LSTM.format(name=n.name, gates=gates, w=w, h=h, steps=steps, units=4 * hidden))
            flat = f"reshape({a[0]}, newshape=[{steps}, {n.args[0].shape[2]}])"
            all_gates = f"nn.bias_add(nn.dense({flat}, {a[1]}, units={4 * hidden}), {a[3]})"
            zero = f'zeros(shape=[1, {hidden}], dtype="float32")'
            return f"@lstm_{n.name}(0, {all_gates}, {a[2]}, {zero}, {zero})"
        raise ValueError(op)

    for n in graph.nodes:
        if n.op in ("input", "weight"):
            params.append(f"%{n.name}: {relay_type(n.shape)}")
        else:
            lines.append(f"  let %{n.name} = {simple(n.op, n)};")
    body = "\n".join(lines)
    return (f'#[version = "0.0.5"]\n{"".join(functions)}def @main({", ".join(params)}) -> '
            f"{relay_type(graph.output.shape)} {{\n{body}\n  %{graph.output.name}\n}}\n")
