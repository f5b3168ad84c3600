"""Modules and tensors of PyTorch, where it is installed."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import relax_ir as rx

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

NEWER = pytest.param(True, marks=pytest.mark.skipif(importlib.util.find_spec("onnxscript") is None, reason="no onnxscript"))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.rest = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.MaxPool2d(4), torch.nn.Flatten(), torch.nn.Linear(16, 3))

    def forward(self, image, scale=None):
        found = self.rest(torch.relu(self.norm(self.conv(image))))
        return found if scale is None else (found * scale, found)


@pytest.mark.parametrize("dynamo", [False, NEWER])
def test_modules(dynamo):
    net, image = Net(), torch.rand(2, 1, 8, 8)
    module = rx.from_torch(net, image, dynamic={"image": {0: "batch"}}, dynamo=dynamo)
    # It is what it was before.
    assert net.training and net.norm.training
    (param,) = module.functions[0].params
    assert (param.name, param.shape) == ("image", ("batch", 1, 8, 8))
    program, more = module.compile(), torch.rand(5, 1, 8, 8)
    net.eval()
    for x in (image, more):
        np.testing.assert_allclose(program(x), net(x).detach(), atol=1e-5)
    by_name = rx.from_torch(net, {"image": image, "scale": torch.rand(3)}, dynamo=dynamo)
    assert [p.name for p in by_name.functions[0].params] == ["image", "scale"]
    scaled, plain = by_name.compile()(image, torch.full((3,), 2.0))
    np.testing.assert_allclose(scaled, plain * 2)
    with pytest.raises(rx.UsageError, match="'picture'.*image"):
        rx.from_torch(net, image, dynamic={"picture": {0: "n"}}, dynamo=dynamo)


def test_tensors_come_and_go():
    program = rx.parse("def @main(%x: Tensor[(n,), float32]) { %x * 2f }").compile()
    x = torch.arange(4, dtype=torch.float32)
    for given in (x, x.clone().requires_grad_(), torch.nn.Parameter(x), torch.stack([x, x], 1)[:, 0]):
        np.testing.assert_array_equal(program(given), [0, 2, 4, 6])
    np.testing.assert_array_equal(program(x.double(), cast=True), [0, 2, 4, 6])
    assert torch.from_dlpack(program(x)).tolist() == [0, 2, 4, 6]
    out = torch.empty(4)
    assert program(x, out=out) is out and out.tolist() == [0, 2, 4, 6]
    for wrong, said in [
        (x.double(), "float64"),
        (x.to_sparse(), "Sparse"),
        (torch.empty(4, device="meta"), "meta"),
        (x[None], "rank|Tensor"),
    ]:
        with pytest.raises(rx.RelaxError, match=said):
            program(wrong)
    with pytest.raises(rx.ArgumentError, match="shape"):
        program(x, out=torch.empty(5))
    for wrong in (torch.empty(4, requires_grad=True), torch.empty(4, device="meta"), torch.empty(4, dtype=torch.bfloat16)):
        with pytest.raises(rx.ArgumentError, match="`out` must be"):
            program(x, out=wrong)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8", "int64", "bool"])
def test_element_types(dtype):
    module = rx.parse(f"def @main(%x: Tensor[(n,), {dtype}], %w: Tensor[(2,), {dtype}]) {{ concatenate((%x, %w), axis=0) }}")
    x = torch.tensor([0, 1, 1], dtype=getattr(torch, dtype))
    module.bind({"w": x[:2]})
    result = module.compile()(x)
    if result.dtype != np.uint16:
        np.testing.assert_array_equal(result.astype("float32"), [0, 1, 1, 0, 1])


def test_no_copy(memory):
    program = rx.parse("def @main(%x: Tensor[(n,), float32]) { strided_slice(%x, begin=[0], end=[4]) }").compile()
    x = torch.ones(1 << 26)
    program(x)
    memory.mark()
    before = memory.now()
    for _ in range(3):
        program(x)
    assert memory.most() - before < 64 << 10


ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.skipif(shutil.which("cc") is None or not (ROOT / "docs").is_dir(), reason="no C compiler, or no pages")
def test_the_way_from_torch_to_c(tmp_path, monkeypatch, runtime_library):
    """The section of docs/onnx.md, as it stands there."""
    page = (ROOT / "docs" / "onnx.md").read_text()
    section = page[page.index("## From PyTorch to an object in C") : page.index("## The way back")]
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", section, re.S | re.M)
    monkeypatch.chdir(tmp_path)
    names = {}
    for language, text in blocks:
        if language == "python":
            exec(compile(text, "onnx.md", "exec"), names)
        elif language == "c":
            pathlib.Path("main.c").write_text(text)
    tools = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": tools, "RELAX_KIT": str(tmp_path / "kit"), "RELAX_RUNTIME": str(runtime_library)}
    for language, text in blocks:
        if language == "sh":
            subprocess.run(["sh", "-e", "-c", text], env=env, check=True)
    said = subprocess.run(["./digits"], capture_output=True, text=True, check=True).stdout
    torch = names["torch"]
    want = names["net"](torch.zeros(1, 1, 28, 28))[0].detach()
    np.testing.assert_allclose([float(score) for score in said.split()], want, atol=2e-4)
