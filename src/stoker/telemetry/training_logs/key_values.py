"""Parses key-value pairs in any order: TorchTitan, DeepSpeed, MaxText, Keras, and custom log lines.

A line counts if it names a step or an epoch, and at least one metric that only training has.
"""

import re
from collections.abc import Sequence
from math import isinf

from stoker.domain.metrics.metric_names import METRIC_BY_ALIAS, add_metric, normalize_name
from stoker.domain.metrics.training import MAX_METRICS_PER_REPORT
from stoker.telemetry.training_logs.megatron import ParsedLine
from stoker.telemetry.training_logs.numbers import NUMBER_PATTERN, SUFFIX_SCALES
from stoker.telemetry.training_logs.vocabulary import IGNORED_NAMES, QUALIFIERS, TRAINING_METRICS

_BEFORE = r"(?:^|(?<=[\s,;:|\[\](){\"'/]))"
_WORD = r"[A-Za-z](?<![^\s,;:|\[\](){\"'/][A-Za-z])[\w/@-]{0,79}+"
"""The lookbehind comes after the first letter, because searching for a letter first is quick."""
_PAIR = re.compile(
    rf"({_WORD})(?:[ ]\([A-Za-z/]{{1,12}}\))?"
    rf"(\s{{0,8}}+[:=]\s{{0,12}}+|\s{{1,12}}+)\[?({NUMBER_PATTERN})(%|[A-Za-z]{{0,5}})"
)
_STEP = re.compile(
    rf"{_BEFORE}(?:global_|train_|training_)?(step|steps|iteration|iter|update|num_updates|it)\b"
    r"[\"']?\s{0,4}[:=#]?\s{0,12}[\[(]?\s{0,12}(\d{1,15})(?!\d|\.\d)",
    re.IGNORECASE,
)
_EPOCH = re.compile(
    rf"{_BEFORE}epoch\b(?:\(\w{{1,12}}\))?[\"']?\s{{0,4}}[:=#]?\s{{0,12}}[\[(]?\s{{0,12}}\d", re.IGNORECASE
)
_EVALUATION = re.compile(r"(?<![\w/-])(?:eval|evaluation|validation|valid|val)(?![\w/-])", re.IGNORECASE)
FILLER_WORDS = frozenset({"and", "with", "the", "at", "completed", "finished", "done", "is", "has", "of", "got", "my"})
_QUALIFIER_CHARACTERS = 32
_AMBIGUOUS_SUFFIXES = frozenset("mbBtT")
"""After a number these may be a unit or a scale."""
_TRUSTED_NAMES = TRAINING_METRICS | METRIC_BY_ALIAS.keys() | {"lr"}
"""Names that may be separated from their value by a space only."""


def parse_key_values(text: str, progress_step: int | None, *, in_progress: bool = False) -> ParsedLine | None:
    metrics: dict[str, float] = {}
    evaluated = None if "val" in text.lower() else False
    end = 0
    for pair in _PAIR.finditer(text):
        if evaluated is None:
            evaluated = bool(_EVALUATION.search(text, 0, pair.start()))
        name = _metric_name(pair, text[max(end, pair.start() - _QUALIFIER_CHARACTERS) : pair.start()])
        end = pair.end()
        if not name or len(metrics) >= MAX_METRICS_PER_REPORT:
            continue
        unit = pair[4]
        value = float(pair[3].replace(",", "")) * SUFFIX_SCALES.get(unit, 1.0)
        if (
            isinf(value)
            or unit in _AMBIGUOUS_SUFFIXES
            or (unit == "%" and (name == "loss" or text[end : end + 1] == "|"))
        ):
            continue
        add_metric(metrics, f"eval_{name}" if evaluated and name in {"loss", "accuracy"} else name, value)
    if TRAINING_METRICS.isdisjoint(metrics):
        return None
    named = _STEP.search(text) if progress_step is None else None
    if progress_step is None and named is None and not in_progress and not _EPOCH.search(text):
        return None
    return int(named[2]) if named else progress_step, metrics


def _metric_name(pair: re.Match[str], before: str) -> str:
    """The name of a pair with its qualifiers; empty if it is not a metric."""
    word, between = pair[1], pair[2]
    name = normalize_name(word)
    if name in IGNORED_NAMES and name != "time":
        return ""
    words = before.split()[-2:] if before.endswith(" ") and "=" not in between and name != "epoch" else ()
    if words and words[-1].isalpha():
        name = normalize_name(_qualified_name(words, word))
    return "" if name == "time" or (between.isspace() and name not in _TRUSTED_NAMES) else name


def _qualified_name(before: Sequence[str], word: str) -> str:
    """`val loss` is one name, `INFO loss` is not, and `packet loss` is another loss."""
    last = before[-1]
    if last.lower() in QUALIFIERS:
        first = [qualifier for qualifier in before[:-1] if qualifier.lower() in QUALIFIERS]
        return " ".join([*first, last, word])
    return f"{last} {word}" if last.islower() and last not in FILLER_WORDS else word
