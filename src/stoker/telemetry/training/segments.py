"""Megatron, Primus and NeMo: `iteration 10/ 500 | lm loss: 1.1E+01 | grad norm: 1.2 |`, whatever the order.

A value may be an instant and an average (`654.5/735.1`, `496.3 (avg 496.1)`), or several that the name lists
(`hip mem usage/free/total/usage_ratio: 153.8GB/102.1GB/255.9GB/60.09%`).
"""

import re
from math import isfinite

from stoker.domain.metric_names import own_name, put
from stoker.domain.training import MOST_METRICS
from stoker.telemetry.training.names import IGNORED
from stoker.telemetry.training.numbers import LONGEST, numbers

_ITERATION = re.compile(r"\biteration:?\s{1,20}(\d{1,15})(?=\s{0,20}(?:[/|]|on\b|$))", re.IGNORECASE)
_EVALUATION = re.compile(r"\b(validation|test) loss at $", re.IGNORECASE)
_OF_EVALUATION = {"lm_loss_value": "loss", "lm_loss_ppl": "perplexity"}
LEAST = 2
"""A line with fewer values is about something else."""

Found = tuple[int | None, dict[str, float]]


def read_segments(text: str) -> Found | None:
    where = _ITERATION.search(text)
    if where is None:
        return None
    _, *segments = text[where.end() :].split("|")
    metrics: dict[str, float] = {}
    for segment in segments[: 2 * MOST_METRICS]:
        name, colon, value = segment.rpartition(":")
        if colon:
            _read(metrics, name, value)
    evaluated = _EVALUATION.search(text[: where.start()])
    if evaluated:
        metrics = {f"{evaluated[1].lower()}_{_OF_EVALUATION.get(name, name)}": each for name, each in metrics.items()}
    elif len(metrics) < LEAST:
        return None
    return (int(where[1]), metrics) if metrics else None


def _read(metrics: dict[str, float], raw: str, text: str) -> None:
    name = own_name(raw)
    if not name or name in IGNORED or len(metrics) >= MOST_METRICS:
        return
    values = _values(text)
    if len(values) < 2:
        for value in values:
            put(metrics, name, value)
        return
    parts = raw.rpartition(" ")
    names = parts[2].split("/")
    if len(names) == len(values):
        for part, value in zip(names, values, strict=True):
            put(metrics, own_name(f"{parts[0]} {part}"), value)
        return
    name = put(metrics, name, values[0])
    metrics[f"{name}_avg"] = values[1]


def _values(text: str) -> list[float]:
    """The number; those of `a/b`, of `a (avg b)`, or one with a unit; none if one of them is not finite."""
    try:
        values = [float(each) for each in text.split("/")] if len(text) < LONGEST else []
    except ValueError:
        low = text.lower()
        return [] if "nan" in low or "inf" in low else numbers(text)
    return values if all(map(isfinite, values)) else []
