"""Normalizes the names of training metrics.

`loss`, `samples_per_second`, `accuracy` and `tflops` get these names in every framework. Every other metric
keeps its own name in snake_case, without its unit.
"""

import re
from functools import lru_cache

from stoker.domain.metrics.training import MAX_METRIC_NAME_LENGTH, CanonicalMetric

_ALIASES_BY_METRIC: dict[CanonicalMetric, tuple[str, ...]] = {
    CanonicalMetric.LOSS: (
        *("lm_loss", "train_loss", "training_loss", "loss_train", "avg_loss", "average_loss", "mean_loss"),
        *("running_loss", "batch_loss", "reduced_train_loss", "train_loss_step", "step_loss", "total_loss"),
    ),
    CanonicalMetric.SAMPLES_PER_SECOND: (
        *("train_samples_per_second", "train_samples_per_sec", "curr_samples_per_sec", "samples_per_sec"),
        *("sample_per_second", "sample_per_sec", "examples_per_second", "examples_per_sec"),
        *("images_per_second", "images_per_sec", "img_per_second"),
    ),
    CanonicalMetric.ACCURACY: (
        *("acc", "eval_accuracy", "eval_acc", "train_accuracy", "train_acc", "training_accuracy", "train_acc_step"),
    ),
    CanonicalMetric.TFLOPS: (
        *("tflop", "tflops_per_gpu", "tflops_per_device", "tflop_per_second", "tflops_per_second", "achieved_tflops"),
        *("tflop_per_second_per_gpu", "tflop_per_second_per_device", "tflops_per_second_per_gpu", "tflops_gpu"),
        *("tflops_per_second_per_device", "model_tflops", "model_tflops_per_gpu", "model_tflop_per_second_per_gpu"),
    ),
}
METRIC_BY_ALIAS = {alias: str(name) for name, aliases in _ALIASES_BY_METRIC.items() for alias in aliases}

_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NON_ALPHANUMERIC = re.compile(r"[^a-z0-9]+")
_UNIT_SUFFIX = re.compile(r"\s*\([^()]*\)\s*$|\s+in\s+\w+\s*$")
_RATE_SUFFIXES = (
    (r"/s(?:ec)?(?![a-z])", " per second"),
    (r"/gpu(?![a-z])", " per gpu"),
    (r"/device(?![a-z])", " per device"),
)
_RATE_SUFFIX_REGEXES = tuple((re.compile(pattern, re.IGNORECASE), words) for pattern, words in _RATE_SUFFIXES)
_RANK_PREFIX = re.compile(r"^\s*rank[- ]?\d+\s+", re.IGNORECASE)


@lru_cache(maxsize=4096)
def normalize_name(raw: str) -> str:
    """The name in snake_case, without rank and unit."""
    name = _RANK_PREFIX.sub("", raw.strip())
    if "tflop" in name.lower() and "(" in name:
        return CanonicalMetric.TFLOPS.value
    if name.lower().startswith("tokens/s/gpu inst"):
        return "tokens_per_gpu"  # the name that stored metrics have
    name = _UNIT_SUFFIX.sub("", name).replace("TFLOP", "tflop")
    for pattern, words in _RATE_SUFFIX_REGEXES:
        name = pattern.sub(words, name)
    return (
        _NON_ALPHANUMERIC.sub("_", _CAMEL_BOUNDARY.sub("_", name).lower())
        .strip("_")[:MAX_METRIC_NAME_LENGTH]
        .rstrip("_")
    )


def add_metric(metrics: dict[str, float], name: str, value: float) -> str:
    """Add a value under its canonical name, or under its own if that is taken; returns the name used."""
    used = METRIC_BY_ALIAS.get(name, name)
    if used in metrics:
        used = name
    metrics[used] = value
    return used
