"""Megatron, Primus and NeMo: `iteration 10/ 500 | lm loss: 1.1E+01 | grad norm: 1.2 |`, whatever the order.

A value may be an instant and an average (`654.5/735.1`, `496.3 (avg 496.1)`), or several that the name lists
(`hip mem usage/free/total/usage_ratio: 153.8GB/102.1GB/255.9GB/60.09%`).
"""

import re
from itertools import islice
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
    for segment in segments[:MOST_METRICS]:
        raw, _, value = segment.rpartition(":")
        name = own_name(raw)
        if name and name not in IGNORED and len(value) <= LONGEST:
            _read(metrics, raw, name, value)
    if len(metrics) > MOST_METRICS:
        metrics = dict(islice(metrics.items(), MOST_METRICS))
    evaluated = _EVALUATION.search(text[: where.start()])
    if evaluated:
        metrics = {f"{evaluated[1].lower()}_{_OF_EVALUATION.get(name, name)}": each for name, each in metrics.items()}
    elif len(metrics) < LEAST:
        return None
    return (int(where[1]), metrics) if metrics else None


def _read(metrics: dict[str, float], raw: str, name: str, text: str) -> None:
    try:
        values = [float(text)] if "/" not in text else [float(each) for each in text.split("/")]
    except ValueError:
        low = text.lower()
        values = [] if "nan" in low or "inf" in low else numbers(text)
    if not all(map(isfinite, values)):
        return
    first, _, last = raw.rpartition(" ")
    if len(values) > 1 and len(names := last.split("/")) == len(values):
        for part, value in zip(names, values, strict=True):
            put(metrics, own_name(f"{first} {part}"), value)
    elif values:
        name = put(metrics, name, values[0])
        if len(values) > 1:
            metrics[f"{name}_avg"] = values[1]
