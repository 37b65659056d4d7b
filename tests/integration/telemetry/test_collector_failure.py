"""A server whose Prometheus is killed goes on answering with what it knew, says so, and is fresh again soon after."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integration.live_server import LiveClient, LiveServer, until
from tests.integration.telemetry.servers import VictoriaMetrics

from stoker.domain.clock import SystemClock

READS = ("/api/clusters/overview", "/api/clusters/consumers", "/api/clusters/gpuHeatmap", "/api/workloads")
MARKED = READS[:3]
STALE = "X-Stoker-Stale"


@pytest.fixture
def client(server: LiveServer) -> Iterator[LiveClient]:
    with contextlib.closing(server.start().client()) as opened:
        yield opened


@pytest.fixture
def server(own_victoria: VictoriaMetrics, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    options = ("--prometheus-url", own_victoria.url, "--sample-seconds", "1")
    with LiveServer(tmp_path_factory.mktemp("dies") / "data", gpus=2, options=options) as made:
        yield made


def fill(victoria: VictoriaMetrics, percent: float) -> None:
    """Both GPUs, as they were a second ago."""
    now = SystemClock().now()
    for gpu in ("0", "1"):
        labels = {"gpu_id": gpu, "hostname": f"{socket.gethostname()}.example.com"}
        victoria.put("gpu_gfx_activity", labels, [(now - 1000, percent)])
        victoria.put("gpu_package_power", labels, [(now - 1000, 300.0)])


def source(client: LiveClient) -> Any:
    return client.get("/api/stoker/v1/overview")["clusters"][0]["source"]


def fresh(client: LiveClient) -> None:
    found = until(lambda: source(client), lambda found: not found["stale"])
    assert (found["name"], found["stale"]) == ("prometheus", False), found


def utilization(client: LiveClient) -> float:
    """0 while it is not known."""
    return client.get("/api/stoker/v1/overview")["total"]["utilization"] or 0.0


def points(client: LiveClient, name: str) -> Any:
    """The utilization of the last minute."""
    now = SystemClock().now() // 1000
    answer = client.get(f"/api/workloads/{name}/metrics", start=now - 60, end=now, step=5)
    return [point for line in answer["data"]["GPU Utilization"]["series"] for point in line["points"]]


def test_reads_go_on_when_prometheus_dies_and_are_fresh_again_when_it_is_back(
    server: LiveServer, client: LiveClient, own_victoria: VictoriaMetrics
) -> None:
    fill(own_victoria, 80)
    name = client.create("sleep 600", resource={"gpu": "2"})
    client.until(name, lambda found: found["phase"] == "Running")
    fresh(client)
    assert utilization(client) == 0.0, "what was scraped before it had the GPUs is not its own"

    def scraped() -> float:
        fill(own_victoria, 80)
        return utilization(client)

    assert until(scraped, lambda value: value > 0) == pytest.approx(0.8)
    for _ in range(2):
        before = source(client)["readAt"]
        assert until(lambda: source(client)["readAt"], lambda at: at != before) != before  # noqa: B023

    own_victoria.stop()
    assert until(lambda: source(client), lambda found: found["stale"])["stale"]
    assert own_victoria.url in source(client)["message"]
    aged = until(lambda: source(client), lambda found: found["ageSeconds"] >= 2)
    assert aged["ageSeconds"] >= 2
    for path in READS:
        answer = httpx.get(server.address + path)
        assert answer.status_code == 200
        assert (STALE in answer.headers) == (path in MARKED)
    assert utilization(client) == pytest.approx(0.8), "what was known last"
    metrics = httpx.get(f"{server.address}/metrics").text
    assert 'stoker_source_stale{cluster="local",source="measured"} 1.0' in metrics
    assert points(client, name), "the store has what was sampled"

    own_victoria.start()
    fill(own_victoria, 40)
    fresh(client)
    assert until(lambda: utilization(client), lambda value: 0 < value < 0.5) == pytest.approx(0.4)
    assert STALE not in httpx.get(server.address + MARKED[0]).headers
    client.send("POST", f"/api/custom/workloads/{name}/stop")
    client.end(name)
