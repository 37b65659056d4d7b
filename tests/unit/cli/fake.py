"""A server of a few answers, for verbs and clients that need no network."""

import json
from collections.abc import Callable
from typing import Any

import httpx

Answer = tuple[int, Any]
BASE = "/api/stoker/v1"


class FakeServer:
    """Answers by method and path; a list is answered one by one, and everything asked is kept."""

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
            found = found.pop(0)
        if isinstance(found, Exception):
            raise found
        if found is None:
            return httpx.Response(404, json=problem("not_found", 'There is no user "x", or you may not see it.'))
        status, body = found
        return httpx.Response(status, json=body) if body is not None else httpx.Response(status)

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.asked if request.content]


def problem(code: str, message: str, hint: str = "", field: str = "") -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "hint": hint, "field": field, "traceId": "0" * 32}}


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
