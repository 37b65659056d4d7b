"""Parses lines of Megatron, Primus and NeMo: `iteration 10/ 500 | lm loss: 1.1E+01 | grad norm: 1.2 |`, in any order.

A value may be a current value and an average (`654.5/735.1`, `496.3 (avg 496.1)`), or several that the name lists
(`hip mem usage/free/total/usage_ratio: 153.8GB/102.1GB/255.9GB/60.09%`).
"""

import re
from itertools import islice
from math import isfinite

from stoker.domain.metrics.metric_names import add_metric, normalize_name
from stoker.domain.metrics.training import MAX_METRICS_PER_REPORT
from stoker.telemetry.training_logs.numbers import MAX_NUMBER_LENGTH, parse_numbers
from stoker.telemetry.training_logs.vocabulary import IGNORED_NAMES

_ITERATION = re.compile(r"\biteration:?\s{1,20}(\d{1,15})(?=\s{0,20}(?:[/|]|on\b|$))", re.IGNORECASE)
_EVALUATION = re.compile(r"\b(validation|test) loss at $", re.IGNORECASE)
_EVALUATION_NAMES = {"lm_loss_value": "loss", "lm_loss_ppl": "perplexity"}
MIN_METRICS = 2
"""A line with fewer values is not a training report."""

ParsedLine = tuple[int | None, dict[str, float]]


def parse_megatron(text: str) -> ParsedLine | None:
    where = _ITERATION.search(text)
    if where is None:
        return None
    _, *segments = text[where.end() :].split("|")
    metrics: dict[str, float] = {}
    for segment in segments[:MAX_METRICS_PER_REPORT]:
        raw, _, value = segment.rpartition(":")
        name = normalize_name(raw)
        if name and name not in IGNORED_NAMES and len(value) <= MAX_NUMBER_LENGTH:
            _parse_segment(metrics, raw, name, value)
    if len(metrics) > MAX_METRICS_PER_REPORT:
        metrics = dict(islice(metrics.items(), MAX_METRICS_PER_REPORT))
    evaluated = _EVALUATION.search(text[: where.start()])
    if evaluated:
        metrics = {
            f"{evaluated[1].lower()}_{_EVALUATION_NAMES.get(name, name)}": each for name, each in metrics.items()
        }
    elif len(metrics) < MIN_METRICS:
        return None
    return (int(where[1]), metrics) if metrics else None


def _parse_segment(metrics: dict[str, float], raw: str, name: str, text: str) -> None:
    try:
        values = [float(text)] if "/" not in text else [float(each) for each in text.split("/")]
    except ValueError:
        low = text.lower()
        values = [] if "nan" in low or "inf" in low else parse_numbers(text)
    if not all(map(isfinite, values)):
        return
    first, _, last = raw.rpartition(" ")
    if len(values) > 1 and len(names := last.split("/")) == len(values):
        for part, value in zip(names, values, strict=True):
            add_metric(metrics, normalize_name(f"{first} {part}"), value)
    elif values:
        name = add_metric(metrics, name, values[0])
        if len(values) > 1:
            metrics[f"{name}_avg"] = values[1]
