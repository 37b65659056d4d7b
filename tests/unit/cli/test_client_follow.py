"""A workload is followed to its end, over retries and over a server that goes away for a while."""

from typing import Any

import httpx
import msgspec
import pytest
from tests.unit.cli.fake_server import MANAGEMENT_PATH, FakeServer, detail, log_events

from stoker.client import Stoker, StokerError, Unreachable
from stoker.client.follow import LogOutput, LogSelection, ReadPosition, WorkloadFollower
from stoker.client.results import PodLogLine
from stoker.wire.workloads import WorkloadEvent

NAME = "train-b2c4d"
LOGS = f"GET {MANAGEMENT_PATH}/{NAME}/pods/{NAME}-0/logs"
EVENT = (
    f'{{"seq":1,"at":"2026-01-15T10:30:00.000Z","workloadId":"{NAME}","workspace":"w","kind":"phase",'
    '"phase":"Completed","reason":"","message":""}'
)
REFUSED = httpx.ConnectError("Connection refused")


@pytest.fixture(autouse=True)
def _poll_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.client.follow.POLL_SECONDS_WITHOUT_EVENTS", 0.01)
    monkeypatch.setattr("stoker.client.follow.POLL_SECONDS", 0.01)
    monkeypatch.setattr("stoker.client.transport.reconnect.RECONNECT_DELAY_SECONDS", 0.01)
    monkeypatch.setattr("stoker.client.transport.request_flow.INITIAL_BACKOFF_SECONDS", 0.001)


def server(*details: Any, logs: Any = None) -> FakeServer:
    return FakeServer({f"GET {MANAGEMENT_PATH}/{NAME}": list(details), LOGS: logs or (200, log_events("hi"))})


def followed(fake: FakeServer, choice: LogSelection) -> tuple[list[str], list[str]]:
    """The phases that were seen, each once in a row, and the lines."""
    phases: list[str] = []
    lines: list[str] = []
    with Stoker("http://x", transport=fake.transport) as stoker:
        for each in stoker.follow(NAME, choice):
            if isinstance(each, LogOutput):
                lines.append(each.line.text)
            elif phases[-1:] != [each.phase]:
                phases.append(each.phase)
    return phases, lines


def test_it_is_followed_from_the_queue_to_the_end() -> None:
    fake = server((200, detail(phase="Pending")), (200, detail()), (200, detail(phase="Succeeded")))
    assert followed(fake, LogSelection(all_attempts=True)) == (["Pending", "Running", "Succeeded"], ["hi"])


def test_what_ended_before_anyone_looked_has_its_lines_too() -> None:
    assert followed(server((200, detail(phase="Failed"))), LogSelection()) == (["Failed"], ["hi"])


def test_an_event_makes_it_look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.client.follow.POLL_SECONDS_WITHOUT_EVENTS", 600)
    monkeypatch.setattr("stoker.client.follow.POLL_SECONDS", 600)
    fake = server((200, detail()), (200, detail(phase="Succeeded")))
    fake.answers["GET /events"] = (200, f"id: 1\nevent: phase\ndata: {EVENT}\n\n".encode())
    assert followed(fake, LogSelection()) == (["Running", "Succeeded"], ["hi"])


def test_the_news_of_the_end_is_not_lost_among_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.client.follow.POLL_SECONDS_WITHOUT_EVENTS", 600)
    monkeypatch.setattr("stoker.client.follow.POLL_SECONDS", 600)
    monkeypatch.setattr("stoker.client.follow.DEBOUNCE_SECONDS", 600)
    fake = server((200, detail()), (200, detail(phase="Succeeded")), logs=(200, log_events(*map(str, range(900)))))
    with Stoker("http://x", transport=fake.transport) as stoker:
        following = WorkloadFollower(stoker, NAME, LogSelection())
        monkeypatch.setattr(following, "_receive_events", lambda: None)
        phases = []
        for each in following:
            if isinstance(each, LogOutput) and each.line.text == "3":
                following._enqueue(msgspec.json.decode(EVENT, type=WorkloadEvent))
            elif not isinstance(each, LogOutput):
                phases.append(each.phase)
    assert phases == ["Running", "Succeeded"]


def test_every_attempt_is_read_even_one_that_nobody_saw() -> None:
    fake = server((200, detail(dispatchCount=3, phase="Failed")))
    assert followed(fake, LogSelection(all_attempts=True))[1] == ["hi"] * 3
    attempts = {request.url.params["attempt"] for request in fake.asked if request.url.path.endswith("/logs")}
    assert attempts == {"1", "2", "3"}


def test_of_a_chosen_attempt_that_is_over_the_next_is_not_waited_for() -> None:
    assert followed(server((200, detail(dispatchCount=2))), LogSelection(attempt=1)) == (["Running"], ["hi"])


def test_a_line_comes_once_when_the_log_breaks_off_and_is_read_again() -> None:
    parts: list[Any] = [(200, log_events("a", "b", end=False)), REFUSED, (200, log_events("a", "b", "b"))]
    fake = server((200, detail()), *[(200, detail())] * 20, (200, detail(phase="Succeeded")), logs=parts)
    assert followed(fake, LogSelection(tail=2))[1] == ["a", "b", "b"]
    asked = [request.url.params["tailLines"] for request in fake.asked if request.url.path.endswith("/logs")]
    assert asked[0] == "2"
    assert asked[-1] == "100000"


def test_a_server_that_comes_back_is_waited_for() -> None:
    fake = server((200, detail()), *[REFUSED] * 7, (200, detail(phase="Succeeded")))
    assert followed(fake, LogSelection())[0] == ["Running", "Succeeded"]


def test_a_server_that_stays_away_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.client.transport.reconnect.MAX_OUTAGE_SECONDS", 0.05)
    with pytest.raises(Unreachable):
        followed(server((200, detail()), REFUSED), LogSelection())


def test_a_workload_that_is_deleted_meanwhile_is_not_found() -> None:
    gone = (404, {"errorCode": "Stoker.00005", "errorMessage": "There is none."})
    with pytest.raises(StokerError, match="There is none"):
        followed(server((200, detail()), gone), LogSelection())


def test_a_watch_ends_at_its_deadline() -> None:
    with (
        Stoker("http://x", transport=server((200, detail())).transport) as stoker,
        pytest.raises(TimeoutError),
    ):
        list(stoker.watch(NAME, deadline=0))


def test_lines_of_the_same_moment_are_told_apart_by_their_number() -> None:
    seen = ReadPosition()
    first = [PodLogLine(at=5, text="a"), PodLogLine(at=6, text="b"), PodLogLine(at=6, text="b")]
    again = [*first, PodLogLine(at=6, text="b"), PodLogLine(at=4, text="the clock was set back")]
    assert len(list(seen.skip_seen(iter(first)))) == 3
    assert [line.text for line in seen.skip_seen(iter(again))] == ["b", "the clock was set back"]
