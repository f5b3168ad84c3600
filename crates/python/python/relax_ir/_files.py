"""Programs in files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Union

from . import _native
from ._native import Program, together
from .errors import FileError, UsageError

if TYPE_CHECKING:
    import numpy as np
else:
    from ._numpy import np

_Path = Union[str, "os.PathLike[str]"]
_FORMAT = "relax-ir program 1"


def compiled(text: str, constants: List[Any], options: Dict[str, Any]) -> Program:
    """A program from its recipe."""
    return together(text, constants).compile(**options)


def save(program: Program, path: _Path) -> None:
    """See `Program.save`."""
    name = os.fspath(path)
    if name.endswith(".o"):
        data = program.object()
        with open(name, "wb") as file:
            file.write(data)
        return
    if name.endswith(".so"):
        return _link(program, name)
    if not name.endswith(".relaxprog"):
        raise UsageError(f"{name}: programs go into .relaxprog, .so and .o files")
    import json

    text, constants, options = program.recipe()
    recipe = {"format": _FORMAT, "text": text, "options": options, "constants": len(constants)}
    arrays = {f"constant{i}": _portable(c) for i, c in enumerate(constants)}
    arrays["recipe"] = np.frombuffer(json.dumps(recipe).encode(), dtype=np.uint8)
    types = [str(c.dtype) for c in constants]
    arrays["types"] = np.frombuffer(json.dumps(types).encode(), dtype=np.uint8)
    with open(name, "wb") as file:
        np.savez(file, **arrays)


def _link(program: Program, name: str) -> None:
    """Links a program into a shared library over the package's own runtime."""
    import shlex
    import subprocess
    import tempfile

    target = program.recipe()[2]["target"] or ""
    if target.partition("+")[0].strip() not in ("", "host"):
        raise UsageError(f"{name}: a library is linked for this machine; .o files are for others")
    text, symbols = program.interface()
    compiler = os.environ.get("CC", "cc")
    description = ",".join(map(str, text.encode()))
    with tempfile.TemporaryDirectory() as room:
        path = {part: os.path.join(room, part) for part in ("model.o", "description.c", "names", "model.so")}
        with open(path["model.o"], "wb") as file:
            file.write(program.object())
        with open(path["description.c"], "w") as source:
            source.write(f"const char {symbols[-1]}[] = {{{description},0}};\n")
        with open(path["names"], "w") as names:
            names.write(f"{{ global: {'; '.join(symbols)}; local: *; }};\n")
        parts = [path["model.o"], path["description.c"], _native.__file__, f"-Wl,--version-script={path['names']}"]
        command = [*shlex.split(compiler), "-shared", "-o", path["model.so"], *parts, "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as trouble:
            raise UsageError(f"{name}: the C compiler `{compiler}`, which links libraries, cannot be run") from trouble
        if done.returncode != 0:
            raise UsageError(f"{name}: `{compiler}` failed:\n{done.stderr.rstrip()}")
        with open(path["model.so"], "rb") as linked:
            data = linked.read()
    # Under another name first: a process that has loaded the old library goes on with it.
    beside = f"{name}.{os.getpid()}"
    with open(beside, "wb") as file:
        file.write(data)
    os.chmod(beside, 0o755)
    os.replace(beside, name)


def _portable(array: Any) -> Any:
    """An array as every numpy reads it: the bits of what others have added."""
    return array.view(np.uint16) if array.dtype.kind == "V" else array


def load_program(path: _Path, *, threads: int = 1) -> Program:
    """The program of a file that `Program.save` has written.

    Parameters
    ----------
    path : str or os.PathLike
        ``.relaxprog``, which is compiled for this machine now; ``.so``, which is code already: it is run as it is, so that
        the file must be trusted.
    threads : int
        Threads of the parallel loops of a ``.so``; a ``.relaxprog`` says its own.

    Raises
    ------
    FileError
        The file cannot be read, or is something else.
    """
    if os.fspath(path).endswith(".so"):
        # A name without a folder is looked for elsewhere.
        return _native.load_library(os.path.abspath(path), threads)
    # Not with the package: they take half as long as all the rest of it.
    import json
    import zipfile

    name = os.fspath(path)
    try:
        with np.load(name, allow_pickle=False) as file:
            recipe = json.loads(bytes(file["recipe"]))
            if recipe["format"] != _FORMAT:
                raise KeyError("format")
            constants = [file[f"constant{i}"] for i in range(recipe["constants"])]
            types = json.loads(bytes(file["types"]))
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as trouble:
        if isinstance(trouble, OSError) and not os.path.isfile(name):
            raise FileError(f"cannot read {name}: {trouble.strerror or trouble}") from trouble
        raise FileError(f"{name} is no .relaxprog file of this version") from trouble
    constants = [_own(c, t) for c, t in zip(constants, types)]
    return compiled(recipe["text"], constants, recipe["options"])


def _own(array: Any, dtype: str) -> Any:
    if dtype != "bfloat16" or array.dtype.kind == "V":
        return array
    from ._arrays import bfloat16

    return array.view(bfloat16())
