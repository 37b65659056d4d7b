"""The scenario of an attempt, known before it starts: how long its pods run, how they end, and what load they cause.

It follows from the seed, the workload and its annotations alone, so it is not stored.
"""

import random
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from stoker.domain.workload.spec import Kind
from stoker.engines.simulated.seeded_random import seeded_rng, weighted_choice

EnumT = TypeVar("EnumT", bound=StrEnum)
ANNOTATION_PREFIX = "stoker.simulate/"
RUN_SECONDS_ANNOTATION = ANNOTATION_PREFIX + "seconds"
EXIT_CODE_ANNOTATION = ANNOTATION_PREFIX + "exit-code"
START_SECONDS_ANNOTATION = ANNOTATION_PREFIX + "start-seconds"
LOAD_ANNOTATION = ANNOTATION_PREFIX + "load"
FRAMEWORK_ANNOTATION = ANNOTATION_PREFIX + "framework"

MAX_RUN_SECONDS = 10 * 366 * 86_400.0
OOM_EXIT_CODE = 137


class LoadProfile(StrEnum):
    """The load on the GPUs."""

    PRETRAINING = "pretraining"
    FINETUNING = "finetuning"
    BATCH = "batch"
    INFERENCE = "inference"
    NOTEBOOK = "notebook"
    IDLE = "idle"


class Framework(StrEnum):
    """The program whose log format is printed."""

    MEGATRON = "megatron"
    TORCHTITAN = "torchtitan"
    HUGGINGFACE = "huggingface"
    VLLM = "vllm"
    JUPYTER = "jupyter"
    PLAIN = "plain"

    @property
    def is_training(self) -> bool:
        return self in {Framework.MEGATRON, Framework.TORCHTITAN, Framework.HUGGINGFACE}


class Scenario(Struct, frozen=True):
    """`run_seconds` is None for pods that run until they are stopped. Only `failing_rank` ends with the exit code.
    `work` is the key of the first attempt: a retry is the same program."""

    seed: int
    program_seed: int
    profile: LoadProfile
    framework: Framework
    start_seconds: float
    run_seconds: float | None
    exit_code: int = 0
    failing_rank: int = 0


class ScenarioInput(Struct, frozen=True):
    """The attempt that a scenario is built for."""

    uid: str
    attempt: int
    revision: int
    kind: Kind
    replicas: int
    gpus: int
    annotations: Mapping[str, str] = {}
    framework: str = ""


def build_scenario(seed: int, subject: ScenarioInput) -> Scenario:
    annotations = subject.annotations
    rolled = seeded_rng(seed, "story", subject.uid, subject.attempt, subject.revision)
    key = work = rolled.getrandbits(64)
    first = rolled
    if subject.attempt > 1:
        first = seeded_rng(seed, "story", subject.uid, 1, subject.revision)
        work = first.getrandbits(64)
    doing = _parse_enum(LoadProfile, annotations.get(LOAD_ANNOTATION, "")) or _default_profile(subject)
    framework = _parse_enum(Framework, annotations.get(FRAMEWORK_ANNOTATION, subject.framework)) or _draw_framework(
        doing, first
    )
    start = _parse_number(annotations.get(START_SECONDS_ANNOTATION, ""), MAX_RUN_SECONDS)
    drawn_start, drawn_run, code = (
        _draw_start_seconds(rolled),
        _draw_run_seconds(subject, doing, rolled),
        _draw_exit_code(rolled),
    )
    seconds = _parse_number(annotations.get(RUN_SECONDS_ANNOTATION, ""), MAX_RUN_SECONDS)
    given_code = _parse_number(annotations.get(EXIT_CODE_ANNOTATION, ""), 255)
    if seconds is not None or given_code is not None:
        code = int(given_code or 0)
    if seconds is None:
        seconds = drawn_run
        if code and seconds is not None and given_code is None:
            seconds *= rolled.random()
    elif start is None:
        start = 0.0
    if not subject.kind.runs_to_completion and given_code is None:
        code = 0
    failing = rolled.randrange(subject.replicas) if code else 0
    return Scenario(key, work, doing, framework, drawn_start if start is None else start, seconds, code, failing)


def _default_profile(subject: ScenarioInput) -> LoadProfile:
    match subject.kind:
        case Kind.AUTHORING:
            return LoadProfile.NOTEBOOK
        case Kind.DEPLOYMENT | Kind.STATEFUL_SET:
            return LoadProfile.INFERENCE
        case Kind.JOB:
            return LoadProfile.BATCH
        case Kind.PYTORCH_JOB:
            return LoadProfile.PRETRAINING if subject.gpus * subject.replicas >= 16 else LoadProfile.FINETUNING


def _draw_framework(doing: LoadProfile, rolled: random.Random) -> Framework:
    match doing:
        case LoadProfile.PRETRAINING:
            return weighted_choice(rolled, ((Framework.MEGATRON, 0.6), (Framework.TORCHTITAN, 0.4)))
        case LoadProfile.FINETUNING:
            return weighted_choice(rolled, ((Framework.HUGGINGFACE, 0.6), (Framework.TORCHTITAN, 0.4)))
        case LoadProfile.INFERENCE:
            return Framework.VLLM
        case LoadProfile.NOTEBOOK:
            return Framework.JUPYTER
        case LoadProfile.BATCH | LoadProfile.IDLE:
            return Framework.PLAIN


def _draw_start_seconds(rolled: random.Random) -> float:
    """Most images are present already; some are pulled first."""
    return rolled.uniform(8.0, 40.0) if rolled.random() < 0.15 else rolled.uniform(1.0, 4.0)


def _draw_run_seconds(subject: ScenarioInput, doing: LoadProfile, rolled: random.Random) -> float | None:
    if not subject.kind.runs_to_completion:
        return None
    middle = {LoadProfile.PRETRAINING: 6.0, LoadProfile.FINETUNING: 5.0}.get(doing, 2.0)
    hours = rolled.lognormvariate(0.0, 0.9) * middle
    return min(96 * 3600.0, max(90.0, hours * 3600.0))


def _draw_exit_code(rolled: random.Random) -> int:
    return weighted_choice(rolled, ((0, 0.91), (1, 0.06), (OOM_EXIT_CODE, 0.03)))


def _parse_enum(kind: type[EnumT], text: str) -> EnumT | None:
    return kind(text) if text and text in set(kind) else None


def _parse_number(text: str, most: float) -> float | None:
    """The value of an annotation; one that cannot be parsed is ignored."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= most else None
