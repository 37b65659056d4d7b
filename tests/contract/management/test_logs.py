"""Logs: which lines, of which pod and attempt, while it runs, after it has ended and after the engine has let go."""

import asyncio
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.harness import WAIT, RunningHarness

STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (.*)")


def ask(works: RunningHarness, ref: str, pod: str = "", as_: str = "member", /, **query: Any) -> httpx.Response:
    path = f"{MANAGEMENT_PATH}/{ref}/pods/{pod or f'{ref}-worker-0'}/logs?{httpx.QueryParams(query)}"
    return works.get(path, as_=as_)


def lines(works: RunningHarness, ref: str, pod: str = "", /, **query: Any) -> list[str]:
    answer = ask(works, ref, pod, **query)
    assert answer.status_code == 200, answer.text
    return answer.json()["logs"]


@pytest.fixture(scope="module")
def counted(works: RunningHarness) -> str:
    """Has printed the numbers from 1 to 2500 and ended."""
    return works.finished(run="seq 2500")["workloadId"]


@pytest.fixture(scope="module")
def talking(works: RunningHarness) -> Iterator[str]:
    """Prints, and goes on running."""
    ref = works.submit(run=f"echo Loss: 0.5; echo 'loss 0.4'; echo accuracy 9%; echo a_b; >&2 echo to stderr; {WAIT}")
    works.prints(ref, "stderr")
    yield ref
    works.stop(ref)


def test_the_last_thousand_lines_are_given(works: RunningHarness, counted: str) -> None:
    assert lines(works, counted) == [str(number) for number in range(1501, 2501)]


@pytest.mark.parametrize("tail", [1, 2, 2499, 2500, 100_000])
def test_as_many_lines_as_asked_for_are_given(works: RunningHarness, counted: str, tail: int) -> None:
    assert lines(works, counted, tailLines=tail) == [str(number) for number in range(1, 2501)][-tail:]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tailLines", 0),
        ("tailLines", -1),
        ("tailLines", 100_001),
        ("tailLines", "all"),
        ("sinceSeconds", 0),
        ("sinceSeconds", -5),
        ("sinceSeconds", "x"),
        ("follow", "perhaps"),
        ("timestamps", "perhaps"),
        ("attempt", 0),
        ("attempt", "x"),
        ("container", "sidecar"),
        ("container", "main"),
    ],
)
def test_a_bad_value_is_refused_and_named(works: RunningHarness, counted: str, field: str, value: Any) -> None:
    answer = ask(works, counted, **{field: value})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "Stoker.00002")
    assert answer.json()["errorMessage"].startswith(f"{field}: ")


def test_the_main_container_may_be_named(works: RunningHarness, talking: str) -> None:
    assert lines(works, talking, container="pytorch") == lines(works, talking)
    assert "pytorch" in ask(works, talking, container="x").json()["errorMessage"]
    job = works.finished(kind="Job", run="echo job")["workloadId"]
    assert lines(works, job, f"{job}-0", container="main") == ["job"]
    assert ask(works, job, f"{job}-0", container="pytorch").status_code == 400


def test_what_goes_to_either_output_is_there_in_order(works: RunningHarness, talking: str) -> None:
    assert lines(works, talking) == ["Loss: 0.5", "loss 0.4", "accuracy 9%", "a_b", "to stderr"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("loss", ["Loss: 0.5", "loss 0.4"]),
        ("LOSS: ", ["Loss: 0.5"]),
        ("%", ["accuracy 9%"]),
        ("_", ["a_b"]),
        (".", ["Loss: 0.5", "loss 0.4"]),
        ("nothing", []),
        ("", ["Loss: 0.5", "loss 0.4", "accuracy 9%", "a_b", "to stderr"]),
    ],
)
def test_grep_keeps_lines_that_hold_a_text(works: RunningHarness, talking: str, text: str, found: list[str]) -> None:
    assert lines(works, talking, grep=text) == found


def test_grep_looks_further_back_than_the_tail(works: RunningHarness, counted: str) -> None:
    hits = [str(number) for number in range(1, 2501) if "11" in str(number)]
    assert lines(works, counted, grep="11", tailLines=5) == hits[-5:]
    assert lines(works, counted, grep="11", tailLines=1000) == hits[-1000:]


def test_each_line_can_begin_with_its_time(works: RunningHarness, talking: str) -> None:
    found = [STAMP.fullmatch(line) for line in lines(works, talking, timestamps="true")]
    assert [each[2] for each in found if each] == lines(works, talking)
    times = [each[1] for each in found if each]
    assert times == sorted(times)
    assert times[0] >= works.detail(talking)["creationTime"]


def test_only_lines_of_the_last_seconds_are_given(works: RunningHarness) -> None:
    ref = works.submit(run=f"echo old; sleep 2.2; echo new; {WAIT}")
    works.prints(ref, "new")
    assert lines(works, ref, sinceSeconds=2) == ["new"]
    assert lines(works, ref, sinceSeconds=100) == ["old", "new"]
    works.stop(ref)


def test_lines_are_there_as_soon_as_they_are_printed(works: RunningHarness) -> None:
    ref = works.submit(run=f"sleep 0.3; echo now $(date +%s.%N); {WAIT}")
    [line] = works.prints(ref, "now")
    assert time.time() - float(line.removeprefix("now ")) < 1
    works.stop(ref)


def test_a_pod_that_has_a_place_and_has_not_begun_has_printed_nothing(works: RunningHarness) -> None:
    for _ in range(10):
        ref = works.submit(run="true")
        while not works.detail(ref)["pods"]:
            works.run(asyncio.sleep(0))
        assert lines(works, ref) == []
        pod = f"{MANAGEMENT_PATH}/{ref}/pods/{ref}-worker-0"
        assert works.get(f"{pod}/containers", as_="member").status_code == 200


def test_each_attempt_has_its_own_lines(works: RunningHarness) -> None:
    shown = works.finished(run='echo x >> tries; echo try $(wc -l < tries); [ "$(wc -l < tries)" = 2 ]', maxRetry=2)
    ref = shown["workloadId"]
    assert lines(works, ref) == ["try 2"]
    assert [lines(works, ref, attempt=number) for number in (1, 2)] == [["try 1"], ["try 2"]]
    for query in ({"attempt": 3}, {"attempt": 3, "follow": "true"}):
        answer = ask(works, ref, **query)
        assert answer.status_code == 404
        assert answer.json()["errorMessage"] == f'Pod "{ref}-worker-0" was not in attempt 3. Its attempts: 1, 2.'


def test_the_pod_must_belong_to_the_workload(works: RunningHarness, talking: str, counted: str) -> None:
    for pod in (f"{talking}-worker-0", f"{counted}-worker-1", "nothing", works.pods(talking)[0].uid):
        for what in ("logs", "containers"):
            answer = works.get(f"{MANAGEMENT_PATH}/{counted}/pods/{pod}/{what}", as_="member")
            assert (answer.status_code, answer.json()["errorCode"]) == (404, "Stoker.00005")


def test_a_pod_is_named_by_its_uid_too(works: RunningHarness, counted: str) -> None:
    answer = ask(works, counted, works.pods(counted)[0].uid, tailLines=1)
    assert (answer.json()["podId"], answer.json()["logs"]) == (f"{counted}-worker-0", ["2500"])


@pytest.mark.parametrize("ttl", [0, 3600])
def test_logs_stay_after_the_end(works: RunningHarness, ttl: int) -> None:
    shown = works.finished(run="seq 300; echo last >&2", ttlSecondsAfterFinished=ttl)
    ref = shown["workloadId"]
    wanted = [*map(str, range(1, 301)), "last"]
    assert lines(works, ref) == wanted
    if ttl == 0:
        folder = works.installation.admin_key_file.parent / "local" / "pods" / works.pods(ref)[0].uid
        works.until(lambda: not folder.exists(), "the engine has let go of it")
        assert lines(works, ref) == wanted
        assert lines(works, ref, grep="LAST", timestamps="true")[0].endswith(" last")


def test_lines_come_out_as_they_went_in(works: RunningHarness) -> None:
    run = r"printf 'tab\there\r\n'; printf 'a\rb\n'; echo '🚀 \"quoted\" <b>'; echo; printf 'no newline'"
    ref = works.finished(run=run)["workloadId"]
    assert lines(works, ref) == ["tab\there\r", "a\rb", r"🚀 \"quoted\" <b>", "", "no newline"]


def test_no_line_of_very_many_is_lost(works: RunningHarness) -> None:
    ref = works.finished(run="seq 60000 | sed 's/^/a line that is long enough to fill chunks /'")["workloadId"]
    found = lines(works, ref, tailLines=100_000)
    assert [int(line.rpartition(" ")[2]) for line in found] == list(range(1, 60_001))


# Following


async def follow(works: RunningHarness, ref: str, /, **query: Any) -> list[tuple[float, str, str]]:
    """Every event of a followed log, and how long after the beginning it came."""
    path = f"{MANAGEMENT_PATH}/{ref}/pods/{ref}-worker-0/logs?{httpx.QueryParams({'follow': 'true', **query})}"
    begun = time.monotonic()
    async with works.stream(path, "member") as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert len(stream.headers["x-trace-id"]) == 32
        return [(time.monotonic() - begun, kind, data) async for kind, data in stream.events()]


@pytest.mark.parametrize("ttl", [0, 60])
def test_a_followed_log_goes_on_until_the_pod_ends(works: RunningHarness, ttl: int) -> None:
    run = "echo before; for n in 1 2 3; do sleep 0.4; date +%s.%N; done; echo last; echo very last"
    ref = works.submit(run=run, ttlSecondsAfterFinished=ttl)
    works.prints(ref, "before")
    wall = time.time() - time.monotonic()
    begun = time.monotonic()
    events = works.run(follow(works, ref))
    assert [kind for _, kind, _ in events] == ["message"] * 6 + ["end"]
    texts = [data for _, _, data in events]
    assert (texts[0], texts[4:6]) == ("before", ["last", "very last"])
    for at, _, data in events[1:4]:
        assert 0 <= begun + at + wall - float(data) < 1
    assert works.ended(ref)["phase"] == "Succeeded"


def test_a_log_that_is_over_is_followed_to_its_end(works: RunningHarness, counted: str) -> None:
    events = works.run(follow(works, counted, tailLines=2, timestamps="true"))
    assert [kind for _, kind, _ in events] == ["message", "message", "end"]
    stamped = [STAMP.fullmatch(data) for _, _, data in events[:2]]
    assert [each[2] for each in stamped if each] == ["2499", "2500"]


def test_only_matching_lines_are_followed(works: RunningHarness) -> None:
    ref = works.submit(run="echo loss 1; echo other; sleep 0.5; echo other; echo LOSS 2")
    works.prints(ref, "other")
    events = works.run(follow(works, ref, grep="loss"))
    assert [data for _, _, data in events] == ["loss 1", "LOSS 2", ""]


def test_carriage_returns_do_not_break_an_event(works: RunningHarness) -> None:
    ref = works.finished(run=r"printf '10%%\r20%%\n'; printf 'dos\r\n'; echo end")["workloadId"]
    events = works.run(follow(works, ref))
    assert [data for _, _, data in events] == ["10%\n20%", "dos", "end", ""]


def test_what_cannot_be_followed_is_an_error_and_no_stream(works: RunningHarness, talking: str) -> None:
    for ref, pod, query, status in (
        (talking, "nothing", "", 404),
        ("nothing-bcdfg", "x", "", 404),
        (talking, f"{talking}-worker-0", "&attempt=9", 404),
        (talking, f"{talking}-worker-0", "&container=x", 400),
        (talking, f"{talking}-worker-0", "&tailLines=0", 400),
    ):
        answer = works.get(f"{MANAGEMENT_PATH}/{ref}/pods/{pod}/logs?follow=true{query}", as_="member")
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/json"


def test_a_follower_that_leaves_leaves_nothing_behind(works: RunningHarness, talking: str) -> None:
    async def leave() -> int:
        async with works.stream(f"{MANAGEMENT_PATH}/{talking}/pods/{talking}-worker-0/logs?follow=true") as stream:
            async for _ in stream.events():
                break
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    before = works.run(leave())
    assert works.run(leave()) == before
