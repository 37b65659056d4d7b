"""What holds of every answer: its own OpenAPI document, and what is true of a workload at any time of its life."""

import functools
import json
import re
from typing import Any

import httpx
import jsonschema_rs

from stoker.api.exec_socket import EXEC_ENDPOINT
from stoker.api.http.families import encode_json
from stoker.api.http.openapi import build_document
from stoker.api.routes import ENDPOINTS

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Stopped", "Updating")
CONDITIONS = {
    "Queued",
    "Dispatched",
    "Running",
    "Updating",
    "Preempted",
    "Failover",
    "TimedOut",
    "Stopped",
    "Succeeded",
    "Failed",
}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
ENDED = ("Succeeded", "Failed", "Stopped")


def check_detail(shown: dict[str, Any]) -> None:
    """What holds for every workload at any time."""
    conditions = shown["conditions"]
    times = [each["lastTransitionTime"] for each in conditions]
    assert {each["type"] for each in conditions} <= CONDITIONS
    assert {each["status"] for each in conditions} == {"True"}
    assert times == sorted(times)
    assert all(TIME.match(at) for at in times)
    assert (conditions[0]["type"], conditions[0]["reason"]) == ("Queued", "Submitted")
    dispatched = [each["reason"] for each in conditions if each["type"] == "Dispatched"]
    assert dispatched == [f"Dispatch{number}" for number in range(shown["dispatchCount"])]
    assert [len(names) for names in shown["nodes"]] == [len(numbers) for numbers in shown["ranks"]]
    assert shown["phase"] in PHASES
    assert all(TIME.match(shown[name]) or shown[name] == "" for name in ("creationTime", "startTime", "endTime"))
    assert (shown["endTime"] != "") == (shown["phase"] in ENDED)
    assert shown["schedulerOrder"] == 0 or shown["phase"] == "Pending"
    assert re.fullmatch(r"(\d+h\d{1,2}m|\d{1,2}m)?\d{1,2}s", shown["runtime"])


class Contract:
    """The OpenAPI document, asked about one answer at a time."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._validators: dict[tuple[str, str, int], jsonschema_rs.Validator] = {}
        # A path without variables goes before one that has them: /stop is not the name of a workload.
        self._paths = [
            (re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path) + r"\Z"), path)
            for path in sorted(document["paths"], key=lambda path: path.count("{"))
        ]

    def check(self, method: str, path: str, answer: httpx.Response) -> None:
        """The status is documented, and the body is what the document says."""
        template = next(found for pattern, found in self._paths if pattern.match(path.partition("?")[0]))
        described = self._document["paths"][template][method.lower()]["responses"]
        status = answer.status_code
        assert str(status) in described, f"{method} {template} does not say that it answers {status}: {answer.text}"
        content = described[str(status)].get("content")
        if content is None:
            assert answer.content == b""
        elif not answer.headers["content-type"].startswith("text/event-stream"):
            key = (method, template, status)
            if key not in self._validators:
                schema = {**content["application/json"]["schema"], "components": self._document["components"]}
                self._validators[key] = jsonschema_rs.validator_for(schema)
            self._validators[key].validate(answer.json())


@functools.cache
def current_contract() -> Contract:
    """That of the code under test: it is the same for every installation, so all of a run share it."""
    return Contract(json.loads(encode_json(build_document(ENDPOINTS, (EXEC_ENDPOINT,)))))


def refused(answer: httpx.Response, field: str, status: int = 400, code: str = "Stoker.00002") -> str:
    """What was wrong; it begins with the name of the field."""
    assert (answer.status_code, answer.json()["errorCode"]) == (status, code), answer.text
    message = answer.json()["errorMessage"]
    assert message.startswith(f"{field}: "), message
    return message.removeprefix(f"{field}: ")
