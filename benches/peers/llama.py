#!/usr/bin/env python3
"""A decoder of the Llama family with weights of 8 and 4 bits, beside llama.cpp with the same sizes.

usage: llama.py [--bin DIR] [--layers N] [--dim N] [--heads N] [--kv-heads N] [--ffn N] [--vocab N] [--bits 8,4]
                [--threads N] [--rounds N] [--prompt N] [--write PAGE]

Needs numpy, gguf and llama-cpp-python (which is built from source: `pip install llama-cpp-python gguf`). Sizes are those
of a model of 1.1 billion weights unless given; weights are random numbers. Ours are float16 in a file, which the text
quantises when it is compiled; llama.cpp's are written by its own package, Q8_0 and Q4_0, which have a scale for each 32
as well.

- decoding: one token after a prompt that the cache holds, the least time of several calls in all rounds.
- prompt: all of its tokens at once.

Everything that is measured is a process of its own; the two take turns, round by round.
With --write the table takes the place of the one between `<!-- llama: … -->` and `<!-- end of llama -->` in PAGE.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from models import least_of, put

ROOT = Path(__file__).resolve().parent.parent.parent
MAKE = ROOT / "examples" / "models" / "make_llama.py"
BEGIN, END = "<!-- llama: by benches/peers/llama.py -->\n", "<!-- end of llama -->"
STEPS = 12

THEIRS = """
import json, sys, time
from llama_cpp import Llama
path, threads, prompt, steps = sys.argv[1], *map(int, sys.argv[2:])
llama = Llama(path, n_ctx=prompt + 64, n_batch=prompt, n_ubatch=prompt, n_threads=threads, n_threads_batch=threads, logits_all=True, verbose=False)
prompts, tokens = [], []
for _ in range(2):
    llama.reset()
    at = time.perf_counter()
    llama.eval([7 + i % 99 for i in range(prompt)])
    prompts.append(time.perf_counter() - at)
for i in range(steps):
    at = time.perf_counter()
    llama.eval([9 + i])
    tokens.append(time.perf_counter() - at)
print(json.dumps([min(prompts), min(tokens)]))
"""


def shapes(a):
    """Names of checkpoints and of GGUF, and the extents."""
    kv = a.dim // a.heads * a.kv_heads
    out = [("model.embed_tokens", "token_embd", (a.vocab, a.dim))]
    for i in range(a.layers):
        for ours, theirs, shape in (
            ("input_layernorm", "attn_norm", (a.dim,)),
            ("self_attn.q_proj", "attn_q", (a.dim, a.dim)),
            ("self_attn.k_proj", "attn_k", (kv, a.dim)),
            ("self_attn.v_proj", "attn_v", (kv, a.dim)),
            ("self_attn.o_proj", "attn_output", (a.dim, a.dim)),
            ("post_attention_layernorm", "ffn_norm", (a.dim,)),
            ("mlp.gate_proj", "ffn_gate", (a.ffn, a.dim)),
            ("mlp.up_proj", "ffn_up", (a.ffn, a.dim)),
            ("mlp.down_proj", "ffn_down", (a.dim, a.ffn)),
        ):
            out.append((f"model.layers.{i}.{ours}", f"blk.{i}.{theirs}", shape))
    return out + [("model.norm", "output_norm", (a.dim,)), ("lm_head", "output", (a.vocab, a.dim))]


def numbers(seed, shape):
    rng = np.random.default_rng(seed)
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    return (rng.standard_normal(shape, np.float32) / np.float32(shape[1]) ** 0.5).astype(np.float32)


def write_safetensors(a, path):
    """float16, tensor by tensor: the whole need not be held."""
    head, at = {}, 0
    for name, _, shape in shapes(a):
        size = int(np.prod(shape)) * 2
        head[f"{name}.weight"] = {"dtype": "F16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for k, (_, _, shape) in enumerate(shapes(a)):
            f.write(numbers(k, shape).astype(np.float16).tobytes())


def write_gguf(a, bits, path):
    import gguf

    kind = gguf.GGMLQuantizationType.Q8_0 if bits == 8 else gguf.GGMLQuantizationType.Q4_0
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(a.layers)
    w.add_context_length(4096)
    w.add_embedding_length(a.dim)
    w.add_feed_forward_length(a.ffn)
    w.add_head_count(a.heads)
    w.add_head_count_kv(a.kv_heads)
    w.add_rope_dimension_count(a.dim // a.heads)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(a.vocab)
    w.add_tokenizer_model("none")
    for k, (_, name, shape) in enumerate(shapes(a)):
        x = numbers(k, shape)
        if len(shape) == 1:
            w.add_tensor(f"{name}.weight", x)
            continue
        of = gguf.GGMLQuantizationType.Q8_0 if name == "token_embd" else kind
        w.add_tensor(f"{name}.weight", gguf.quants.quantize(x, of), raw_dtype=of)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def arguments(a, tokens, before):
    head = a.dim // a.heads
    out = {"tokens": np.arange(tokens, dtype=np.int32) % 99 + 7}
    rng = np.random.default_rng(3)
    for i in range(a.layers):
        for k in range(2):
            out[f"cache.{i}.{k}"] = rng.standard_normal((1, before, a.kv_heads, head), np.float32)
    return out


def said(command):
    """Runs a command; returns what it printed."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout.strip()[-400:])
    return done.stdout


def ours(a, room, bits):
    """Least times of a prompt and of a token."""
    return [
        least_of(said([
            a.bin / "relax-run", room / f"ours{bits}.relay", "--params", room / "weights.safetensors", "--cast",
            "--inputs", room / f"{what}.npz", "--summary", "--threads", a.threads, "--bench", runs,
        ]))
        for what, runs in (("prompt", 3), ("token", STEPS))
    ]


def theirs(a, room, bits):
    text = said([sys.executable, "-c", THEIRS, room / f"theirs{bits}.gguf", a.threads, a.prompt, STEPS])
    return json.loads(text.strip().split("\n")[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=ROOT / "target" / "release")
    sizes = dict(layers=22, dim=2048, heads=32, kv_heads=4, ffn=5632, vocab=32000, threads=1, rounds=3, prompt=512)
    for name, default in sizes.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    parser.add_argument("--bits", default="8,4")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--keep", type=Path, help="a folder for models, which are made where they are not there")
    a = parser.parse_args()
    a.bin = a.bin.absolute()
    lines = [
        "| bits | tokens a second: Relax | llama.cpp (ours / theirs) | prompt, tokens a second: Relax | llama.cpp (ours / theirs) |",
        "|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        room = a.keep or Path(scratch)
        room.mkdir(exist_ok=True, parents=True)
        if not (room / "weights.safetensors").exists():
            write_safetensors(a, room / "weights.safetensors")
        np.savez(room / "prompt.npz", **arguments(a, a.prompt, 0))
        np.savez(room / "token.npz", **arguments(a, 1, a.prompt))
        for bits in map(int, a.bits.split(",")):
            given = [f"--{n.replace('_', '-')}={getattr(a, n)}" for n in ("layers", "dim", "heads", "kv_heads", "ffn", "vocab")]
            with open(room / f"ours{bits}.relay", "w") as text:
                subprocess.run([sys.executable, MAKE, *given, f"--bits={bits}"], stdout=text, check=True)
            if not (room / f"theirs{bits}.gguf").exists():
                write_gguf(a, bits, room / f"theirs{bits}.gguf")
            found = {"ours": [], "theirs": []}
            for _ in range(a.rounds):
                found["ours"].append(ours(a, room, bits))
                found["theirs"].append(theirs(a, room, bits))
                print(f"{bits} bits: {found['ours'][-1]} {found['theirs'][-1]}", file=sys.stderr)
            (p, t), (q, u) = [[min(x) for x in zip(*found[k])] for k in ("ours", "theirs")]
            lines.append(f"| {bits} | {1 / t:.1f} | {1 / u:.1f} ({u / t:.2f}) | {a.prompt / p:.0f} | {a.prompt / q:.0f} ({q / p:.2f}) |")
    table = "\n".join(lines) + "\n"
    print(table)
    if a.write:
        put(a.write, BEGIN, END, table)


if __name__ == "__main__":
    main()
