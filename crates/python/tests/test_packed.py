"""Functions of Python that programs call."""

import gc
import pickle
import threading

import numpy as np
import pytest

import relax_ir as rx

PACKED = """
def @main(%x: Tensor[(n, m), float32]) -> Tensor[(n, m * 2), float32] {
  %y: Tensor[(n, m), float32] = call_packed("test.next", %x);
  %tiled = call_dps_packed("test.tile", (%y,), shape(n, m * 2), dtype=float32);
  %tiled
}
"""


@pytest.fixture
def functions():
    kept = []

    @rx.register_packed("test.next")
    def following(x):
        assert not x.flags.writeable
        kept.append(x)
        return x + 1

    @rx.register_packed("test.tile")
    def tile(x, out):
        assert out.flags.writeable and threading.current_thread() is threading.main_thread()
        out[:] = np.tile(x, (1, 2))

    return kept


@pytest.mark.parametrize("size", [3, 2000])
def test_they_are_called_by_both_engines(functions, size):
    module = rx.parse(PACKED)
    x = np.arange(2 * size, dtype="float32").reshape(2, size)
    for call in (module.compile(), module.evaluate):
        for _ in range(3):
            np.testing.assert_array_equal(call(x), np.tile(x + 1, (1, 2)))
    gc.collect()
    # What a function keeps stays what it was.
    for kept in functions:
        np.testing.assert_array_equal(kept, x)


def test_an_exception_is_the_cause(functions):
    module = rx.parse(PACKED)
    x = np.ones((1, 2), dtype="float32")
    program = module.compile()

    @rx.register_packed("test.next")
    def fails(x):
        raise KeyError("nothing there")

    for call in (program, program, module.evaluate):
        with pytest.raises(rx.ExecutionError, match="test.next.*nothing there|nothing there") as raised:
            call(x)
        assert isinstance(raised.value.__cause__, KeyError)
        assert raised.value.__cause__.__traceback__.tb_next is not None or raised.value.__cause__.__traceback__

    @rx.register_packed("test.next")
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        program(x)


def test_what_is_no_value_is_said(functions):
    program = rx.parse(PACKED).compile()
    x = np.ones((1, 2), dtype="float32")
    rx.register_packed("test.next", lambda x: object())
    with pytest.raises(rx.ExecutionError, match="test.next"):
        program(x)
    rx.register_packed("test.next", lambda x: x.astype("float64"))
    with pytest.raises(rx.ExecutionError):
        program(x)
    with pytest.raises(rx.UsageError, match="name"):
        rx.register_packed("", len)


def test_a_name_without_a_function():
    program = rx.parse('def @main(%x: float32) -> float32 { call_packed("test.nobody", %x) }').compile()
    with pytest.raises(rx.ExecutionError, match="register_packed"):
        program(1)


def test_tuples_numbers_and_calls_within_calls():
    inner = rx.parse("def @main(%x: float32) -> float32 { %x * 2f }").compile()
    rx.register_packed("test.pair", lambda x: (inner(x), 3))
    text = 'def @main(%x: float32) -> (float32, int32) { call_packed("test.pair", %x) }'
    module = rx.parse(text)
    for call in (module.compile(), module.evaluate, pickle.loads(pickle.dumps(module.compile()))):
        assert call(2) == (4, 3)


def test_no_leak():
    rx.register_packed("test.same", lambda x: x)
    program = rx.parse('def @main(%x: Tensor[(n,), float32]) -> Tensor[(n,), float32] { call_packed("test.same", %x) }')
    program, x = program.compile(), np.ones(5000, dtype="float32")
    for _ in range(2000):
        result = program(x)
    np.testing.assert_array_equal(result, x)
