import os
import pathlib
import sys

import pytest

# `match` is a statement from Python 3.10 on.
collect_ignore = ["test_match.py"] if sys.version_info < (3, 10) else []


@pytest.fixture(scope="session")
def runtime_library():
    """What libraries and programs of relaxc are linked with, as the build of the tools has it."""
    root = pathlib.Path(__file__).resolve().parents[3]
    for target in (os.environ.get("CARGO_TARGET_DIR"), root / "target"):
        library = pathlib.Path(target or "") / "release" / "deps" / "librelax_runtime.a"
        if library.is_file():
            return library.resolve()
    pytest.skip("librelax_runtime.a was not built")


class Memory:
    """KiB of memory that this process has: now, and at most since `mark`."""

    def now(self):
        return self._line("VmRSS")

    def mark(self):
        pathlib.Path("/proc/self/clear_refs").write_text("5")

    def most(self):
        return self._line("VmHWM")

    def _line(self, name):
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name))


@pytest.fixture
def memory():
    try:
        found = Memory()
        found.mark()
        assert found.most() > 0
    except (OSError, StopIteration):
        pytest.skip("this system does not say how much memory a process has")
    return found
