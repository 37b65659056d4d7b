"""Names with values in a line of any order: TorchTitan, DeepSpeed, MaxText, Keras, and what people print themselves.

It has to name a step or an epoch, and at least one thing that only training says.
"""

import re
from collections.abc import Sequence
from math import isinf

from stoker.domain.metric_names import ALIASES, own_name, put
from stoker.domain.training import MOST_METRICS
from stoker.telemetry.training.names import IGNORED, OUTCOMES, QUALIFIERS
from stoker.telemetry.training.numbers import NUMBER, SCALES
from stoker.telemetry.training.segments import Found

_BEFORE = r"(?:^|(?<=[\s,;:|\[\](){\"'/]))"
_WORD = r"[A-Za-z](?<![^\s,;:|\[\](){\"'/][A-Za-z])[\w/@-]{0,79}+"
"""What is before its first letter is looked at second: a search for a letter is quick."""
_PAIR = re.compile(
    rf"({_WORD})(?:[ ]\([A-Za-z/]{{1,12}}\))?"
    rf"(\s{{0,8}}+[:=]\s{{0,12}}+|\s{{1,12}}+)\[?({NUMBER})(%|[A-Za-z]{{0,5}})"
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
FILLERS = frozenset({"and", "with", "the", "at", "completed", "finished", "done", "is", "has", "of", "got", "my"})
_LOOK_BACK = 32
_UNCLEAR = frozenset("mbBtT")
"""Right behind a number these may be a unit or a scale."""
_PLAIN = OUTCOMES | ALIASES.keys() | {"lr"}
"""What is believed without a sign between name and value."""


def read_pairs(text: str, progress_step: int | None, *, in_progress: bool = False) -> Found | None:
    metrics: dict[str, float] = {}
    evaluated = None if "val" in text.lower() else False
    end = 0
    for pair in _PAIR.finditer(text):
        if evaluated is None:
            evaluated = bool(_EVALUATION.search(text, 0, pair.start()))
        name = _name(pair, text[max(end, pair.start() - _LOOK_BACK) : pair.start()])
        end = pair.end()
        if not name or len(metrics) >= MOST_METRICS:
            continue
        unit = pair[4]
        value = float(pair[3].replace(",", "")) * SCALES.get(unit, 1.0)
        if isinf(value) or unit in _UNCLEAR or (unit == "%" and (name == "loss" or text[end : end + 1] == "|")):
            continue
        put(metrics, f"eval_{name}" if evaluated and name in {"loss", "accuracy"} else name, value)
    if OUTCOMES.isdisjoint(metrics):
        return None
    named = _STEP.search(text) if progress_step is None else None
    if progress_step is None and named is None and not in_progress and not _EPOCH.search(text):
        return None
    return int(named[2]) if named else progress_step, metrics


def _name(pair: re.Match[str], before: str) -> str:
    """The name of a pair with the words that belong to it; nothing if it is no metric."""
    word, between = pair[1], pair[2]
    name = own_name(word)
    if name in IGNORED and name != "time":
        return ""
    words = before.split()[-2:] if before.endswith(" ") and "=" not in between and name != "epoch" else ()
    if words and words[-1].isalpha():
        name = own_name(_qualified(words, word))
    return "" if name == "time" or (between.isspace() and name not in _PLAIN) else name


def _qualified(before: Sequence[str], word: str) -> str:
    """`val loss` is one name, `INFO loss` is not, and `packet loss` is another loss."""
    last = before[-1]
    if last.lower() in QUALIFIERS:
        first = [each for each in before[:-1] if each.lower() in QUALIFIERS]
        return " ".join([*first, last, word])
    return f"{last} {word}" if last.islower() and last not in FILLERS else word
