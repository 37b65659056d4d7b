"""What Prometheus scrapes: the fleet and its workloads as they were published, in base units."""

import subprocess
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from tests.api.harness import MANAGEMENT_PATH, V1, Harness
from tests.contract.management.harness import QueueHarness, big_node
from tests.debian import program

from stoker.domain.cluster.live_view import ClusterSummary, CollectorStatus, GpuConsumer, LiveViewKind
from stoker.store.cluster import clusters, live_views

MEASURED = {"cluster": "local", "source": "measured"}


def overview(at: int, *, stale: bool = False) -> ClusterSummary:
    return ClusterSummary(
        at=at,
        source=CollectorStatus("nvml", at, stale),
        nodes=10,
        healthy_nodes=9,
        faulty_nodes=1,
        idle_nodes=2,
        partial_nodes=3,
        busy_nodes=4,
        gpus=80,
        allocated_milli=40_500,
        allocated_gpus=41,
        measured_gpus=40,
        utilization_sum=30.0,
        power_watts=20_000.5,
        storage_total_bytes=10**15,
        storage_used_bytes=4 * 10**14,
        rdma_ports=80,
        rdma_active_ports=79,
        rdma_bits_per_second=4 * 10**11,
        rdma_received_bytes_per_second=51_200_000_000,
        rdma_sent_bytes_per_second=49_000_000_000,
        hottest={},
        faulty_gpus=1,
        not_ready_gpus=7,
        healthy_gpus=72,
    )


def consumer(slug: str, utilization: float | None = 0.5) -> GpuConsumer:
    return GpuConsumer(
        uid=f"uid-{slug}",
        slug=slug,
        name=slug,
        kind="Job",
        namespace="research",
        gpu_milli=8000,
        utilization=utilization,
        memory=0.25,
        power_watts=4000.0,
        idle_since=None,
    )


def publish(harness: Harness, at: int, consumers: list[GpuConsumer], *, stale: bool = False) -> None:
    store = harness.installation.store
    local = harness.run(store.read_inline(lambda tx: clusters.find(tx, "local")))
    assert local is not None
    parts = {
        LiveViewKind.OVERVIEW: live_views.encode(overview(at, stale=stale)),
        LiveViewKind.CONSUMERS: live_views.encode(consumers),
    }
    harness.run(store.write(lambda tx: live_views.publish(tx, local.id, at, parts)))


def samples(harness: Harness, name: str) -> list[tuple[dict[str, str], float]]:
    families = text_string_to_metric_families(harness.get("/metrics").text)
    return [(sample.labels, sample.value) for family in families for sample in family.samples if sample.name == name]


@pytest.fixture
def published(harness: Harness) -> Harness:
    publish(harness, harness.clock.now(), [consumer("train-abcde"), consumer("tune-fghij", None)])
    return harness


def test_a_cluster_is_shown_in_base_units(published: Harness) -> None:
    assert samples(published, "stoker_gpus") == [(MEASURED, 80)]
    assert samples(published, "stoker_gpus_schedulable") == [(MEASURED, 72)]
    assert {labels["reason"]: value for labels, value in samples(published, "stoker_gpus_unschedulable")} == {
        "faulty": 1,
        "not_ready": 7,
        "cordoned": 0,
    }
    assert samples(published, "stoker_gpu_allocated") == [(MEASURED, 40.5)]
    assert samples(published, "stoker_cluster_gpu_utilization_ratio") == [(MEASURED, 0.75)]
    assert samples(published, "stoker_cluster_gpu_power_watts") == [(MEASURED, 20_000.5)]
    assert samples(published, "stoker_cluster_storage_used_bytes") == [(MEASURED, 4e14)]
    nodes = {labels["state"]: value for labels, value in samples(published, "stoker_nodes")}
    assert nodes == {"idle": 2, "partial": 3, "busy": 4, "faulty": 1}
    ports = {labels["state"]: value for labels, value in samples(published, "stoker_cluster_rdma_ports")}
    assert ports == {"active": 79, "down": 1}
    assert samples(published, "stoker_cluster_rdma_received_bytes_per_second") == [(MEASURED, 5.12e10)]
    assert samples(published, "stoker_cluster_rdma_sent_bytes_per_second") == [(MEASURED, 4.9e10)]


def test_a_workload_is_shown_by_its_slug_and_without_what_is_not_known(published: Harness) -> None:
    labels = {**MEASURED, "namespace": "research", "workload": "train-abcde", "kind": "Job"}
    assert samples(published, "stoker_workload_gpu_utilization_ratio") == [(labels, 0.5)]
    assert samples(published, "stoker_workload_gpu_memory_ratio")[0] == (labels, 0.25)
    assert samples(published, "stoker_workload_gpu_power_watts")[0] == (labels, 4000.0)
    assert len(samples(published, "stoker_workload_gpus")) == 2


def test_a_new_tick_is_seen_at_the_next_scrape(published: Harness) -> None:
    assert len(samples(published, "stoker_workload_gpus")) == 2
    publish(published, published.clock.now(), [consumer("other-klmno", 0.9)])
    ((labels, value),) = samples(published, "stoker_workload_gpu_utilization_ratio")
    assert (labels["workload"], value) == ("other-klmno", 0.9)


def test_old_readings_are_shown_with_their_age(published: Harness) -> None:
    assert samples(published, "stoker_source_stale") == [(MEASURED, 0)]
    published.clock.advance(seconds=30)
    publish(published, published.clock.now() - 30_000, [], stale=True)
    assert samples(published, "stoker_source_stale") == [(MEASURED, 1)]
    assert samples(published, "stoker_source_age_seconds") == [(MEASURED, 30)]
    assert samples(published, "stoker_gpus") == [(MEASURED, 80)], "what was last known stays"


def test_before_anything_is_published_there_is_nothing_to_show(harness: Harness) -> None:
    assert samples(harness, "stoker_gpus") == []
    assert samples(harness, "stoker_source_stale") == [(MEASURED, 0)]
    assert samples(harness, "stoker_source_age_seconds") == []


def test_a_database_that_is_closed_leaves_the_server_to_be_seen(harness: Harness) -> None:
    harness.run(harness.installation.store.close())
    assert samples(harness, "stoker_build_info")
    assert samples(harness, "stoker_gpus") == []


def test_openmetrics_has_the_same_lines(published: Harness) -> None:
    answer = published.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    names = {family.name for family in openmetrics_families(answer.text)}
    assert {"stoker_gpus", "stoker_workload_gpus", "stoker_http_requests"} <= names


def test_promtool_finds_nothing_to_say(published: Harness, pytestconfig: pytest.Config) -> None:
    promtool = program(pytestconfig, "prometheus", "promtool")
    published.get(f"{V1}/me", as_="admin")
    text = published.get("/metrics").text
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_what_waits_is_counted_by_workspace(database_url: str, tmp_path: Path) -> None:
    with QueueHarness(tmp_path / "data", database_url) as harness:
        harness.add_staff()
        harness.add_nodes(big_node("n1", 16))
        first = harness.submit(gpu="4", replica=2)
        harness.submit(gpu="1")
        place = {**MEASURED, "workspace": "vision"}
        assert samples(harness, "stoker_workloads") == [({**MEASURED, "phase": "Pending"}, 2)]
        assert samples(harness, "stoker_queue_pending_workloads") == [(place, 2)]
        assert samples(harness, "stoker_queue_pending_gpus") == [(place, 9)]
        assert harness.delete(f"{MANAGEMENT_PATH}/{first}", as_="admin").is_success
        assert samples(harness, "stoker_queue_pending_gpus") == [(place, 1)]
