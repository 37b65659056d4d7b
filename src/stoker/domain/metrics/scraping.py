"""Which workloads are asked for their metrics, and where: what is kept up behind a service is, unless it says no; all
others are if they say so. The annotations are those that Prometheus is commonly set up to follow."""

import re

from stoker.domain.workload import PortProtocol, Workload

SCRAPE = "prometheus.io/scrape"
PORT = "prometheus.io/port"
PATH = "prometheus.io/path"
USUAL_PATHS = ("/metrics", "/v1/metrics")
"""Of vLLM, and of NIM."""
_path = re.compile(r"/[\w./~-]{0,199}", re.ASCII)


def metrics_paths(workload: Workload) -> tuple[str, ...]:
    """The paths to try on the port of each replica; none when it is not to be asked."""
    service, said = workload.spec.service, workload.spec.annotations
    asked = said.get(SCRAPE, "true" if workload.kind.rolls else "false").lower()
    if service is None or service.protocol is not PortProtocol.TCP or asked != "true":
        return ()
    if PORT in said and said[PORT] not in {str(service.port), str(service.target_port)}:
        return ()  # no other port is known to be its own
    path = said.get(PATH, "")
    return (path,) if _path.fullmatch(path) else USUAL_PATHS
