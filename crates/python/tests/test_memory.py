"""Nothing is left behind, however often something is done."""

import os
import pickle
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import relax_ir as rx

DENSE = """def @main(%x: Tensor[(n, 3), float32], %w: Tensor[(2, 3), float32]) -> Tensor[(n, 2), float32] {
  nn.relu(nn.dense(%x, %w, units=2))
}"""
X = np.arange(6, dtype="float32").reshape(2, 3)
W = np.ones((2, 3), dtype="float32")


def compiled():
    assert rx.parse(DENSE).compile(opt=1)(X, W).shape == (2, 2)


def refused():
    with pytest.raises(rx.InvalidError):
        rx.parse("def @main(%x: float32) { %y }")


def optimised(module=rx.parse(DENSE)):
    copy = module.copy()
    copy.optimise("O2")
    assert str(copy) and copy.walk() and not copy.structural_equal(module)


def pickled(program=rx.parse(DENSE).compile(opt=1)):
    assert pickle.loads(pickle.dumps(program))(X, W).shape == (2, 2)


def large(program=rx.parse("def @main(%x: Tensor[(n,), float32]) { (%x + 1f, %x) }").compile(), x=np.ones(100_000, dtype="float32")):
    assert program(x)[0][0] == 2


def failed(program=rx.parse("def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) { %x + %y }").compile()):
    with pytest.raises(rx.ExecutionError):
        program(X[0], W[0, :2])


def raised(program=rx.parse('def @main(%x: float32) -> float32 { call_packed("test.raises", %x) }').compile()):
    rx.register_packed("test.raises", lambda x: 1 // 0)
    with pytest.raises(rx.ExecutionError):
        program(1)


def lists(program=rx.parse("def @main(%x: List[int32]) -> List[int32] { %x }").compile()):
    assert rx.to_list(program([1, 2, 3]))[2] == 3


@pytest.mark.parametrize(
    "work, times",
    [(compiled, 1000), (refused, 1000), (optimised, 200), (pickled, 200), (large, 2000), (failed, 5000), (raised, 5000), (lists, 5000)],
)
def test_no_leak(work, times, memory):
    for _ in range(times // 5):
        work()
    before = memory.now()
    for _ in range(times):
        work()
    assert memory.now() - before < 4 << 10


def test_no_leak_over_threads(memory):
    program = rx.parse(DENSE).compile()

    def once():
        thread = threading.Thread(target=lambda: [program(X, W) for _ in range(10)])
        thread.start()
        thread.join()

    for _ in range(100):
        once()
    before = memory.now()
    for _ in range(500):
        once()
    assert memory.now() - before < 4 << 10


SAMPLE = f"""
import numpy as np, relax_ir as rx
program = rx.parse({DENSE!r}).compile()
x, w = np.ones((4, 3), dtype="float32"), np.ones((2, 3), dtype="float32")
for _ in range(20):
    program(x, w, out=program(x, w))
for wrong in [(x,), (x, x), (x.astype("float64"), w)]:
    try:
        program(*wrong)
    except rx.RelaxError:
        pass
module = rx.parse("type F {{ C(float32), B(float32, float32) }} def @main(%f: F) -> F {{ match (%f) {{ C(%r) => B(%r, %r), B(%a, %b) => C(%a * %b) }} }}")
C, B = module.types["F"]
assert module.compile(threads=2)(C(2)) == B(2, 2)
large = rx.parse("def @main(%x: Tensor[(n,), float32]) {{ (%x + 1f, %x) }}").compile()
kept = large(np.ones(5000, dtype="float32"))
del large, program
assert kept[0].sum() == 10000
try:
    rx.parse("def @main() {{ %y }}")
except rx.InvalidError as error:
    print(len(error.diagnostics))
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_memory_is_used_well_under_valgrind(tmp_path):
    log = tmp_path / "log"
    command = ["valgrind", "--error-limit=no", f"--log-file={log}", sys.executable, "-c", SAMPLE]
    said = subprocess.run(command, env={**os.environ, "PYTHONMALLOC": "malloc"}, capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout == "1\n", said
    # What Python and the system's loader do is theirs.
    found = re.split(r"\n==\d+== \n", log.read_text())
    wrong = [part for part in found if re.search(r"== (Invalid|Conditional|Use of|Syscall)", part) and "_native" in part]
    assert not wrong, "\n\n".join(wrong)
