"""What do numbers look like? Lines and bars as SVG, drawn here: a page needs no other file."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 180, 70, 22, 8
_POINTS: Final = 360


def line_chart(
    xs: Sequence[int], ys: Sequence[int], label: str, shown: Callable[[int], str]
) -> str:
    """Return a line of `ys` over `xs`, which ascend; `shown` writes the numbers of the axis."""
    top = max(max(ys, default=0), 1)
    span = max(xs[-1] - xs[0], 1) if xs else 1
    places = _thinned(len(xs))
    # One point is a line too.
    points = [(_x((xs[i] - xs[0]) / span), _y(ys[i] / top)) for i in places]
    if len(points) == 1:
        points.append((_x(1), points[0][1]))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{_x(0):.1f},{_y(0):.1f} {line} {points[-1][0]:.1f},{_y(0):.1f}" if points else ""
    ends = (str(xs[0]), str(xs[-1])) if xs else ("", "")
    marks = f'<polygon class="area" points="{area}"/><polyline class="line" points="{line}"/>'
    return _framed(marks, label, shown(top), ends)


def bar_chart(bars: Sequence[tuple[str, int]], label: str) -> str:
    """Return a bar for each name and number; the name and number are its title."""
    top = max((number for _, number in bars), default=0) or 1
    step = 1 / max(len(bars), 1)
    marks = []
    for at, (name, number) in enumerate(bars):
        x, y = _x(at * step), _y(number / top)
        width = max((_x(step) - _x(0)) * 0.85, 0.5)
        marks.append(
            f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{_y(0) - y:.1f}"><title>{escape(name)}: {number:,}</title></rect>'
        )
    ends = (bars[0][0], bars[-1][0]) if bars else ("", "")
    return _framed("".join(marks), label, f"{top:,}", ends)


def _framed(marks: str, label: str, top: str, ends: tuple[str, str]) -> str:
    texts = (
        (_LEFT - 6, _TOP + 10, "end", top),
        (_LEFT - 6, _y(0), "end", "0"),
        (_LEFT, _HEIGHT - 5, "start", ends[0]),
        (_WIDTH - 2, _HEIGHT - 5, "end", ends[1]),
    )
    axis = "".join(
        f'<text x="{x}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'
        for x, y, anchor, text in texts
    )
    rule = f'<line class="axis" x1="{_LEFT}" y1="{_y(0)}" x2="{_WIDTH}" y2="{_y(0)}"/>'
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{marks}{rule}{axis}</svg>"
    )


def _thinned(count: int) -> list[int]:
    """Return which of so many points are drawn: all, or some of them and the last."""
    step = max(1, -(-count // _POINTS))
    places = list(range(0, count, step))
    return places if not count or places[-1] == count - 1 else [*places, count - 1]


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - 4)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)
