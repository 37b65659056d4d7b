"""A demo server is killed and started again; the simulated world goes on meanwhile."""

from pathlib import Path

from tests.integration.demo.server import DemoServer
from tests.integration.live_server import WORKLOADS, new_workload


def simulated(name: str, gpu: str = "4", **says: object) -> dict[str, object]:
    annotations = {f"stoker.simulate/{key.replace('_', '-')}": str(value) for key, value in says.items()}
    body = new_workload("python train.py", name=name, resource={"gpu": gpu}, annotations=annotations)
    return body | {"workspaceId": "cluster-workspace"}


def test_pods_outlive_a_killed_server(tmp_path: Path) -> None:
    with DemoServer(tmp_path / "data") as server:
        client = server.start().client()
        long = client.send("POST", WORKLOADS, simulated("long", seconds=100_000))["workloadId"]
        short = client.send("POST", WORKLOADS, simulated("short", seconds=60, exit_code=3))["workloadId"]
        before = client.until(long, lambda found: found["phase"] == "Running")
        server.kill()
        server.start()
        after = client.workload(long)
        assert (after["phase"], after["nodes"], after["startTime"]) == ("Running", before["nodes"], before["startTime"])
        assert after["dispatchCount"] == 1
        ended = client.end(short)
        assert ended["phase"] == "Failed"
        assert "code 3" in ended["message"]
        client.send("DELETE", f"{WORKLOADS}/{long}")
        client.close()


def test_there_is_something_to_see_as_soon_as_it_is_ready(tmp_path: Path) -> None:
    with DemoServer(tmp_path / "data") as server:
        client = server.start().client()
        seen = [client.get(f"/api/clusters/{part}")["data"] for part in ("overview", "gpuHeatmap", "consumers")]
        overview, heatmap, consumers = seen
        assert overview["totalNodes"] > 0
        assert heatmap["utilization"]["data"]
        assert consumers["total"] > 0
        client.close()


def test_a_demo_says_what_it_is(tmp_path: Path) -> None:
    with DemoServer(tmp_path / "data", "--log-level", "info") as server:
        client = server.start().client()
        assert "hours of history" in server.complaints()
        workspaces = {each["name"]: each for each in client.get("/api/stoker/v1/workspaces")["items"]}
        assert workspaces["cluster-workspace"]["cluster"] == "demo"
        assert workspaces["default"]["cluster"] == "local"
        assert len(workspaces) > 5
        assert client.get(WORKLOADS, clusterId="demo")["totalCount"] > 10
        client.close()
