"""Allocated GPUs that are idle: their workload, idle time and cost, and what would stop them."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet
import pytest
from msgspec import Struct
from tests.api.harness import V1
from tests.contract.monitoring.harness import MonitoringHarness, consumer, gpu_columns

HOUR = 3600_000


class WasteHarness(Struct, frozen=True):
    harness: MonitoringHarness
    slugs: dict[str, str]

    def waste(self, as_: str = "admin", **query: Any) -> dict[str, Any]:
        answer = self.harness.get(f"{V1}/waste?{httpx.QueryParams(query)}", as_=as_)
        assert answer.status_code == 200, answer.text
        self.harness.contract.check("GET", f"{V1}/waste", answer)
        return answer.json()

    def named(self, **query: Any) -> list[str]:
        names = {slug: name for name, slug in self.slugs.items()}
        return [names[item["workloadId"]] for item in self.waste(**query)["items"]]


@pytest.fixture(scope="module")
def wasteful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WasteHarness]:
    """`big` has used none of its two GPUs for hours, `part` one of two for one, `new` none since a minute, `slow` is
    used a little; `busy` works, and `broken` has a fault."""
    folder: Path = tmp_path_factory.mktemp("waste")
    prices = {"H100": 2.5, "MI300X": 4.0}
    with MonitoringHarness(folder / "data", gpu_prices=prices, currency="EUR") as harness:
        harness.add_user("ada")
        harness.add_workspace("vision", member="ada")
        harness.add_workspace("speech")
        places = {
            "big": "speech",
            "part": "vision",
            "new": "vision",
            "slow": "speech",
            "busy": "speech",
            "broken": "speech",
        }
        slugs = {name: harness.add_workload(workspace) for name, workspace in places.items()}
        now = harness.clock.now()
        gpus = [
            ("big", "H100", 0.0, now - 4 * HOUR, ""),
            ("big", "H100", 0.01, now - 2 * HOUR, ""),
            ("part", "MI300X", 0.0, now - HOUR, ""),
            ("part", "MI300X", 0.9, None, ""),
            ("new", "A10", 0.0, now - 60_000, ""),
            ("slow", "H100", 0.08, None, ""),
            ("busy", "H100", 0.99, None, ""),
            ("broken", "H100", 0.0, None, "XID 79"),
        ]
        harness.publish(
            overview=harness.overview(),
            consumers=[
                consumer(harness.inside(slug).uid, sum(gpu[0] == name for gpu in gpus), slug=slug)
                for name, slug in slugs.items()
            ],
            gpus=gpu_columns(
                *(
                    {
                        "device": number,
                        "workload": slugs[name],
                        "model": model,
                        "allocated_milli": 1000,
                        "utilization": used,
                        "idle_since": since,
                        "fault": fault,
                    }
                    for number, (name, model, used, since, fault) in enumerate(gpus)
                ),
                {"device": 90, "utilization": 0.0},
            ),
        )
        yield WasteHarness(harness, slugs)


def test_the_worst_comes_first_with_its_owner_its_cost_and_the_command_that_stops_it(wasteful: WasteHarness) -> None:
    report = wasteful.waste()
    big, part = report["items"]
    slug = wasteful.slugs["big"]
    assert big == {
        "workloadId": slug,
        "uid": wasteful.harness.inside(slug).uid,
        "name": big["name"],
        "kind": big["kind"],
        "cluster": "local",
        "namespace": big["namespace"],
        "workspace": "speech",
        "user": "admin",
        "models": "H100",
        "gpus": 2.0,
        "idleGpus": 2.0,
        "idleSince": "2026-01-15T06:30:00.000Z",
        "idleSeconds": 4 * 3600,
        "idleGpuHours": 6.0,
        "cost": 15.0,
        "stopCommand": f"stoker stop {slug}",
    }
    assert (part["idleGpus"], part["gpus"], part["idleGpuHours"], part["cost"]) == (1.0, 2.0, 1.0, 4.0)
    assert (report["idleGpus"], report["idleGpuHours"], report["cost"]) == (3.0, 7.0, 19.0)
    assert (report["threshold"], report["leastSeconds"], report["currency"]) == (1.0, 300, "EUR")
    assert report["prices"] == {"H100": 2.5, "MI300X": 4.0}
    assert (report["total"], report["next"]) == (2, None)


def test_how_long_is_what_is_asked_for(wasteful: WasteHarness) -> None:
    assert wasteful.named(leastSeconds=60) == ["big", "part", "new"]  # by GPU-hours, as one has no price
    assert wasteful.named(leastSeconds=61) == ["big", "part"]
    assert wasteful.named(leastSeconds=2 * 3600) == ["big"]
    assert wasteful.waste(leastSeconds=4 * 3600)["idleGpus"] == 1.0
    assert wasteful.named(leastSeconds=4 * 3600 + 1) == []


def test_another_threshold_finds_other_gpus_and_says_when_it_does_not_know_how_long(wasteful: WasteHarness) -> None:
    assert wasteful.named(threshold=8, leastSeconds=0) == ["big", "part", "new", "slow"]
    slow = wasteful.waste(threshold=8, leastSeconds=0)["items"][-1]
    assert (slow["idleSince"], slow["idleSeconds"], slow["idleGpuHours"], slow["cost"]) == (None, None, 0.0, 0.0)
    assert wasteful.named(threshold=8) == ["big", "part"]
    assert wasteful.waste(threshold=0)["items"][0]["idleGpus"] == 1.0


@pytest.mark.parametrize("percent", [0.7, 7, 14, 28, 55, 56])
def test_a_gpu_that_is_used_exactly_as_much_as_the_threshold_is_idle_and_one_step_more_is_not(
    tmp_path: Path, percent: float
) -> None:
    with MonitoringHarness(tmp_path / "data") as harness:
        harness.add_workspace("vision")
        idle, busy = harness.add_workload("vision"), harness.add_workload("vision")
        steps = round(percent * 100)
        used = {idle: steps / 10_000, busy: (steps + 1) / 10_000}
        harness.publish(
            overview=harness.overview(),
            consumers=[consumer(harness.inside(slug).uid, 1, slug=slug) for slug in used],
            gpus=gpu_columns(
                *(
                    {"device": number, "workload": slug, "allocated_milli": 1000, "utilization": share}
                    for number, (slug, share) in enumerate(used.items())
                )
            ),
        )
        report = harness.get(f"{V1}/waste?threshold={percent}&leastSeconds=0", as_="admin").json()
        assert [item["workloadId"] for item in report["items"]] == [idle]


def test_a_model_without_a_price_leaves_the_cost_open(wasteful: WasteHarness) -> None:
    report = wasteful.waste(leastSeconds=0)
    assert report["items"][-1]["cost"] is None
    assert (report["cost"], report["unpricedModels"]) == (None, ["A10"])


def test_others_than_admins_see_their_workspaces(wasteful: WasteHarness) -> None:
    assert wasteful.named(as_="ada") == ["part"]
    assert wasteful.named(workspace="speech") == ["big"]
    assert wasteful.harness.get(f"{V1}/waste?workspace=speech", as_="ada").status_code == 404
    assert wasteful.harness.get(f"{V1}/waste?cluster=moon", as_="ada").status_code == 404


def test_pages_and_files_have_the_same_rows(wasteful: WasteHarness) -> None:
    whole = wasteful.waste(leastSeconds=0)["items"]
    second = wasteful.waste(leastSeconds=0, limit=1, offset=1)
    assert (second["items"], second["total"], second["next"]) == (whole[1:2], 3, 2)
    rows = csv.DictReader(io.StringIO(wasteful.harness.get(f"{V1}/waste?format=csv", as_="admin").text))
    assert [row["stopCommand"] for row in rows] == [item["stopCommand"] for item in wasteful.waste()["items"]]
    table = wasteful.harness.get(f"{V1}/waste?format=parquet&leastSeconds=0", as_="admin").content
    assert pyarrow.parquet.read_table(io.BytesIO(table)).to_pylist() == whole


@pytest.mark.parametrize(
    ("query", "field"),
    [("threshold=101", "threshold"), ("threshold=-1", "threshold"), ("leastSeconds=-1", "leastSeconds")],
)
def test_what_cannot_be_asked_is_named(wasteful: WasteHarness, query: str, field: str) -> None:
    answer = wasteful.harness.get(f"{V1}/waste?{query}", as_="admin")
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, field)


def test_of_a_gpu_that_several_share_each_has_its_part(tmp_path: Path) -> None:
    with MonitoringHarness(tmp_path / "data") as harness:
        harness.add_workspace("vision")
        one, other = harness.add_workload("vision"), harness.add_workload("vision")
        now = harness.clock.now()
        held = {"workload": one, "allocated_milli": 750, "utilization": 0.0, "idle_since": now - 2 * HOUR}
        harness.publish(
            overview=harness.overview(),
            consumers=[
                consumer(harness.inside(slug).uid, gpus, slug=slug) for slug, gpus in ((one, 0.5), (other, 0.25))
            ],
            gpus=gpu_columns({**held, "shared": [(other, 250, now - HOUR)]}),
        )
        found = harness.get(f"{V1}/waste", as_="admin").json()
    assert [(each["workloadId"], each["idleGpus"], each["idleGpuHours"]) for each in found["items"]] == [
        (one, 0.5, 1.0),
        (other, 0.25, 0.25),
    ]
    assert (found["idleGpus"], found["cost"]) == (0.75, None)


def test_gpus_say_since_when_they_are_idle(wasteful: WasteHarness) -> None:
    [gpu] = wasteful.harness.get(f"{V1}/gpus?workload={wasteful.slugs['new']}", as_="admin").json()["items"]
    assert gpu["idleSince"] == "2026-01-15T10:29:00.000Z"
