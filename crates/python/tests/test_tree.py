"""Looking at expressions, and changing them."""

import numpy as np
import pytest

import relax_ir as rx

TEXT = """
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) -> Tensor[(n, 3), float32] {
  let %h = nn.dense(%x, %w, units=3);
  if (sum(%h) > 0f) { nn.relu(%h) } else { nn.relu(%h * 2f) }
}
"""


def heads(module):
    return [e.head for e in module.walk() if e.kind == "call"]


def test_walking():
    nodes = rx.parse(TEXT).walk()
    dense = next(e for e in nodes if e.head == "nn.dense")
    assert dense.attrs["units"] == 3 and dense.shape == ("n", 3) and dense.dtype == "float32"
    assert [a.head for a in dense.args] == ["%x", "%w"] and dense.type == "Tensor[(n, 3), float32]"
    kinds = {e.kind for e in nodes}
    assert {"call", "var", "constant", "let", "if"} <= kinds and nodes[-1].kind == "let"
    uses = [e for e in nodes if e.kind == "var" and e.head == "%h"]
    assert len({e.variable for e in uses}) == 1 and nodes[-1].variable == uses[0].variable
    assert "call nn.dense" in repr(dense)
    numbers = sorted(float(e.array) for e in nodes if e.kind == "constant")
    assert numbers == [0, 2]


def test_a_visitor():
    class Counting(rx.Visitor):
        def __init__(self):
            self.calls, self.branches = 0, 0

        def call(self, expr):
            self.calls += 1

        def if_(self, expr):
            self.branches += 1

    counting = Counting()
    counting.run(rx.parse(TEXT))
    assert counting.branches == 1 and counting.calls == len(heads(rx.parse(TEXT)))


class LeakyRelu(rx.Mutator):
    def call(self, expr):
        if expr.head == "nn.relu":
            return rx.op.nn.leaky_relu(expr.args[0], alpha=0.5)


def test_a_mutator_is_a_pass():
    rx.register_pass("leaky", LeakyRelu())
    x, w = np.arange(8, dtype="float32").reshape(2, 4) - 6, np.ones((3, 4), dtype="float32")
    for pipeline in ("infer-type,leaky,fold-constant", [LeakyRelu()]):
        module = rx.parse(TEXT)
        assert not module.optimise(pipeline)
        assert heads(module).count("nn.leaky_relu") == 2 and "nn.relu" not in heads(module)
        h = x @ w.T
        h = h if h.sum() > 0 else h * 2
        for call in (module.compile(), module.evaluate):
            np.testing.assert_allclose(call(x, w), np.where(h > 0, h, h * 0.5))


def test_new_expressions_of_all_kinds():
    module = rx.parse("def @main(%x: Tensor[(2, 3), float32]) { exp(%x) }")
    table = np.arange(6, dtype="float32").reshape(2, 3)

    def change(expr):
        if expr.kind != "call":
            return None
        parts = rx.op.split(expr.args[0] + table, indices_or_sections=3, axis=1)
        return rx.op.concatenate((parts[2], parts[0]), axis=1) * 2 - rx.tup(1.5)[0]

    assert module.rewrite(change)
    x = np.ones((2, 3), dtype="float32")
    want = (x + table)[:, [2, 0]] * 2 - 1.5
    np.testing.assert_array_equal(module.compile()(x), want)
    assert not module.rewrite(lambda e: None)


def test_symbolic_extents_go_on():
    module = rx.parse("def @main(%x: Tensor[(n, 4), float32]) { reshape(%x, newshape=[n * 4]) }")

    def change(expr):
        if expr.kind == "call":
            assert isinstance(expr.attrs["newshape"][0], rx.Dim)
            return rx.op.nn.relu(rx.op.reshape(expr.args[0], newshape=expr.attrs["newshape"]))

    module.rewrite(change)
    assert module.compile()(np.ones((3, 4), dtype="float32")).shape == (12,)


def test_mistakes_leave_the_module():
    module = rx.parse(TEXT)
    before = str(module)

    def wrong(what):
        return lambda e: what(e) if e.head == "nn.dense" else None

    for what, said in [
        (lambda e: rx.op.nn.rellu(e), "did you mean `nn.relu`"),
        (lambda e: rx.op.nn.dense(e.args[0], rx.var("w", (3, 4)), units=3), "no variable"),
        (lambda e: 3, "stands in the place"),
        (lambda e: rx.op.nn.dense(e.args[0], e.args[0], units=7), "RX"),
    ]:
        with pytest.raises(rx.RelaxError, match=said):
            module.rewrite(wrong(what))
        assert str(module) == before
    variable = next(e for e in module.walk() if e.kind == "var" and e.head == "%h")
    with pytest.raises(rx.RelaxError):
        module.rewrite(wrong(lambda e: variable))
    assert str(module) == before


def test_deep_bodies_take_no_stack():
    x = rx.var("x")
    y = x
    for _ in range(5000):
        y = rx.op.exp(y)
    module = rx.function([x], y)
    assert module.rewrite(lambda e: rx.op.log(e.args[0]) if e.head == "exp" else None)
    assert heads(module) == ["log"] * 5000
