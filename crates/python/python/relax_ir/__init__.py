"""Relay and Relax programs in Python: read, check, optimise, compile and call them.

>>> import numpy as np
>>> import relax_ir as rx
>>> program = rx.parse("def @main(%x: Tensor[(n,), float32]) { %x * 2f }").compile()
>>> program(np.array([1, 2], dtype="float32"))
array([2., 4.], dtype=float32)
"""

from __future__ import annotations

from ._build import Dim, Expr, call, const, function, functions, op, tup, var
from ._diagnostics import Diagnostic, Diagnostics, Suggestion
from ._files import load_program
from ._native import Module, Program, check, explain, load_params
from ._packed import register_packed
from ._passes import Pass, register_pass
from ._profile import Profile
from ._read import from_onnx, load, parse, read
from ._signature import Function, Param
from ._torch import from_torch
from ._tree import Mutator, Node, Visitor
from ._values import Adt, DataTypes, Opaque, to_list
from .errors import ArgumentError, ExecutionError, FileError, InvalidError, RelaxError, UsageError

__all__ = [
    "Adt",
    "ArgumentError",
    "DataTypes",
    "Diagnostic",
    "Diagnostics",
    "Dim",
    "ExecutionError",
    "Expr",
    "FileError",
    "Function",
    "InvalidError",
    "Module",
    "Mutator",
    "Node",
    "Opaque",
    "Param",
    "Pass",
    "Profile",
    "Program",
    "RelaxError",
    "Suggestion",
    "UsageError",
    "Visitor",
    "call",
    "check",
    "const",
    "explain",
    "from_onnx",
    "from_torch",
    "function",
    "functions",
    "load",
    "load_params",
    "load_program",
    "op",
    "parse",
    "read",
    "register_packed",
    "register_pass",
    "to_list",
    "tup",
    "var",
]
