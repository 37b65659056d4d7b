"""The same three endpoints in each of the five families, to compare how each family renders errors."""

import asyncio
from enum import StrEnum
from typing import Annotated, Any

import httpx
from msgspec import Meta, Struct
from tests.api.harness import Harness

from stoker.api.http.app import AsgiApp
from stoker.api.http.endpoint import Call, Endpoint, endpoint
from stoker.api.http.families import AGGREGATION, MANAGEMENT, MONITORING, NATIVE, RUNAI, ApiFamily
from stoker.api.http.params import NoParams, Params
from stoker.api.http.prometheus import ServerMetrics
from stoker.api.routes import ENDPOINTS
from stoker.domain.access.permission_rules import Action
from stoker.wire.base import RequestBody

FAMILIES = {
    "management": MANAGEMENT,
    "monitoring": MONITORING,
    "aggregation": AGGREGATION,
    "runai": RUNAI,
    "native": NATIVE,
}
BASES = {
    "management": "/api/custom/workloads",
    "monitoring": "/api/workloads",
    "aggregation": "/api/v1/gpu-aggregation",
    "runai": "/api/v1/things",
    "native": "/api/stoker/v1",
}
SECRET_DETAIL = "a detail of the inside"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Size(RequestBody, frozen=True, kw_only=True):
    width: Annotated[int, Meta(ge=1, le=10)]


class Probe(RequestBody, frozen=True, kw_only=True):
    """A body with fields of many types."""

    name: Annotated[str, Meta(max_length=10)]
    size: Size | None = None
    colours: list[Colour] = []
    labels: dict[str, str] = {}
    anything: Any = None


class ProbeParams(Params, frozen=True, kw_only=True, rename="camel"):
    page_size: Annotated[int, Meta(ge=1, le=1000)] = 20
    colours: Annotated[list[Colour], Meta(max_length=3)] = []
    text: str = ""


class ProbeResult(Struct, frozen=True):
    page_size: int
    colours: list[Colour]
    text: str


async def look(call: Call[ProbeParams]) -> ProbeResult:
    """Returns the decoded parameters."""
    return ProbeResult(call.params.page_size, call.params.colours, call.params.text)


async def make(call: Call[NoParams]) -> Any:
    """Returns the body."""
    return call.body


async def fail(call: Call[NoParams]) -> Any:
    """Raises an unexpected exception."""
    raise RuntimeError(SECRET_DETAIL)


async def hang(call: Call[NoParams]) -> Any:
    """Never returns."""
    await asyncio.Event().wait()


def endpoints_of_family(family: ApiFamily, base: str) -> list[Endpoint]:
    anyone = Action.PUBLIC
    return [
        endpoint("GET", f"{base}/probe", family=family, action=anyone, params=ProbeParams)(look),
        endpoint("POST", f"{base}/probe", family=family, action=anyone, body=Probe)(make),
        endpoint("GET", f"{base}/broken", family=family, action=anyone)(fail),
        endpoint("POST", f"{base}/broken", family=family, action=Action.PROFILE_READ, body=Probe)(fail),
        endpoint("GET", f"{base}/slow", family=family, action=anyone)(hang),
        endpoint("GET", f"{base}/signed-in", family=family, action=Action.PROFILE_READ, params=ProbeParams)(look),
        endpoint("GET", f"{base}/monitored", family=family, action=Action.MONITOR, params=ProbeParams)(look),
    ]


def with_probes(harness: Harness) -> Harness:
    """The harness with the probes in addition to its endpoints."""
    probes = [each for name, family in FAMILIES.items() for each in endpoints_of_family(family, BASES[name])]
    harness.app = AsgiApp([*ENDPOINTS, *probes], harness.installation.services, ServerMetrics())
    return harness


class ErrorCase(Struct, frozen=True):
    """One error, and its text in each family."""

    status: int
    code: str
    safe: str
    message: str
    hint: str = ""
    field: str = ""

    def body(self, family: str, trace_id: str) -> dict[str, Any]:
        sentence = f"{self.message} {self.hint}".strip()
        match family:
            case "management":
                return {"errorCode": f"Stoker.{self.safe}", "errorMessage": sentence}
            case "monitoring":
                return {"code": self.status, "message": sentence, "traceId": trace_id}
            case "aggregation" if self.status == 400:
                return {"code": 400, "message": "Invalid request parameters", "error": sentence}
            case "aggregation":
                return {"code": self.status, "message": self.message, "error": self.hint or self.code}
            case "runai":
                details = {"details": self.hint} if self.hint else {}
                return {"code": self.status, "message": self.message, **details}
            case _:
                told = {"code": self.code, "message": self.message, "hint": self.hint, "field": self.field}
                return {"error": {**told, "traceId": trace_id}}


def check(answer: httpx.Response, family: str, wrong: ErrorCase) -> None:
    """Check that the response is exactly this error in the format of this family."""
    expected = wrong.body(family, answer.headers["X-Trace-Id"])
    assert (answer.status_code, answer.json()) == (wrong.status, expected), answer.text
    assert answer.headers["Content-Type"] == "application/json"
    assert int(answer.headers["Content-Length"]) == len(answer.content)


def bad_request(message: str, field: str = "") -> ErrorCase:
    return ErrorCase(400, "bad_request", "00002", message, field=field)
