"""Training metrics of the jobs in the demo's history: a selection of the points that their logs would contain."""

import numpy as np
from numpy.typing import NDArray

from stoker.demo.backfill.logs import gpu_model_of
from stoker.demo.records import HistoricalWorkload
from stoker.domain.metrics.points import TrainingPoints
from stoker.engines.simulated.fleet.gpu_models import GpuModel
from stoker.engines.simulated.fleet.nodes import SimulatedFleet
from stoker.engines.simulated.output.log_templates import memory_gib, mfu_percent
from stoker.engines.simulated.output.pod_log import SimulatedPodLog
from stoker.engines.simulated.pods.pod import SimulatedPod
from stoker.engines.simulated.scenario import Framework
from stoker.store.telemetry.training import TrainingBatch

POINTS_PER_ATTEMPT = 40
"""Points of each attempt, enough to draw a curve."""
NEWEST_REPORTS = 400
"""A running attempt gets all of its newest reports, an ended one its last."""


def build_batches(job: HistoricalWorkload, fleet: SimulatedFleet, now: int) -> list[TrainingBatch]:
    """One batch for each attempt that has started; later reports are parsed from its log."""
    reporting_pods = [pod for pod in job.pods if _is_reporting_rank(pod) and pod.has_started(now)]
    return [batch for pod in reporting_pods if len((batch := _build_batch(pod, gpu_model_of(pod, fleet), now)).samples)]


def _is_reporting_rank(pod: SimulatedPod) -> bool:
    if not pod.scenario.framework.is_training:
        return False
    last = pod.scenario.framework is Framework.MEGATRON
    return pod.plan.rank == (pod.attempt.replicas - 1 if last else 0)


def _build_batch(pod: SimulatedPod, model: GpuModel, now: int) -> TrainingBatch:
    log = SimulatedPodLog(pod, model)
    reports, runs = log.report_count(now), not pod.is_finished(now)
    numbers = np.arange(0, reports, max(1, -(-reports // POINTS_PER_ATTEMPT)), dtype=np.int64)
    numbers = np.union1d(numbers, np.arange(max(0, reports - (NEWEST_REPORTS if runs else 1)), reports))
    read = log.line_count(now) if runs else 0
    return TrainingBatch(pod.attempt.workload_uid, pod.uid, pod.attempt.attempt, build_points(pod, log, numbers), read)


def build_points(pod: SimulatedPod, log: SimulatedPodLog, numbers: NDArray[np.int64]) -> TrainingPoints:
    """The metrics of these reports."""
    training = log.training
    metrics = training.report_columns(numbers)
    shown = {"loss": metrics.loss, "grad_norm": metrics.grad_norm}
    match pod.scenario.framework:
        case Framework.MEGATRON:
            shown |= {
                "consumed_samples": metrics.step * training.batch_size,
                "elapsed_time_per_iteration": metrics.seconds_per_step * 1000,
                "global_batch_size": np.full(len(numbers), training.batch_size),
                "learning_rate": metrics.learning_rate,
                "loss_scale": np.ones(len(numbers)),
                "number_of_nan_iterations": np.zeros(len(numbers)),
                "number_of_skipped_iterations": np.zeros(len(numbers)),
                "tflops": metrics.tflops,
            }
        case Framework.TORCHTITAN:
            shown |= {
                "memory": np.full(len(numbers), memory_gib(pod, log.model)),
                "mfu": mfu_percent(metrics.tflops, log.model),
                "tflops": metrics.tflops,
                "tps": metrics.tokens_per_second,
            }
        case _:
            shown |= {"epoch": np.round(metrics.epoch, 2), "learning_rate": metrics.learning_rate}
    many = len(shown)
    return TrainingPoints(
        tuple(shown),
        np.tile(np.arange(many), len(numbers)),
        np.repeat(log.reported_at(numbers), many),
        np.repeat(metrics.step, many),
        np.stack(list(shown.values()), axis=1).ravel(),
    )
