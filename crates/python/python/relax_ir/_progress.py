"""How far something is, shown by whatever shows such things."""

from __future__ import annotations

from typing import Any, Callable, Optional

Told = Callable[[str, int, int], Any]


def bar(progress: Any, what: str) -> Optional[Told]:
    """A function of what is done next, how many steps are done, and of how many (0 where nobody knows)."""
    if progress is None or progress is False:
        return None
    if progress is True:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
        progress = tqdm
    if isinstance(progress, type) and hasattr(progress, "update"):
        return _Bar(progress, what)
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    from .errors import UsageError

    raise UsageError(f"`progress` is a function, a class as `tqdm.tqdm`, or True, not {progress!r}")


class _Bar:
    """A bar in the manner of tqdm."""

    def __init__(self, kind: Any, what: str) -> None:
        self._kind, self._what = kind, what
        self._bar: Any = None
        self._done = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = self._kind(total=total or None, desc=self._what)
        if not what:
            if self._bar.total:
                self._bar.update(self._bar.total - self._done)
            self._bar.close()
            return
        self._bar.update(done - self._done)
        self._done = done
        show = getattr(self._bar, "set_postfix_str", None)
        if show is not None:
            show(what)
