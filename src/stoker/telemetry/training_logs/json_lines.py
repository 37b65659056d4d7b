"""Parses mappings in log lines: JSON, and Python dicts as the HF Trainer prints them, alone or after a progress bar."""

from collections.abc import Iterator
from typing import Any

import msgspec

from stoker.domain.metrics.metric_names import add_metric, normalize_name
from stoker.domain.metrics.training import MAX_METRICS_PER_REPORT, MAX_STEP
from stoker.telemetry.training_logs.megatron import ParsedLine
from stoker.telemetry.training_logs.numbers import parse_number
from stoker.telemetry.training_logs.vocabulary import IGNORED_NAMES, STEP_NAMES, TRAINING_METRICS

MAX_DEPTH = 3
MAX_ABS_VALUE = 1e300
_RUN_SUMMARY_KEY = "train_runtime"
"""A key of the HF Trainer's final summary, whose loss is the mean of the run and not that of a step."""
_MESSAGE_KEYS = ("message", "msg", "log", "text")


def parse_mapping(text: str, progress_step: int | None) -> ParsedLine | str | None:
    """The metrics of the mapping in a line; the message, if the mapping is a log record."""
    begin, end = text.find("{"), text.rfind("}") + 1
    if begin < 0 or end <= begin:
        return None
    found: dict[str, float] = {}
    body = _parse_json(text[begin:end])
    if body is not None:
        if wrapped := next((body[name] for name in _MESSAGE_KEYS if isinstance(body.get(name), str)), None):
            return wrapped
        pairs = _leaves(body, MAX_DEPTH)
    else:
        pairs = _parse_python_dict(text[begin + 1 : end - 1])
    for name, value in pairs:
        if len(found) < MAX_METRICS_PER_REPORT + len(STEP_NAMES):
            found.setdefault(normalize_name(name), value)
    return _select_metrics(found, progress_step)


def _select_metrics(found: dict[str, float], progress_step: int | None) -> ParsedLine | None:
    step = next((int(found[name]) for name in STEP_NAMES if name in found and _is_step(found[name])), progress_step)
    if step is None and "epoch" not in found:
        return None
    metrics: dict[str, float] = {}
    for name, value in found.items():
        if name == "train_loss" and _RUN_SUMMARY_KEY in found:
            metrics[name] = value
        elif name and name not in IGNORED_NAMES and len(metrics) < MAX_METRICS_PER_REPORT:
            add_metric(metrics, name, value)
    return (step, metrics) if not TRAINING_METRICS.isdisjoint(metrics) else None


def _is_step(value: float) -> bool:
    return 0 <= value < MAX_STEP and value.is_integer()


def _parse_json(text: str) -> dict[str, Any] | None:
    if not text.startswith('{"'):
        return None
    try:
        body = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _leaves(body: dict[str, Any], max_depth: int) -> Iterator[tuple[str, float]]:
    for name, value in body.items():
        match value:
            case bool():
                continue
            case int() | float():
                if abs(value) < MAX_ABS_VALUE:
                    yield name, float(value)
            case str() if (found := parse_number(value)) is not None:
                yield name, found
            case dict() if max_depth:
                yield from _leaves(value, max_depth - 1)


def _parse_python_dict(inner: str) -> Iterator[tuple[str, float]]:
    """`'loss': 1.2, 'x': np.float64(0.5), 'y': tensor(0.1, device='cuda:0')`"""
    for item in inner.split(","):
        name, colon, text = item.partition(":")
        quoted = name.strip()
        if not colon or len(quoted) < 3 or quoted[0] not in "'\"" or quoted[-1] != quoted[0]:
            continue
        text = text.strip()
        if "(" in text:
            text = text.partition("(")[2].rstrip(")")
        value = parse_number(text)
        if value is not None:
            yield quoted[1:-1], value
