"""Modules: read, checked, printed, changed, compared."""

import copy
import pickle
import sys

import numpy as np
import pytest

import relax_ir as rx

DENSE = """def @main(%x: Tensor[(n, 3), float32], %w: Tensor[(2, 3), float32]) -> Tensor[(n, 2), float32] {
  nn.relu(nn.dense(%x, %w, units=2))
}"""
WRONG = "def @main(%x: int32) {\n  %y\n}"


def test_signatures():
    (main,) = rx.parse(DENSE).functions
    assert [p.name for p in main.params] == ["x", "w"]
    assert main.params[0].shape == ("n", 3) and main.params[0].dtype == "float32"
    assert str(main) == (
        "@main(%x: Tensor[(n, 3), float32], %w: Tensor[(2, 3), float32]) -> Tensor[(n, 2), float32]"
    )


def test_diagnostics_are_objects_and_text():
    (found,) = rx.check(WRONG)
    assert found.severity == "error" and found.span[:2] == (2, 3)
    assert "%y" in str(found) and "\x1b[1;31m" in found.render()
    assert found.code in repr(found) and rx.explain(found.code)
    assert rx.check(WRONG).has_errors and "<pre" in rx.check(WRONG)._repr_html_()
    with pytest.raises(rx.InvalidError) as raised:
        rx.parse(WRONG)
    assert list(raised.value.diagnostics) == [found]
    assert str(found) in str(raised.value)
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is rx.InvalidError and again.diagnostics == [found]


def test_strict_reading_raises_all():
    text = "def @main(%x: int32) {\n  (%y, %z)\n}"
    group = getattr(__builtins__, "ExceptionGroup", None) if sys.version_info >= (3, 11) else None
    with pytest.raises(Exception) as raised:
        rx.parse(text, strict=True)
    each = getattr(raised.value, "exceptions", [raised.value])
    assert group is None or isinstance(raised.value, group)
    assert all(isinstance(e, rx.InvalidError) for e in each)
    assert sum(len(e.diagnostics) for e in each) == 2
    assert rx.parse(DENSE, strict=True).functions


def test_styles():
    module = rx.parse(DENSE)
    assert "nn.dense" in str(module) and "/* ty=" in module.print("tvm", types=True)
    assert "@R.function" in module.print("tvmscript") or "R.function" in module.print("tvmscript")
    with pytest.raises(rx.UsageError, match="pretty"):
        module.print("json")
    assert "<pre" in module._repr_html_() and "@main" in repr(module)


def test_every_format_is_read(tmp_path):
    module = rx.parse(DENSE)
    for name, text in [("a.relay", str(module)), ("a.py", module.print("tvmscript"))]:
        (tmp_path / name).write_text(text)
        assert rx.load(tmp_path / name).functions[0].name == "main"
        assert rx.load(str(tmp_path / name)).functions
    data = str(module).encode()
    assert rx.read(data).structural_equal(module)
    with pytest.raises(rx.UsageError, match="tvm-json"):
        rx.read(data, format="json")
    with pytest.raises(rx.FileError, match="none.relay"):
        rx.load(tmp_path / "none.relay")
    with pytest.raises(OSError):
        rx.load(tmp_path / "none.relay")


def test_passes():
    module = rx.parse(DENSE)
    before = module.copy()
    assert not module.optimise(["infer-type", rx.Pass("fuse-ops", level=2)])
    assert "Primitive" in module.print("tvm")
    assert before.diff(module) and not before.structural_equal(module)
    assert copy.deepcopy(module).structural_equal(module) and module.diff(module.copy()) is None
    with pytest.raises(rx.InvalidError, match="fuse-ops"):
        module.optimise("fuse-opps")
    assert str(rx.Pass("a", b=True, c_d='x"y')) == 'a{b=true,c-d="x\\"y"}'
    module.optimize("O1")


def test_passes_in_python():
    seen = []

    @rx.register_pass("look")
    def look(module):
        seen.append(len(module.functions))

    def replaced(module):
        return rx.parse("def @main() { 1 + 2 }")

    module = rx.parse(DENSE)
    module.optimise("infer-type,look,fold-constant")
    module.optimise([replaced, "look", "infer-type,fold-constant"])
    assert seen == [1, 1] and "3" in str(module)
    with pytest.raises(ZeroDivisionError):
        module.optimise([lambda m: 1 // 0])
    with pytest.raises(rx.UsageError, match="returns a module"):
        module.optimise([lambda m: 1])
    with pytest.raises(rx.UsageError):
        module.optimise([3])


def test_bind_and_apart():
    module = rx.parse(DENSE)
    w = np.arange(6, dtype="float32").reshape(2, 3)
    x = np.ones((4, 3), dtype="float32")
    want = module.evaluate(x, w)
    with pytest.raises(rx.ArgumentError, match="astype|cast"):
        module.bind({"w": w.astype("float64")})
    with pytest.raises(rx.ArgumentError, match="no parameter"):
        module.bind({"ww": w})
    module.bind({"w": w})
    w[:] = 0  # the module has its own
    np.testing.assert_array_equal(module.evaluate(x), want)
    text, constants = module.apart()
    assert len(constants) == 1 and not constants[0].flags.writeable
    again = pickle.loads(pickle.dumps(module))
    assert again.structural_equal(module)
    np.testing.assert_array_equal(again.evaluate(x), want)


def test_constants_without_their_section(tmp_path):
    module = rx.parse(DENSE)
    module.bind({"w": np.ones((2, 3), dtype="float32")})
    path = tmp_path / "a.relay"
    path.write_text(module.print("tvm", types=True, metadata=False))
    with pytest.raises(rx.InvalidError):
        rx.load(path)
    arrays = {"meta[relay.Constant][0]": np.ones((2, 3), dtype="float32")}
    assert rx.load(path, params=arrays).structural_equal(module)
    np.savez(tmp_path / "a.npz", **arrays)
    assert rx.load(path, params=tmp_path / "a.npz").structural_equal(module)
    assert rx.load(path, stub_constants="zeros").functions
    with pytest.raises(rx.UsageError, match="zeros"):
        rx.load(path, stub_constants="ones")


def test_params_files(tmp_path):
    np.savez(tmp_path / "w.npz", w=np.arange(6, dtype="float32").reshape(2, 3), n=np.int64(3))
    params = rx.load_params(tmp_path / "w.npz")
    assert sorted(params) == ["n", "w"] and params["w"][1, 2] == 5
    with pytest.raises(rx.FileError):
        rx.load_params(tmp_path / "none.npz")


def test_pictures():
    module = rx.parse(DENSE)
    assert module.graph().startswith("<svg") and "nn.dense" in module.graph("main", "dot")
    assert module.graph(format="mermaid").startswith("flowchart")
    for wrong in [{"format": "png"}, {"function": "other"}]:
        with pytest.raises(rx.UsageError):
            module.graph(**wrong)
    assert "<svg" in module._repr_html_()
