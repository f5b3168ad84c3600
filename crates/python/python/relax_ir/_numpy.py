"""numpy, loaded when something of it is first asked for: that takes longer than the package itself."""

from __future__ import annotations

from typing import Any


class _Numpy:
    """What numpy has, by the names that it has there."""

    def __getattr__(self, name: str) -> Any:
        import numpy

        found = getattr(numpy, name)
        # Found without this function from then on.
        setattr(self, name, found)
        return found


np: Any = _Numpy()
