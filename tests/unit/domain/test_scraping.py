"""Which workloads are asked for their metrics: those behind a service, as their annotations say."""

import pytest

from stoker.domain.metrics.scraping import (
    DEFAULT_METRICS_PATHS,
    PATH_ANNOTATION,
    PORT_ANNOTATION,
    SCRAPE_ANNOTATION,
    metrics_paths,
)
from stoker.domain.workload.model import Workload
from stoker.domain.workload.spec import Kind, PortProtocol, Service, Spec

HTTP = Service(80, 8000)


def paths(kind: Kind = Kind.DEPLOYMENT, service: Service | None = HTTP, **annotations: str) -> tuple[str, ...]:
    said = {
        {"scrape": SCRAPE_ANNOTATION, "port": PORT_ANNOTATION, "path": PATH_ANNOTATION}[word]: value
        for word, value in annotations.items()
    }
    spec = Spec(service=service, annotations=said)
    return metrics_paths(
        Workload(
            uid="u",
            slug="s",
            name="s",
            kind=kind,
            cluster_id="c",
            workspace_id=1,
            namespace="n",
            user_id="1",
            user_name="me",
            origin_api="management",
            spec=spec,
            submitted_at=0,
            phase_at=0,
        )
    )


def test_what_is_kept_up_behind_a_service_is_asked_unless_it_says_no() -> None:
    assert paths() == paths(Kind.STATEFUL_SET) == DEFAULT_METRICS_PATHS
    assert paths(scrape="false") == ()
    assert paths(service=None) == paths(service=Service(53, 53, PortProtocol.UDP)) == ()


def test_all_others_are_asked_if_they_say_so() -> None:
    assert paths(Kind.JOB) == ()
    assert paths(Kind.JOB, scrape="true") == DEFAULT_METRICS_PATHS
    assert paths(Kind.JOB, scrape="True", path="/v2/stats") == ("/v2/stats",)


@pytest.mark.parametrize(("port", "asked"), [("80", True), ("8000", True), ("22", False), ("", False), ("x", False)])
def test_no_port_is_asked_but_that_of_the_service(port: str, asked: bool) -> None:
    assert bool(paths(port=port)) == asked


@pytest.mark.parametrize("path", ["", "metrics", "//a b", "/a\r\nHost: b", "/?x", "/" + "a" * 300, "http://other/"])
def test_a_path_that_is_none_is_not_used(path: str) -> None:
    assert paths(path=path) == DEFAULT_METRICS_PATHS
