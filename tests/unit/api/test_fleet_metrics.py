"""The text that Prometheus reads, and the page that explains it."""

from pathlib import Path

from stoker.api import fleet_metrics
from stoker.api.fleet_metrics import (
    SOURCE_AGE,
    FleetExposition,
    MetricFamily,
    cluster_labels,
    render_clusters,
    render_family,
    render_labels,
    render_workloads,
)
from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.capabilities import SIMULATED_CAPABILITIES
from stoker.domain.cluster.live_view import CollectorStatus, GpuConsumer
from stoker.services.fleet.live import ClusterLiveStatus
from stoker.services.fleet.queue_aggregates import WorkloadCounts

PAGE = Path(__file__).resolve().parents[3] / "docs" / "monitoring.md"
DEMO = Cluster("c1", "demo", "simulated", "", 0, capabilities=SIMULATED_CAPABILITIES)
NOTHING = WorkloadCounts(0, (), ())


def consumer(slug: str) -> GpuConsumer:
    return GpuConsumer(f"uid-{slug}", slug, slug, "Job", "n", 1000, 0.5, 0.5, 300.0, None)


def test_every_family_is_explained_on_the_page() -> None:
    page = PAGE.read_text()
    families = [each for each in vars(fleet_metrics).values() if isinstance(each, MetricFamily)]
    assert len(families) > 10
    assert [each.name for each in families if f"`{each.name}`" not in page] == []


def test_what_is_simulated_is_labelled_so() -> None:
    assert cluster_labels(DEMO) == 'cluster="demo",source="simulated"'
    assert 'source="simulated"' in render_workloads([(DEMO, consumer("a"))])


def test_a_label_may_hold_anything() -> None:
    text = render_family(fleet_metrics.GPUS, [(render_labels(cluster='a"b\\c\nd'), 1.0)])
    assert text.splitlines()[-1] == r'stoker_gpus{cluster="a\"b\\c\nd"} 1.0'


def test_a_family_without_a_value_is_not_there() -> None:
    assert render_family(fleet_metrics.GPUS, [("", None)]) == ""


def test_the_text_of_workloads_is_made_once_for_each_time_they_are_published() -> None:
    writer, first = FleetExposition(), [(DEMO, consumer("a"))]
    written = writer.render([], NOTHING, first)
    first.append((DEMO, consumer("b")))
    assert writer.render([], NOTHING, first) == written
    assert writer.render([], NOTHING, list(first)) != written


def test_what_was_never_read_has_no_age() -> None:
    never = ClusterLiveStatus(DEMO, None, CollectorStatus("simulated", None, stale=True), 5000)
    once = ClusterLiveStatus(DEMO, None, CollectorStatus("simulated", 1, stale=True), 5000)
    assert SOURCE_AGE.name not in render_clusters([never])
    assert f'{SOURCE_AGE.name}{{cluster="demo",source="simulated"}} 5.0\n' in render_clusters([once])
