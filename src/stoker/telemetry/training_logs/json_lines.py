"""Mappings in a line: JSON, and Python's own dicts as the HF Trainer prints them, alone or behind a progress bar."""

from collections.abc import Iterator
from typing import Any

import msgspec

from stoker.domain.metric_names import own_name, put
from stoker.domain.training import HIGHEST_STEP, MOST_METRICS
from stoker.telemetry.training.names import IGNORED, OUTCOMES, STEPS
from stoker.telemetry.training.numbers import number
from stoker.telemetry.training.segments import Found

DEEPEST = 3
LARGEST = 1e300
_OF_THE_RUN = "train_runtime"
"""The HF Trainer's last word: its loss is the mean of the whole run, not one of a step."""
_MESSAGES = ("message", "msg", "log", "text")


def read_mapping(text: str, progress_step: int | None) -> Found | str | None:
    """The metrics of the mapping in a line; a text if it is a log record that wraps one."""
    begin, end = text.find("{"), text.rfind("}") + 1
    if begin < 0 or end <= begin:
        return None
    found: dict[str, float] = {}
    body = _json(text[begin:end])
    if body is not None:
        if wrapped := next((body[name] for name in _MESSAGES if isinstance(body.get(name), str)), None):
            return wrapped
        pairs = _leaves(body, DEEPEST)
    else:
        pairs = _literal(text[begin + 1 : end - 1])
    for name, value in pairs:
        if len(found) < MOST_METRICS + len(STEPS):
            found.setdefault(own_name(name), value)
    return _judged(found, progress_step)


def _judged(found: dict[str, float], progress_step: int | None) -> Found | None:
    step = next((int(found[name]) for name in STEPS if name in found and _is_step(found[name])), progress_step)
    if step is None and "epoch" not in found:
        return None
    metrics: dict[str, float] = {}
    for name, value in found.items():
        if name == "train_loss" and _OF_THE_RUN in found:
            metrics[name] = value
        elif name and name not in IGNORED and len(metrics) < MOST_METRICS:
            put(metrics, name, value)
    return (step, metrics) if not OUTCOMES.isdisjoint(metrics) else None


def _is_step(value: float) -> bool:
    return 0 <= value < HIGHEST_STEP and value.is_integer()


def _json(text: str) -> dict[str, Any] | None:
    if not text.startswith('{"'):
        return None
    try:
        body = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _leaves(body: dict[str, Any], deepest: int) -> Iterator[tuple[str, float]]:
    for name, value in body.items():
        match value:
            case bool():
                continue
            case int() | float():
                if abs(value) < LARGEST:
                    yield name, float(value)
            case str() if (found := number(value)) is not None:
                yield name, found
            case dict() if deepest:
                yield from _leaves(value, deepest - 1)


def _literal(inner: str) -> Iterator[tuple[str, float]]:
    """`'loss': 1.2, 'x': np.float64(0.5), 'y': tensor(0.1, device='cuda:0')`"""
    for item in inner.split(","):
        name, colon, text = item.partition(":")
        quoted = name.strip()
        if not colon or len(quoted) < 3 or quoted[0] not in "'\"" or quoted[-1] != quoted[0]:
            continue
        text = text.strip()
        if "(" in text:
            text = text.partition("(")[2].rstrip(")")
        value = number(text)
        if value is not None:
            yield quoted[1:-1], value
