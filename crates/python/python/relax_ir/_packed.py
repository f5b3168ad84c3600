"""Functions of Python that programs call by name."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

from .errors import UsageError

PackedFunction = Callable[..., Any]

_REGISTERED: Dict[str, PackedFunction] = {}


def register_packed(name: str, function: Optional[PackedFunction] = None) -> Any:
    """Gives a function a name that programs call: ``call_packed("name", %x)`` and ``call_dps_packed("name", (%x,), …)``.

    Parameters
    ----------
    name : str
    function : callable, optional
        Without it a decorator is returned. It takes arrays. For ``call_packed`` it returns an array, a number (``float32``,
        ``int32`` or ``bool``, or the type that it has in numpy), a tuple, or nothing; arguments cannot be written. For
        ``call_dps_packed`` it writes into its last arguments, which are the results, and returns nothing.

    Notes
    -----
    It is called on the thread that called the program. What it raises ends the call: the ``ExecutionError`` has it as its
    cause. Compiled programs and ``Module.evaluate`` call the function that has the name at that time; where a program is
    pickled, the other process registers its own.

    Examples
    --------
    >>> import numpy as np
    >>> import relax_ir as rx
    >>> @rx.register_packed("host.double")
    ... def double(x):
    ...     return x * 2
    >>> rx.parse('def @main(%x: Tensor[(2,), float32]) -> Tensor[(2,), float32] { call_packed("host.double", %x) }').compile()(
    ...     np.ones(2, dtype="float32"))
    array([2., 2.], dtype=float32)
    """
    if function is None:
        return lambda f: register_packed(name, f)
    if not name:
        raise UsageError("a function needs a name that programs can call")
    _REGISTERED[name] = function
    return function


def called(name: str, args: Tuple[Any, ...]) -> Any:
    """What programs call."""
    function = _REGISTERED.get(name)
    if function is None:
        raise UsageError(f"no function is registered under this name: relax_ir.register_packed({name!r}, function)")
    return function(*args)
