"""What goes wrong: every exception has the library's diagnostics."""

from __future__ import annotations

from typing import Any, Iterable, Tuple

from ._diagnostics import Diagnostic, Diagnostics


class RelaxError(Exception):
    """Something could not be done.

    Attributes
    ----------
    diagnostics : Diagnostics
        What was found, where there is anything. The message has all of it as text.
    """

    diagnostics: Diagnostics

    def __init__(self, message: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics = Diagnostics(diagnostics)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (str(self), list(self.diagnostics))


class InvalidError(RelaxError, ValueError):
    """The program, or the pipeline, has errors."""


class ArgumentError(RelaxError, TypeError, ValueError):
    """Values do not fit the parameters that they are for."""


class ExecutionError(RelaxError, RuntimeError):
    """The program failed while it ran."""


class FileError(RelaxError, OSError):
    """A file cannot be read."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UsageError(RelaxError, ValueError):
    """Something is asked for that is not there, or that cannot be done."""
