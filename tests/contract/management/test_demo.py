"""What the document prints, sent as it stands there to a demo server, is accepted and runs."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.management.examples import EXAMPLE, PATCH
from tests.integration.demo.server import DemoServer
from tests.integration.live_server import WORKLOADS, LiveClient

KINDS = ("PyTorchJob", "Deployment", "StatefulSet", "Authoring")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveClient]:
    with DemoServer(tmp_path_factory.mktemp("demo") / "data") as server:
        client = server.start().client()
        yield client
        client.close()


def of_kind(kind: str) -> dict[str, Any]:
    return {**EXAMPLE, "groupVersionKind": {"kind": kind, "version": "v1"}}


@pytest.mark.parametrize("kind", KINDS)
def test_the_create_body_runs_as_any_kind_and_the_patch_body_replaces_its_pods(demo: LiveClient, kind: str) -> None:
    name = demo.send("POST", WORKLOADS, of_kind(kind))["workloadId"]
    running = demo.until(name, lambda found: found["phase"] == "Running")
    assert running["clusterId"] == "demo"
    assert [len(nodes) for nodes in running["nodes"]] == [1]
    assert demo.ask("PATCH", f"{WORKLOADS}/{name}", json=PATCH).status_code == 204
    changed = demo.until(name, lambda found: found["phase"] == "Running" and len(found["pods"]) == 2)
    assert changed["resource"] == {"cpu": "256", "gpu": "16", "memory": "512Gi", "replica": 2}
    assert (changed["priority"], changed["description"], changed["timeout"]) == (1, "New description", 7200)
    assert changed["env"]["NEW_VAR"] == "value"
    assert demo.ask("DELETE", f"{WORKLOADS}/{name}").status_code == 204


def test_the_batches_of_the_document_work_on_what_there_is(demo: LiveClient) -> None:
    first = demo.send("POST", WORKLOADS, EXAMPLE)["workloadId"]
    cloned = demo.ask("POST", f"{WORKLOADS}/clone", json={"workloadIds": [first]})
    assert cloned.status_code == 204
    both = [first, *cloned.headers["X-Workload-Ids"].split(",")]
    for name in both:
        demo.until(name, lambda found: found["phase"] == "Running")
    assert demo.ask("POST", f"{WORKLOADS}/stop", json={"workloadIds": both}).status_code == 204
    for name in both:
        assert demo.end(name)["phase"] == "Stopped"
    assert demo.ask("POST", f"{WORKLOADS}/delete", json={"workloadIds": both}).status_code == 204


def test_a_named_node_is_used(demo: LiveClient) -> None:
    small = {"resource": {"cpu": "1", "memory": "1Gi", "replica": 1}}
    name = demo.send("POST", WORKLOADS, {**EXAMPLE, **small, "specifiedNodes": ["gpu-node-1", "gpu-node-2"]})
    found = demo.until(name["workloadId"], lambda found: found["phase"] == "Running")
    assert sorted(found["nodes"][0]) == ["gpu-node-1", "gpu-node-2"]
    demo.send("DELETE", f"{WORKLOADS}/{name['workloadId']}")


def test_everything_says_that_it_is_simulated(demo: LiveClient) -> None:
    name = demo.send("POST", WORKLOADS, EXAMPLE)["workloadId"]
    found = demo.until(name, lambda found: found["phase"] == "Running")
    clusters = {each["name"]: each for each in demo.get("/api/stoker/v1/clusters")["items"]}
    assert clusters["demo"]["engine"] == "simulated"
    assert clusters["demo"]["description"].startswith("Simulated: 512 GPUs")
    listed = demo.get("/api/workloads", cluster="demo", pageSize=5)["data"]["data"]
    assert {each["source"] for each in listed} == {"simulated"}
    pod = found["pods"][0]["podId"]
    demo.until(name, lambda _: bool(demo.lines(name, pod)))
    assert demo.lines(name, pod)[0].startswith("This pod is simulated")
    demo.send("DELETE", f"{WORKLOADS}/{name}")
