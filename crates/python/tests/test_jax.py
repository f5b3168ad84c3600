"""Arrays of JAX, where it is installed."""

import numpy as np
import pytest

import relax_ir as rx

jax = pytest.importorskip("jax")


def test_arrays_come_and_go():
    program = rx.parse("def @main(%x: Tensor[(n,), float32]) { %x * 2f }").compile()
    x = jax.numpy.arange(4, dtype="float32")
    np.testing.assert_array_equal(program(x), [0, 2, 4, 6])
    np.testing.assert_array_equal(program(x + 1), [2, 4, 6, 8])
    assert jax.numpy.from_dlpack(program(x)).tolist() == [0, 2, 4, 6]
    deleted = x + 1
    deleted.delete()
    with pytest.raises(rx.ArgumentError, match="deleted"):
        program(deleted)
    with pytest.raises(rx.ArgumentError, match="int32"):
        program(x.astype("int32"))
    # Arrays of JAX never change.
    with pytest.raises(rx.ArgumentError, match="read-only"):
        program(x, out=x + 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint32", "bool"])
def test_element_types(dtype):
    program = rx.parse(f"def @main(%x: Tensor[(n, m), {dtype}]) {{ transpose(%x, axes=[1, 0]) }}").compile()
    x = jax.numpy.array([[0, 1, 1], [1, 0, 0]], dtype=dtype)
    np.testing.assert_array_equal(program(x), np.asarray(x).T)
    np.testing.assert_array_equal(program(x.T), x)
