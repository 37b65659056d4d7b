"""What is drawn in the terminal: bars, and lines of braille dots, two across and four up in every character."""

import math
import shutil
from collections.abc import Sequence

BLANK = 0x2800
DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""The bit of each dot: by column, then from the bottom up."""
BARS = "▁▂▃▄▅▆▇█"
LARGEST = 1e300
"""Beyond this, differences are no numbers any more."""
WIDEST = 100

Point = tuple[float, float]
"""Where on the horizontal axis, and how high."""


def plot_width() -> int:
    """The characters that a line of a plot may take here."""
    return min(WIDEST, shutil.get_terminal_size().columns)


def line_plot(points: Sequence[Point], *, width: int = 60, height: int = 8) -> list[str]:
    """A line through the points, from the left to the right, with its highest and lowest value beside it."""
    usable = sorted(point for point in points if all(abs(each) < LARGEST for each in point))
    if not usable:
        return []
    low, high = min(y for _, y in usable), max(y for _, y in usable)
    labels = [short(high), short(low)]
    room = max(map(len, labels))
    rows = _rows(_canvas(usable, low, high, max(1, width - room - 2), height))
    marks = [labels[0], *[""] * (height - 2), labels[1]][:height]
    return [f"{mark:>{room}} ┤{row}".rstrip() for mark, row in zip(marks, rows, strict=True)]


def spread(points: Sequence[Point], first: float, last: float, parts: int) -> list[float | None]:
    """The mean height in each of so many equal parts from first to last; none where there is no point."""
    found: list[list[float]] = [[] for _ in range(parts)]
    for x, y in points:
        found[min(parts - 1, int((x - first) / (last - first) * parts)) if last > first else 0].append(y)
    return [sum(each) / len(each) if each else None for each in found]


def sparkline(values: Sequence[float | None], *, low: float | None = None, high: float | None = None) -> str:
    """A bar for each value, a blank where there is none."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return " " * len(values)
    floor = min(known) if low is None else low
    span = (max(known) if high is None else high) - floor
    return "".join(_bar(value, floor, span) for value in values)


def stacked_bar(parts: Sequence[tuple[float, str]], whole: float, width: int = 24) -> str:
    """A bar of parts, each drawn with its own sign, that would be as long as `width` if they were the whole."""
    drawn, reached = "", 0.0
    for value, sign in parts:
        reached += value
        drawn += sign * (round(reached / whole * width) - len(drawn) if whole > 0 else 0)
    return drawn


def short(value: float) -> str:
    """A value in few characters."""
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _canvas(points: Sequence[Point], low: float, high: float, width: int, height: int) -> list[list[int]]:
    """The bits of every character. Each column of dots reaches from the lowest to the highest value in it."""
    across, up = 2 * width, 4 * height
    first, last = points[0][0], points[-1][0]
    columns: dict[int, tuple[int, int]] = {}
    before: tuple[int, int] | None = None
    for x, y in points:
        column = round((x - first) / (last - first) * (across - 1)) if last > first else 0
        row = round((y - low) / (high - low) * (up - 1)) if high > low else (up - 1) // 2
        for between, level in _steps(before, (column, row)):
            lowest, highest = columns.get(between, (level, level))
            columns[between] = min(lowest, level), max(highest, level)
        before = (column, row)
    canvas = [[0] * width for _ in range(height)]
    for column, (lowest, highest) in columns.items():
        for row in range(lowest, highest + 1):
            canvas[height - 1 - row // 4][column // 2] |= DOTS[column % 2][row % 4]
    return canvas


def _steps(before: tuple[int, int] | None, here: tuple[int, int]) -> list[tuple[int, int]]:
    """From one dot to the next, a dot for each column between them."""
    if before is None or here[0] - before[0] <= 1:
        return [here]
    slope = (here[1] - before[1]) / (here[0] - before[0])
    return [(column, round(before[1] + slope * (column - before[0]))) for column in range(before[0] + 1, here[0])] + [
        here
    ]


def _rows(canvas: list[list[int]]) -> list[str]:
    return ["".join(chr(BLANK + bits) if bits else " " for bits in row) for row in canvas]


def _bar(value: float | None, floor: float, span: float) -> str:
    if value is None or not math.isfinite(value):
        return " "
    level = (value - floor) / span if span > 0 else 0.0
    return BARS[min(len(BARS) - 1, max(0, int(level * len(BARS))))]
