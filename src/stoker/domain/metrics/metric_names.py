"""What metrics are called: one spelling for each, and the same name for the same thing.

`loss`, `samples_per_second`, `accuracy` and `tflops` are called so whatever a framework calls them. Every other
metric keeps its own name in snake_case, without its unit.
"""

import re
from functools import lru_cache

from stoker.domain.training import LONGEST_NAME, Canonical

_SAME: dict[Canonical, tuple[str, ...]] = {
    Canonical.LOSS: (
        *("lm_loss", "train_loss", "training_loss", "loss_train", "avg_loss", "average_loss", "mean_loss"),
        *("running_loss", "batch_loss", "reduced_train_loss", "train_loss_step", "step_loss", "total_loss"),
    ),
    Canonical.SAMPLES_PER_SECOND: (
        *("train_samples_per_second", "train_samples_per_sec", "curr_samples_per_sec", "samples_per_sec"),
        *("sample_per_second", "sample_per_sec", "examples_per_second", "examples_per_sec"),
        *("images_per_second", "images_per_sec", "img_per_second"),
    ),
    Canonical.ACCURACY: (
        *("acc", "eval_accuracy", "eval_acc", "train_accuracy", "train_acc", "training_accuracy", "train_acc_step"),
    ),
    Canonical.TFLOPS: (
        *("tflop", "tflops_per_gpu", "tflops_per_device", "tflop_per_second", "tflops_per_second", "achieved_tflops"),
        *("tflop_per_second_per_gpu", "tflop_per_second_per_device", "tflops_per_second_per_gpu", "tflops_gpu"),
        *("tflops_per_second_per_device", "model_tflops", "model_tflops_per_gpu", "model_tflop_per_second_per_gpu"),
    ),
}
ALIASES = {alias: str(name) for name, aliases in _SAME.items() for alias in aliases}

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OTHER = re.compile(r"[^a-z0-9]+")
_UNIT = re.compile(r"\s*\([^()]*\)\s*$|\s+in\s+\w+\s*$")
_PER = ((r"/s(?:ec)?(?![a-z])", " per second"), (r"/gpu(?![a-z])", " per gpu"), (r"/device(?![a-z])", " per device"))
_PERS = tuple((re.compile(pattern, re.IGNORECASE), words) for pattern, words in _PER)
_RANK = re.compile(r"^\s*rank[- ]?\d+\s+", re.IGNORECASE)


@lru_cache(maxsize=4096)
def own_name(raw: str) -> str:
    """The name in snake_case, without its unit; what a framework spells in two ways has one spelling."""
    name = _RANK.sub("", raw.strip())
    if "tflop" in name.lower() and "(" in name:
        return Canonical.TFLOPS.value
    if name.lower().startswith("tokens/s/gpu inst"):
        return "tokens_per_gpu"  # as it was called before
    name = _UNIT.sub("", name).replace("TFLOP", "tflop")
    for pattern, words in _PERS:
        name = pattern.sub(words, name)
    return _OTHER.sub("_", _CAMEL.sub("_", name).lower()).strip("_")[:LONGEST_NAME].rstrip("_")


def put(metrics: dict[str, float], name: str, value: float) -> str:
    """Under its one name, unless the line has that already: then under its own. Says which."""
    known = ALIASES.get(name, name)
    if known in metrics:
        known = name
    metrics[known] = value
    return known
