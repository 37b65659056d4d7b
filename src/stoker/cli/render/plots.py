"""Draws bars, and lines of braille dots: two columns and four rows of dots in every character."""

import math
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime

BRAILLE_BLANK = 0x2800
BRAILLE_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""The bit of each dot: by column, then from the bottom up."""
SPARK_CHARACTERS = "▁▂▃▄▅▆▇█"
MAX_VALUE = 1e300
"""Larger ranges overflow."""
MAX_WIDTH = 100

Point = tuple[float, float]
"""Horizontal position and value."""


def plot_width() -> int:
    """The number of characters in a line of a plot."""
    return min(MAX_WIDTH, shutil.get_terminal_size().columns)


def line_plot(points: Sequence[Point], *, width: int = 60, height: int = 8, unit: str = "") -> list[str]:
    """A line through the points, sorted by position, with the highest and the lowest value as labels."""
    usable = sorted(point for point in points if all(abs(each) < MAX_VALUE for each in point))
    if not usable:
        return []
    low, high = min(y for _, y in usable), max(y for _, y in usable)
    labels = [f"{format_short(high)}{unit}", f"{format_short(low)}{unit}"]
    room = max(map(len, labels))
    rows = _canvas_rows(_draw_canvas(usable, low, high, max(1, width - room - 2), height))
    marks = [labels[0], *[""] * (height - 2), labels[1]][:height]
    return [f"{mark:>{room}} ┤{row}".rstrip() for mark, row in zip(marks, rows, strict=True)]


def time_axis(plot: Sequence[str], first: float, last: float, width: int) -> str:
    """The time axis below a plot of this width; times are in epoch seconds."""
    margin = plot[0].index("┤") + 1 if plot else 0
    return f"{'':{margin}}{axis_labels(*time_labels(first, last), width - margin)}"


def axis_labels(begin: str, end: str, width: int) -> str:
    """The labels of both ends of an axis of this width."""
    gap = width - len(begin) - len(end)
    return f"{begin}{' ' * gap if gap >= 1 else ' to '}{end}"


def time_labels(first: float, last: float) -> tuple[str, str]:
    """Two times in UTC, given in epoch seconds; with dates if they are of different days."""
    begin, end = (datetime.fromtimestamp(each, UTC) for each in (first, last))
    form = "%H:%M:%S" if begin.date() == end.date() else "%Y-%m-%d %H:%M:%S"
    return f"{begin:{form}}", f"{end:{form}}"


def bin_means(points: Sequence[Point], first: float, last: float, parts: int) -> list[float | None]:
    """The mean value in each of equal bins from first to last; None for a bin without points."""
    found: list[list[float]] = [[] for _ in range(parts)]
    for x, y in points:
        found[min(parts - 1, int((x - first) / (last - first) * parts)) if last > first else 0].append(y)
    return [sum(each) / len(each) if each else None for each in found]


def sparkline(values: Sequence[float | None], *, low: float | None = None, high: float | None = None) -> str:
    """A bar for each value, a space for a missing one."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return " " * len(values)
    floor = min(known) if low is None else low
    span = (max(known) if high is None else high) - floor
    return "".join(_spark_character(value, floor, span) for value in values)


def stacked_bar(parts: Sequence[tuple[float, str]], whole: float, width: int = 24) -> str:
    """A bar of segments, each with its own character; its length is `width` times their sum."""
    drawn, reached = "", 0.0
    for value, sign in parts:
        reached += value
        drawn += sign * (round(reached / whole * width) - len(drawn) if whole > 0 else 0)
    return drawn


def format_short(value: float) -> str:
    """A value in few characters."""
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _draw_canvas(points: Sequence[Point], low: float, high: float, width: int, height: int) -> list[list[int]]:
    """The bits of every character. Each column of dots extends from the lowest to the highest value in it."""
    across, up = 2 * width, 4 * height
    first, last = points[0][0], points[-1][0]
    columns: dict[int, tuple[int, int]] = {}
    before: tuple[int, int] | None = None
    for x, y in points:
        column = round((x - first) / (last - first) * (across - 1)) if last > first else 0
        row = round((y - low) / (high - low) * (up - 1)) if high > low else (up - 1) // 2
        for between, level in _interpolate(before, (column, row)):
            lowest, highest = columns.get(between, (level, level))
            columns[between] = min(lowest, level), max(highest, level)
        before = (column, row)
    canvas = [[0] * width for _ in range(height)]
    for column, (lowest, highest) in columns.items():
        for row in range(lowest, highest + 1):
            canvas[height - 1 - row // 4][column // 2] |= BRAILLE_DOTS[column % 2][row % 4]
    return canvas


def _interpolate(before: tuple[int, int] | None, here: tuple[int, int]) -> list[tuple[int, int]]:
    """Linear interpolation: one dot for each column between two points."""
    if before is None or here[0] - before[0] <= 1:
        return [here]
    slope = (here[1] - before[1]) / (here[0] - before[0])
    return [(column, round(before[1] + slope * (column - before[0]))) for column in range(before[0] + 1, here[0])] + [
        here
    ]


def _canvas_rows(canvas: list[list[int]]) -> list[str]:
    return ["".join(chr(BRAILLE_BLANK + bits) if bits else " " for bits in row) for row in canvas]


def _spark_character(value: float | None, floor: float, span: float) -> str:
    if value is None or not math.isfinite(value):
        return " "
    level = (value - floor) / span if span > 0 else 0.0
    return SPARK_CHARACTERS[min(len(SPARK_CHARACTERS) - 1, max(0, int(level * len(SPARK_CHARACTERS))))]
