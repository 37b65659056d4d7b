"""An installation for the reading part of the Run:ai contract: every response is validated against the OpenAPI
document."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any, Unpack

import httpx
from tests.api.harness import RequestOptions
from tests.contract.monitoring.harness import MonitoringHarness

from stoker.domain.metrics.pod_samples import PodSampleSource
from stoker.store.cluster import clusters
from stoker.store.telemetry import pod_samples
from stoker.store.workloads import summaries

WORKLOADS = "/api/v1/workloads"


class RunaiHarness(MonitoringHarness):
    @functools.cached_property
    def unheld(self) -> Iterator[int]:
        """Numbers of GPUs, each once."""
        return itertools.count()

    @functools.cached_property
    def cluster_id(self) -> str:
        found = self.run(self.installation.store.read(lambda tx: clusters.find(tx, "local")))
        assert found is not None
        return found.id

    async def ask(self, method: str, path: str, **how: Unpack[RequestOptions]) -> httpx.Response:
        answer = await super().ask(method, path, **how)
        if (
            method == "GET"
            and path.startswith(WORKLOADS)
            and answer.headers["content-type"].startswith("application/json")
        ):
            self.contract.check(method, path, answer)
        return answer

    def runai(self, path: str = "", as_: str = "admin", **query: Any) -> Any:
        answer = self.get(f"{WORKLOADS}{path}?{httpx.QueryParams(query)}", as_=as_)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, path: str = "", **query: Any) -> str:
        """The message of a 400."""
        answer = self.get(f"{WORKLOADS}{path}?{httpx.QueryParams(query)}", as_="admin")
        assert (answer.status_code, answer.json()["code"]) == (400, 400), answer.text
        return answer.json()["message"]

    def rows(self, *filters: str, as_: str = "admin", **query: Any) -> list[dict[str, Any]]:
        """Every workload that the filters leave, page by page."""
        found: list[dict[str, Any]] = []
        following: int | None = 0
        while following is not None:
            asked: dict[str, Any] = {
                "limit": 500,
                **query,
                "offset": following,
                **({"filterBy": ",".join(filters)} if filters else {}),
            }
            page = self.runai(as_=as_, **asked)
            found += page["workloads"]
            following = page["next"]
        return found

    def called(self, *filters: str, **query: Any) -> list[str]:
        return [row["name"] for row in self.rows(*filters, **query)]

    def uid(self, ref: str) -> str:
        return self.inside(ref).uid

    def measure(self, pod_uid: str, at: int, **values: float) -> None:
        """What was measured of a pod, as a collector keeps it."""
        cluster_id, encoded = self.cluster_id, pod_samples.encode_tick({pod_uid: values})
        kept = self.installation.store.write(
            lambda tx: pod_samples.add_tick(tx, cluster_id, at, PodSampleSource.USAGE, encoded)
        )
        self.run(kept)

    def idle(self, **milli: int) -> None:
        """What a sampler finds unused: milli-GPUs by workload."""
        [cluster] = {self.inside(ref).cluster_id for ref in milli} or {""}
        idle = {self.uid(ref): amount for ref, amount in milli.items()}
        self.run(self.installation.store.write(lambda tx: summaries.set_idle_gpus(tx, cluster, idle)))
