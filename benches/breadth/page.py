"""The page of the breadth bench, and its picture."""
import math
import sys
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from processor import processor  # noqa: E402


class Cell:
    """One operator's case with so many threads: `fastest` is the fastest peer, `ratio` its time by ours."""

    def __init__(self, kept):
        self.threads, self.group, self.name, self.times = (kept[k] for k in ("threads", "group", "name", "times"))
        self.narrower, self.share = kept.get("narrower", []), kept.get("share")
        peers = {k: v for k, v in self.times.items() if k not in ("relax", "before")}
        self.fastest = min(peers, key=peers.get) if peers else None
        self.ratio = peers[self.fastest] / self.times["relax"] if peers else None
        # What peers take for the same in float32, by our time.
        self.beside = kept["beside"][1] / self.times["relax"] if "beside" in kept else None


def shown(seconds):
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


#: The share of the machine that a cell is to have where nothing is a yardstick but the machine.
GOAL = 0.25


def summary(cells):
    ratios = [c.ratio for c in cells if c.ratio]
    beside = [c.beside for c in cells if not c.ratio and c.beside]
    alone = [c.share for c in cells if not c.ratio and not c.beside and c.share]
    mean = lambda some: math.exp(sum(map(math.log, some)) / len(some)) if some else math.nan  # noqa: E731
    return (f"{len(ratios)} cells with a peer, geometric mean {mean(ratios):.2f}; {sum(r < 0.8 for r in ratios)} below 0.8, "
            f"{sum(r < 0.5 for r in ratios)} below 0.5; {len(beside)} cells beside float32, geometric mean {mean(beside):.2f}; "
            f"{sum(r < 0.8 for r in beside)} below 0.8; {len(alone)} cells with neither, "
            f"{sum(s < GOAL for s in alone)} of these with a share below {GOAL}")


def colour(ratio):
    """From red (a tenth) by white (equal) to blue (ten times); grey where there is none."""
    if ratio is None:
        return "#cccccc"
    x = max(-1.0, min(1.0, math.log10(ratio)))
    pale = round(255 * (1 - abs(x)))
    return f"#ff{pale:02x}{pale:02x}" if x < 0 else f"#{pale:02x}{pale:02x}ff"


def picture(cells):
    """A line for each operator and number of threads, a square for each of its cases."""
    rows = {}
    for c in cells:
        rows.setdefault((c.group, c.threads), []).append(c)
    side, left, top = 16, 190, 24
    wide = left + side * max((len(r) for r in rows.values()), default=1) + 10
    high = top + side * len(rows) + 10
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" font-family="sans-serif" font-size="11">',
           f'<rect width="{wide}" height="{high}" fill="white"/>',
           '<text x="4" y="15">red: a peer is faster, blue: ours is, grey: no peer; full colour is ten times</text>']
    for i, ((group, threads), row) in enumerate(rows.items()):
        y = top + i * side
        out.append(f'<text x="{left - 6}" y="{y + 12}" text-anchor="end">{escape(group)}, {threads} thr.</text>')
        for k, c in enumerate(row):
            said = f"{c.group} {c.name}: {c.ratio:.2f}" if c.ratio else f"{c.group} {c.name}: no peer"
            out.append(f'<rect x="{left + k * side}" y="{y}" width="{side - 1}" height="{side - 1}" '
                       f'fill="{colour(c.ratio)}"><title>{escape(said)}</title></rect>')
    return "\n".join(out + ["</svg>"]) + "\n"


def write(folder, name, cells):
    """Writes `name.md` and `name.svg`, and says which other pages of the kind there are."""
    others = sorted(p.name for p in folder.glob("breadth*.md") if p.stem != name)
    others = [f"Other machines: {', '.join(f'[{o}]({o})' for o in others)}.", ""] if others else []
    counts = sorted({c.threads for c in cells})
    lines = ["# Breadth", "",
             "One operator at a time beside numpy, ONNX Runtime and OpenVINO: the least time of all rounds, in which the "
             "systems took turns. *Ratio*: the fastest peer's time by ours, so more than 1 is faster. Where no peer computes a cell "
             "(numpy has no bfloat16, for one), *beside float32* is the fastest peer's time for the same in float32 with "
             "channels first by ours; for elements of 64 bits, twice that time. *Share*: what the machine needs by what we take. It "
             "needs the time of a copy of as many bytes, or of as many operations in numpy's products of matrices, where those "
             "of a contraction or of windows take longer (an element of a window counts as a multiplication with its addition; "
             "bytes are four to a float32). Made by "
             f"`python3 benches/breadth/run.py` on {processor()}.", "", *others,
             f"![each operator's cases, coloured by their ratio]({name}.svg)", ""]
    for threads in counts:
        some = [c for c in cells if c.threads == threads]
        slow = sorted((c for c in some if c.ratio and c.ratio < 0.5), key=lambda c: c.ratio)
        named = ", ".join(f"{c.group} {c.name} {c.ratio:.2f}" for c in slow)
        plural = "" if threads == 1 else "s"
        lines += [f"## {threads} thread{plural}", "", f"{summary(some)}.", "",
                  f"Below 0.5, the worst first: {named or 'none'}.", ""]
        lines += [f"{system} computes these in a narrower type than theirs, which is another task, and is no peer there: "
                  f"{', '.join(f'{c.group} {c.name}' for c in some if system in c.narrower)}.\n"
                  for system in sorted({s for c in some for s in c.narrower})]
        lines += ["| operator | case | time | fastest peer | ratio | beside float32 | share |", "|---|---|---|---|---|---|---|"]
        for c in some:
            peer = f"{c.fastest}, {shown(c.times[c.fastest])}" if c.fastest else "–"
            ratio = f"{c.ratio:.2f}" if c.ratio else "–"
            other, part = (f"{v:.2f}" if v else "–" for v in (c.beside, c.share))
            lines.append(f"| `{c.group}` | {c.name} | {shown(c.times['relax'])} | {peer} | {ratio} | {other} | {part} |")
        lines.append("")
    (folder / f"{name}.md").write_text("\n".join(lines).rstrip() + "\n")
    (folder / f"{name}.svg").write_text(picture(cells))
