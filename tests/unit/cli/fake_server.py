"""A server of a few answers, for verbs and clients that need no network."""

import json
from collections.abc import Callable
from typing import Any

import httpx

Answer = tuple[int, Any] | httpx.Response
BASE = "/api/stoker/v1"
MANAGEMENT_PATH = "/api/custom/workloads"


class FakeServer:
    """Answers by method and path; a list is answered one by one and then with its last, and what is asked is kept.

    Bytes are an answer of events.
    """

    def __init__(self, answers: dict[str, Answer | list[Answer | Exception]] | None = None) -> None:
        self.answers = answers or {}
        self.asked: list[httpx.Request] = []

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self.answer)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        found = self.answers.get(f"{request.method} {request.url.raw_path.decode().removeprefix(BASE).split('?')[0]}")
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, Exception):
            raise found
        if found is None:
            return httpx.Response(404, json=self.missing(request.url.path))
        if isinstance(found, httpx.Response):
            return found
        status, body = found
        if isinstance(body, bytes):
            return httpx.Response(status, content=body, headers={"Content-Type": "text/event-stream"})
        return httpx.Response(status, json=body) if body is not None else httpx.Response(status)

    def missing(self, path: str) -> dict[str, Any]:
        if path.startswith(MANAGEMENT_PATH):
            name = path.removeprefix(f"{MANAGEMENT_PATH}/").partition("/")[0]
            return management_problem("Stoker.00005", f'There is no workload "{name}", or you may not see it.')
        return problem("not_found", 'There is no user "x", or you may not see it.')

    def asked_for(self, method: str, path: str) -> list[httpx.Request]:
        return [request for request in self.asked if request.method == method and request.url.path == path]

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.asked if request.content]


def problem(code: str, message: str, hint: str = "", field: str = "") -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "hint": hint, "field": field, "traceId": "0" * 32}}


def management_problem(code: str, message: str) -> dict[str, Any]:
    return {"errorCode": code, "errorMessage": message}


def user(name: str = "li.wei", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"id-of-{name}",
        "name": name,
        "kind": "person",
        "role": "user",
        "fullName": "",
        "email": "",
        "disabled": False,
        "defaultWorkspace": None,
        "createdAt": "2026-01-15T10:30:00.000Z",
        "updatedAt": "2026-01-15T10:30:00.500Z",
        **changes,
    }


def page(*items: dict[str, Any], following: int | str | None = None) -> dict[str, Any]:
    return {"items": list(items), "total": len(items), "next": following}


def raising(error: Exception) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        raise error

    return answer


def workload(workload_id: str = "train-b2c4d", phase: str = "Running", **changes: Any) -> dict[str, Any]:
    """A row of the list."""
    return {
        "workloadId": workload_id,
        "displayName": workload_id.rpartition("-")[0],
        "description": "",
        "workspaceId": "default",
        "clusterId": "local",
        "userId": "u",
        "userName": "li.wei",
        "phase": phase,
        "priority": 0,
        "resource": {"cpu": "1", "memory": "1Gi", "gpu": "0", "replica": 1},
        "groupVersionKind": {"kind": "Job", "version": "v1"},
        "creationTime": "2026-01-15T10:30:00.000Z",
        "startTime": "",
        "endTime": "",
        "runtime": "0s",
        "schedulerOrder": 0,
        "dispatchCount": 0 if phase == "Pending" else 1,
        "isTolerateAll": False,
        "timeout": 0,
        "secondsUntilTimeout": 0,
        "message": "",
        **changes,
    }


def detail(workload_id: str = "train-b2c4d", phase: str = "Running", **changes: Any) -> dict[str, Any]:
    """One workload; it has a pod unless it waits, and ended as its message says."""
    message = changes.get("message", "")
    pods = [] if phase == "Pending" else [{"podId": f"{workload_id}-0", "phase": phase, "nodeName": "n1"}]
    ended = {"type": phase, "status": "True", "lastTransitionTime": "", "reason": "", "message": message}
    return {
        **workload(workload_id, phase),
        "image": "python",
        "entryPoint": "python train.py",
        "isSupervised": False,
        "maxRetry": 0,
        "ttlSecondsAfterFinished": 60,
        "preemptible": False,
        "guaranteedUntil": "",
        "env": {},
        "conditions": [ended] if phase in {"Failed", "Succeeded", "Stopped"} else [],
        "pods": pods,
        "nodes": [["n1"]] if pods else [],
        "ranks": [["0"]] if pods else [],
        "customerLabels": {},
        "annotations": {},
        "specifiedNodes": [],
        "dependencies": [],
        **changes,
    }


def counted(*items: dict[str, Any], total: int | None = None) -> dict[str, Any]:
    return {"totalCount": len(items) if total is None else total, "items": list(items)}


def log_events(*lines: str, end: bool = True) -> bytes:
    """A followed log: each line a millisecond after the one before."""
    shown = [f"data: 2026-01-15T10:30:00.{at:03d}Z {line}\n\n" for at, line in enumerate(lines)]
    return ("".join(shown) + ("event: end\ndata: \n\n" if end else "")).encode()
