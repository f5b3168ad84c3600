"""Programs in files."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Union

import numpy as np

from ._native import Program, together
from .errors import FileError, UsageError

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
    if not name.endswith(".relaxprog"):
        hint = "; `relaxc` makes shared libraries" if name.endswith(".so") else ""
        raise UsageError(f"{name}: programs go into .relaxprog and .o files{hint}")
    import json

    text, constants, options = program.recipe()
    recipe = {"format": _FORMAT, "text": text, "options": options, "constants": len(constants)}
    arrays = {f"constant{i}": _portable(c) for i, c in enumerate(constants)}
    arrays["recipe"] = np.frombuffer(json.dumps(recipe).encode(), dtype=np.uint8)
    types = [str(c.dtype) for c in constants]
    arrays["types"] = np.frombuffer(json.dumps(types).encode(), dtype=np.uint8)
    with open(name, "wb") as file:
        np.savez(file, **arrays)


def _portable(array: Any) -> Any:
    """An array as every numpy reads it: the bits of what others have added."""
    return array.view(np.uint16) if array.dtype.kind == "V" else array


def load_program(path: _Path) -> Program:
    """The program of a ``.relaxprog`` file, compiled for this machine.

    Raises
    ------
    FileError
        The file cannot be read, or is something else.
    """
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
