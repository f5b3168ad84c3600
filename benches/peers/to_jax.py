"""Graphs as JAX functions, for JAX itself and (exported as StableHLO) for IREE."""
import jax
import jax.numpy as jnp
from jax import lax


def to_jax(graph):
    weights = {k: jnp.asarray(v) for k, v in graph.weights.items()}

    def one(n, a):
        t = n.attrs
        simple = {"relu": jax.nn.relu, "tanh": jnp.tanh, "exp": jnp.exp, "sigmoid": jax.nn.sigmoid,
                  "erf": lax.erf, "sqrt": jnp.sqrt, "add": jnp.add, "mul": jnp.multiply, "matmul": jnp.matmul}
        if n.op in simple:
            return simple[n.op](*a)
        if n.op == "scaled":
            return a[0] * t["factor"]
        if n.op == "gelu":
            return jax.nn.gelu(a[0], approximate=False)
        if n.op == "dense":
            return a[0] @ a[1].T
        if n.op == "conv":
            return lax.conv_general_dilated(a[0], a[1], (t["stride"],) * 2, [(t["pad"],) * 2] * 2,
                                            feature_group_count=t["groups"])
        if n.op == "conv_transpose":
            # A convolution over the input with zeros between its pixels, the window the other way round.
            window, reach = a[1].transpose(1, 0, 2, 3)[:, :, ::-1, ::-1], t["k"] - 1 - t["pad"]
            return lax.conv_general_dilated(a[0], window, (1, 1), [(reach, reach)] * 2,
                                            lhs_dilation=(t["stride"],) * 2)
        if n.op == "batch_norm":
            x, gamma, beta, mean, var = a
            c = lambda v: v[None, :, None, None]
            return (x - c(mean)) * c(gamma / jnp.sqrt(var + 1e-5)) + c(beta)
        if n.op == "layer_norm":
            x, gamma, beta = a
            mean = x.mean(-1, keepdims=True)
            var = ((x - mean) ** 2).mean(-1, keepdims=True)
            return (x - mean) * lax.rsqrt(var + 1e-5) * gamma + beta
        if n.op == "softmax":
            return jax.nn.softmax(a[0])
        if n.op == "max_pool":
            k, s, p = (1, 1, t["k"], t["k"]), (1, 1, t["stride"], t["stride"]), t["pad"]
            return lax.reduce_window(a[0], -jnp.inf, lax.max, k, s, [(0, 0), (0, 0), (p, p), (p, p)])
        if n.op == "global_pool":
            return a[0].mean((2, 3), keepdims=True)
        if n.op == "reshape":
            return a[0].reshape(n.shape)
        if n.op == "transpose":
            return a[0].transpose(t["axes"])
        if n.op == "lstm":
            x, w, r, b = a
            gates = x[:, 0, :] @ w.T + b

            def step(carry, g):
                h, c = carry
                i, o, f, z = jnp.split(g + h @ r.T, 4, axis=-1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(z)
                return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

            zero = jnp.zeros((1, t["hidden"]), jnp.float32)
            (h, _), _ = lax.scan(step, (zero, zero), gates[:, None, :])
            return h
        raise ValueError(n.op)

    def function(*inputs):
        values = dict(zip((n.name for n in graph.inputs), inputs))
        for n in graph.nodes:
            if n.op == "weight":
                values[n.name] = weights[n.name]
            elif n.op != "input":
                values[n.name] = one(n, [values[x.name] for x in n.args])
        return values[graph.output.name]

    return function
