"""The verbs that watch the fleet: what people see, what programs get, and that old and simulated readings say so."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import MANAGEMENT_PATH, FakeServer, detail, page, problem

from stoker.cli.commands.monitoring import top
from stoker.client import Stoker

A = "train-b2c4d"
AT = "2026-01-15T10:30:00.000Z"
PAST = "0-100%, 58s"
NOW = {
    "nodes": 12,
    "healthyNodes": 11,
    "faultyNodes": 1,
    "idleNodes": 3,
    "partialNodes": 4,
    "busyNodes": 2,
    "cpuNodes": 2,
    "gpus": 72,
    "faultyGpus": 0,
    "notReadyGpus": 0,
    "cordonedGpus": 0,
    "schedulableGpus": 72,
    "allocatedGpus": 36.5,
    "allocationRate": 0.507,
    "utilization": 0.62,
    "powerWatts": 12_345.0,
    "storageTotalBytes": 10**15,
    "storageUsedBytes": 45 * 10**13,
    "rdmaPorts": 80,
    "rdmaActivePorts": 76,
    "rdmaBitsPerSecond": 400 * 10**9,
    "rdmaReceivedBytesPerSecond": 51_200_000_000,
    "rdmaSentBytesPerSecond": 49_000_000_000,
}


def cluster(
    name: str = "local", *, simulated: bool = False, stale: bool = False, age: int | None = 3
) -> dict[str, Any]:
    source = {
        "name": "simulated" if simulated else "nvml",
        "readAt": None if age is None else AT,
        "ageSeconds": age,
        "stale": stale,
        "message": "It does not answer." if stale else "",
    }
    engine = "simulated" if simulated else "local"
    reachable = {"unreachableSince": None, "unreachableMessage": ""}
    return {"name": name, "engine": engine, "simulated": simulated, "source": source, "now": NOW, **reachable}


def overview(*clusters: dict[str, Any], total: dict[str, Any] = NOW) -> dict[str, Any]:
    return {"at": AT, "total": total, "clusters": list(clusters or (cluster(),))}


def node(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "cluster": "local",
        "name": name,
        "state": "partial",
        "pool": "default",
        "models": ["NVIDIA H100"],
        "gpus": 8,
        "faultyGpus": 0,
        "schedulableGpus": 8,
        "allocatedGpus": 2.5,
        "pods": 3,
        "cpus": 128.0,
        "allocatedCpus": 1.5,
        "memoryBytes": 2**40,
        "allocatedMemoryBytes": 2**30,
        "ready": True,
        "cordoned": False,
        "fault": "",
        "utilization": 0.256,
        "memory": None,
        "powerWatts": 999.4,
        "temperature": 71.4,
        "rdmaReceivedBytesPerSecond": None,
        "rdmaSentBytesPerSecond": None,
        "labels": {},
        **fields,
    }


def gpu(device: int, **fields: Any) -> dict[str, Any]:
    return {
        "cluster": "local",
        "node": "n1",
        "device": device,
        "model": "NVIDIA H100",
        "state": "allocated",
        "workload": A,
        "allocated": 1.0,
        "fault": "",
        "utilization": 0.99,
        "memoryUsedBytes": 64 * 10**9,
        "memoryTotalBytes": 80 * 10**9,
        "powerWatts": 650.5,
        "temperature": 71.4,
        "idleSince": None,
        **fields,
    }


def consumer(**fields: Any) -> dict[str, Any]:
    return {
        "workloadId": A,
        "uid": "u1",
        "name": "train",
        "kind": "Job",
        "namespace": "vision",
        "cluster": "demo",
        "gpus": 8.0,
        "utilization": 0.5,
        "memory": 0.25,
        "powerWatts": 5200.0,
        "idleSince": "2026-01-15T08:30:00.000Z",
        **fields,
    }


def lines(*values: tuple[int, list[float]]) -> list[dict[str, Any]]:
    start = 1_768_473_000_000
    return [
        {
            "node": "n1",
            "device": device,
            "points": [[value, start + at * 30_000] for at, value in enumerate(points)],
            "uuid": f"GPU-{device}",
        }
        for device, points in values
    ]


def measured(**fields: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {name: [] for name in ("utilization", "memory", "power", "temperature", "tflops")}
    return {"workloadId": A, "start": AT, "end": "2026-01-15T11:30:00.000Z", "stepSeconds": 30, **empty, **fields}


def server(view: dict[str, Any] | None = None, **answers: Any) -> FakeServer:
    known: dict[str, Any] = {"GET /overview": (200, view or overview()), f"GET {MANAGEMENT_PATH}/{A}": (200, detail(A))}
    return FakeServer(known | {f"GET /{name}": (200, answer) for name, answer in answers.items()})


def test_the_overview_is_a_line_for_each_cluster_and_one_for_all(stoker: RunStoker) -> None:
    shown = stoker("overview", server=server(overview(cluster("demo", simulated=True), cluster("local", age=None))))
    cells = "12 3 4 2 2 1 72 36.5 (51%) 62% 12.3 kW"
    assert [" ".join(line.split()) for line in shown.stdout.splitlines()] == [
        "CLUSTER NODES IDLE PARTIAL BUSY CPU ONLY FAULTY GPUS ALLOCATED UTILIZATION POWER READINGS",
        f"demo (simulated) {cells} simulated, 3s ago",
        f"local {cells} none yet",
        f"all {cells}",
        "",
        "Storage: 450 TB of 1 PB used.",
        "RDMA: 76 of 80 ports up, 400 Gbps each. 51.2 GB/s in, 49 GB/s out.",
    ]
    assert shown.stderr == "Cluster demo is simulated.\n"


def test_what_was_not_read_is_not_shown_as_nothing(stoker: RunStoker) -> None:
    unread = {**NOW, "utilization": None, "powerWatts": None}
    view = {"at": AT, "total": unread, "clusters": [{**cluster(age=None), "now": unread}]}
    shown = stoker("overview", server=server(view)).stdout.splitlines()[1]
    assert " ".join(shown.split()).endswith("36.5 (51%) - - none yet")
    head = stoker("top", server=server(view, consumers=page())).stdout.splitlines()[0]
    assert head.startswith(
        "36.5 of 72 GPUs allocated (51%), use unknown; nodes: 3 idle, 4 partly used, 2 full, 2 without GPUs, 1 faulty"
    )


def test_programs_get_the_overview_as_the_api_has_it(stoker: RunStoker) -> None:
    view = overview(cluster("demo", simulated=True))
    assert json.loads(stoker("overview", "--json", server=server(view)).stdout) == view
    [row] = csv.DictReader(io.StringIO(stoker("overview", "-o", "csv", server=server(view)).stdout))
    assert (row["name"], row["simulated"], row["now.utilization"]) == ("demo", "true", "0.62")


@pytest.mark.parametrize("verb", ["overview", "nodes", "gpus", "top", "metrics"])
def test_old_readings_are_shown_as_old(stoker: RunStoker, verb: str) -> None:
    fake = server(overview(cluster(stale=True, age=190)), nodes=page(), gpus=page(), consumers=page())
    fake.answers[f"GET /workloads/{A}/metrics"] = (200, measured())
    shown = stoker(verb, *([A] if verb == "metrics" else []), server=fake)
    assert shown.exit_code == 0, shown.stderr
    assert "The readings of cluster local are 3m old: It does not answer.\n" in shown.stderr


def test_one_cluster_can_be_asked_for(stoker: RunStoker) -> None:
    for verb, path in (("overview", "overview"), ("nodes", "nodes"), ("gpus", "gpus"), ("top", "consumers")):
        fake = server(nodes=page(), gpus=page(), consumers=page())
        stoker(verb, "--cluster", "demo", server=fake)
        [asked] = fake.asked_for("GET", f"/api/stoker/v1/{path}")
        assert asked.url.params["cluster"] == "demo"


def test_nodes_are_shown_as_people_read_them(stoker: RunStoker) -> None:
    fake = server(nodes=page(node("n1"), node("n2", state="faulty", fault="XID 79", utilization=None)))
    first, second = stoker("nodes", "n", "--state", "faulty", "--sort", "power", server=fake).stdout.splitlines()[1:]
    assert first.split("  ")[0] == "n1"
    assert " ".join(first.split()) == "n1 local partial 8 2.5 NVIDIA H100 26% - 999 W 71 °C 3 -"
    assert second.endswith("XID 79")
    asked = fake.asked_for("GET", "/api/stoker/v1/nodes")[0].url.params
    assert (asked["name"], asked["state"], asked["sort"], asked["order"]) == ("n", "faulty", "power", "desc")


def test_wide_nodes_show_what_goes_through_their_rdma_ports(stoker: RunStoker) -> None:
    rates = {"rdmaReceivedBytesPerSecond": 12_500_000_000, "rdmaSentBytesPerSecond": 0}
    fake = server(nodes=page(node("n1", **rates), node("n2")))
    titles, first, second = stoker("nodes", "-o", "wide", server=fake).stdout.splitlines()
    assert " ".join(titles.split()).endswith("RDMA IN RDMA OUT")
    assert " ".join(first.split()).endswith("12.5 GB/s 0 B/s")
    assert " ".join(second.split()).endswith("- -")


def test_gpus_are_limited_and_say_who_holds_them(stoker: RunStoker) -> None:
    fake = server(gpus=page(gpu(0), gpu(1, workload=None, state="idle"), gpu(2)))
    shown = stoker("gpus", "--node", "n1", "--limit", "2", server=fake).stdout.splitlines()
    assert len(shown) == 3
    assert " ".join(shown[1].split()) == f"n1 0 local allocated {A} NVIDIA H100 99% 64 GB 650 W 71 °C -"
    assert len(json.loads(stoker("gpus", "--limit", "0", "--json", server=fake).stdout)["items"]) == 3


@pytest.mark.parametrize(
    ("verb", "items"), [("gpus", [gpu(0), gpu(1), gpu(2)]), ("nodes", [node("a"), node("b"), node("c")])]
)
def test_what_a_limit_leaves_out_is_counted(stoker: RunStoker, verb: str, items: list[dict[str, Any]]) -> None:
    pages = [(200, {**each, "total": 3}) for each in (page(*items[:2], following=2), page(items[2]))]

    def asked(*words: str) -> Any:
        fake = server()
        fake.answers[f"GET /{verb}"] = list(pages)
        return stoker(verb, *words, server=fake)

    rest = "These are 1 of 3; --limit 0 shows all.\n"
    assert [asked("--limit", "1", "-o", output).stderr for output in ("table", "csv", "json")] == [rest] * 3
    part = json.loads(asked("--limit", "1", "--json").stdout)
    assert (len(part["items"]), part["total"], part["next"]) == (1, 3, 1)
    for limit in ("3", "0"):
        whole = asked("--limit", limit, "--json")
        found = json.loads(whole.stdout)
        assert (len(found["items"]), found["total"], found["next"], whole.stderr) == (3, 3, None, "")


def test_how_many_gpus_are_not_given_out_is_said_beside_how_many_there_are(stoker: RunStoker) -> None:
    some = {**NOW, "gpus": 1024, "faultyGpus": 1, "notReadyGpus": 8, "cordonedGpus": 16, "schedulableGpus": 999}
    fake = server(overview(total=some), gpus=page(gpu(0)), consumers=page())
    words = "1 faulty, 8 on nodes that are not ready, 16 on cordoned nodes"
    assert f"1,024 GPUs, {words}; 999 can be given out.\n" in stoker("overview", server=fake).stdout
    assert f"of 1,024 GPUs allocated (51%), {words}, 62% busy" in stoker("top", "--once", server=fake).stdout
    assert stoker("gpus", server=fake).stderr == f"1,024 GPUs, {words}.\n"


def test_top_says_how_many_it_leaves_out(stoker: RunStoker) -> None:
    consumers = page(consumer(), consumer(uid="u2"), consumer(uid="u3"))
    rest = "These are 2 of 3; --limit 0 shows all."
    shown = stoker("top", "--limit", "2", server=server(consumers=consumers))
    assert shown.stderr == f"{rest}\n"
    part = json.loads(stoker("top", "--limit", "2", "--json", server=server(consumers=consumers)).stdout)
    assert (len(part["items"]), part["total"], part["next"]) == (2, 3, 2)
    look = top.TopState(Stoker("http://127.0.0.1:1", "x", transport=server(consumers=consumers).transport), "", 2)
    look.refresh()
    console = Console(width=80, height=20, record=True, file=io.StringIO())
    console.print(top.render_screen(look, ""))
    assert rest in console.export_text()


def test_top_in_a_pipe_prints_once(stoker: RunStoker) -> None:
    view = overview(cluster("demo", simulated=True))
    fake = server(view, consumers=page(consumer(), consumer(workloadId="x", uid="u2", utilization=None, memory=None)))
    shown = stoker("top", server=fake)
    text = shown.stdout.splitlines()
    assert text[0].startswith("36.5 of 72 GPUs allocated (51%), 62% busy, 12.3 kW; nodes: 3 idle, 4 partly used")
    assert text[1] == "demo (simulated): simulated, 3s ago"
    assert " ".join(text[4].split()) == f"{A} vision demo 8 50% 25% 5.2 kW 2h"
    assert len(fake.asked_for("GET", "/api/stoker/v1/consumers")) == 1
    assert json.loads(stoker("top", "--json", server=fake).stdout)["items"][0]["workloadId"] == A


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (160, ["WORKLOAD", "NAMESPACE", "CLUSTER", "GPUS", "UTILIZATION", PAST, "MEMORY", "POWER", "IDLE FOR"]),
        (90, ["WORKLOAD", "NAMESPACE", "CLUSTER", "GPUS", "UTILIZATION", PAST, "MEMORY", "POWER", "IDLE FOR"]),
        (80, ["WORKLOAD", "NAMESPACE", "GPUS", "UTILIZATION", PAST, "MEMORY", "POWER", "IDLE FOR"]),
        (60, ["WORKLOAD", "GPUS", "UTILIZATION", "MEMORY", "POWER", "IDLE FOR"]),
        (40, ["WORKLOAD", "GPUS", "UTILIZATION", "MEMORY"]),
    ],
)
def test_top_leaves_columns_out_before_it_cuts_numbers(home: Path, width: int, titles: list[str]) -> None:
    fake = server(consumers=page(consumer(), consumer(workloadId="y", uid="u2")))
    look = top.TopState(Stoker("http://127.0.0.1:1", "x", transport=fake.transport), "", 10)
    for _ in range(top.HISTORY_SAMPLES):
        look.refresh()
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(top.render_page(look, ""))
    *_, head, first, second = console.export_text().splitlines()
    assert re.split(r"  +", head.strip()) == titles
    values = {"WORKLOAD": A, "NAMESPACE": "vision", "CLUSTER": "demo", "GPUS": "8", "UTILIZATION": "50%"}
    values |= {"MEMORY": "25%", "POWER": "5.2 kW", "IDLE FOR": "2h"}
    assert re.split(r"  +", first.replace("▅", " ").strip()) == [values[title] for title in titles if title != PAST]
    assert "…" not in first + second
    assert first.count("▅") == {160: 30, 90: 12, 80: 11}.get(width, 0)


def test_top_goes_on_while_the_server_is_away(home: Path) -> None:
    fake = server(consumers=page(consumer()))
    first: Any = fake.answers["GET /overview"]
    away = (503, problem("unavailable", "The database cannot be used."))
    fake.answers["GET /overview"] = [first, away, away, away, away, first]
    look = top.TopState(Stoker("http://127.0.0.1:1", "x", transport=fake.transport), "", 10)
    look.refresh()
    assert top.try_refresh(look) == "The database cannot be used. This is of 10:30:00 UTC."
    console = Console(record=True, width=160, file=io.StringIO())
    console.print(top.render_page(look, "The database cannot be used."))
    drawn = console.export_text()
    assert "The database cannot be used." in drawn
    assert A in drawn
    assert top.try_refresh(look) == ""
    assert look.history_sparkline("u1") == "▅▅"


def test_metrics_are_plotted(stoker: RunStoker) -> None:
    fake = server()
    tflops = [[400.0, 1_768_473_000_000], [410.0, 1_768_473_030_000]]
    body = measured(utilization=lines((0, [0.0, 0.5, 1.0]), (1, [1.0, 0.5, 0.0])), tflops=tflops)
    fake.answers[f"GET /workloads/{A}/metrics"] = (200, body)
    text = stoker("metrics", A, server=fake).stdout
    assert f"{A}, 2026-01-15 10:30:00 to 11:30:00 UTC, a point every 30 s" in text
    assert "Utilization: 50% at the end, mean of 2 GPUs" in text
    assert "  Each GPU, 0% to 100%:\n  GPU-0  ▁▅█\n  GPU-1  █▅▁\n         10:30:00 to 10:31:00\n" in text
    assert "TFLOPS: 410 at the end" in text
    assert "Power" not in text
    rows = list(csv.DictReader(io.StringIO(stoker("metrics", A, "-o", "csv", server=fake).stdout)))
    assert [row["value"] for row in rows] == ["0.0", "0.5", "1.0", "1.0", "0.5", "0.0", "400.0", "410.0"]
    assert json.loads(stoker("metrics", A, "--json", server=fake).stdout) == body


def test_metrics_tell_the_gpus_that_are_held_from_those_that_were(stoker: RunStoker) -> None:
    fake = server()
    body = measured(utilization=lines((0, [0.2]), (1, [0.3]), (2, [0.0, 0.5])))
    fake.answers[f"GET /workloads/{A}/metrics"] = (200, body)
    text = stoker("metrics", A, server=fake).stdout
    assert "Utilization: 50% at the end, mean of 1 GPU, of 3 that it held in this time" in text


def test_metrics_of_what_has_ended_are_those_of_its_last_hour(stoker: RunStoker) -> None:
    fake = server()
    fake.answers[f"GET {MANAGEMENT_PATH}/{A}"] = (200, detail(A, "Succeeded", endTime="2026-01-10T08:00:00Z"))
    fake.answers[f"GET /workloads/{A}/metrics"] = (200, measured())
    stoker("metrics", A, server=fake)
    stoker("metrics", A, "--since", "2h", server=fake)
    usual, said = (each.url.params for each in fake.asked_for("GET", f"/api/stoker/v1/workloads/{A}/metrics"))
    assert usual["end"].startswith("2026-01-10T08:00:00")
    assert "start" not in usual
    assert "end" not in said


def test_metrics_fit_the_terminal(stoker: RunStoker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    fake = server()
    many = [each / 200 for each in range(200)]
    fake.answers[f"GET /workloads/{A}/metrics"] = (200, measured(utilization=lines((0, many), (1, many))))
    drawn = stoker("metrics", A, server=fake).stdout.split("GPUs\n")[1].splitlines()
    assert max(map(len, drawn)) == 50
    assert drawn[-2].startswith("  GPU-1  ▁▁")
    assert drawn[-1].split() == ["10:30:00", "12:09:30"]
    assert len(drawn[-1]) == 50


def test_a_plot_has_its_scale_with_the_unit_and_its_times_below(
    stoker: RunStoker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    fake = server()
    fake.answers[f"GET /workloads/{A}/metrics"] = (200, measured(power=lines((0, [100.0, 650.0, 300.0]))))
    text = stoker("metrics", A, server=fake).stdout.splitlines()
    plot = text[text.index("Power: 300 W at the end, mean of 1 GPU") + 1 :]
    assert plot[0].startswith("  650 W ┤")
    assert plot[5].startswith("  100 W ┤")
    assert plot[6].split() == ["10:30:00", "10:31:00"]
    assert plot[6].startswith("         10:30:00")
    assert len(plot[6]) == 60


def test_a_range_of_two_days_has_the_date_of_its_end(stoker: RunStoker) -> None:
    fake = server()
    point = {"node": "n1", "device": 0, "points": [[0.5, 1_768_473_000_000], [0.5, 1_768_559_400_000]]}
    body = {**measured(utilization=[point]), "end": "2026-01-16T10:30:00.000Z"}
    fake.answers[f"GET /workloads/{A}/metrics"] = (200, body)
    text = stoker("metrics", A, "--since", "24h", server=fake).stdout
    assert f"{A}, 2026-01-15 10:30:00 to 2026-01-16 10:30:00 UTC, a point every 30 s" in text
    assert re.search(r"\n +2026-01-15 10:30:00 +2026-01-16 10:30:00\n", text)


def test_metrics_of_nothing_say_so(stoker: RunStoker) -> None:
    fake = server()
    fake.answers[f"GET /workloads/{A}/metrics"] = (200, measured())
    shown = stoker("metrics", A, "--since", "2h", "--step", "1m", server=fake)
    assert "There are no readings of GPUs in this time." in shown.stderr
    asked = fake.asked_for("GET", f"/api/stoker/v1/workloads/{A}/metrics")[0].url.params
    assert asked["step"] == "60"
    assert "start" in asked
