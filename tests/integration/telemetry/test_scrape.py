"""A real Prometheus scrapes a real server."""

import subprocess
from collections.abc import Iterator

import httpx
import pytest
from tests.debian import program
from tests.integration.live_server import LiveServer, until
from tests.integration.telemetry.servers import RealPrometheus

SCRAPE = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: stoker
    static_configs: [{{targets: ["{target}"]}}]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("scraped") / "data") as started:
        yield started.start()


@pytest.fixture(scope="module")
def prometheus(
    server: LiveServer, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealPrometheus]:
    scrape = SCRAPE.format(target=server.address.removeprefix("http://"))
    started = RealPrometheus(
        program(pytestconfig, "prometheus", "prometheus"), tmp_path_factory.mktemp("prometheus"), scrape
    )
    yield started
    started.stop()


def test_a_workload_that_runs_is_seen_in_prometheus(server: LiveServer, prometheus: RealPrometheus) -> None:
    client = server.client()
    name = client.create("sleep 600", resource={"gpu": "2"})
    client.until(name, lambda found: found["phase"] == "Running")
    running = 'stoker_workloads{cluster="local",source="measured",phase="Running",job="stoker"}'
    assert [value for _, value in until(lambda: prometheus.ask(running), lambda found: len(found) == 1)] == ["1"]
    held = f'stoker_workload_gpus{{workload="{name}",kind="Job",source="measured"}}'
    assert [value for _, value in until(lambda: prometheus.ask(held), bool)] == ["2"]
    assert [value for _, value in prometheus.ask("stoker_gpus")] == ["4"]
    assert [value for _, value in prometheus.ask("up")] == ["1"]
    client.send("POST", f"/api/custom/workloads/{name}/stop")
    client.end(name)
    client.close()


def test_promtool_finds_nothing_to_say(server: LiveServer, pytestconfig: pytest.Config) -> None:
    for accept in ("text/plain", "*/*"):
        text = httpx.get(f"{server.address}/metrics", headers={"Accept": accept}).text
        command = [program(pytestconfig, "prometheus", "promtool"), "check", "metrics"]
        checked = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
