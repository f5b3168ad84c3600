"""Texts for notebooks."""

from __future__ import annotations

import html
import re
from typing import Any, List

from ._diagnostics import PRE

_PARTS = re.compile(
    r"(?P<c>/\*.*?\*/|//[^\n]*)|(?P<s>\"(?:[^\"\\]|\\.)*\")|(?P<v>[%@][\w.]+)|"
    r"(?P<k>\b(?:def|fn|let|if|else|match|type|extern|op|prim_func|dataflow)\b)|(?P<n>\b\d[\w.]*)",
    re.S,
)
# Colours that can be read on white as on black.
_COLORS = {"c": "#768390", "s": "#2e8b57", "v": "#8a63d2", "k": "#d73a49", "n": "#2f81f7"}
_LARGE = 16
_LINES = 400
_NODES = 60


def text(source: str) -> str:
    """A program with colours."""
    out: List[str] = []
    at = 0
    for part in _PARTS.finditer(source):
        out.append(html.escape(source[at : part.start()]))
        color = _COLORS[part.lastgroup or "c"]
        out.append(f'<span style="color:{color}">{html.escape(part.group())}</span>')
        at = part.end()
    out.append(html.escape(source[at:]))
    return f'<pre style="{PRE}">{"".join(out)}</pre>'


def module(shown: Any) -> str:
    """A module: its text with large constants folded away, and what there is to say about it."""
    lines = shown.print(elide=_LARGE, metadata=False).split("\n")
    more = [f"// … and {len(lines) - _LINES} lines more"] if len(lines) > _LINES else []
    found = shown.check()
    parts = [text("\n".join(lines[:_LINES] + more)), found._repr_html_() if found else "", *_pictures(shown)]
    return "".join(parts)


def _pictures(shown: Any) -> List[str]:
    """Pictures of a module's functions, where it is small."""
    if len(shown.functions) > 3:
        return []
    out = []
    for function in shown.functions:
        picture = shown.graph(function.name)
        if picture.count("<g>") <= _NODES:
            out.append(f"<details open><summary>@{html.escape(function.name)}</summary>{picture}</details>")
    return out
