"""Idle detection: how long the GPUs of a workload have been idle, and what the policy of its workspace does about it.

Only measured time counts: idle time accumulates from sample to sample, so a lost collector, a server restart or a clock
change makes no workload idle, and a long gap resets it. No workload is stopped without a warning and the full grace
period after it.
"""

import math
from enum import StrEnum

from msgspec import Struct, structs

from stoker.domain.cluster.sample_age import max_sample_age

REASON_IDLE, REASON_IDLE_WARNING = "Idle", "IdleWarning"
"""Condition reasons."""
UTILIZATION_SCALE = 10_000
"""Utilization is stored and compared in whole hundredths of a percent: 0.07 * 100 is more than 7."""
LONG_IDLE_MS = 300_000
"""GPUs that have been idle for longer than this are counted as idle allocated GPUs."""


class IdleAction(StrEnum):
    OFF = "off"
    REPORT = "report"
    WARN = "warn"
    STOP = "stop"


class IdleDecision(StrEnum):
    """What the policy does now."""

    NONE = "nothing"
    REPORT = "report"
    WARN = "warn"
    STOP = "stop"


class IdlePolicy(Struct, frozen=True):
    """The idle policy of a workspace. GPUs with a utilization up to `threshold` percent are idle; None means the
    server's setting."""

    action: IdleAction = IdleAction.OFF
    threshold: float | None = None
    window_seconds: int = 1800
    grace_seconds: int = 900


class IdleSpan(Struct, frozen=True):
    """A period in which every sample found all GPUs of a workload idle. `run` identifies the run of the workload."""

    run: int
    seen_at: int
    idle_ms: int = 0
    """Measured idle time."""
    told: IdleAction | None = None
    """The action that the owner was notified of, with the idle time and grace period at that moment."""
    told_ms: int = 0
    grace_ms: int = 0


def quantize_threshold(percent: float) -> int:
    """A threshold in hundredths of a percent, rounded down."""
    return math.floor(round(percent * UTILIZATION_SCALE / 100, 6))


def quantize_utilization(share: float) -> int:
    """A fraction in hundredths of a percent."""
    return round(share * UTILIZATION_SCALE)


def is_idle(utilization: float, threshold_percent: float) -> bool:
    """Whether a utilization, a fraction of one, is not above a threshold; both are compared in steps."""
    return quantize_utilization(utilization) <= quantize_threshold(threshold_percent)


def update_idle_span(
    policy: IdlePolicy, before: IdleSpan | None, run: int, idle: bool | None, at: int, period_ms: int
) -> tuple[IdleSpan | None, IdleDecision]:
    """The idle span after a sample, and the decision. `idle` is None if a GPU has no sample; then nothing is done."""
    if policy.action is IdleAction.OFF:
        return None, IdleDecision.NONE
    span = _extend_span(before, run, idle, at, period_ms)
    if span is None or idle is None:
        return span, IdleDecision.NONE
    decision = _apply_policy(policy, span)
    return _record_notice(policy, span, decision), decision


def format_duration(seconds: int) -> str:
    """A duration for messages: 45 s, 30 min, 1 h 30 min."""
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    if seconds < 120:
        return f"{seconds} s"
    return " ".join(f"{count} {unit}" for count, unit in ((hours, "h"), (minutes, "min")) if count)


def _extend_span(span: IdleSpan | None, run: int, idle: bool | None, at: int, period_ms: int) -> IdleSpan | None:
    if idle is None:
        return span if span is not None and span.run == run else None
    if not idle:
        return None
    elapsed = -1 if span is None else at - span.seen_at
    if span is None or span.run != run or not 0 <= elapsed <= max_sample_age(period_ms):
        return IdleSpan(run, at)
    measured = min(elapsed, period_ms) if elapsed <= 2 * period_ms else 0
    return structs.replace(span, seen_at=at, idle_ms=span.idle_ms + measured)


def _apply_policy(policy: IdlePolicy, span: IdleSpan) -> IdleDecision:
    if policy.action is IdleAction.OFF or span.idle_ms < policy.window_seconds * 1000:
        return IdleDecision.NONE
    if span.told is not policy.action:
        return IdleDecision.REPORT if policy.action is IdleAction.REPORT else IdleDecision.WARN
    grace_ms = max(span.grace_ms, policy.grace_seconds * 1000)
    if policy.action is IdleAction.STOP and span.idle_ms - span.told_ms >= grace_ms:
        return IdleDecision.STOP
    return IdleDecision.NONE


def _record_notice(policy: IdlePolicy, span: IdleSpan, decision: IdleDecision) -> IdleSpan:
    """Record in the span that its owner was notified."""
    if decision not in {IdleDecision.REPORT, IdleDecision.WARN}:
        return span
    return structs.replace(span, told=policy.action, told_ms=span.idle_ms, grace_ms=policy.grace_seconds * 1000)
