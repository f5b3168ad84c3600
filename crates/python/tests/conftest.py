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
