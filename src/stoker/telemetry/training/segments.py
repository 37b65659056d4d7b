"""Megatron, Primus and NeMo: `iteration 10/ 500 | lm loss: 1.1E+01 | grad norm: 1.2 |`, whatever the order.

A value may be an instant and an average (`654.5/735.1`, `496.3 (avg 496.1)`), or several that the name lists
(`hip mem usage/free/total/usage_ratio: 153.8GB/102.1GB/255.9GB/60.09%`).
"""

import re

from stoker.domain.metric_names import own_name, put
from stoker.domain.training import MOST_METRICS
from stoker.telemetry.training.names import IGNORED
from stoker.telemetry.training.numbers import number, numbers

_ITERATION = re.compile(r"\biteration\s{1,20}(\d{1,15})(?:\s{0,20}/|\s{0,20}$|\s+on\b)", re.IGNORECASE)
_EVALUATION = re.compile(r"\b(validation|test) loss at $", re.IGNORECASE)
_OF_EVALUATION = {"lm_loss_value": "loss", "lm_loss_ppl": "perplexity"}
LEAST = 2
"""A line with fewer values is about something else."""

Found = tuple[int | None, dict[str, float]]


def read_segments(text: str) -> Found | None:
    head, *segments = text.split("|")
    where = _ITERATION.search(head)
    if where is None:
        return None
    metrics: dict[str, float] = {}
    for segment in segments[: 2 * MOST_METRICS]:
        name, colon, value = segment.rpartition(":")
        if colon:
            _read(metrics, name, value)
    evaluated = _EVALUATION.search(head[: where.start()])
    if evaluated:
        metrics = {f"{evaluated[1].lower()}_{_OF_EVALUATION.get(name, name)}": each for name, each in metrics.items()}
    elif len(metrics) < LEAST:
        return None
    return (int(where[1]), metrics) if metrics else None


def _read(metrics: dict[str, float], raw: str, text: str) -> None:
    name = own_name(raw)
    if not name or name in IGNORED or len(metrics) >= MOST_METRICS:
        return
    value = number(text)
    if value is not None:
        put(metrics, name, value)
        return
    values = _values(text)
    *first, last = raw.split()
    parts = last.split("/")
    if len(parts) == len(values) > 1:
        for part, each in zip(parts, values, strict=True):
            put(metrics, own_name(" ".join([*first, part])), each)
    elif values:
        name = put(metrics, name, values[0])
        if len(values) > 1:
            metrics[f"{name}_avg"] = values[1]


def _values(text: str) -> list[float]:
    """Those of `a/b`, of `a (avg b)`, or of one number with a unit; none if one of them is not finite."""
    if "nan" in (low := text.lower()) or "inf" in low:
        return []
    if "/" in text:
        split = [number(part) for part in text.split("/", MOST_METRICS)]
        if None not in split:
            return [each for each in split if each is not None]
    return numbers(text)
