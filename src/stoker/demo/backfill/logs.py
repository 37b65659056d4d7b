"""What the pods of the last day had printed: the end of each log, as it would have been kept. Of those that still run
the rest is read from the engine, from there on."""

from stoker.engines.simulated.devices import A100, BY_NAME, GpuModel
from stoker.engines.simulated.logs import PodLog
from stoker.engines.simulated.machine import Machines
from stoker.engines.simulated.pods import Pod
from stoker.server.demo.lives import Job
from stoker.store.log_chunks import Chunk

KEPT_MS = 24 * 3_600_000
LINES = 100


def chunks(job: Job, machines: Machines, now: int) -> list[Chunk]:
    """One for each pod that ran in the last day."""
    late = [pod for pod in job.pods if (end := pod.end()) is None or end.at > now - KEPT_MS]
    return [chunk for pod in late if (chunk := _chunk(pod, model_of(pod, machines), now)).lines]


def model_of(pod: Pod, machines: Machines) -> GpuModel:
    return BY_NAME.get(machines.nodes[machines.place[pod.place.node]].devices[0].model, A100)


def _chunk(pod: Pod, model: GpuModel, now: int) -> Chunk:
    log = PodLog(pod, model)
    length = log.length(now)
    lines = [(line.at, line.text) for line in log.read(max(0, length - LINES), LINES, now)]
    return Chunk(pod.uid, pod.attempt.workload_uid, pod.attempt.attempt, lines, length)
