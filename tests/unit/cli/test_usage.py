"""`stoker usage`: what people see, what programs get, and what becomes of a file."""

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import FakeServer, problem

from stoker.cli.render import progress
from stoker.cli.render.plots import stacked_bar

HOURS = {
    "allocatedGpuHours": 30.0,
    "busyGpuHours": 20.0,
    "idleGpuHours": 5.0,
    "startingGpuHours": 1.0,
    "unmeasuredGpuHours": 4.0,
    "lostGpuHours": 0.0,
    "openGpuHours": 0.0,
    "freeGpuHours": None,
    "faultyGpuHours": None,
    "capacityGpuHours": None,
    "cost": 75.0,
    "idleCost": 12.5,
}


def item(name: str, **fields: Any) -> dict[str, Any]:
    return {"key": f"id-{name}", "name": name, "workspace": None, "user": None, "cluster": None, **HOURS, **fields}


def report(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "by": "workspace",
        "label": "",
        "since": "2026-01-08T10:00:00.000Z",
        "until": "2026-01-15T11:00:00.000Z",
        "through": "2026-01-15T10:00:00.000Z",
        "keptFrom": None,
        "openUntil": None,
        "closingHours": 0,
        "clusters": [{"name": "local", "simulated": False, "through": "2026-01-15T10:00:00.000Z", "closingHours": 0}],
        "currency": "",
        "prices": {"H100": 2.5},
        "unpricedModels": [],
        "totals": {**HOURS, "allocatedGpuHours": 12_345.678},
        "items": list(items),
        "total": len(items),
        "next": None,
        **fields,
    }


def test_a_table_has_a_bar_for_each_row_and_the_total_of_all(stoker: RunStoker) -> None:
    smaller = {"allocatedGpuHours": 15.0, "busyGpuHours": 10.0, "idleGpuHours": 5.0}
    server = FakeServer({"GET /usage": (200, report(item("vision"), item("speech", **smaller)))})
    shown = stoker("usage", "--since", "2026-01-08T10:00:00Z", server=server).stdout.splitlines()
    assert shown == [
        "GPU-hours by workspace, 2026-01-08 10:00 to 2026-01-15 10:00 UTC",
        "",
        "WORKSPACE  ALLOCATED  BUSY  IDLE   COST  IDLE COST",
        "vision          30.0  20.0   5.0  75.00      12.50  ████████████████▒▒▒▒░░░░",
        "speech          15.0  10.0   5.0  75.00      12.50  ████████░░░░",
        "total       12,345.7  20.0   5.0  75.00      12.50",
        "",
        "█ busy   ▒ starting, unmeasured or faulty   ░ idle",
    ]
    assert dict(server.asked[0].url.params)["since"] == "2026-01-08T10:00:00+00:00"


def test_there_is_no_cost_where_there_is_no_price(stoker: RunStoker) -> None:
    unpriced = {"cost": None, "idleCost": None}
    found = report(item("vision", **unpriced), totals={**HOURS, **unpriced}, unpricedModels=["H100"], prices={})
    shown = stoker("usage", server=FakeServer({"GET /usage": (200, found)}))
    assert "COST" not in shown.stdout
    assert shown.stderr == ""


def test_a_model_without_a_price_is_named_beside_those_that_have_one(stoker: RunStoker) -> None:
    found = report(item("a"), item("b", cost=None), unpricedModels=["H100", "\x1b[31mA10"], currency="EUR")
    shown = stoker("usage", server=FakeServer({"GET /usage": (200, found)}))
    assert "COST EUR" in shown.stdout
    assert "No price is set for H100, �[31mA10; the setting gpu_prices has prices." in shown.stderr


def test_it_says_where_usage_begins_that_is_still_kept(stoker: RunStoker) -> None:
    found = report(item("a"), keptFrom="2026-01-10T00:00:00.000Z")
    shown = stoker("usage", server=FakeServer({"GET /usage": (200, found)}))
    assert "Usage before 2026-01-10 is no longer kept; the setting usage_days says how long." in shown.stderr
    assert "no longer kept" not in stoker("usage", server=FakeServer({"GET /usage": (200, report(item("a")))})).stderr


def test_the_hour_under_way_is_shown_as_what_is_held_so_far(stoker: RunStoker) -> None:
    running = {"allocatedGpuHours": 31.5, "openGpuHours": 1.5}
    found = report(item("vision", **running), openUntil="2026-01-15T10:45:00.000Z", totals={**HOURS, **running})
    shown = stoker("usage", server=FakeServer({"GET /usage": (200, found)}))
    lines = shown.stdout.splitlines()
    assert lines[0] == "GPU-hours by workspace, 2026-01-08 10:00 to 2026-01-15 10:45 UTC"
    assert lines[2].split()[:5] == ["WORKSPACE", "ALLOCATED", "BUSY", "IDLE", "OPEN"]
    assert lines[3].split()[:5] == ["vision", "31.5", "20.0", "5.0", "1.5"]
    assert "not closed yet" in lines[-1]
    assert shown.stderr == "OPEN is what was held since 2026-01-15 10:00, in hours that are not closed yet.\n"


@pytest.mark.parametrize(("hours", "words"), [(1, "1 hour is over"), (3, "3 hours are over")])
def test_it_says_how_many_hours_are_still_being_closed(stoker: RunStoker, hours: int, words: str) -> None:
    shown = stoker("usage", server=FakeServer({"GET /usage": (200, report(item("a"), closingHours=hours))}))
    assert f"{words} and still being closed: busy and idle are known when that is done." in shown.stderr


def test_rows_of_whole_gpus_show_what_was_free_and_faulty(stoker: RunStoker) -> None:
    whole = {"freeGpuHours": 10.0, "faultyGpuHours": 2.0, "capacityGpuHours": 42.0}
    found = report(item("local", **whole), by="cluster", totals={**HOURS, **whole})
    shown = stoker("usage", "--by", "cluster", "-o", "wide", server=FakeServer({"GET /usage": (200, found)})).stdout
    titles = shown.splitlines()[2].split()
    assert titles[:7] == ["CLUSTER", "ALLOCATED", "BUSY", "IDLE", "STARTING", "UNMEASURED", "LOST"]
    assert titles[7:10] == ["FREE", "FAULTY", "CAPACITY"]


def test_workloads_say_whose_they_are(stoker: RunStoker) -> None:
    found = report(item("train-b2c4d", workspace="vision", user="ada", cluster="local"), by="workload")
    shown = stoker("usage", "--by", "workload", server=FakeServer({"GET /usage": (200, found)})).stdout.splitlines()
    assert shown[2].split()[:3] == ["WORKLOAD", "WORKSPACE", "USER"]
    assert shown[3].split()[:3] == ["train-b2c4d", "vision", "ada"]


def test_all_rows_are_of_as_many_pages_as_it_takes(stoker: RunStoker) -> None:
    pages: list[Any] = [
        (200, report(item("a"), item("b"), total=3, next=2)),
        (200, report(item("c"), total=3)),
    ]
    server = FakeServer({"GET /usage": pages})
    shown = json.loads(stoker("usage", "--limit", "0", "--json", server=server).stdout)
    assert [each["name"] for each in shown["items"]] == ["a", "b", "c"]
    assert shown["next"] is None
    assert [dict(each.url.params).get("offset") for each in server.asked] == [None, "2"]


def test_fewer_rows_than_there_are_say_so(stoker: RunStoker) -> None:
    server = FakeServer({"GET /usage": (200, report(item("a"), total=3, next=1))})
    shown = stoker("usage", "--limit", "1", server=server)
    assert "These are 1 of 3 rows; --limit 0 shows all." in shown.stderr
    assert len(server.asked) == 1


def test_csv_is_the_one_of_the_server(stoker: RunStoker) -> None:
    server = FakeServer({"GET /usage": httpx.Response(200, content=b"key,name\r\n1,vision\r\n")})
    for words in (["-o", "csv"], ["--format", "csv"]):
        assert stoker("usage", "--label", "team", *words, server=server).stdout_bytes == b"key,name\r\n1,vision\r\n"
    sent = dict(server.asked[0].url.params)
    assert (sent["format"], sent["label"], sent["sort"]) == ("csv", "team", "allocated")


@pytest.mark.parametrize(
    ("words", "form"),
    [
        (["-o", "{folder}/usage.parquet"], "parquet"),
        (["-o", "{folder}/usage.csv"], "csv"),
        (["-o", "{folder}/usage", "--format", "csv"], "csv"),
    ],
)
def test_a_name_of_a_file_writes_it(stoker: RunStoker, tmp_path: Path, words: list[str], form: str) -> None:
    server = FakeServer({"GET /usage": httpx.Response(200, content=b"PAR1")})
    words = [word.format(folder=tmp_path) for word in words]
    shown = stoker("usage", *words, server=server)
    assert shown.stdout == ""
    assert shown.stderr == f"Wrote {words[1]} (4 bytes).\n"
    assert Path(words[1]).read_bytes() == b"PAR1"
    assert dict(server.asked[0].url.params)["format"] == form


def test_json_can_be_a_file_too(stoker: RunStoker, tmp_path: Path) -> None:
    server = FakeServer({"GET /usage": (200, report(item("a")))})
    stoker("usage", "-o", str(tmp_path / "usage.json"), server=server)
    assert json.loads((tmp_path / "usage.json").read_text())["items"][0]["name"] == "a"


def test_a_file_whose_form_nobody_knows_is_not_written(stoker: RunStoker, tmp_path: Path) -> None:
    shown = stoker("usage", "-o", str(tmp_path / "usage.txt"))
    assert shown.exit_code == 2
    assert "-o usage.txt --format csv" in shown.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_simulated_cluster_says_so(stoker: RunStoker) -> None:
    demo = {"name": "demo", "simulated": True, "through": "2026-01-15T10:00:00.000Z", "closingHours": 0}
    shown = stoker("usage", server=FakeServer({"GET /usage": (200, report(item("a"), clusters=[demo]))}))
    assert shown.stderr == "Cluster demo is simulated.\n"


def test_nothing_to_report_is_said(stoker: RunStoker) -> None:
    shown = stoker("usage", server=FakeServer({"GET /usage": (200, report())}))
    assert "Nobody held a GPU in this time." in shown.stderr


def test_a_time_without_a_closed_hour_says_so(stoker: RunStoker) -> None:
    shown = stoker("usage", server=FakeServer({"GET /usage": (200, report(through="2026-01-08T10:00:00.000Z"))}))
    assert shown.stdout.startswith("GPU-hours by workspace, 2026-01-08 10:00 to 2026-01-15 11:00 UTC\n")
    assert "No hour of this time is closed yet." in shown.stderr


def test_what_the_server_refuses_is_said_in_its_words(stoker: RunStoker, tmp_path: Path) -> None:
    refusal = problem(
        "bad_request", "format: this server cannot write Parquet: the extra is not installed.", field="format"
    )
    shown = stoker("usage", "-o", str(tmp_path / "u.parquet"), server=FakeServer({"GET /usage": (400, refusal)}))
    assert shown.exit_code == 2
    assert "the extra is not installed" in shown.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bar_is_as_long_as_its_share_and_rounds_no_part_away() -> None:
    assert stacked_bar([(1, "a"), (1, "b"), (1, "c")], 3, 10) == "aaabbbbccc"
    assert stacked_bar([(1, "a"), (0, "b")], 4, 8) == "aa"
    assert stacked_bar([(0, "a")], 0, 8) == ""


def test_a_bar_of_progress_is_for_terminals_and_for_what_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = threading.Event()
    monkeypatch.setattr("rich.progress.Progress.start", lambda bar: started.set())
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress.show_spinner("Adding up"):
        pass
    assert not started.is_set()
    monkeypatch.setattr(progress, "SPINNER_DELAY_SECONDS", 0.0)
    with progress.show_spinner("Adding up"):
        assert started.wait(10)
    started.clear()
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    with progress.show_spinner("Adding up"):
        assert not started.is_set()
