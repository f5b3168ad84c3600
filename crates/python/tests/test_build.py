"""Programs built in Python."""

import inspect

import numpy as np
import pytest

import relax_ir as rx


def test_operators_have_signatures_and_documentation():
    signature = inspect.signature(rx.op.nn.dense)
    assert list(signature.parameters)[:2] == ["data", "weight"]
    assert signature.parameters["units"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "units : " in rx.op.nn.dense.__doc__ and rx.op.nn.dense.__name__ == "dense"
    assert "nn" in dir(rx.op) and "dense" in dir(rx.op.nn)
    for name in dir(rx.op):
        found = getattr(rx.op, name)
        assert found.__doc__, name
    with pytest.raises(TypeError, match="unit"):
        rx.op.nn.dense(rx.const(1.0), rx.const(1.0), unit=3)


def test_a_network():
    x, w = rx.var("x", ("n", 3)), rx.var("w", (2, 3))
    hidden = rx.op.nn.dense(x, w, units=2)
    module = rx.function([x, w], (rx.op.nn.relu(hidden) * 2 + 0.5, hidden.__neg__()))
    a, b = np.arange(6, dtype="float32").reshape(2, 3) - 3, np.ones((2, 3), dtype="float32")
    first, second = module.compile()(a, b)
    np.testing.assert_array_equal(first, np.maximum(a @ b.T, 0) * 2 + 0.5)
    np.testing.assert_array_equal(second, -(a @ b.T))
    assert str(module).count("nn.dense") == 1


def test_constants_tuples_and_attributes():
    x = rx.var("x", (2, 3))
    weights = np.arange(6, dtype="float32").reshape(2, 3)
    both = rx.op.concatenate((x, weights), axis=0)
    parts = rx.op.split(both, indices_or_sections=2, axis=0)
    padded = rx.op.nn.pad(parts[1], 0.0, pad_width=[[0, 0], [1, 1]])
    module = rx.function([x], (padded, rx.op.cast(x, dtype="int8"), rx.const(-3), rx.const(np.float64(1.5))))
    x0 = np.ones((2, 3), dtype="float32")
    pad, cast, minus, double = module.compile()(x0)
    np.testing.assert_array_equal(pad, np.pad(weights, [[0, 0], [1, 1]]))
    assert cast.dtype == np.int8 and minus == -3 and double.dtype == np.float64 and double == 1.5


def test_several_functions_and_what_the_prelude_has():
    x = rx.var("x", ("n",))
    module = rx.functions({"half": ([x], x * 0.5), "main": ([x], rx.op.gelu(rx.call("half", x)))})
    assert [f.name for f in module.functions] == ["half", "main"]
    assert module.compile()(np.zeros(2, dtype="float32")).shape == (2,)


def test_mistakes():
    x, y = rx.var("x", (2,)), rx.var("y", (3,))
    with pytest.raises(rx.InvalidError, match="RX0319|RX03"):
        rx.function([x, y], x + y)
    with pytest.raises(rx.UsageError, match="%y is no parameter"):
        rx.function([x], x + y)
    with pytest.raises(rx.UsageError, match="var"):
        rx.function([x + 1], x)
    with pytest.raises(TypeError):
        bool(x < 1)
    with pytest.raises(TypeError):
        list(x)
    with pytest.raises(rx.InvalidError, match="nn.relu"):
        rx.function([x], rx.op.nn.rellu(x))


def test_deep_expressions_take_no_stack():
    x = rx.var("x")
    y = x
    for _ in range(20_000):
        y = rx.op.exp(y)
    assert str(rx.function([x], y)).count("exp(") == 20_000
