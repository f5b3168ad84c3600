"""Errors, warnings and remarks about programs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

Span = Tuple[int, int, int, int]

_ANSI = {"error": "1;31", "warning": "1;33", "note": "1;36"}
_HTML = {"error": "#cb2431", "warning": "#b08800", "note": "#0969da"}
# Marks stand below what they mark only where all letters are equally wide, which not every page has `pre` be.
PRE = "line-height:1.3;font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_MARKS = re.compile(r"^(\s*\|\s*)(\^+)(.*)$")


@dataclass(frozen=True)
class Suggestion:
    """A suggested change of the source.

    Attributes
    ----------
    title : str
        What to do, as an imperative.
    certain : bool
        Whether that is meant beyond reasonable doubt.
    edits : tuple of (span, str)
        What is replaced by what; spans are as those of `Diagnostic`.
    """

    title: str
    certain: bool
    edits: Tuple[Tuple[Span, str], ...]


@dataclass(frozen=True)
class Diagnostic:
    """An error, a warning or a remark about a program.

    Attributes
    ----------
    code : str
        ``"RX0319"``; ``explain(code)`` has a page for each.
    severity : {"error", "warning", "note"}
    message : str
        One sentence.
    file : str or None
        The file of the primary place; ``None`` where no text stands behind it.
    span : tuple of int, or None
        ``(line, column, end_line, end_column)`` of the primary place, counted from 1.
    notes : tuple of str
        More sentences.
    suggestions : tuple of Suggestion
        What to do.
    text : str
        Everything as people read it.
    """

    code: str
    severity: str
    message: str
    file: Optional[str]
    span: Optional[Span]
    notes: Tuple[str, ...]
    suggestions: Tuple[Suggestion, ...]
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        at = f" at {self.span[0]}:{self.span[1]}" if self.span else ""
        return f"<{self.severity} {self.code}{at}: {self.message}>"

    def render(self, color: bool = True) -> str:
        """The text for a terminal, with colours."""
        if not color:
            return self.text
        paint = _ANSI[self.severity]
        return "\n".join(_painted(self.text, lambda part: f"\x1b[{paint}m{part}\x1b[0m", lambda part: part))

    def _repr_html_(self) -> str:
        import html

        style = f"color:{_HTML[self.severity]};font-weight:bold"
        lines = _painted(self.text, lambda part: f'<span style="{style}">{html.escape(part)}</span>', html.escape)
        return f'<pre style="{PRE}">{chr(10).join(lines)}</pre>'


def _painted(text: str, bright: Any, plain: Any) -> List[str]:
    """The lines of a diagnostic: its head up to the colon and what marks its places are bright."""
    head, *rest = text.split("\n")
    what, colon, message = head.partition(":")
    lines = [bright(what) + plain(colon + message)]
    for line in rest:
        marks = _MARKS.match(line)
        lines.append(plain(marks[1]) + bright(marks[2] + marks[3]) if marks else plain(line))
    return lines


class Diagnostics(List[Diagnostic]):
    """A list of diagnostics that shows itself as people read it."""

    @property
    def has_errors(self) -> bool:
        """Whether an error is among them."""
        return any(d.severity == "error" for d in self)

    def render(self, color: bool = True) -> str:
        """The texts for a terminal, with colours."""
        return "\n".join(d.render(color) for d in self)

    def __str__(self) -> str:
        return self.render(color=False)

    def __add__(self, other: Any) -> "Diagnostics":  # type: ignore[override]
        return Diagnostics([*self, *other])

    def _repr_html_(self) -> str:
        return "".join(d._repr_html_() for d in self) or "<pre>nothing to say</pre>"
