"""What kernels cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional, Tuple


@dataclass(frozen=True)
class Kernel:
    """What a kernel has cost over all calls.

    Attributes
    ----------
    kernel : str
        What it computes.
    calls : int
    seconds : float
        Of all calls.
    least : float
        Seconds of the shortest call.
    flops : int
        Operations on numbers in all calls.
    bytes : int
        Of arguments and results in all calls.
    """

    kernel: str
    calls: int
    seconds: float
    least: float
    flops: int
    bytes: int

    @property
    def gflops(self) -> float:
        """Billions of operations per second."""
        return self.flops / max(self.seconds, 1e-9) / 1e9

    @property
    def gbytes(self) -> float:
        """Gigabytes per second."""
        return self.bytes / max(self.seconds, 1e-9) / 1e9


class Picture(str):
    """A picture as a text (SVG), which notebooks show."""

    def _repr_svg_(self) -> str:
        return str(self)


class Profile(List[Kernel]):
    """Kernels, the dearest first; shows itself as a table."""

    def __init__(self, rows: List[Tuple[str, int, int, int, int, int]], table: str, threads: int = 1) -> None:
        super().__init__(Kernel(k, n, t / 1e9, least / 1e9, f, b) for k, n, t, least, f, b in rows)
        self._rows, self._table, self._threads = rows, table, threads

    def __str__(self) -> str:
        return self._table

    def __repr__(self) -> str:
        return f"<Profile of {len(self)} kernels, {sum(k.seconds for k in self) * 1e3:.3f} ms>"

    def records(self) -> List[Dict[str, Any]]:
        """A dictionary for each kernel."""
        return [{**asdict(k), "gflops": k.gflops, "gbytes": k.gbytes} for k in self]

    def roofline(self, gflops: Optional[float] = None, gbytes: Optional[float] = None) -> "Picture":
        """What kernels reach beside what the machine allows, as a picture (SVG).

        Parameters
        ----------
        gflops : float, optional
            Billions of operations that the machine does in a second; what a large product of matrices reaches, without it.
        gbytes : float, optional
            Gigabytes that its memory gives in a second; what a sum of large arrays reaches, without it.
        """
        from ._native import roofline

        return Picture(roofline(self._rows, self._threads, gflops, gbytes))

    def to_pandas(self) -> Any:
        """A data frame, where pandas is installed."""
        import pandas

        return pandas.DataFrame.from_records(self.records())

    def _repr_html_(self) -> str:
        import html

        total = sum(k.seconds for k in self) or 1.0
        heads = ["calls", "time (µs)", "share", "GFLOP/s", "GB/s", "least (µs)", "kernel"]
        rows = [
            [
                str(k.calls),
                f"{k.seconds * 1e6:.1f}",
                f"{100 * k.seconds / total:.1f} %",
                f"{k.gflops:.2f}",
                f"{k.gbytes:.2f}",
                f"{k.least * 1e6:.1f}",
            ]
            for k in self
        ]
        right, left = '<td style="text-align:right">', '<td style="text-align:left">'
        body = "".join(
            "<tr>" + "".join(f"{right}{cell}</td>" for cell in row) + f"{left}{html.escape(k.kernel)}</td></tr>"
            for row, k in zip(rows, self)
        )
        head = "".join(f"<th>{h}</th>" for h in heads[:-1]) + f'<th style="text-align:left">{heads[-1]}</th>'
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
