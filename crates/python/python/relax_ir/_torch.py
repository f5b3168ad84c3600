"""Modules of PyTorch, by way of ONNX."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ._native import Module
from ._read import load
from .errors import UsageError

_Axes = Mapping[str, Mapping[int, str]]


def from_torch(
    module: Any, example: Any, *, dynamic: Optional[_Axes] = None, dynamo: Optional[bool] = None
) -> Module:
    """A module of a ``torch.nn.Module``, by way of ``torch.onnx.export``; the weights are constants of ``@main``.

    Parameters
    ----------
    module : torch.nn.Module
        What it computes when it is evaluated, not when it is trained, is exported.
    example : tensor, tuple of tensors, or dict of tensors by the names of parameters
        What it is called with once. Parameters of ``@main`` are called as those of ``forward``.
    dynamic : dict, optional
        Axes that can have any extent, and what these are called: ``{"x": {0: "batch"}}``. Other extents are those of
        `example`.
    dynamo : bool, optional
        Which of torch's exporters is asked: the newer one, which needs the package onnxscript, or the older one, which takes
        a tenth of the time. The newer one where it can be had, unless said otherwise.

    Raises
    ------
    UsageError
        torch is not installed, or `dynamic` names what is no parameter.
    InvalidError
        The model has an operator that is not supported. What torch raises goes through.

    Notes
    -----
    ``pip install 'relax-ir[torch]'`` installs what is needed.
    """
    try:
        import torch
    except ImportError as missing:
        raise UsageError("from_torch needs torch: pip install 'relax-ir[torch]'") from missing
    import tempfile
    import warnings

    names = _names(module, example)
    for name in dynamic or {}:
        if name not in names:
            known = ", ".join(names) or "none that is a tensor and has a name"
            raise UsageError(f"`dynamic` names {name!r}, and the parameters are {known}")
    newer = _has_newer(torch) if dynamo is None else dynamo
    modes = [(part, part.training) for part in module.modules()]
    # In a file, which weights of any size fit into: those that are large lie in a second one, and both are mapped.
    with tempfile.TemporaryDirectory() as room, warnings.catch_warnings():
        # The older exporter says of itself that it is old.
        warnings.simplefilter("ignore", DeprecationWarning)
        path = os.path.join(room, "model.onnx")
        module.eval()
        try:
            (_newer if newer else _older)(torch, module, example, names, dynamic or {}, path)
        finally:
            for part, training in modes:
                part.training = training
        return load(path, format="onnx")


def _has_newer(torch: Any) -> bool:
    import importlib.util
    import inspect

    there = all(importlib.util.find_spec(package) for package in ("onnx", "onnxscript"))
    return there and "dynamic_shapes" in inspect.signature(torch.onnx.export).parameters


def _arguments(example: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    if isinstance(example, dict):
        return (), dict(example)
    return (tuple(example) if isinstance(example, (tuple, list)) else (example,)), {}


def _names(module: Any, example: Any) -> List[str]:
    """What the parameters are called that are given tensors; nothing where other things are given as well."""
    import inspect

    args, kwargs = _arguments(example)
    if not all(hasattr(given, "shape") for given in [*args, *kwargs.values()]):
        return []
    params = inspect.signature(module.forward).parameters.values()
    named = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(named) < len(args):
        return []
    return [*named[: len(args)], *kwargs]


def _newer(torch: Any, module: Any, example: Any, names: List[str], dynamic: _Axes, path: str) -> None:
    args, kwargs = _arguments(example)
    dims = {name: torch.export.Dim(name) for axes in dynamic.values() for name in axes.values()}
    shapes = {name: {axis: dims[of] for axis, of in dynamic.get(name, {}).items()} or None for name in names}
    program = torch.onnx.export(
        module, args, kwargs=kwargs, dynamo=True, dynamic_shapes=shapes if dynamic else None, verbose=False
    )
    program.save(path)


def _older(torch: Any, module: Any, example: Any, names: List[str], dynamic: _Axes, path: str) -> None:
    import inspect

    args, kwargs = _arguments(example)
    known = inspect.signature(torch.onnx.export).parameters
    # Versions before the newer exporter know neither of these.
    more = {"dynamo": False} if "dynamo" in known else {}
    if kwargs:
        args = (*args, kwargs)
    axes = {name: dict(axes) for name, axes in dynamic.items()}
    torch.onnx.export(module, args, path, input_names=names or None, dynamic_axes=axes or None, **more)
