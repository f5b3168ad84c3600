"""The command-line tools as the package installs them.

They are in the package's native part. It is loaded without the package, whose start would wait for numpy.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from typing import Any


def _native() -> Any:
    package = importlib.util.find_spec("relax_ir")
    folder = os.path.dirname(package.origin) if package is not None and package.origin else ""
    for suffix in EXTENSION_SUFFIXES:
        path = os.path.join(folder, f"_native{suffix}")
        if os.path.exists(path):
            loader = ExtensionFileLoader("relax_ir._native", path)
            spec = importlib.util.spec_from_loader("relax_ir._native", loader)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            return module
    raise ImportError("relax_ir has no native part")


def main() -> int:
    """Runs the tool whose name this program has."""
    import signal

    # Tools are interrupted as programs are, not as Python is.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    name = os.path.basename(sys.argv[0])
    name = name[:-4] if name.endswith(".exe") else name
    code = _native().run_tool([name, *sys.argv[1:]])
    if code is None:
        print(f"there is no tool {name}", file=sys.stderr)
        return 2
    return int(code)
