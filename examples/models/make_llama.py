#!/usr/bin/env python3
"""Writes a decoder of the Llama family (Touvron et al., 2023) as a Relay text, for any number of positions.

usage: make_llama.py [--layers N] [--dim N] [--heads N] [--kv-heads N] [--ffn N] [--vocab N] [--k N] [--theta X]
                     [--bits 8|4] | relax-fmt - > llama.relay

Weights are parameters by the names that checkpoints have (`model.layers.0.self_attn.q_proj.weight`), so that
`--params model.safetensors` gives them. `@main` takes the tokens of a prompt, or one token, and the keys and values of
all positions so far; it returns logits and those of all positions with the new ones. `@generate` samples.

With --bits, matrices are quantised by the text itself: integers of 8 or 4 bits with a scale for each 32 of a row. Where
the weights are constants (`--params`), so is what becomes of them: programs contain the integers.
"""
import argparse

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
for name, default in dict(layers=2, dim=64, heads=4, kv_heads=2, ffn=176, vocab=320).items():
    parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
parser.add_argument("--k", type=int, default=40, help="of how many tokens one is sampled")
parser.add_argument("--theta", type=float, default=10000.0)
parser.add_argument("--bits", type=int, choices=(8, 4), help="of the numbers that matrices are quantised to")
a = parser.parse_args()
if a.bits and (a.dim % 32 or a.ffn % 32):
    parser.error("quantised rows consist of blocks of 32: --dim and --ffn must be multiples of that")
head = a.dim // a.heads
kv = a.kv_heads * head
half = head // 2


def matrix(rows, columns):
    return f"Tensor[({rows}, {columns}), float32]"


def blocks(rows, columns, bits):
    """The type of a matrix in blocks of 32 numbers."""
    return f"(Tensor[({rows}, {columns * bits // 8}), int8], Tensor[({rows}, {columns // 32}), float32])"


def cache(length):
    return f"Tensor[(1, {length}, {a.kv_heads}, {head}), float32]"


def vector(length):
    return f"Tensor[({length},), float32]"


# Of a layer: the names of its weights and their extents.
SUBLAYERS = [
    ("input_layernorm", (a.dim,)),
    ("self_attn.q_proj", (a.dim, a.dim)),
    ("self_attn.k_proj", (kv, a.dim)),
    ("self_attn.v_proj", (kv, a.dim)),
    ("self_attn.o_proj", (a.dim, a.dim)),
    ("post_attention_layernorm", (a.dim,)),
    ("mlp.gate_proj", (a.ffn, a.dim)),
    ("mlp.up_proj", (a.ffn, a.dim)),
    ("mlp.down_proj", (a.dim, a.ffn)),
]
EMBEDDING = "model.embed_tokens.weight"
WEIGHTS = [(EMBEDDING, (a.vocab, a.dim))]
for layer in range(a.layers):
    WEIGHTS += [(f"model.layers.{layer}.{name}.weight", shape) for name, shape in SUBLAYERS]
WEIGHTS += [("model.norm.weight", (a.dim,)), ("lm_head.weight", (a.vocab, a.dim))]


def given_type(shape):
    return matrix(*shape) if len(shape) == 2 else vector(*shape)


def bits_of(name):
    """The bits of a matrix's numbers; rows of the embedding are read one at a time, so it has 8."""
    return 8 if name == EMBEDDING else a.bits


def kept_type(name, shape):
    return blocks(*shape, bits_of(name)) if a.bits and len(shape) == 2 else given_type(shape)


def product(x, weight, units):
    if a.bits:
        bits = "" if a.bits == 8 else ", bits=4"
        return f"qnn.blockwise_dense({x}, {weight}.0, {weight}.1{bits})"
    return f"nn.dense({x}, {weight}, units={units})"


def short(name):
    return name.split(".")[-1].removesuffix("_proj").replace("input_layernorm", "norm1").replace("post_attention_layernorm", "norm2")


def caches(length):
    return "(" + ", ".join(f"({cache(length)}, {cache(length)})" for _ in range(a.layers)) + ("," if a.layers == 1 else "") + ")"


layer_params = "\n".join(f"  %{short(n)}: {kept_type(n, shape)}," for n, shape in SUBLAYERS)
weights = "\n".join(f"  %{n}: {given_type(shape)}," for n, shape in WEIGHTS)
kept_weights = "\n".join(f"  %{n}: {kept_type(n, shape)}," for n, shape in WEIGHTS)
steps = []
for i in range(a.layers):
    given = ", ".join(f"%model.layers.{i}.{n}.weight" for n, _ in SUBLAYERS)
    before = "%h0" if i == 0 else f"%l{i - 1}.0"
    steps.append(f"  let %l{i} = @layer({before}, %angles, %cache.{i}.0, %cache.{i}.1, {given});")
grown = ", ".join(f"(%l{i}.1, %l{i}.2)" for i in range(a.layers)) + ("," if a.layers == 1 else "")
arguments = ", ".join(f"%{n}" for n, _ in WEIGHTS)
# What is called with the weights as they are given, and with what becomes of them.
step = "step" if a.bits else "main"
quantised = ", ".join(f"%w{i}" if a.bits and len(shape) == 2 else f"%{n}" for i, (n, shape) in enumerate(WEIGHTS))
embedded = f"take(%{EMBEDDING}, %tokens, axis=0)"
if a.bits:
    embedded = f"""reshape(
    reshape(
      cast(take(%{EMBEDDING}.0, %tokens, axis=0), dtype="float32"),
      newshape=[s, {a.dim // 32}, 32],
    ) * expand_dims(take(%{EMBEDDING}.1, %tokens, axis=0), axis=2),
    newshape=[s, {a.dim}],
  )"""


def in_blocks(i, name, shape):
    """Statements that make `%wI` of a weight: integers, and a scale for each 32 of a row, that of the largest number."""
    rows, columns = shape
    n, bits = columns // 32, bits_of(name)
    numbers = f"cast(round(%b{i} / maximum(%s{i}, 1e-30f)), dtype=\"int{8 if bits == 8 else 32}\")"
    lines = [
        f"  let %b{i} = reshape(%{name}, newshape=[{rows}, {n}, 32]);",
        f"  let %s{i} = max(abs(%b{i}), axis=[2], keepdims=True) / {2 ** (bits - 1) - 1}f;",
    ]
    if bits == 4:
        # Two in a byte, the first one in its lower half.
        lines.append(f"  let %p{i} = split(reshape({numbers}, newshape=[{rows}, {16 * n}, 2]), indices_or_sections=2, axis=2);")
        numbers = f"cast(bitwise_and(%p{i}.0, 15) + %p{i}.1 * 16, dtype=\"int8\")"
    numbers = f"reshape({numbers}, newshape=[{rows}, {4 * bits * n}])"
    return "\n".join([*lines, f"  let %w{i} = ({numbers}, reshape(%s{i}, newshape=[{rows}, {n}]));"])


all_in_blocks = "\n".join(in_blocks(i, n, shape) for i, (n, shape) in enumerate(WEIGHTS) if a.bits and len(shape) == 2)
from_floats = f"""
// The same of weights as they are given, which are quantised. Of constants that is done when the program is compiled.
def @main(
  %tokens: Tensor[(s,), int32],
  %cache: {caches("t")},
{weights}
) -> (Tensor[(s, {a.vocab}), float32], {caches("t + s")}) {{
{all_in_blocks}
  @step(%tokens, %cache, {quantised})
}}
"""
if not a.bits:
    from_floats = ""
print(f'''// A decoder of the Llama family: RMS norm, rotary embedding, grouped-query attention, SwiGLU, a cache of keys and values
// that grows. {a.layers} layers of {a.dim} features, {a.heads} heads over {a.kv_heads} of keys and values. Made by make_llama.py.
#[version = "0.0.5"]

// Angles of the positions `t` to `t + s`: position times θ^(-2i/d) for the i-th pair of features.
def @angles(%tokens: Tensor[(s,), int32], %cache: {cache("t")}) -> Tensor[(s, {half}), float32] {{
  let %before = take(shape_of(%cache, dtype="int32"), 1, mode="fast");
  let %positions = cumsum(ones(shape=[s], dtype="float32"), axis=0) + cast(%before - 1, dtype="float32");
  let %pairs = cumsum(ones(shape=[{half}], dtype="float32"), axis=0) - 1f;
  expand_dims(%positions, axis=1) * exp(%pairs * {-2.0 / head * __import__("math").log(a.theta):.9g}f)
}}

// The two halves of each head are turned against each other by the angle of their position.
def @rotated(%x: Tensor[(1, s, n, {head}), float32], %angles: Tensor[(s, {half}), float32]) -> Tensor[(1, s, n, {head}), float32] {{
  let %parts = split(%x, indices_or_sections=2, axis=3);
  let %c = expand_dims(cos(%angles), axis=1);
  let %d = expand_dims(sin(%angles), axis=1);
  concatenate((%parts.0 * %c - %parts.1 * %d, %parts.1 * %c + %parts.0 * %d), axis=3)
}}

// One layer: what it makes of the positions given, and the keys and values of all positions.
def @layer(
  %x: Tensor[(s, {a.dim}), float32],
  %angles: Tensor[(s, {half}), float32],
  %keys: {cache("t")},
  %values: {cache("t")},
{layer_params}
) -> (Tensor[(s, {a.dim}), float32], {cache("t + s")}, {cache("t + s")}) {{
  let %n1 = relax.nn.rms_norm(%x, %norm1);
  let %q1 = @rotated(reshape({product("%n1", "%q", a.dim)}, newshape=[1, s, {a.heads}, {head}]), %angles);
  let %k1 = @rotated(reshape({product("%n1", "%k", kv)}, newshape=[1, s, {a.kv_heads}, {head}]), %angles);
  let %v1 = reshape({product("%n1", "%v", kv)}, newshape=[1, s, {a.kv_heads}, {head}]);
  let %ks = concatenate((%keys, %k1), axis=1);
  let %vs = concatenate((%values, %v1), axis=1);
  let %a1 = relax.nn.attention(
    %q1,
    repeat(%ks, repeats={a.heads // a.kv_heads}, axis=2),
    repeat(%vs, repeats={a.heads // a.kv_heads}, axis=2),
    causal_mask="BottomRight",
  );
  let %y = %x + {product(f"reshape(%a1, newshape=[s, {a.dim}])", "%o", a.dim)};
  let %n2 = relax.nn.rms_norm(%y, %norm2);
  let %g = {product("%n2", "%gate", a.ffn)};
  let %m = {product("%g * sigmoid(%g) * " + product("%n2", "%up", a.ffn), "%down", a.dim)};
  (%y + %m, %ks, %vs)
}}

// Logits of the positions given, and the cache with them.
def @{step}(
  %tokens: Tensor[(s,), int32],
  %cache: {caches("t")},
{kept_weights}
) -> (Tensor[(s, {a.vocab}), float32], {caches("t + s")}) {{
  let %angles = @angles(%tokens, %cache.0.0);
  let %h0 = {embedded};
{chr(10).join(steps)}
  let %logits = {product(f"relax.nn.rms_norm(%l{a.layers - 1}.0, %model.norm.weight)", "%lm_head.weight", a.vocab)};
  (%logits, ({grown}))
}}
{from_floats}
// A number from 0 to 1, and the state that the next one is made of: Marsaglia's xorshift.
def @uniform(%state: uint32) -> (float32, uint32) {{
  let %a = bitwise_xor(%state, left_shift(%state, 13));
  let %b = bitwise_xor(%a, right_shift(%a, 17));
  let %c = bitwise_xor(%b, left_shift(%b, 5));
  (cast(right_shift(%c, 8), dtype="float32") * 5.9604645e-08f, %c)
}}

// The most likely token.
def @greedy(%logits: Tensor[(1, {a.vocab}), float32]) -> Tensor[(1,), int32] {{
  cast(argmax(%logits, axis=[1]), dtype="int32")
}}

// One of the {a.k} most likely tokens: of these the first whose probabilities together reach `%p`, each by its share.
def @sampled(
  %logits: Tensor[(1, {a.vocab}), float32],
  %temperature: float32,
  %p: float32,
  %u: float32,
) -> Tensor[(1,), int32] {{
  let %best = topk(%logits / %temperature, k={a.k}, axis=1, ret_type="both", is_ascend=False, dtype="int32");
  let %shares = nn.softmax(%best.0, axis=1);
  let %before = cumsum(%shares, axis=1, exclusive=True);
  let %kept = where(%before < %p, %shares, zeros_like(%shares));
  let %reached = cumsum(%kept, axis=1) <= (%u * sum(%kept));
  let %index = minimum(sum(cast(%reached, dtype="int32"), axis=[1]), sum(cast(%kept > 0f, dtype="int32"), axis=[1]) - 1);
  reshape(take(%best.1, %index, axis=1), newshape=[1])
}}

// `%steps` tokens after those given. With a temperature of 0 they are the most likely ones.
def @generate(
  %steps: int32,
  %tokens: Tensor[(s,), int32],
  %cache: {caches("t")},
  %temperature: float32,
  %p: float32,
  %state: uint32,
{kept_weights}
) -> List[Tensor[(1,), int32]] {{
  if (%steps == 0) {{
    Nil
  }} else {{
    let %out = @{step}(%tokens, %cache, {arguments});
    let %last = take(%out.0, take(shape_of(%tokens, dtype="int32"), 0, mode="fast") - 1, axis=0);
    let %logits = reshape(%last, newshape=[1, {a.vocab}]);
    let %draw = @uniform(%state);
    let %next = if (%temperature == 0f) {{
      @greedy(%logits)
    }} else {{
      @sampled(%logits, %temperature, %p, %draw.0)
    }};
    Cons(%next, @generate(%steps - 1, %next, %out.1, %temperature, %p, %draw.1, {arguments}))
  }}
}}

// The same as one tensor.
def @complete(
  %steps: int32,
  %tokens: Tensor[(s,), int32],
  %temperature: float32,
  %p: float32,
  %seed: uint32,
{weights}
) -> Tensor[(?,), int32] {{
{all_in_blocks}
  let %none = zeros(shape=[1, 0, {a.kv_heads}, {head}], dtype="float32");
  @joined(
    @generate(%steps, %tokens, ({", ".join(["(%none, %none)"] * a.layers)}{"," if a.layers == 1 else ""}), %temperature, %p, %seed, {quantised}),
    zeros(shape=[0], dtype="int32"),
  )
}}

def @joined(%tokens: List[Tensor[(1,), int32]], %so_far: Tensor[(?,), int32]) -> Tensor[(?,), int32] {{
  match (%tokens) {{
    Nil => %so_far,
    Cons(%first, %rest) => @joined(%rest, concatenate((%so_far, %first), axis=0)),
  }}
}}''')
