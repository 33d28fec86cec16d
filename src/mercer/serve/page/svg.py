"""Small pictures as SVG: a density, bars of probabilities, a line over batches.

Colours and fonts are those of the page's style sheet, by class; all text is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from mercer.core.arrays import Array
from mercer.core.words import shown

WIDE, HIGH = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 14, 30
_X, _Y = WIDE - LEFT - RIGHT, HIGH - TOP - BOTTOM


def density(
    grid: Array, height: Array, interval: tuple[float, float], middle: float, words: str, axis: str
) -> str:
    """Return a density (height at grid, (q,) each) with its interval and its mean, on an axis."""
    low, high = float(grid[0]), float(grid[-1])
    top = float(height.max()) or 1.0
    place = _scale(low, high)
    line = [
        (place(x), TOP + _Y * (1.0 - h / (1.05 * top))) for x, h in zip(grid, height, strict=True)
    ]
    ends = [float(np.clip(v, low, high)) for v in interval]
    inside = [(x, y) for x, y in line if place(ends[0]) <= x <= place(ends[1])]
    floor = TOP + _Y
    parts = []
    if inside:
        corners = [(inside[0][0], floor), *inside, (inside[-1][0], floor)]
        parts.append(f'<polygon class="band" points="{_points(corners)}"/>')
    parts.append(f'<polyline class="curve" points="{_points(line)}"/>')
    if low <= middle <= high:
        x = place(middle)
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{floor}"/>')
    return _picture(words, [*parts, *_axis(low, high, axis)])


def curve(
    grid: Array,
    middle: Array,
    low: Array,
    high: Array,
    here: float,
    words: str,
    axis: str,
    ends: tuple[float, float] | None = None,
) -> str:
    """Return a curve with its band (q,) over the grid, and a mark at ``here``."""
    bottom, top = ends or (float(np.min(low)), float(np.max(high)))
    margin = 0.03 * (top - bottom) or 0.05 * abs(top) or 1.0
    bottom, top = bottom - margin, top + margin
    place = _scale(float(grid[0]), float(grid[-1]))
    across = [place(x) for x in grid]

    def line(values: Array) -> list[tuple[float, float]]:
        up = TOP + _Y * (top - np.clip(values, bottom, top)) / (top - bottom)
        return list(zip(across, up.tolist(), strict=True))

    x, floor = place(min(max(here, float(grid[0])), float(grid[-1]))), TOP + _Y
    parts = [
        f'<polygon class="band" points="{_points([*line(low), *line(high)[::-1]])}"/>',
        f'<polyline class="curve" points="{_points(line(middle))}"/>',
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{floor}"/>',
    ]
    for value in ticks(bottom, top):
        y = TOP + _Y * (top - value) / (top - bottom)
        parts.append(f'<text class="tick end" x="{LEFT - 6}" y="{y + 4:.1f}">{value:.4g}</text>')
    return _picture(words, [*parts, *_axis(float(grid[0]), float(grid[-1]), axis)])


def bars(names: Sequence[str], shares: Array, words: str) -> str:
    """Return one bar for each class, as long as its probability."""
    step, left = 26, 190
    high = step * len(names) + 10
    parts = []
    for i, (name, share) in enumerate(zip(names, shares, strict=True)):
        y, long = 6 + i * step, (WIDE - left - 70) * float(share)
        label = escape(shown(name, 24))
        parts += [
            f'<text class="label end" x="{left - 8}" y="{y + 14}">{label}</text>',
            f'<rect class="bar" x="{left}" y="{y}" width="{max(long, 1.0):.1f}" height="18"/>',
            f'<text class="label" x="{left + long + 6:.1f}" y="{y + 14}">{share:.1%}</text>',
        ]
    return _picture(words, parts, high)


def history(values: Sequence[float | None], marks: Sequence[int], words: str, axis: str) -> str:
    """Return a line over batches, with marks where the function has changed."""
    known = [v for v in values if v is not None and np.isfinite(v)]
    if not known:
        return ""
    low, high = min(known), max(known)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = low - margin, high + margin
    place = _scale(1.0, float(max(len(values), 2)))
    line = [
        (place(i + 1.0), TOP + _Y * (high - v) / (high - low))
        for i, v in enumerate(values)
        if v is not None and np.isfinite(v)
    ]
    floor = TOP + _Y
    parts = [
        f'<line class="drift" x1="{place(i + 1.0):.1f}" x2="{place(i + 1.0):.1f}" '
        f'y1="{TOP}" y2="{floor}"/>'
        for i in marks
    ]
    parts.append(f'<polyline class="curve" points="{_points(line)}"/>')
    for value in (low + margin, high - margin):
        y = TOP + _Y * (high - value) / (high - low)
        parts.append(f'<text class="tick end" x="{LEFT - 6}" y="{y + 4:.1f}">{value:.3g}</text>')
    return _picture(words, [*parts, *_axis(1.0, float(max(len(values), 2)), axis, whole=True)])


def ticks(low: float, high: float, whole: bool = False) -> list[float]:
    """Return about five round numbers from low to high.

    Examples
    --------
    >>> ticks(0.0, 10.0), ticks(1.0, 3.0, whole=True)
    ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], [1.0, 2.0, 3.0])
    """
    raw = (high - low) / 5.0
    unit = 10.0 ** np.floor(np.log10(raw))
    step = float(unit * min(m for m in (1.0, 2.0, 5.0, 10.0) if m * unit >= raw * 0.999))
    step = max(step, 1.0) if whole else step
    first = int(np.ceil(low / step - 1e-9))
    last = int(np.floor(high / step + 1e-9))
    return [round(i * step, 12) for i in range(first, last + 1)]


def _scale(low: float, high: float) -> Callable[[float], float]:
    return lambda value: LEFT + _X * (float(value) - low) / (high - low)


def _axis(low: float, high: float, axis: str, whole: bool = False) -> list[str]:
    floor, place = TOP + _Y, _scale(low, high)
    parts = [f'<line class="axis" x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{floor}" y2="{floor}"/>']
    for value in ticks(low, high, whole):
        x = place(value)
        parts.append(f'<text class="tick middle" x="{x:.1f}" y="{floor + 14}">{value:.6g}</text>')
    name = escape(shown(axis, 40))
    parts.append(f'<text class="tick end" x="{WIDE - RIGHT}" y="{HIGH - 3}">{name}</text>')
    return parts


def _points(corners: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)


def _picture(words: str, parts: Sequence[str], high: int = HIGH) -> str:
    return (
        f'<svg viewBox="0 0 {WIDE} {high}" role="img" aria-label="{escape(words, quote=True)}">'
        + "".join(parts)
        + "</svg>"
    )
