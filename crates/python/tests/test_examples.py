"""The examples, and the pages of the documentation: what they show is what they print."""

import contextlib
import importlib.util
import io
import pathlib
import re
import subprocess
import sys
import xml.dom.minidom

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "python"

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not at hand")


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name, *args, cwd):
    command = [sys.executable, str(EXAMPLES / name), *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


def test_tour(tmp_path):
    said = run("tour.py", cwd=tmp_path)
    assert "calls: 2" in said and "did you mean `%data`?" in said
    assert said.splitlines()[-1] == "Cons(12.0, Cons(6.0, Nil)) 12.0"


def test_resnet18():
    example = loaded("resnet18")
    module = example.model()
    scores = module.compile(threads=2)(example.image())
    assert scores.shape == (1, 1000) and abs(scores.sum() - 1) < 1e-4
    assert np.array_equal(module.compile(opt=1)(example.image()).argmax(), scores.argmax())


def test_dask_batch(tmp_path):
    pytest.importorskip("distributed")
    said = run("dask_batch.py", "1000", "2", cwd=tmp_path)
    example = loaded("dask_batch")
    program = example.model()
    found = [program(example.images(i, example.BATCH)) for i in range(1000 // example.BATCH)]
    assert "  1000 of 1000 images\n" in said
    want = np.bincount(np.concatenate(found), minlength=10)
    assert said.splitlines()[-1] == " ".join(["classes:", *map(str, want)])


def test_notebook():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = [o["data"] for c in notebook.cells if c.cell_type == "code" for o in c.outputs if "data" in o]
    pages = "".join(data.get("text/html", "") for data in shown)
    for part in ["<svg", "fused", "<table>", "there is no variable", "nn.dense"]:
        assert part in pages, part
    # What draws it reads it as a document: every picture is well formed.
    for picture in re.findall(r"<svg.*?</svg>", pages, re.S):
        xml.dom.minidom.parseString(picture)


@pytest.mark.parametrize("page", ["docs/python.md", "README.md", "crates/python/README.md"])
def test_pages(page, tmp_path, monkeypatch):
    """Blocks of Python run one after another; a block of text after one is what it prints."""
    text = (ROOT / page).read_text()
    monkeypatch.chdir(tmp_path)
    if (ROOT / "examples").is_dir():
        (tmp_path / "examples").symlink_to(ROOT / "examples")
    blocks = re.findall(r"^```python\n(.*?)^```(?:\s*^```text\n(.*?)^```)?", text, re.S | re.M)
    assert blocks
    names = {"__name__": "page"}
    for source, shown in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(source, page, "exec"), names)
        if shown:
            assert out.getvalue().rstrip() == shown.rstrip()
