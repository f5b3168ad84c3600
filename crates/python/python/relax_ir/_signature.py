"""Functions, their parameters and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple, Union


@dataclass(frozen=True)
class Param:
    """A parameter of a function, or its result.

    Attributes
    ----------
    name : str
        Empty for results.
    type : str
        As the language writes it.
    shape : tuple of int and str, or None
        The extents of a tensor, texts for symbolic ones (``"n"``, ``"n * 4"``); ``None`` for other types and unknown
        ranks.
    dtype : str or None
        The element type of a tensor; ``None`` for other types.
    """

    name: str
    type: str
    shape: Optional[Tuple[Union[int, str], ...]]
    dtype: Optional[str]

    def __str__(self) -> str:
        return f"%{self.name}: {self.type}" if self.name else self.type


@dataclass(frozen=True)
class Function:
    """A function of a module, or an entry of a program.

    Attributes
    ----------
    name : str
        Without sigil.
    params : tuple of Param
    result : Param
    """

    name: str
    params: Tuple[Param, ...]
    result: Param

    def __str__(self) -> str:
        return f"@{self.name}({', '.join(map(str, self.params))}) -> {self.result}"
