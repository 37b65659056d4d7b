"""What the pods of an attempt will do, known before they begin: how long they run, how they end, what they work at.

It follows from the seed, the workload and its annotations alone, so nothing of it needs to be kept.
"""

import random
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from stoker.domain.workload import Kind
from stoker.engines.simulated.dice import choice, dice

Word = TypeVar("Word", bound=StrEnum)
PREFIX = "stoker.simulate/"
SECONDS = PREFIX + "seconds"
EXIT_CODE = PREFIX + "exit-code"
START_SECONDS = PREFIX + "start-seconds"
LOAD = PREFIX + "load"
FRAMEWORK = PREFIX + "framework"

LONGEST_SECONDS = 10 * 366 * 86_400.0
OUT_OF_MEMORY = 137


class Doing(StrEnum):
    """What keeps the GPUs busy."""

    PRETRAINING = "pretraining"
    FINETUNING = "finetuning"
    BATCH = "batch"
    INFERENCE = "inference"
    NOTEBOOK = "notebook"
    IDLE = "idle"


class Framework(StrEnum):
    """Whose lines it prints."""

    MEGATRON = "megatron"
    TORCHTITAN = "torchtitan"
    HUGGINGFACE = "huggingface"
    VLLM = "vllm"
    JUPYTER = "jupyter"
    PLAIN = "plain"

    @property
    def trains(self) -> bool:
        return self in {Framework.MEGATRON, Framework.TORCHTITAN, Framework.HUGGINGFACE}


class Story(Struct, frozen=True):
    """`run_seconds` is None for what runs until it is stopped. Only `failing_rank` ends with the exit code. `work` is
    the key of the first attempt: what is tried again is the same program."""

    key: int
    work: int
    doing: Doing
    framework: Framework
    start_seconds: float
    run_seconds: float | None
    exit_code: int = 0
    failing_rank: int = 0


class Subject(Struct, frozen=True):
    """What is asked about: an attempt at a workload."""

    uid: str
    attempt: int
    revision: int
    kind: Kind
    replicas: int
    gpus: int
    annotations: Mapping[str, str] = {}
    framework: str = ""


def story(seed: int, subject: Subject) -> Story:
    asked = subject.annotations
    rolled = dice(seed, "story", subject.uid, subject.attempt, subject.revision)
    key = work = rolled.getrandbits(64)
    first = rolled
    if subject.attempt > 1:
        first = dice(seed, "story", subject.uid, 1, subject.revision)
        work = first.getrandbits(64)
    doing = _word(Doing, asked.get(LOAD, "")) or _usual(subject)
    framework = _word(Framework, asked.get(FRAMEWORK, subject.framework)) or _framework(doing, first)
    start = _number(asked.get(START_SECONDS, ""), LONGEST_SECONDS)
    drawn_start, drawn_run, code = _drawn_start(rolled), _drawn_run(subject, doing, rolled), _drawn_code(rolled)
    seconds = _number(asked.get(SECONDS, ""), LONGEST_SECONDS)
    given_code = _number(asked.get(EXIT_CODE, ""), 255)
    if seconds is not None or given_code is not None:
        code = int(given_code or 0)
    if seconds is None:
        seconds = drawn_run
        if code and seconds is not None and given_code is None:
            seconds *= rolled.random()
    elif start is None:
        start = 0.0
    if not subject.kind.ends and given_code is None:
        code = 0
    failing = rolled.randrange(subject.replicas) if code else 0
    return Story(key, work, doing, framework, drawn_start if start is None else start, seconds, code, failing)


def _usual(subject: Subject) -> Doing:
    match subject.kind:
        case Kind.AUTHORING:
            return Doing.NOTEBOOK
        case Kind.DEPLOYMENT | Kind.STATEFUL_SET:
            return Doing.INFERENCE
        case Kind.JOB:
            return Doing.BATCH
        case Kind.PYTORCH_JOB:
            return Doing.PRETRAINING if subject.gpus * subject.replicas >= 16 else Doing.FINETUNING


def _framework(doing: Doing, rolled: random.Random) -> Framework:
    match doing:
        case Doing.PRETRAINING:
            return choice(rolled, ((Framework.MEGATRON, 0.6), (Framework.TORCHTITAN, 0.4)))
        case Doing.FINETUNING:
            return choice(rolled, ((Framework.HUGGINGFACE, 0.6), (Framework.TORCHTITAN, 0.4)))
        case Doing.INFERENCE:
            return Framework.VLLM
        case Doing.NOTEBOOK:
            return Framework.JUPYTER
        case Doing.BATCH | Doing.IDLE:
            return Framework.PLAIN


def _drawn_start(rolled: random.Random) -> float:
    """Most images are there already; some are pulled first."""
    return rolled.uniform(8.0, 40.0) if rolled.random() < 0.15 else rolled.uniform(1.0, 4.0)


def _drawn_run(subject: Subject, doing: Doing, rolled: random.Random) -> float | None:
    if not subject.kind.ends:
        return None
    middle = {Doing.PRETRAINING: 6.0, Doing.FINETUNING: 5.0}.get(doing, 2.0)
    hours = rolled.lognormvariate(0.0, 0.9) * middle
    return min(96 * 3600.0, max(90.0, hours * 3600.0))


def _drawn_code(rolled: random.Random) -> int:
    return choice(rolled, ((0, 0.91), (1, 0.06), (OUT_OF_MEMORY, 0.03)))


def _word(kind: type[Word], text: str) -> Word | None:
    return kind(text) if text and text in set(kind) else None


def _number(text: str, most: float) -> float | None:
    """What an annotation says; one that cannot be read is as if it were not there."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= most else None
