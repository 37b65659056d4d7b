"""The last log lines of the pods that ran in the last day. The rest of the log of a running pod is read from the
engine."""

from stoker.demo.records import HistoricalWorkload
from stoker.engines.simulated.fleet.gpu_models import A100, MODELS_BY_NAME, GpuModel
from stoker.engines.simulated.fleet.nodes import SimulatedFleet
from stoker.engines.simulated.output.pod_log import SimulatedPodLog
from stoker.engines.simulated.pods.pod import SimulatedPod
from stoker.store.telemetry.log_chunks import LogChunk

LOG_RETENTION_MS = 24 * 3_600_000
MAX_LINES = 100


def build_log_chunks(job: HistoricalWorkload, fleet: SimulatedFleet, now: int) -> list[LogChunk]:
    """One chunk for each pod that ran in the last day."""
    late = [pod for pod in job.pods if (end := pod.termination()) is None or end.at > now - LOG_RETENTION_MS]
    return [chunk for pod in late if (chunk := _build_chunk(pod, gpu_model_of(pod, fleet), now)).lines]


def gpu_model_of(pod: SimulatedPod, fleet: SimulatedFleet) -> GpuModel:
    return MODELS_BY_NAME.get(fleet.nodes[fleet.node_index[pod.plan.node]].devices[0].model, A100)


def _build_chunk(pod: SimulatedPod, model: GpuModel, now: int) -> LogChunk:
    log = SimulatedPodLog(pod, model)
    length = log.line_count(now)
    lines = [(line.at, line.text) for line in log.read(max(0, length - MAX_LINES), MAX_LINES, now)]
    return LogChunk(pod.uid, pod.attempt.workload_uid, pod.attempt.attempt, lines, length)
