"""GPUs that are held and not used: how long a workload has been idle, and what the policy of its workspace does then.

Only what was measured counts. Time is added up from reading to reading, so that neither a lost source, nor a server
that was away, nor a clock that was set makes anybody idle; what was not seen for long begins anew. Nothing is stopped
that was not told so before, and had the whole grace since.
"""

from enum import StrEnum

from msgspec import Struct, structs

REPORTED, WARNED = "Idle", "IdleWarning"
"""What conditions of a workload give as their reason."""
FORGET_MS = 300_000
"""Who was not seen for longer than this is looked at anew."""


class IdleAction(StrEnum):
    OFF = "off"
    REPORT = "report"
    WARN = "warn"
    STOP = "stop"


class IdleStep(StrEnum):
    """What is done now."""

    NOTHING = "nothing"
    REPORT = "report"
    WARN = "warn"
    STOP = "stop"


class IdlePolicy(Struct, frozen=True):
    """`threshold` is in percent, None for that of the server; a GPU that is used more than that is not idle."""

    action: IdleAction = IdleAction.OFF
    threshold: float | None = None
    window_seconds: int = 1800
    grace_seconds: int = 900


class IdleSpan(Struct, frozen=True):
    """A stretch in which every look at a workload found all its GPUs idle. `run` is which of its runs that is."""

    run: int
    seen_at: int
    idle_ms: int = 0
    """As far as it was seen."""
    told: IdleAction | None = None
    """Under which action its owner was told, after how much of it, and how long it was promised then."""
    told_ms: int = 0
    grace_ms: int = 0


def look(
    policy: IdlePolicy, before: IdleSpan | None, run: int, idle: bool | None, at: int, period_ms: int
) -> tuple[IdleSpan | None, IdleStep]:
    """What a reading makes of a span, and what is done. `idle` is None where a GPU has no reading: then nothing is."""
    if policy.action is IdleAction.OFF:
        return None, IdleStep.NOTHING
    span = _follow(before, run, idle, at, period_ms)
    if span is None or idle is None:
        return span, IdleStep.NOTHING
    step = _decide(policy, span)
    return _after(policy, span, step), step


def duration(seconds: int) -> str:
    """A while as people say it: 45 s, 30 min, 1 h 30 min."""
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    if seconds < 120:
        return f"{seconds} s"
    return " ".join(f"{count} {unit}" for count, unit in ((hours, "h"), (minutes, "min")) if count)


def _follow(span: IdleSpan | None, run: int, idle: bool | None, at: int, period_ms: int) -> IdleSpan | None:
    """The span after another reading."""
    if idle is None:
        return span if span is not None and span.run == run else None
    if not idle:
        return None
    passed = -1 if span is None else at - span.seen_at
    if span is None or span.run != run or not 0 <= passed <= max(FORGET_MS, 3 * period_ms):
        return IdleSpan(run, at)
    seen = min(passed, period_ms) if passed <= 2 * period_ms else 0
    return structs.replace(span, seen_at=at, idle_ms=span.idle_ms + seen)


def _decide(policy: IdlePolicy, span: IdleSpan) -> IdleStep:
    """What the policy does about a span."""
    if policy.action is IdleAction.OFF or span.idle_ms < policy.window_seconds * 1000:
        return IdleStep.NOTHING
    if span.told is not policy.action:
        return IdleStep.REPORT if policy.action is IdleAction.REPORT else IdleStep.WARN
    grace_ms = max(span.grace_ms, policy.grace_seconds * 1000)
    if policy.action is IdleAction.STOP and span.idle_ms - span.told_ms >= grace_ms:
        return IdleStep.STOP
    return IdleStep.NOTHING


def _after(policy: IdlePolicy, span: IdleSpan, step: IdleStep) -> IdleSpan:
    """The span once its owner was told."""
    if step not in {IdleStep.REPORT, IdleStep.WARN}:
        return span
    return structs.replace(span, told=policy.action, told_ms=span.idle_ms, grace_ms=policy.grace_seconds * 1000)
