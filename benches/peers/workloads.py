"""The workloads, by name. Each function makes a `Graph` anew."""
import quantised
import recursive
from graph import Graph


def elementwise(n):
    def make():
        g = Graph(f"element-wise {n}", bytes_moved=8 * n)
        x = g.input(n)
        return g.done(g.unary("relu", g.add(g.mul(g.scaled(x, 1.5), x), g.scaled(x, 0.25))))
    return make


def rows(op):
    def make():
        g = Graph(f"{op} 4096 x 1024", bytes_moved=8 * 4096 * 1024)
        x = g.input(4096, 1024)
        return g.done(g.softmax(x) if op == "softmax" else g.layer_norm(x))
    return make


def matmul(n):
    def make():
        g = Graph(f"matmul {n}")
        return g.done(g.matmul(g.input(n, n), g.input(n, n)))
    return make


def mlp(batch):
    def make():
        g = Graph(f"MLP, batch {batch}")
        x = g.input(batch, 784)
        for units in (512, 512):
            x = g.unary("relu", g.dense(x, units))
        return g.done(g.softmax(g.dense(x, 10)))
    return make


def conv():
    g = Graph("conv 3x3 64 to 64, 56 x 56")
    return g.done(g.unary("relu", g.conv(g.input(1, 64, 56, 56), 64, 3, bias=True)))


def depthwise():
    g = Graph("depthwise 3x3 128, 56 x 56", bytes_moved=8 * 128 * 56 * 56)
    return g.done(g.unary("relu", g.conv(g.input(1, 128, 56, 56), 128, 3, groups=128, bias=True)))


def resnet18():
    g = Graph("ResNet-18")
    conv_bn = lambda x, c, k, s: g.batch_norm(g.conv(x, c, k, s))
    x = g.unary("relu", conv_bn(g.input(1, 3, 224, 224), 64, 7, 2))
    x = g.max_pool(x, 3, 2, 1)
    for stage, c in enumerate((64, 128, 256, 512)):
        for unit in (0, 1):
            s = 2 if stage and not unit else 1
            y = conv_bn(g.unary("relu", conv_bn(x, c, 3, s)), c, 3, 1)
            x = conv_bn(x, c, 1, s) if s > 1 else x
            x = g.unary("relu", g.add(y, x))
    x = g.reshape(g.global_pool(x), 1, 512)
    return g.done(g.softmax(g.dense(x, 1000)))


def mobilenet():
    g = Graph("MobileNet")
    conv_bn = lambda x, c, k, s, groups=1: g.unary("relu", g.batch_norm(g.conv(x, c, k, s, groups)))
    x = conv_bn(g.input(1, 3, 224, 224), 32, 3, 2)
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for c, s in plan:
        x = conv_bn(conv_bn(x, x.shape[1], 3, s, x.shape[1]), c, 1, 1)
    x = g.reshape(g.global_pool(x), 1, 1024)
    return g.done(g.softmax(g.dense(x, 1000)))


def dcgan():
    """The generator of DCGAN (Radford et al., 2015) for 64 x 64 images."""
    g = Graph("DCGAN generator")
    x = g.unary("relu", g.batch_norm(g.conv_transpose(g.input(1, 100, 1, 1), 512, 4, 1, 0)))
    for channels in (256, 128, 64):
        x = g.unary("relu", g.batch_norm(g.conv_transpose(x, channels, 4, 2, 1)))
    return g.done(g.unary("tanh", g.conv_transpose(x, 3, 4, 2, 1)))


def transformer():
    """One block, pre-norm, 128 tokens, width 512, 8 heads."""
    g = Graph("transformer block 128 x 512")
    n, d, h = 128, 512, 8
    x = g.input(n, d)
    y = g.layer_norm(x)
    heads = lambda v: g.reshape(v, n, h, d // h)
    q = g.transpose(heads(g.dense(y, d)), 1, 0, 2)
    k = g.transpose(heads(g.dense(y, d)), 1, 2, 0)
    v = g.transpose(heads(g.dense(y, d)), 1, 0, 2)
    score = g.softmax(g.scaled(g.matmul(q, k), (d // h) ** -0.5))
    y = g.reshape(g.transpose(g.matmul(score, v), 1, 0, 2), n, d)
    x = g.add(x, g.dense(y, d))
    y = g.unary("gelu", g.dense(g.layer_norm(x), 4 * d))
    return g.done(g.add(x, g.dense(y, d)))


def lstm():
    g = Graph("LSTM 64 x 256")
    return g.done(g.lstm(g.input(64, 1, 256), 256))


ALL = {
    "element-wise-4k": elementwise(1 << 12),
    "element-wise-16m": elementwise(1 << 24),
    "softmax": rows("softmax"),
    "layer-norm": rows("layer norm"),
    "matmul-128": matmul(128),
    "matmul-512": matmul(512),
    "matmul-1024": matmul(1024),
    "matmul-2048": matmul(2048),
    "mlp-1": mlp(1),
    "mlp-32": mlp(32),
    "mlp-256": mlp(256),
    "conv": conv,
    "depthwise": depthwise,
    "resnet-18": resnet18,
    "mobilenet": mobilenet,
    "dcgan": dcgan,
    "transformer": transformer,
    "lstm": lstm,
    **quantised.ALL,
    **recursive.ALL,
}
