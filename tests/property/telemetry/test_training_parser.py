"""Whatever a job prints, the parser answers, with finite numbers under plain names."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.metrics.training import MAX_METRIC_NAME_LENGTH, MAX_METRICS_PER_REPORT, MAX_STEP
from stoker.telemetry.training_logs import TrainingParser

LONGEST_LINE = 65_536
PIECES = [
    *("step", "iteration", "epoch", "Epoch 1/5", "loss", "lm loss", "accuracy", "acc@1", "tflops", "{'", "':", '{"'),
    *('":', "}", "|", " | ", ":", "=", " ", ",", "/", "(", ")", "[", "]", "%", "\r", "\b", "\x1b[31m", "it/s", "<"),
    *("1", "0.5", "1e9", "1e999", "nan", "inf", "-", "1,444", "12:30", "9" * 40, "━━━", "•", "10/100 [00:01<00:02, "),
    *("iteration 5/10 |", "step: 5 ", "loss=0.25 ", "GiB", "tensor(", "avg "),
]
HOSTILE = [
    "step loss " + "a" * LONGEST_LINE,
    "step loss " + "a-" * (LONGEST_LINE // 2),
    "step loss " + "a/" * (LONGEST_LINE // 2),
    "step loss " + "1," * (LONGEST_LINE // 2),
    "step loss " + "9" * LONGEST_LINE,
    "step loss " + " " * LONGEST_LINE,
    "step loss " + "\r" * LONGEST_LINE,
    "step loss " + "{" * LONGEST_LINE + "}",
    'step loss {"a":' * (LONGEST_LINE // 16),
    "step loss " + "[" * LONGEST_LINE,
    "iteration 5/ 10 |" + "|" * LONGEST_LINE,
    "iteration 5/ 10 |" + "a/" * 8000 + ": " + "1/" * 8000,
    "iteration " * (LONGEST_LINE // 10) + "|loss: 1|",
    "step loss " + "\x1b[" * (LONGEST_LINE // 2),
    "step loss " + "loss " * (LONGEST_LINE // 5),
    "step loss " + "step: " * (LONGEST_LINE // 6),
    ("epoch 1 loss=0.5 " * 60 + "\r") * 60,
    "step loss " + "1/1 " * (LONGEST_LINE // 4) + "<",
    "Epoch 999999999:  50%|#    | 1/999999999999 [00:01<00:02, 1.0it/s, loss=0.5]",
]


def check(text: str) -> None:
    for found in TrainingParser().parse(text, 7):
        assert found.at == 7
        assert found.step is None or 0 <= found.step < MAX_STEP
        assert 1 <= len(found.metrics) <= MAX_METRICS_PER_REPORT
        for name, value in found.metrics.items():
            assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", name)
            assert len(name) <= MAX_METRIC_NAME_LENGTH + len("validation_") + len("_avg")
            assert math.isfinite(value)


@given(st.text())
def test_any_text_is_answered(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_line_made_of_the_words_of_training_is_answered(text: str) -> None:
    check(text)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_the_longest_lines_are_answered_too(number: int) -> None:
    check(HOSTILE[number])
