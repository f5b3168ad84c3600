"""Modules from texts, files and other libraries."""

from __future__ import annotations

import builtins
import os
from typing import Any, Dict, Optional, Union

from . import _native
from ._native import Module
from .errors import InvalidError

_Path = Union[str, "os.PathLike[str]"]


def parse(text: str, *, name: str = "<text>", strict: bool = False) -> Module:
    """Reads and checks a text: Relay, Relax, or Relax in TVMScript.

    Parameters
    ----------
    text : str
    name : str
        What the text is called in errors.
    strict : bool
        Whether warnings are errors.

    Raises
    ------
    InvalidError
        The text has errors, all of which are in the message and in ``diagnostics``.
    ExceptionGroup
        With `strict`, of an ``InvalidError`` for each error and warning (before Python 3.11 one error with all).
    """
    return _held(lambda: _native.parse(text, name), strict)


def read(
    data: bytes,
    *,
    name: str = "<data>",
    format: Optional[str] = None,
    stub_constants: Optional[str] = None,
    strict: bool = False,
) -> Module:
    """Reads and checks the bytes of a file in any format; see `load`."""
    return _held(lambda: _native.read(data, name, format, stub_constants), strict)


def load(
    path: _Path,
    *,
    format: Optional[str] = None,
    params: Union[None, _Path, Dict[str, Any]] = None,
    function: str = "main",
    stub_constants: Optional[str] = None,
    strict: bool = False,
) -> Module:
    """Reads and checks a file: Relay or Relax text, TVMScript, TVM's JSON, ONNX.

    Parameters
    ----------
    path : str or os.PathLike
    format : {"relay", "tvmscript", "tvm-json", "onnx"}, optional
        The content tells it otherwise.
    params : str, os.PathLike or dict of arrays, optional
        Values for parameters of `function`, and for constants whose metadata section the text lacks: a ``.params``,
        ``.npz`` or ``.safetensors`` file, or arrays by name.
    function : str
        Whose parameters get values.
    stub_constants : {"zeros", "random", "random:SEED"}, optional
        What stands for constants whose metadata section the text lacks.
    strict : bool
        Whether warnings are errors, as for `parse`.

    Raises
    ------
    FileError
        The file cannot be read.
    InvalidError
        It has errors.
    ArgumentError
        `params` do not fit.
    """
    awaited = "awaited" if params is not None and stub_constants is None else stub_constants
    module = _held(lambda: _native.load(path, format, awaited), strict)
    if params is not None:
        module.bind(params if isinstance(params, dict) else _native.load_params(params), function)
    return module


def _held(read: Any, strict: bool) -> Module:
    """What was read; with `strict`, unless there is anything to say about it."""
    if not strict:
        return read()  # type: ignore[no-any-return]
    try:
        module = read()
        found = [d for d in module.check() if d.severity != "note"]
    except InvalidError as error:
        found = list(error.diagnostics)
    if not found:
        return module  # type: ignore[no-any-return]
    each = [InvalidError(d.text, [d]) for d in found]
    group = getattr(builtins, "ExceptionGroup", None)
    if group is None:
        raise InvalidError("\n".join(map(str, each)), found)
    raise group(f"the program has {len(found)} errors and warnings", each)


def from_onnx(model: Any) -> Module:
    """A module of an ONNX model.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        Weights become constants of ``@main``; those in other files are found beside a model that is a path.
    """
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return read(bytes(model), name="<model>", format="onnx")
    return load(model, format="onnx")
