"""Workloads of every kind, in every state and workspace, and what filters and orders mean for them in plain Python."""

from collections.abc import Iterator
from typing import Any

from tests.contract.runai.harness import RunaiHarness

from stoker.domain.clock import parse_rfc3339
from stoker.domain.workload.events import Dispatched, PodsReady

KINDS = ("PyTorchJob", "Job", "Deployment", "StatefulSet", "Authoring")
OPERATORS = ("==", "!=", "<=", ">=", "=@", "!@", "=^", "=$")
DATES = ("createdAt", "deletedAt", "completedAt", "phaseUpdatedAt", "guaranteedRuntimeEndsAt")
NUMBERS = (
    "allocatedGPU",
    "idleGpus",
    "idleAllocatedGpus",
    "priority",
    "totalPendingTimeSeconds",
    "totalRunningTimeSeconds",
)
TEXTS = (
    "type",
    "name",
    "clusterId",
    "projectId",
    "projectName",
    "departmentId",
    "departmentName",
    "submittedBy",
    "phase",
    "nodepool",
    "distributedFramework",
    "category",
    "priorityClassName",
    "aiApplicationId",
    "aiApplicationName",
)
FIELDS = (*DATES, *NUMBERS, *TEXTS)
GUARANTEED = 1_800_000_000_000


def settle(harness: RunaiHarness) -> None:
    """Thirty workloads: some wait, some run and idle, some have ended, one is on its way out."""
    for number in range(30):
        who, space = (("member", "vision"), ("outsider", "audio"), ("manager", "vision"))[number % 3]
        ref = harness.submit(
            who,
            displayName=("resnet", "bert", "gpt")[number % 3] + f"-{number % 7}",
            workspaceId=space,
            kind=KINDS[number % 5],
            gpu="0" if number % 4 == 0 else "1",
            image=("python:3.11", "rocm/pytorch:6.4", "vllm/vllm")[number % 3],
            priority=number % 2,
        )
        harness.clock.advance(seconds=7 * (number % 5))
        if number % 3 == 2:
            # Of those that run, some are guaranteed their place, two of them to the same moment.
            until = None if number % 6 == 2 else GUARANTEED + 60_000 * min(number // 6, 3)
            harness.start(
                ref,
                {f"node-{number:03}": [] if number % 4 == 0 else [0]},
                share=1000 if number % 2 else 500,
                guaranteed_until=until,
            )
            harness.clock.advance(seconds=11 * (number % 4))
        if number % 6 == 5:
            harness.idle(**{ref: 1000 if number % 2 else 500})
        if number % 12 == 8:
            harness.end(ref, success=number % 24 == 8)
        if number in {14, 18}:
            harness.delete(f"/api/custom/workloads/{ref}", as_="admin")
        if number == 9:
            harness.go(ref, lambda at: Dispatched(at, ("fast", "spare")), PodsReady)


def value(row: dict[str, Any], field: str) -> Any:
    """A field of an answer, as a filter compares it."""
    match field:
        case "nodepool":
            return row["currentNodePools"]
        case "allocatedGPU":
            return row["allocatedResources"]["gpu"]
        case _ if field in DATES:
            return parse_rfc3339(row[field]) if row.get(field) else None
    return row.get(field)


def means(row: dict[str, Any], field: str, operator: str, text: str) -> bool:
    """Whether a filter leaves a workload."""
    found = value(row, field)
    if isinstance(found, list):
        each = [_means(one, field, operator, text) for one in found]
        return all(each) if operator.startswith("!") else any(each)
    return _means(found, field, operator, text)


def _means(found: Any, field: str, operator: str, text: str) -> bool:
    if found is None:
        return operator.startswith("!")
    if operator in {"=@", "!@", "=^", "=$"}:
        shown = f"{found:g}" if isinstance(found, float) else str(found)
        looked, part = shown.casefold(), text.casefold()
        return {
            "=@": part in looked,
            "!@": part not in looked,
            "=^": looked.startswith(part),
            "=$": looked.endswith(part),
        }[operator]
    wanted: Any = text
    if field in DATES:
        wanted = parse_rfc3339(text)
    elif field in NUMBERS:
        wanted = float(text)
    return {"==": found == wanted, "!=": found != wanted, "<=": found <= wanted, ">=": found >= wanted}[operator]


def trials(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Every field with every operator that is allowed on it, and values that some workloads have and some have not."""
    for field in FIELDS:
        for operator in OPERATORS:
            if field in DATES and operator in {"=@", "!@", "=^", "=$"}:
                continue
            for text in sample(rows, field, operator):
                yield field, operator, text


def sample(rows: list[dict[str, Any]], field: str, operator: str) -> list[str]:
    found = sorted({text for row in rows for text in _texts(row, field)})
    few = [found[len(found) // 3], found[-1]] if found else []
    if operator in {"=@", "!@"}:
        return [each[len(each) // 2 :][:3] for each in few] or ["x"]
    if operator in {"=^", "=$"}:
        return [each[:3].upper() if operator == "=^" else each[-3:] for each in few] or ["x"]
    return few or (["2025-01-01T00:00:00Z"] if field in DATES else ["x"])


def _texts(row: dict[str, Any], field: str) -> list[str]:
    if field in DATES:
        return [row[field]] if row.get(field) else []
    found = value(row, field)
    return [str(one) for one in (found if isinstance(found, list) else [found]) if one is not None]


def ordered(rows: list[dict[str, Any]], field: str, *, descending: bool) -> list[str]:
    """Ids by a field and then by id; what has no value comes last, whichever way it goes."""

    def key(row: dict[str, Any]) -> Any:
        found = value(row, field)
        return ",".join(found) if isinstance(found, list) else found

    known = [row for row in rows if key(row) is not None]
    missing = [row for row in rows if key(row) is None]
    known.sort(key=lambda row: (key(row), row["id"]), reverse=descending)
    missing.sort(key=lambda row: row["id"], reverse=descending)
    return [row["id"] for row in (*known, *missing)]
