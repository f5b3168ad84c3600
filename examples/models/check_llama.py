#!/usr/bin/env python3
"""Runs llama.relay on random weights and holds it against the same decoder in numpy; so too with weights in 8 and 4 bits.

usage: check_llama.py [--tools DIR]      (needs numpy)

A prompt and the token after it on all three engines, then a completion: the likeliest tokens are those of numpy, and
sampled ones are the same on each engine. Exit 1 when logits differ by more than 1e-4 or tokens differ.
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LAYERS, DIM, HEADS, KV_HEADS, VOCAB, THETA = 2, 64, 4, 2, 320, 10000.0
HEAD = DIM // HEADS
ENGINES = ("native", "interp", "vm")
MODEL = Path(__file__).with_name("llama.relay")
MAKE = Path(__file__).with_name("make_llama.py")


def weights(rng, ffn):
    out = {"model.embed_tokens.weight": rng.normal(size=(VOCAB, DIM)), "model.norm.weight": 1 + 0.1 * rng.normal(size=DIM)}
    out["lm_head.weight"] = rng.normal(size=(VOCAB, DIM)) / 8
    shapes = {"q": (DIM, DIM), "k": (KV_HEADS * HEAD, DIM), "v": (KV_HEADS * HEAD, DIM), "o": (DIM, DIM)}
    shapes = {f"self_attn.{n}_proj": s for n, s in shapes.items()}
    shapes |= {"mlp.gate_proj": (ffn, DIM), "mlp.up_proj": (ffn, DIM), "mlp.down_proj": (DIM, ffn)}
    for layer in range(LAYERS):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            out[f"model.layers.{layer}.{norm}.weight"] = 1 + 0.1 * rng.normal(size=DIM)
        for name, shape in shapes.items():
            out[f"model.layers.{layer}.{name}.weight"] = rng.normal(size=shape) / np.sqrt(shape[1])
    return {name: w.astype(np.float32) for name, w in out.items()}


def quantised(w, bits):
    """What 8 or 4 bits keep of a matrix, with a scale for each 32 numbers of a row; the embedding has 8 bits."""
    out = {}
    for name, x in w.items():
        if x.ndim == 2:
            most = np.float32(127 if bits == 8 or "embed" in name else 7)
            blocks = x.reshape(len(x), -1, 32)
            scale = np.abs(blocks).max(-1, keepdims=True) / most
            x = (np.rint(blocks / scale) * scale).reshape(x.shape)
        out[name] = x
    return out


def norm(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def rotated(x, positions):
    angles = positions[:, None] * THETA ** (-2 * np.arange(HEAD // 2) / HEAD)
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def decode(w, tokens, cache):
    """Logits of the tokens, and the cache with them; in float64."""
    t, s = cache[0][0].shape[0], len(tokens)
    positions, grown = np.arange(t, t + s), []
    x = w["model.embed_tokens.weight"][tokens].astype(np.float64)
    for layer in range(LAYERS):
        of = lambda name: w[f"model.layers.{layer}.{name}.weight"].astype(np.float64)
        n = norm(x, of("input_layernorm"))
        q = rotated((n @ of("self_attn.q_proj").T).reshape(s, HEADS, HEAD), positions)
        k = rotated((n @ of("self_attn.k_proj").T).reshape(s, KV_HEADS, HEAD), positions)
        v = (n @ of("self_attn.v_proj").T).reshape(s, KV_HEADS, HEAD)
        k, v = np.concatenate([cache[layer][0], k]), np.concatenate([cache[layer][1], v])
        grown.append((k, v))
        mixed = np.zeros((s, HEADS, HEAD))
        for h in range(HEADS):
            group = h // (HEADS // KV_HEADS)
            scores = q[:, h] @ k[:, group].T / np.sqrt(HEAD)
            scores = np.where(np.arange(t + s)[None] <= positions[:, None], scores, -np.inf)
            e = np.exp(scores - scores.max(-1, keepdims=True))
            mixed[:, h] = e / e.sum(-1, keepdims=True) @ v[:, group]
        x = x + mixed.reshape(s, DIM) @ of("self_attn.o_proj").T
        n = norm(x, of("post_attention_layernorm"))
        gate = n @ of("mlp.gate_proj").T
        x = x + (gate / (1 + np.exp(-gate)) * (n @ of("mlp.up_proj").T)) @ of("mlp.down_proj").T
    return norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T, grown


def arguments(tokens, cache):
    out = {"tokens": np.array(tokens, np.int32)}
    for layer, pair in enumerate(cache):
        out |= {f"cache.{layer}.{k}": x[None].astype(np.float32) for k, x in enumerate(pair)}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tools", type=Path, default=Path("target/release"))
    tools = parser.parse_args().tools
    with tempfile.TemporaryDirectory() as room:
        return any([check(tools, Path(room), bits) for bits in (None, 8, 4)])


def check(tools, room, bits):
    """Returns whether anything differs."""
    rng = np.random.default_rng(1)
    # Rows of quantised matrices are whole blocks.
    ffn, model = (192, room / f"llama{bits}.relay") if bits else (176, MODEL)
    w, bad = weights(rng, ffn), 0
    np.savez(room / "weights.npz", **w)
    if bits:
        with open(model, "w") as text:
            subprocess.run([sys.executable, MAKE, "--ffn", str(ffn), "--bits", str(bits)], stdout=text, check=True)
        w = quantised(w, bits)
    empty = [(np.zeros((0, KV_HEADS, HEAD)),) * 2] * LAYERS
    prompt = rng.integers(0, VOCAB, 7)
    label = f"{bits} bits, " if bits else ""

    def run(engine, entry, given):
        np.savez(room / "in.npz", **given)
        command = [tools / "relax-run", model, "--engine", engine, "--entry", entry]
        command += ["--params", room / "weights.npz", "--inputs", room / "in.npz", "--outputs", room / "out.npz"]
        subprocess.run(command, check=True)
        return np.load(room / "out.npz")["out0"]

    def compare(what, found, expected):
        nonlocal bad
        difference = np.abs(found - expected).max()
        bad += not difference <= 1e-4
        print(f"{label}{what}: {'differs' if difference > 1e-4 else 'agrees'} (by up to {difference:.1e})")

    first, cache = decode(w, prompt, empty)
    second, _ = decode(w, [5], cache)
    greedy, tokens, grown = [], prompt, empty
    for _ in range(12):
        logits, grown = decode(w, tokens, grown)
        tokens = [int(logits[-1].argmax())]
        greedy += tokens
    request = dict(steps=np.int32(12), tokens=prompt.astype(np.int32), p=np.float32(0.9), seed=np.uint32(42))
    sampled = None
    for engine in ENGINES:
        compare(f"{engine}, prompt", run(engine, "main", arguments(prompt, empty)), first)
        compare(f"{engine}, next token", run(engine, "main", arguments([5], cache)), second)
        compare(f"{engine}, likeliest", run(engine, "complete", request | {"temperature": np.float32(0)}), greedy)
        found = run(engine, "complete", request | {"temperature": np.float32(0.8)})
        sampled = found if sampled is None else sampled
        compare(f"{engine}, sampled", found, sampled)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
