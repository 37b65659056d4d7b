"""Server-sent events from bytes, however the bytes are cut."""

import pytest

from stoker.client import StokerError, Unreachable
from stoker.client.results import PodLogLine
from stoker.client.transport.sse import EventParser, ServerEvent, SseResponse

STREAM = b'id: 7\nevent: phase\ndata: {"seq":7}\n\n: keep-alive\n\ndata: \n\ndata: one\rtwo\n\nevent: end\ndata: \n\n'
EVENTS = [
    ServerEvent("phase", '{"seq":7}', "7"),
    ServerEvent("message", ""),
    ServerEvent("message", "one\rtwo"),
    ServerEvent("end", ""),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_whole_however_the_bytes_arrive(size: int) -> None:
    reader = EventParser()
    parts = [STREAM[begin : begin + size] for begin in range(0, len(STREAM), size)]
    assert [event for part in parts for event in reader.feed(part)] == EVENTS


def test_a_letter_that_is_cut_in_two_is_whole_again() -> None:
    reader = EventParser()
    first, second = "data: é\n\n".encode()[:7], "data: é\n\n".encode()[7:]
    assert [*reader.feed(first), *reader.feed(second)] == [ServerEvent("message", "é")]


def test_several_lines_of_data_are_one_text() -> None:
    assert list(EventParser().feed(b"data: a\ndata: b\n\n")) == [ServerEvent("message", "a\nb")]


def test_an_end_is_no_event_and_nothing_comes_after_it() -> None:
    reading = SseResponse("http://x")
    reading.set_status(200)
    assert [event.name for event in reading.parse(STREAM + b"data: late\n\n")] == ["phase", "message", "message"]
    assert reading.ended


def test_an_error_in_the_middle_is_the_error() -> None:
    reading = SseResponse("http://x")
    failed = b'event: error\ndata: {"errorCode":"Stoker.00007","errorMessage":"The cluster is away."}\n\n'
    with pytest.raises(StokerError, match="The cluster is away") as caught:
        list(reading.parse(failed))
    assert caught.value.code == "unavailable"


def test_an_answer_that_stops_short_is_told_from_a_server_that_never_answered() -> None:
    assert SseResponse("http://x").interrupted_error().broke_off
    assert not Unreachable("http://x", "connection refused").broke_off


def test_a_carriage_return_that_became_lines_of_an_event_is_one_again() -> None:
    [event] = EventParser().feed(b"data: 2026-01-15T10:30:00.250Z 10%\ndata: 20%\n\n")
    assert PodLogLine.from_event(event).text == "10%\r20%"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("2026-01-15T10:30:00.250Z a  b ", PodLogLine(at=1768473000250, text="a  b ")),
        ("2026-01-15T10:30:00.250Z ", PodLogLine(at=1768473000250, text="")),
        ("no time at all", PodLogLine(at=0, text="no time at all")),
    ],
)
def test_a_line_is_told_from_its_time(text: str, line: PodLogLine) -> None:
    assert PodLogLine.parse_timestamped(text) == line
