"""``python -m relax_ir``: what there is."""

from __future__ import annotations

import shutil
import sys

TOOLS = {
    "relax-fmt": "formats files",
    "relax-check": "names, types, shapes, effects, matches",
    "relax-opt": "reads, transforms and prints",
    "relax-import": "translates ONNX models",
    "relax-bisect": "finds the pass that changes what a program computes",
    "relax-run": "runs a function",
    "relaxc": "object files, shared libraries, programs",
    "relax-lsp": "the language server",
}


def main() -> int:
    """Lists the tools, and where they are."""
    import numpy

    import relax_ir

    print(f"relax_ir in {relax_ir.__path__[0]}, Python {sys.version.split()[0]}, numpy {numpy.__version__}")
    for tool, does in TOOLS.items():
        print(f"  {tool:13} {does:52} {shutil.which(tool) or 'not on the path'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
