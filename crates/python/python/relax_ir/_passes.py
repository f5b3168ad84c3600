"""Passes, and pipelines of them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional, Union

from ._native import Module
from .errors import UsageError

PassFunction = Callable[[Module], Optional[Module]]

_REGISTERED: Dict[str, PassFunction] = {}


class Pass:
    """A pass with options, as an element of ``Module.optimise([...])``.

    >>> str(Pass("fuse-ops", level=2))
    'fuse-ops{level=2}'
    """

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self.options = options

    def __str__(self) -> str:
        def value(v: Any) -> str:
            if isinstance(v, bool):
                return "true" if v else "false"
            if not isinstance(v, str):
                return str(v)
            escaped = v.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'

        options = ",".join(f"{k.replace('_', '-')}={value(v)}" for k, v in self.options.items())
        return f"{self.name}{{{options}}}" if options else self.name

    def __repr__(self) -> str:
        return f"Pass({str(self)!r})"


def register_pass(name: str, function: Optional[PassFunction] = None) -> Any:
    """Gives a function a name in pipelines.

    Parameters
    ----------
    name : str
    function : callable, optional
        Takes a module and returns one, or changes its own and returns nothing. Without it a decorator is returned.

    Examples
    --------
    >>> @register_pass("twice")
    ... def twice(module):
    ...     module.optimise("simplify-expr,simplify-expr")
    """
    if function is None:
        return lambda f: register_pass(name, f)
    if not name or any(c in name for c in ",{}() "):
        raise UsageError(f"{name!r} is no name of a pass")
    _REGISTERED[name] = function
    return function


def _split(pipeline: str) -> List[str]:
    """The passes of a text, apart where a comma stands in no braces, parentheses or string."""
    parts, depth, quoted, escaped = [""], 0, False, False
    for c in pipeline:
        if quoted:
            quoted = c != '"' or escaped
            escaped = c == "\\" and not escaped
        elif c == '"':
            quoted = True
        elif c in "{(":
            depth += 1
        elif c in "})":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


def steps(pipeline: Union[None, str, Pass, PassFunction, Iterable[Any]]) -> List[Union[str, PassFunction]]:
    """A pipeline as texts of passes in a row, and functions between them."""
    if pipeline is None:
        pipeline = "O2"
    if isinstance(pipeline, (str, Pass)) or callable(pipeline):
        pipeline = [pipeline]
    out: List[Union[str, PassFunction]] = []
    row: List[str] = []

    def end() -> None:
        if row:
            out.append(",".join(row))
            row.clear()

    for item in pipeline:
        if isinstance(item, str) and not _REGISTERED:
            # As it is: places in errors are those of the text.
            row.append(item)
            continue
        for step in _split(item) if isinstance(item, str) else [item]:
            function: Any = _REGISTERED.get(step) if isinstance(step, str) else step
            if not isinstance(function, (str, Pass)) and callable(function):
                end()
                out.append(function)  # pyright: ignore[reportArgumentType]
            elif isinstance(step, (str, Pass)):
                row.append(str(step))
            else:
                raise UsageError(f"a pipeline has names, `Pass` and functions, and {type(step).__name__} is given")
    end()
    return out
