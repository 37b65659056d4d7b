"""What the training jobs of the past had reported: some of the points that their logs would have held."""

import numpy as np
from numpy.typing import NDArray

from stoker.domain.points import Points
from stoker.engines.simulated.devices import GpuModel
from stoker.engines.simulated.logs import PodLog
from stoker.engines.simulated.machine import Machines
from stoker.engines.simulated.phrases import memory_gib, mfu_percent
from stoker.engines.simulated.pods import Pod
from stoker.engines.simulated.story import Framework
from stoker.server.demo.lives import Job
from stoker.server.demo.printed import model_of
from stoker.store.training import Batch

POINTS = 40
"""Of each attempt; a curve is a curve with so many."""
NEWEST = 400
"""Of one that still runs its newest reports are all there; of one that has ended, its last is."""


def batches(job: Job, machines: Machines, now: int) -> list[Batch]:
    """One for each attempt that has begun; what it reports from now on is read from its log."""
    speakers = [pod for pod in job.pods if _speaks(pod) and pod.begun(now)]
    return [batch for pod in speakers if len((batch := _batch(pod, model_of(pod, machines), now)).measured)]


def _speaks(pod: Pod) -> bool:
    if not pod.story.framework.trains:
        return False
    last = pod.story.framework is Framework.MEGATRON
    return pod.place.rank == (pod.attempt.replicas - 1 if last else 0)


def _batch(pod: Pod, model: GpuModel, now: int) -> Batch:
    log = PodLog(pod, model)
    reports, runs = log.reports(now), not pod.ended(now)
    numbers = np.arange(0, reports, max(1, -(-reports // POINTS)), dtype=np.int64)
    numbers = np.union1d(numbers, np.arange(max(0, reports - (NEWEST if runs else 1)), reports))
    read = log.length(now) if runs else 0
    return Batch(pod.attempt.workload_uid, pod.uid, pod.attempt.attempt, points(pod, log, numbers), read)


def points(pod: Pod, log: PodLog, numbers: NDArray[np.int64]) -> Points:
    """Of these reports every metric that its line has."""
    training = log.training
    said = training.points(numbers)
    shown = {"loss": said.loss, "grad_norm": said.grad_norm}
    match pod.story.framework:
        case Framework.MEGATRON:
            shown |= {
                "consumed_samples": said.step * training.batch,
                "elapsed_time_per_iteration": said.seconds_per_step * 1000,
                "global_batch_size": np.full(len(numbers), training.batch),
                "learning_rate": said.learning_rate,
                "loss_scale": np.ones(len(numbers)),
                "number_of_nan_iterations": np.zeros(len(numbers)),
                "number_of_skipped_iterations": np.zeros(len(numbers)),
                "tflops": said.tflops,
            }
        case Framework.TORCHTITAN:
            shown |= {
                "memory": np.full(len(numbers), memory_gib(pod, log.model)),
                "mfu": mfu_percent(said.tflops, log.model),
                "tflops": said.tflops,
                "tps": said.tokens_per_second,
            }
        case _:
            shown |= {"epoch": np.round(said.epoch, 2), "learning_rate": said.learning_rate}
    many = len(shown)
    return Points(
        tuple(shown),
        np.tile(np.arange(many), len(numbers)),
        np.repeat(log.reported_at(numbers), many),
        np.repeat(said.step, many),
        np.stack(list(shown.values()), axis=1).ravel(),
    )
