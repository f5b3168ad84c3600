"""The package as a whole: its documentation, its types, its start."""

import doctest
import importlib
import inspect
import subprocess
import sys

import numpy as np
import pytest

import relax_ir as rx

MODULES = ["", "._values", "._passes", "._read", "._diagnostics", "._signature", "._profile", "._files", "._arrays", "._build", "._packed", "._tree", "._torch", "._numpy"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    if sys.version_info < (3, 10):
        pytest.skip("they have `match`")
    module = importlib.import_module("relax_ir" + name)
    assert doctest.testmod(module).failed == 0


def test_everything_public_is_documented():
    for name in rx.__all__:
        thing = getattr(rx, name)
        assert inspect.getdoc(thing), name
    for owner in (rx.Module, rx.Program, rx.Visitor, rx.Mutator, rx.Profile):
        for name, member in vars(owner).items():
            if not name.startswith("_"):
                assert inspect.getdoc(member), f"{owner.__name__}.{name}"


def test_the_command_lists_the_tools():
    said = subprocess.run([sys.executable, "-m", "relax_ir"], capture_output=True, text=True, check=True).stdout
    assert "relax-opt" in said and np.__version__ in said


def test_dlpack_comes_and_goes():
    class Tensor:
        """What another library has: nothing but the protocol."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    program = rx.parse("def @main(%x: Tensor[(n, m), float32]) { transpose(%x, axes=[1, 0]) }").compile()
    x = np.arange(6, dtype="float32").reshape(2, 3)
    result = program(Tensor(x))
    np.testing.assert_array_equal(result, x.T)
    np.testing.assert_array_equal(program(Tensor(x.T)), x)
    np.testing.assert_array_equal(np.from_dlpack(result), x.T)


def test_the_start_loads_little():
    """The package itself: what takes time to load, numpy above all, comes when it is needed."""
    code = """
import os, sys
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4 if os.path.exists("/proc/self/statm") else 0
before, begin = set(sys.modules), resident()
import relax_ir as rx
for name in ("numpy", "html", "json", "subprocess", "concurrent", "asyncio", "ctypes", "torch", "onnx"):
    assert name in before or name not in sys.modules, name
assert resident() - begin < 20 << 10
assert str(rx.parse("def @main() { 1 }")) and "numpy" not in sys.modules
import numpy as np
assert rx.parse("def @main() { 1 }").compile()() == np.int32(1)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
