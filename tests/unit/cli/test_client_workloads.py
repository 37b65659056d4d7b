"""The family of workloads through the SDK: its errors, its lists, its batches, its streams."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from typing import assert_type

import httpx
import pytest
from tests.unit.cli.fake_server import (
    MANAGEMENT_PATH,
    Answer,
    FakeServer,
    counted,
    detail,
    log_events,
    management_problem,
    workload,
)

from stoker.client import AsyncStoker, ErrorCode, Stoker, StokerError, Unreachable
from stoker.client.new_workload import NewWorkload, ResourceRequest, WorkloadType
from stoker.client.results import PodLogLine
from stoker.wire.management import WorkloadDetailView

SERVER = "http://stoker.test"


def client(server: FakeServer) -> Stoker:
    return Stoker(SERVER, "sk-test", transport=server.transport)


@pytest.mark.parametrize(
    ("status", "number", "code"),
    [
        (400, "00002", ErrorCode.BAD_REQUEST),
        (403, "00003", ErrorCode.FORBIDDEN),
        (403, "00008", ErrorCode.UNSCHEDULABLE),
        (404, "00005", ErrorCode.NOT_FOUND),
        (409, "00010", ErrorCode.CONFLICT),
        (404, "99999", ErrorCode.NOT_FOUND),
    ],
)
def test_the_errors_of_the_family_are_the_same_errors(status: int, number: str, code: ErrorCode) -> None:
    server = FakeServer({f"GET {MANAGEMENT_PATH}/x": (status, management_problem(f"Stoker.{number}", "Because."))})
    with client(server) as stoker, pytest.raises(StokerError) as caught:
        stoker.workloads.get("x")
    assert (caught.value.code, caught.value.message) == (code, "Because.")


def test_an_answer_in_nobodys_words_says_so() -> None:
    server = FakeServer({f"GET {MANAGEMENT_PATH}/x": (500, {"oops": True})})
    with client(server) as stoker, pytest.raises(StokerError, match="not with an error of Stoker"):
        stoker.workloads.get("x")


def test_a_script_travels_as_base64_and_what_is_left_out_is_not_sent() -> None:
    server = FakeServer({f"POST {MANAGEMENT_PATH}": (200, {"workloadId": "t-b2c4d"})})
    new = NewWorkload(
        display_name="t",
        group_version_kind=WorkloadType(kind="Job"),
        image="python",
        resource=ResourceRequest(cpu="1", memory="1Gi"),
        entry_point="echo ü".encode(),
    )
    with client(server) as stoker:
        assert stoker.workloads.create(new).workload_id == "t-b2c4d"
    [body] = server.bodies()
    assert base64.b64decode(body.pop("entryPoint")).decode() == "echo ü"
    assert body == {
        "displayName": "t",
        "groupVersionKind": {"kind": "Job", "version": "v1"},
        "image": "python",
        "resource": {"cpu": "1", "memory": "1Gi", "gpu": "0", "replica": 1},
    }
    assert "idempotency-key" in server.asked[0].headers


def test_a_rehearsal_says_so_in_the_query() -> None:
    answer = {"dryRun": True, "accepted": True, "message": "It would be accepted.", "schedulerOrder": 1}
    server = FakeServer({f"POST {MANAGEMENT_PATH}": (200, answer)})
    with client(server) as stoker:
        assert stoker.workloads.dry_run({"displayName": "t"}).scheduler_order == 1
    assert server.asked[0].url.params == httpx.QueryParams(dryRun="true")
    assert server.bodies() == [{"displayName": "t"}]


def test_a_list_goes_on_until_it_has_all_that_were_counted() -> None:
    pages: list[Answer | Exception] = [
        (200, counted(workload("a-b2c4d"), workload("b-b2c4d"), total=3)),
        (200, counted(workload("c-b2c4d"), total=3)),
    ]
    server = FakeServer({f"GET {MANAGEMENT_PATH}": pages})
    with client(server) as stoker:
        found = stoker.workloads.list(phase=("Running", "Pending"), kind=())
        assert [each.workload_id for each in found] == ["a-b2c4d", "b-b2c4d", "c-b2c4d"]
    assert [dict(request.url.params) for request in server.asked] == [
        {"limit": "500", "phase": "Running,Pending"},
        {"limit": "500", "phase": "Running,Pending", "offset": "2"},
    ]


def test_a_list_that_shrinks_while_it_is_read_ends() -> None:
    server = FakeServer({f"GET {MANAGEMENT_PATH}": [(200, counted(workload(), total=3)), (200, counted(total=3))]})
    with client(server) as stoker:
        assert len(list(stoker.workloads.list())) == 1


def test_a_batch_tells_of_each_whatever_the_status() -> None:
    failed = [{"workloadId": "no", **management_problem("Stoker.00005", "There is none.")}]
    answers: list[Answer | Exception] = [
        httpx.Response(204, headers={"X-Workload-Ids": "a-2,b-2"}),
        (207, {"succeeded": ["a"], "failed": failed}),
        (404, {"succeeded": [], "failed": failed}),
    ]
    server = FakeServer({f"POST {MANAGEMENT_PATH}/clone": answers})
    with client(server) as stoker:
        whole, part, none = (stoker.workloads.clone(["a", "b", "a"]) for _ in range(3))
    assert (whole.succeeded, whole.clones, whole.failed) == (("a", "b"), ("a-2", "b-2"), ())
    assert (part.succeeded, part.failed[0].error.code) == (("a",), ErrorCode.NOT_FOUND)
    assert (none.succeeded, none.failed[0].workload_id) == ((), "no")


def test_a_batch_that_was_refused_as_a_whole_is_an_error() -> None:
    server = FakeServer(
        {f"POST {MANAGEMENT_PATH}/stop": (401, management_problem("Stoker.00009", "This needs a credential."))}
    )
    with client(server) as stoker, pytest.raises(StokerError) as caught:
        stoker.workloads.stop_many(["a"])
    assert caught.value.code is ErrorCode.UNAUTHENTICATED


def followed() -> FakeServer:
    return FakeServer({f"GET {MANAGEMENT_PATH}/a/pods/a-0/logs": (200, log_events("one", "", "t\two"))})


def test_a_log_is_followed_line_by_line() -> None:
    server = followed()
    with client(server) as stoker:
        lines = stoker.workloads.follow_logs("a", "a-0", tail_lines=5)
        assert_type(lines, Iterator[PodLogLine])
        assert [line.text for line in lines] == ["one", "", "t\two"]
    assert dict(server.asked[0].url.params) == {"tailLines": "5", "follow": "true", "timestamps": "true"}
    assert server.asked[0].headers["accept"] == "text/event-stream"


def test_a_coroutine_follows_the_same_log() -> None:
    async def texts() -> list[str]:
        async with AsyncStoker(SERVER, transport=followed().transport) as stoker:
            lines = stoker.workloads.follow_logs("a", "a-0")
            assert_type(lines, AsyncIterator[PodLogLine])
            return [line.text async for line in lines]

    assert asyncio.run(texts()) == ["one", "", "t\two"]


def test_a_stream_that_is_refused_is_the_error_and_one_that_breaks_off_is_a_lost_server() -> None:
    server = FakeServer({f"GET {MANAGEMENT_PATH}/a/pods/a-0/logs": (200, log_events("one", end=False))})
    with client(server) as stoker:
        with pytest.raises(StokerError, match='no workload "b"'):
            list(stoker.workloads.follow_logs("b", "b-0"))
        with pytest.raises(Unreachable, match="broke off") as caught:
            list(stoker.workloads.follow_logs("a", "a-0"))
    assert caught.value.broke_off


def test_events_are_what_the_server_says_happened() -> None:
    data = (
        b'{"seq":3,"at":"2026-01-15T10:30:00.000Z","workloadId":"a","workspace":"w","kind":"phase",'
        b'"phase":"Initializing","reason":"Dispatch0","message":"workload dispatched","new":1}'
    )
    server = FakeServer({"GET /events": (200, b": keep-alive\n\nid: 3\nevent: phase\ndata: " + data + b"\n\n")})
    with client(server) as stoker:
        assert next(stoker.workloads.events(workload="a", after=0)).reason == "Dispatch0"
    assert dict(server.asked[0].url.params) == {"workload": "a", "after": "0"}


def test_a_field_of_a_newer_server_is_left_out() -> None:
    server = FakeServer({f"GET {MANAGEMENT_PATH}/a": (200, {**detail("a"), "cost": 3})})
    with client(server) as stoker:
        found = stoker.workloads.get("a")
    assert_type(found, WorkloadDetailView)
    assert found.pods[0].pod_id == "a-0"
