"""Which workloads are scraped, and where: those with a service and rolling updates by default, others on request.

The annotations are the common Prometheus ones."""

import re

from stoker.domain.workload.model import Workload
from stoker.domain.workload.spec import PortProtocol

SCRAPE_ANNOTATION = "prometheus.io/scrape"
PORT_ANNOTATION = "prometheus.io/port"
PATH_ANNOTATION = "prometheus.io/path"
DEFAULT_METRICS_PATHS = ("/metrics", "/v1/metrics")
"""The paths of vLLM and of NIM."""
_PATH_REGEX = re.compile(r"/[\w./~-]{0,199}", re.ASCII)


def metrics_paths(workload: Workload) -> tuple[str, ...]:
    """The paths to try on the port of each replica; empty if the workload is not scraped."""
    service, annotations = workload.spec.service, workload.spec.annotations
    scrape = annotations.get(SCRAPE_ANNOTATION, "true" if workload.uses_rolling_update else "false").lower()
    if service is None or service.protocol is not PortProtocol.TCP or scrape != "true":
        return ()
    if PORT_ANNOTATION in annotations and annotations[PORT_ANNOTATION] not in {
        str(service.port),
        str(service.target_port),
    }:
        return ()  # another port may belong to another workload
    path = annotations.get(PATH_ANNOTATION, "")
    return (path,) if _PATH_REGEX.fullmatch(path) else DEFAULT_METRICS_PATHS
