"""The same three endpoints in each of the five families, to see how each family words what goes wrong."""

import asyncio
from enum import StrEnum
from typing import Annotated, Any

import httpx
from msgspec import Meta, Struct
from tests.api.lab import Lab

from stoker.api.app import Api
from stoker.api.bodies import Body
from stoker.api.endpoint import Call, Endpoint, endpoint
from stoker.api.families import AGGREGATION, LENS, NATIVE, RUNAI, SAFE, Family
from stoker.api.metrics import Metrics
from stoker.api.params import NoParams, Params
from stoker.api.table import ENDPOINTS
from stoker.domain.permissions import Action

FAMILIES = {"safe": SAFE, "lens": LENS, "aggregation": AGGREGATION, "runai": RUNAI, "native": NATIVE}
BASES = {
    "safe": "/api/custom/workloads",
    "lens": "/api/workloads",
    "aggregation": "/api/v1/gpu-aggregation",
    "runai": "/api/v1/things",
    "native": "/api/stoker/v1",
}
SECRET_DETAIL = "a detail of the inside"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Size(Body, frozen=True, kw_only=True):
    width: Annotated[int, Meta(ge=1, le=10)]


class Probe(Body, frozen=True, kw_only=True):
    """A body with something of everything."""

    name: Annotated[str, Meta(max_length=10)]
    size: Size | None = None
    colours: list[Colour] = []
    labels: dict[str, str] = {}
    anything: Any = None


class Asked(Params, frozen=True, kw_only=True, rename="camel"):
    page_size: Annotated[int, Meta(ge=1, le=1000)] = 20
    colours: Annotated[list[Colour], Meta(max_length=3)] = []
    text: str = ""


class Seen(Struct, frozen=True):
    page_size: int
    colours: list[Colour]
    text: str


async def look(call: Call[Asked]) -> Seen:
    """What was asked for."""
    return Seen(call.params.page_size, call.params.colours, call.params.text)


async def make(call: Call[NoParams]) -> Any:
    """The body, given back."""
    return call.body


async def fail(call: Call[NoParams]) -> Any:
    """Goes wrong in a way nobody thought of."""
    raise RuntimeError(SECRET_DETAIL)


async def hang(call: Call[NoParams]) -> Any:
    """Takes for ever."""
    await asyncio.Event().wait()


def endpoints_of_family(family: Family, base: str) -> list[Endpoint]:
    anyone = Action.LOOK_AROUND
    return [
        endpoint("GET", f"{base}/probe", family=family, action=anyone, params=Asked)(look),
        endpoint("POST", f"{base}/probe", family=family, action=anyone, body=Probe)(make),
        endpoint("GET", f"{base}/broken", family=family, action=anyone)(fail),
        endpoint("POST", f"{base}/broken", family=family, action=Action.PROFILE_READ, body=Probe)(fail),
        endpoint("GET", f"{base}/slow", family=family, action=anyone)(hang),
        endpoint("GET", f"{base}/signed-in", family=family, action=Action.PROFILE_READ, params=Asked)(look),
        endpoint("GET", f"{base}/monitored", family=family, action=Action.MONITOR, params=Asked)(look),
    ]


def with_probes(lab: Lab) -> Lab:
    """The lab with the probes beside its own endpoints."""
    probes = [each for name, family in FAMILIES.items() for each in endpoints_of_family(family, BASES[name])]
    lab.app = Api([*ENDPOINTS, *probes], lab.installation.services, Metrics())
    return lab


class Wrong(Struct, frozen=True):
    """One thing that goes wrong, and the words that each family has for it."""

    status: int
    code: str
    safe: str
    message: str
    hint: str = ""
    field: str = ""

    def body(self, family: str, trace_id: str) -> dict[str, Any]:
        sentence = f"{self.message} {self.hint}".strip()
        match family:
            case "safe":
                return {"errorCode": f"Stoker.{self.safe}", "errorMessage": sentence}
            case "lens":
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


def check(answer: httpx.Response, family: str, wrong: Wrong) -> None:
    """The answer is this error in this family's words, and nothing else."""
    expected = wrong.body(family, answer.headers["X-Trace-Id"])
    assert (answer.status_code, answer.json()) == (wrong.status, expected), answer.text
    assert answer.headers["Content-Type"] == "application/json"
    assert int(answer.headers["Content-Length"]) == len(answer.content)


def bad_request(message: str, field: str = "") -> Wrong:
    return Wrong(400, "bad_request", "00002", message, field=field)
