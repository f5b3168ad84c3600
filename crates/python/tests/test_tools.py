"""The command-line tools that the package installs, and the files that programs go into."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import relax_ir as rx
from relax_ir.__main__ import TOOLS

DENSE = """def @main(%x: Tensor[(n, 3), float32], %w: Tensor[(2, 3), float32]) -> Tensor[(n, 2), float32] {
  nn.relu(nn.dense(%x, %w, units=2))
}"""


def tool(name, *args, **options):
    path = pathlib.Path(sys.executable).parent / name
    return subprocess.run([str(path), *map(str, args)], capture_output=True, text=True, **options)


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_every_tool_is_there(name):
    said = tool(name, "--version")
    assert said.returncode == 0 and said.stdout.startswith(name), said


def test_tools_work(tmp_path):
    (tmp_path / "a.relay").write_text("def @main(%x: Tensor[(2,), float32]) { %x + %x }")
    (tmp_path / "bad.relay").write_text("def @main() { %x }")
    run = tool("relax-run", tmp_path / "a.relay", "--random", "1")
    assert run.returncode == 0 and run.stdout.count(".") == 2, run
    assert tool("relax-check", tmp_path / "bad.relay").returncode == 1
    assert tool("relax-opt", "--nothing").returncode == 2
    # Nothing is lost where a line has no end.
    shown = tool("relax-opt", "-", "--no-types", input="def @main() { 1 }")
    assert "def @main" in shown.stdout
    made = tool("relaxc", tmp_path / "a.relay", "-o", tmp_path / "a.o")
    assert made.returncode == 0 and (tmp_path / "a.o").stat().st_size > 1000, made


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="a C compiler links libraries")
def test_what_is_linked_needs_the_runtime_library(tmp_path, runtime_library):
    """The package is without it: it would be an eighth of the package."""
    (tmp_path / "a.relay").write_text("def @main(%x: Tensor[(2,), float32]) { %x + %x }")
    np.save(tmp_path / "x.npy", np.ones(2, dtype="float32"))
    without = {name: value for name, value in os.environ.items() if name != "RELAX_RUNTIME"}
    for out in ("liba.so", "liba.a", "a"):
        said = tool("relaxc", tmp_path / "a.relay", "-o", tmp_path / out, *(["--emit", "exe"] if out == "a" else []), env=without)
        assert said.returncode == 2 and not (tmp_path / out).exists(), said
        assert "RELAX_RUNTIME" in said.stderr and "cargo" in said.stderr, said
    there = {**without, "RELAX_RUNTIME": str(runtime_library)}
    said = tool("relaxc", tmp_path / "a.relay", "-o", tmp_path / "a", "--emit", "exe", env=there)
    assert said.returncode == 0, said
    run = subprocess.run([tmp_path / "a", tmp_path / "x.npy"], capture_output=True, text=True, check=True)
    assert "2" in run.stdout


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="a C compiler links libraries")
def test_programs_as_libraries(tmp_path):
    module = rx.parse(DENSE)
    w = np.arange(6, dtype="float32").reshape(2, 3)
    module.bind({"w": w})
    program = module.compile()
    x = np.ones((4, 3), dtype="float32")
    path = tmp_path / "model.so"
    program.save(path)
    for threads in (1, 2):
        loaded = rx.load_program(path, threads=threads)
        np.testing.assert_array_equal(loaded(x), program(x))
        assert str(loaded.entries[0]) == str(program.entries[0])
    for what in (loaded.recipe, loaded.object, loaded.profile):
        with pytest.raises(rx.UsageError, match="library"):
            what()
    with pytest.raises(rx.ExecutionError, match="3"):
        loaded(np.ones((4, 5), dtype="float32"))
    # Another process finds the runtime by itself.
    code = f"import numpy as np, relax_ir as rx; print(rx.load_program({str(path)!r})(np.ones((4, 3), dtype='float32')).sum())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(said) == float(program(x).sum())
    with pytest.raises(rx.FileError, match="none.so"):
        rx.load_program(tmp_path / "none.so")
    (tmp_path / "bad.so").write_bytes(b"nothing")
    with pytest.raises(rx.FileError, match="bad.so"):
        rx.load_program(tmp_path / "bad.so")


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="a C compiler links libraries")
def test_libraries_with_data_and_functions_of_python(tmp_path):
    text = """
    type Figure { Circle(float32), Box(float32, float32) }
    def @main(%f: Figure) -> float32 {
      match (%f) { Circle(%r) => call_packed("test.square", %r), Box(%a, %b) => %a * %b }
    }
    """
    rx.register_packed("test.square", lambda r: r * r)
    module = rx.parse(text)
    module.compile().save(tmp_path / "figures.so")
    program, types = rx.load_program(tmp_path / "figures.so"), module.types
    assert program(types.Circle(3)) == 9 and program(types.Box(2, 3)) == 6


def test_objects_for_other_machines(tmp_path):
    program = rx.parse(DENSE).compile(target="aarch64-unknown-linux-gnu")
    assert program.object()[18] == 183  # EM_AARCH64
    assert program(np.ones((1, 3), dtype="float32"), np.ones((2, 3), dtype="float32")).shape == (1, 2)
    with pytest.raises(rx.UsageError, match="this machine"):
        program.save(tmp_path / "model.so")
    with pytest.raises(rx.UsageError):
        rx.parse(DENSE).compile(target="nothing-at-all")


def test_progress():
    seen = []
    rx.parse(DENSE).compile(progress=lambda *told: seen.append(told))
    names, done, total = zip(*seen)
    assert "lower" in names and list(done[:-1]) == sorted(done[:-1]) and done[-1] == total[-1]

    class Bar:
        made = []

        def __init__(self, total=None, desc=None):
            self.total, self.desc, self.n, self.closed = total, desc, 0, False
            Bar.made.append(self)

        def update(self, n=1):
            self.n += n

        def close(self):
            self.closed = True

    rx.parse(DENSE).compile(progress=Bar)
    rx.parse(DENSE).optimise("infer-type,fold-constant", progress=Bar)
    assert all(bar.closed for bar in Bar.made) and Bar.made[0].n == Bar.made[0].total > 2
    with pytest.raises(ZeroDivisionError):
        rx.parse(DENSE).compile(progress=lambda *told: 1 // 0)
    with pytest.raises(rx.UsageError, match="tqdm"):
        rx.parse(DENSE).compile(progress=3)


def test_rooflines():
    program = rx.parse(DENSE).compile(profile=True)
    program(np.ones((50, 3), dtype="float32"), np.ones((2, 3), dtype="float32"))
    picture = program.profile().roofline(gflops=50, gbytes=10)
    assert picture.startswith("<svg") and "50.0 GFLOP/s" in picture and picture._repr_svg_() == picture
    with pytest.raises(rx.UsageError):
        program.profile().roofline(gflops=0, gbytes=1)

