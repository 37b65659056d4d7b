"""`stoker waste`: who holds GPUs and does not use them, and what to type against it."""

import json
from pathlib import Path
from typing import Any

import httpx
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import FakeServer
from tests.unit.cli.test_fleet import cluster, overview

OVERVIEW = (200, overview(cluster()))


def item(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "workloadId": name,
        "uid": "u1",
        "name": name,
        "kind": "Job",
        "cluster": "local",
        "namespace": "vision",
        "workspace": "vision",
        "user": "ada",
        "models": "NVIDIA H100",
        "gpus": 8.0,
        "idleGpus": 4.5,
        "idleSince": "2026-01-15T06:30:00.000Z",
        "idleSeconds": 4 * 3600,
        "idleGpuHours": 18.0,
        "cost": 1234.5,
        "stopCommand": f"stoker stop {name}",
        **fields,
    }


def report(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "at": "2026-01-15T10:30:00.000Z",
        "threshold": 1.0,
        "leastSeconds": 300,
        "currency": "",
        "prices": {"H100": 2.5},
        "unpricedModels": [],
        "idleGpus": 9.0,
        "idleGpuHours": 36.0,
        "cost": 2469.0,
        "items": list(items),
        "total": len(items),
        "next": None,
        **fields,
    }


def test_each_workload_has_its_owner_its_cost_and_a_command(stoker: RunStoker) -> None:
    never = item("b", idleSince=None, idleSeconds=None, cost=None)
    server = FakeServer({"GET /overview": OVERVIEW, "GET /waste": (200, report(item("a"), never))})
    shown = stoker("waste", server=server).stdout.splitlines()
    assert shown == [
        "WORKLOAD  WORKSPACE  USER  IDLE GPUS  MODEL        IDLE FOR  GPU-HOURS  COST      TO STOP IT",
        "a         vision     ada   4.5 of 8   NVIDIA H100  4h        18.0       1,234.50  stoker stop a",
        "b         vision     ada   4.5 of 8   NVIDIA H100  -         18.0       -         stoker stop b",
        "",
        "9 GPUs of 2 workloads are idle: used no more than 1 %; 36.0 GPU-hours, 2,469.00 so far.",
    ]


def test_without_prices_there_is_no_cost(stoker: RunStoker) -> None:
    found = report(item("a", cost=None), cost=None, unpricedModels=["NVIDIA H100"], prices={})
    shown = stoker("waste", server=FakeServer({"GET /overview": OVERVIEW, "GET /waste": (200, found)}))
    assert "COST" not in shown.stdout
    assert shown.stdout.endswith("36.0 GPU-hours.\n")
    assert shown.stderr == ""


def test_the_command_is_for_the_same_server(stoker: RunStoker) -> None:
    server = FakeServer({"GET /overview": OVERVIEW, "GET /waste": (200, report(item("a")))})
    assert "stoker --server http://far:1 stop a" in stoker("--server", "http://far:1", "waste", server=server).stdout


def test_what_is_asked_for_is_sent(stoker: RunStoker) -> None:
    server = FakeServer({"GET /waste": (200, report(item("a")))})
    shown = stoker("waste", "--threshold", "10", "--min-idle", "2h", "--workspace", "vision", "--json", server=server)
    sent = dict(server.asked[0].url.params)
    assert (sent["threshold"], sent["leastSeconds"], sent["workspace"]) == ("10.0", "7200", "vision")
    assert json.loads(shown.stdout)["items"][0]["stopCommand"] == "stoker stop a"


def test_nothing_idle_is_good_news(stoker: RunStoker) -> None:
    shown = stoker("waste", server=FakeServer({"GET /overview": OVERVIEW, "GET /waste": (200, report())}))
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "No GPU has been held and idle for 5m." in shown.stderr


def test_old_readings_say_so(stoker: RunStoker) -> None:
    old = (200, overview(cluster(stale=True, age=240)))
    shown = stoker("waste", server=FakeServer({"GET /overview": old, "GET /waste": (200, report(item("a")))}))
    assert "The readings of cluster local are 4m old" in shown.stderr


def test_it_can_be_a_file(stoker: RunStoker, tmp_path: Path) -> None:
    server = FakeServer({"GET /waste": httpx.Response(200, content=b"workloadId\r\na\r\n")})
    stoker("waste", "-o", str(tmp_path / "waste.csv"), server=server)
    assert (tmp_path / "waste.csv").read_bytes() == b"workloadId\r\na\r\n"
