"""The text that Prometheus reads, and the page that explains it."""

from pathlib import Path

from stoker.api import fleet_metrics
from stoker.api.fleet_metrics import AGE, Family, FleetText, family, fleet_text, of_cluster, workload_text, written
from stoker.domain.identity import Cluster
from stoker.domain.live import Consumer, SourceState
from stoker.services.live import ClusterNow
from stoker.services.totals import Counted

PAGE = Path(__file__).resolve().parents[3] / "docs" / "monitoring.md"
DEMO = Cluster("c1", "demo", "simulated", "", 0)
NOTHING = Counted(0, (), ())


def consumer(slug: str) -> Consumer:
    return Consumer(f"uid-{slug}", slug, slug, "Job", "n", 1000, 0.5, 0.5, 300.0, None)


def test_every_family_is_explained_on_the_page() -> None:
    page = PAGE.read_text()
    families = [each for each in vars(fleet_metrics).values() if isinstance(each, Family)]
    assert len(families) > 10
    assert [each.name for each in families if f"`{each.name}`" not in page] == []


def test_what_is_simulated_is_labelled_so() -> None:
    assert of_cluster(DEMO) == 'cluster="demo",source="simulated"'
    assert 'source="simulated"' in workload_text([(DEMO, consumer("a"))])


def test_a_label_may_hold_anything() -> None:
    text = family(fleet_metrics.GPUS, [(written(cluster='a"b\\c\nd'), 1.0)])
    assert text.splitlines()[-1] == r'stoker_gpus{cluster="a\"b\\c\nd"} 1.0'


def test_a_family_without_a_value_is_not_there() -> None:
    assert family(fleet_metrics.GPUS, [("", None)]) == ""


def test_the_text_of_workloads_is_made_once_for_each_time_they_are_published() -> None:
    writer, first = FleetText(), [(DEMO, consumer("a"))]
    written = writer.text([], NOTHING, first)
    first.append((DEMO, consumer("b")))
    assert writer.text([], NOTHING, first) == written
    assert writer.text([], NOTHING, list(first)) != written


def test_what_was_never_read_has_no_age() -> None:
    never = ClusterNow(DEMO, None, SourceState("simulated", None, stale=True), 5000)
    once = ClusterNow(DEMO, None, SourceState("simulated", 1, stale=True), 5000)
    assert AGE.name not in fleet_text([never])
    assert f'{AGE.name}{{cluster="demo",source="simulated"}} 5.0\n' in fleet_text([once])
