"""Workloads that recurse: a tree's sum, and decoding with a cache that grows.

The graph formats have no word for either, so each system gets them in its own: Relay as recursive functions (over
a data type for the tree), TVM as recursive Relax functions with an `if` over tensors, ONNX as a `Loop` (with a
stack of its own for the tree). The other systems do not take part.
"""
import numpy as np


class Value:
    def __init__(self, name, value):
        self.name, self.value, self.shape = name, value, value.shape


class Program:
    """What `Graph` is to the other workloads; `per` is how often a run does what is measured."""

    flops = bytes_moved = 0
    per = 1

    def __init__(self, name, inputs, weights, output):
        self.name, self.inputs, self.weights, self.output = name, inputs, weights, output


# ---- a tree -------------------------------------------------------------------------------

LEAVES = 5001
NODES = 2 * LEAVES - 1
SUMS = 20

TREE = f"""#[version = "0.0.5"]
type Tree {{
  Leaf(float32),
  Node(float32, Tree, Tree),
}}
def @grow(%leaves: int32, %v: float32) -> Tree {{
  if (%leaves == 1) {{
    Leaf(%v)
  }} else {{
    let %half = floor_divide(%leaves, 2);
    Node(%v, @grow(%half, %v * 0.5f), @grow(%leaves - %half, %v * 0.75f))
  }}
}}
def @sum(%t: Tree) -> float32 {{
  match (%t) {{
    Leaf(%v) => %v,
    Node(%v, %l, %r) => %v + @sum(%l) + @sum(%r),
  }}
}}
def @again(%times: int32, %t: Tree, %last: float32) -> float32 {{
  if (%times == 0) {{ %last }} else {{ @again(%times - 1, %t, @sum(%t)) }}
}}
def @main(%v: float32) -> float32 {{ @again(SUMS, @grow({LEAVES}, %v), 0f) }}
"""

TREE_C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef struct T { float v; struct T *l, *r; } T;
static T *grow(int n, float v) {
  T *t = malloc(sizeof *t);
  t->v = v;
  t->l = n > 1 ? grow(n / 2, v * 0.5f) : 0;
  t->r = n > 1 ? grow(n - n / 2, v * 0.75f) : 0;
  return t;
}
static float sum(const T *t) { return t->l ? t->v + sum(t->l) + sum(t->r) : t->v; }
static void drop(T *t) { if (t) { drop(t->l); drop(t->r); free(t); } }
int main(int argc, char **argv) {
  int runs = atoi(argv[1]), leaves = atoi(argv[2]), sums = atoi(argv[3]);
  float v = 0.25f, s = 0;
  double *took = malloc(runs * sizeof *took);
  for (int i = 0; i < runs; i++) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    T *t = grow(leaves, v);
    for (int k = 0; k < sums; k++) {
      s = sum(t);
      __asm__ volatile("" : "+m"(s), "+r"(t) : : "memory");
    }
    drop(t);
    clock_gettime(CLOCK_MONOTONIC, &b);
    took[i] = (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec);
  }
  for (int i = 0; i < runs; i++) printf("%.9f\n", took[i]);
  fprintf(stderr, "%f\n", s);
}
"""

TREE_TVM = """



@I.ir_module
class Module:
    @R.function
    def total(i: R.Tensor((1,), "int64"), left: R.Tensor(({n},), "int64"), right: R.Tensor(({n},), "int64"),
              value: R.Tensor(({n},), "float32")) -> R.Tensor((1,), "float32"):
        v = R.take(value, i, axis=0)
        l = R.take(left, i, axis=0)
        leaf = R.less(R.squeeze(l), R.const(0, "int64"))
        if leaf:
            out = v
        else:
            r = R.take(right, i, axis=0)
            a = Module.total(l, left, right, value)
            b = Module.total(r, left, right, value)
            out = R.add(R.add(v, a), b)
        return out

    @R.function
    def main(i: R.Tensor((1,), "int64"), left: R.Tensor(({n},), "int64"), right: R.Tensor(({n},), "int64"),
             value: R.Tensor(({n},), "float32")) -> R.Tensor((1,), "float32"):
        out = Module.total(i, left, right, value)
        return out
"""


def tree_arrays():
    """The same tree as arrays: left and right child (-1 at leaves) and value of each node."""
    left, right, value = [-1] * NODES, [-1] * NODES, [0.0] * NODES
    work, used = [(0, LEAVES, np.float32(0.25))], 1
    while work:
        at, leaves, v = work.pop()
        value[at] = v
        if leaves > 1:
            left[at], right[at] = used, used + 1
            work.append((used, leaves // 2, np.float32(v * np.float32(0.5))))
            work.append((used + 1, leaves - leaves // 2, np.float32(v * np.float32(0.75))))
            used += 2
    return np.array(left), np.array(right), np.array(value, "float32")


def tree_onnx():
    """A loop over a stack of 64 nodes: takes one off, adds its value, puts its children on."""
    from onnx import TensorProto, helper, numpy_helper
    left, right, value = tree_arrays()
    constants = {"left": left, "right": right, "value": value, "one": np.array([1]), "two": np.array([2]),
                 "zero": np.array([0]), "many": np.array(NODES), "yes": np.array(True),
                 "empty": np.zeros(64, "int64"), "nothing": np.zeros(1, "float32"), "pair": np.array([0, 1])}
    node = helper.make_node
    body = [
        node("Sub", ["top_in", "one"], ["last"]),
        node("Gather", ["stack_in", "last"], ["at"]),
        node("Gather", ["value", "at"], ["v"]),
        node("Add", ["sum_in", "v"], ["sum_out"]),
        node("Gather", ["left", "at"], ["l"]),
        node("Gather", ["right", "at"], ["r"]),
        node("Less", ["l", "zero"], ["leaf"]),
        # A leaf's children are written too, above the top.
        node("Concat", ["l", "r"], ["children"], axis=0),
        node("Add", ["last", "pair"], ["places"]),
        node("ScatterElements", ["stack_in", "places", "children"], ["stack_out"], axis=0),
        node("Add", ["last", "two"], ["higher"]),
        node("Where", ["leaf", "last", "higher"], ["top_out"]),
        node("Greater", ["top_out", "zero"], ["more"]),
        node("Squeeze", ["more", "zero"], ["go_on"]),
    ]
    info = helper.make_tensor_value_info
    ints, floats = TensorProto.INT64, TensorProto.FLOAT
    inside = helper.make_graph(
        body, "body",
        [info("turn", ints, []), info("go", TensorProto.BOOL, []), info("stack_in", ints, [64]),
         info("top_in", ints, [1]), info("sum_in", floats, [1])],
        [info("go_on", TensorProto.BOOL, []), info("stack_out", ints, [64]), info("top_out", ints, [1]),
         info("sum_out", floats, [1])])
    made = helper.make_graph(
        [node("Loop", ["many", "yes", "empty", "one", "nothing"], ["stack", "top", "total"], body=inside),
         node("Add", ["total", "v0"], ["out"])],
        "tree", [info("v0", floats, [1])], [info("out", floats, [1])],
        [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def tree():
    p = Program(f"tree, {NODES} nodes", [Value("v", np.array(0.25, "float32"))], {}, Value("out", np.zeros(1)))
    p.per = SUMS
    p.relay = lambda: TREE.replace("SUMS", str(SUMS))
    p.onnx = tree_onnx
    p.onnx_inputs = [Value("v0", np.zeros(1, "float32"))]
    p.tvm = lambda: TREE_TVM.format(n=NODES)
    p.tvm_inputs = [np.array([0]), *tree_arrays()]
    return p


# ---- decoding -----------------------------------------------------------------------------

WIDTH, WORDS, STEPS = 16, 64, 64

DECODER = f"""#[version = "0.0.5"]
def @decode(
  %steps: int32,
  %token: Tensor[(1,), int32],
  %keys: Tensor[(t, {WIDTH}), float32],
  %values: Tensor[(t, {WIDTH}), float32],
  %embedding: Tensor[({WORDS}, {WIDTH}), float32],
  %wq: Tensor[({WIDTH}, {WIDTH}), float32],
  %wk: Tensor[({WIDTH}, {WIDTH}), float32],
  %wv: Tensor[({WIDTH}, {WIDTH}), float32],
  %wo: Tensor[({WORDS}, {WIDTH}), float32],
) -> Tensor[(1,), int32] {{
  if (%steps == 0) {{
    %token
  }} else {{
    let %x = take(%embedding, %token, axis=0);
    let %q = nn.dense(%x, %wq, units={WIDTH});
    let %keys1 = concatenate((%keys, nn.dense(%x, %wk, units={WIDTH})), axis=0);
    let %values1 = concatenate((%values, nn.dense(%x, %wv, units={WIDTH})), axis=0);
    let %scores = nn.softmax(nn.dense(%q, %keys1, units=None) * {WIDTH ** -0.5!r}f);
    let %mixed = nn.dense(%scores, transpose(%values1, axes=[1, 0]), units=None);
    let %logits = nn.dense(tanh(%x + %mixed), %wo, units={WORDS});
    let %next = cast(argmax(%logits, axis=[1]), dtype="int32");
    @decode(%steps - 1, %next, %keys1, %values1, %embedding, %wq, %wk, %wv, %wo)
  }}
}}
def @main(
  %token: Tensor[(1,), int32],
  %embedding: Tensor[({WORDS}, {WIDTH}), float32],
  %wq: Tensor[({WIDTH}, {WIDTH}), float32],
  %wk: Tensor[({WIDTH}, {WIDTH}), float32],
  %wv: Tensor[({WIDTH}, {WIDTH}), float32],
  %wo: Tensor[({WORDS}, {WIDTH}), float32],
) -> Tensor[(1,), int32] {{
  let %empty = zeros(shape=[0, {WIDTH}], dtype="float32");
  @decode({STEPS}, %token, %empty, %empty, %embedding, %wq, %wk, %wv, %wo)
}}
"""

_PARAMETERS = ", ".join(f'{n}: R.Tensor(({s}, {WIDTH}), "float32")' for n, s in (
    ("embedding", WORDS), ("wq", WIDTH), ("wk", WIDTH), ("wv", WIDTH), ("wo", WORDS)))
DECODER_TVM = f"""




@I.ir_module
class Module:
    @R.function
    def decode(steps: R.Tensor((), "int32"), token: R.Tensor((1,), "int32"), keys: R.Tensor(("t", {WIDTH}), "float32"),
               values: R.Tensor(("t", {WIDTH}), "float32"), {_PARAMETERS}) -> R.Tensor((1,), "int32"):
        t = T.int64()
        done = R.equal(steps, R.const(0, "int32"))
        if done:
            out = token
        else:
            x = R.take(embedding, token, axis=0)
            q = R.matmul(x, R.permute_dims(wq))
            keys1 = R.concat((keys, R.matmul(x, R.permute_dims(wk))), axis=0)
            values1 = R.concat((values, R.matmul(x, R.permute_dims(wv))), axis=0)
            scores = R.nn.softmax(R.multiply(R.matmul(q, R.permute_dims(keys1)), R.const({WIDTH ** -0.5}, "float32")))
            mixed = R.matmul(scores, values1)
            logits = R.matmul(R.tanh(R.add(x, mixed)), R.permute_dims(wo))
            best = R.astype(R.argmax(logits, axis=1), "int32")
            left = R.subtract(steps, R.const(1, "int32"))
            out = Module.decode(left, best, keys1, values1, embedding, wq, wk, wv, wo)
        return out

    @R.function
    def main(token: R.Tensor((1,), "int32"), {_PARAMETERS}) -> R.Tensor((1,), "int32"):
        empty = R.zeros((0, {WIDTH}), "float32")
        out = Module.decode(R.const({STEPS}, "int32"), token, empty, empty, embedding, wq, wk, wv, wo)
        return out
"""


def decoder_onnx(weights):
    from onnx import TensorProto, helper, numpy_helper
    node, info = helper.make_node, helper.make_tensor_value_info
    ints, floats = TensorProto.INT64, TensorProto.FLOAT
    constants = {**weights, "many": np.array(STEPS), "yes": np.array(True),
                 "empty": np.zeros((0, WIDTH), "float32"), "scale": np.array(WIDTH ** -0.5, "float32")}
    body = [
        node("Gather", ["embedding", "token_in"], ["x"]),
        node("Gemm", ["x", "wq"], ["q"], transB=1),
        node("Gemm", ["x", "wk"], ["k"], transB=1),
        node("Gemm", ["x", "wv"], ["v"], transB=1),
        node("Concat", ["keys_in", "k"], ["keys_out"], axis=0),
        node("Concat", ["values_in", "v"], ["values_out"], axis=0),
        node("Gemm", ["q", "keys_out"], ["raw"], transB=1),
        node("Mul", ["raw", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["scores"], axis=-1),
        node("MatMul", ["scores", "values_out"], ["mixed"]),
        node("Add", ["x", "mixed"], ["together"]),
        node("Tanh", ["together"], ["bounded"]),
        node("Gemm", ["bounded", "wo"], ["logits"], transB=1),
        node("ArgMax", ["logits"], ["token_out"], axis=1, keepdims=0),
        node("Identity", ["go"], ["go_on"]),
    ]
    grown = ["t", WIDTH]
    inside = helper.make_graph(
        body, "body",
        [info("turn", ints, []), info("go", TensorProto.BOOL, []), info("token_in", ints, [1]),
         info("keys_in", floats, grown), info("values_in", floats, grown)],
        [info("go_on", TensorProto.BOOL, []), info("token_out", ints, [1]),
         info("keys_out", floats, ["u", WIDTH]), info("values_out", floats, ["u", WIDTH])])
    made = helper.make_graph(
        [node("Cast", ["token"], ["first"], to=ints),
         node("Loop", ["many", "yes", "first", "empty", "empty"], ["last", "keys", "values"], body=inside),
         node("Cast", ["last"], ["out"], to=TensorProto.INT32)],
        "decoder", [info("token", TensorProto.INT32, [1])], [info("out", TensorProto.INT32, [1])],
        [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def decoder():
    random = np.random.default_rng(7)
    wide = lambda rows: (random.standard_normal((rows, WIDTH)) * 2 * WIDTH ** -0.5).astype("float32")
    weights = {"embedding": wide(WORDS) * np.float32(4), "wq": wide(WIDTH), "wk": wide(WIDTH), "wv": wide(WIDTH),
               "wo": wide(WORDS)}
    p = Program(f"greedy decoding, {STEPS} steps", [Value("token", np.array([3], "int32"))], weights,
                Value("out", np.zeros(1)))
    p.relay = lambda: DECODER
    p.onnx = lambda: decoder_onnx(weights)
    p.onnx_inputs = p.inputs
    p.tvm = lambda: DECODER_TVM
    p.tvm_inputs = [p.inputs[0].value, *weights.values()]
    return p


ALL = {"tree": tree, "decoder": decoder}
#: Who takes part.
SYSTEMS = ["Relax", "ONNX Runtime", "TVM"]
