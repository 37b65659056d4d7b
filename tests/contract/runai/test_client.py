"""The vendor's own client, two versions of it and all its three kinds, against a server that runs what it submits."""

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.contract.runai.vendor import VERSIONS, VendorScripts
from tests.integration.live_server import LiveServer

V1 = "/api/stoker/v1"
KINDS = ("sync", "threaded", "async")
PAGED = 500
TIMES = ("createdAt", "deletedAt", "completedAt", "phaseUpdatedAt", "guaranteedRuntimeEndsAt")
pytestmark = pytest.mark.slow


def _waiting(name: str) -> dict[str, Any]:
    """A workload that does not start while there is a test."""
    return {
        "displayName": name,
        "workspaceId": "default",
        "groupVersionKind": {"kind": "Job", "version": "v1"},
        "image": "python:3.11",
        "entryPoint": "dHJ1ZQ==",
        "resource": {"cpu": "100m", "memory": "64Mi", "replica": 1},
        "startAfter": "2999-01-01T00:00:00Z",
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A running server, as a script has to know it."""
    with LiveServer(tmp_path_factory.mktemp("vendor") / "data") as opened:
        opened.start()
        key = (opened.data_dir / "admin.key").read_text().strip()
        with httpx.Client(base_url=opened.address, headers={"Authorization": f"Bearer {key}"}) as http:
            for number in range(PAGED):
                made = http.post("/api/custom/workloads", json=_waiting(f"page-{number}"))
                assert made.status_code == 200, made.text
            application = http.post(f"{V1}/applications", json={"name": "vendor", "admin": True}).json()
            workspace = http.get(f"{V1}/workspaces/default").json()
            cluster = http.get(f"{V1}/clusters/{workspace['cluster']}").json()
        yield {
            "address": opened.address,
            "client_id": application["clientId"],
            "client_secret": application["clientSecret"],
            "place": {"projectId": str(workspace["id"]), "clusterId": cluster["id"]},
        }
        opened.stop()


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendorScripts]:
    with contextlib.closing(VendorScripts(tmp_path_factory.mktemp("scripts"))) as opened:
        yield opened


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_it_submits_suspends_resumes_and_deletes(
    scripts: VendorScripts, server: dict[str, Any], version: str, kind: str
) -> None:
    seen = scripts.run(version, "lifecycle", kind=kind, **server)
    for name in ("workspaces", "trainings", "distributed"):
        assert seen[name]["codes"] == [202, 202, 202, 202], name
        assert seen[name]["phases"] == ["Running", "Stopped", "Running"], name
        assert (seen[name]["spec"]["command"], seen[name]["spec"]["args"]) == ("sleep", "600")
    assert seen["batches"] == [[2, [404]], [2, [404]], [2, [404]]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_its_models_take_every_body_of_places_and_events(
    scripts: VendorScripts, server: dict[str, Any], version: str, kind: str
) -> None:
    seen = scripts.run(version, "clusters_nodes", kind=kind, **server)
    assert seen["clusters"] == ["local"]
    assert seen["projects"] == ["default"]
    assert "Submitted" in seen["events"]
    assert seen["manifest"] == {"1.223.0": "low", "1.224.0": "medium"}[version]
    assert seen["image"] == "python:3.12"
    assert seen["pod metrics"] == 27, "all but the four histograms"
    assert seen["inference metrics"] == ["THROUGHPUT", "LATENCY"]
    assert seen["nodes"] >= 1
    assert seen["pods"] == [True]
    assert seen["names"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_it_lists_by_every_field_and_operator_and_pages_without_overlap(
    scripts: VendorScripts, server: dict[str, Any], version: str, kind: str
) -> None:
    seen = scripts.run(version, "reads", kind=kind, **server)
    on_text = [[f"{field}{operator}", 400] for field in TIMES for operator in ("=@", "!@", "=^", "=$")]
    assert sorted(seen["refused"]) == sorted(on_text)
    assert seen["filtered"] == 26 * 8 - len(on_text)
    assert seen["orders"] == [2] * 52
    assert seen["pages"] == [PAGED, PAGED]
    assert (seen["count"], seen["at once"]) == (PAGED, PAGED)
    assert seen["name"] == "page-0"
    assert seen["metrics"] == ["GPU_UTILIZATION", "NIM_NUM_REQUESTS_RUNNING", "POD_COUNT"]
