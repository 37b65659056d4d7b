"""What the training jobs of the past had reported: some of the points that their logs would have held."""

import numpy as np
from numpy.typing import NDArray

from stoker.domain.points import Points
from stoker.engines.simulated.machine import Machines
from stoker.engines.simulated.pods import Pod
from stoker.engines.simulated.story import Framework
from stoker.engines.simulated.training import Training
from stoker.server.demo.lives import Job
from stoker.server.demo.printed import model_of
from stoker.store.training import Batch

POINTS = 40
"""Of each attempt; a curve is a curve with so many."""


def batches(job: Job, machines: Machines, now: int) -> list[Batch]:
    """One for each attempt that has ended; what still runs is read from its log."""
    speakers = [pod for pod in job.pods if _speaks(pod) and pod.ended(now) and pod.begun(now)]
    return [batch for pod in speakers if len((batch := _batch(pod, machines)).measured)]


def _speaks(pod: Pod) -> bool:
    if not pod.story.framework.trains:
        return False
    last = pod.story.framework is Framework.MEGATRON
    return pod.place.rank == (pod.attempt.replicas - 1 if last else 0)


def _batch(pod: Pod, machines: Machines) -> Batch:
    training = Training(pod.story, pod.attempt.gpus * pod.attempt.replicas, model_of(pod, machines).tflops)
    end = pod.end()
    ran = pod.elapsed_seconds(end.at) if end is not None else 0.0
    reports = max(0, int((ran - pod.load.warm) / training.line_seconds) + 1) if ran > pod.load.warm else 0
    every = max(1, -(-reports // POINTS))
    numbers = np.arange(0, reports, every, dtype=np.int64)
    return Batch(pod.attempt.workload_uid, pod.uid, pod.attempt.attempt, _points(pod, training, numbers))


def _points(pod: Pod, training: Training, numbers: NDArray[np.int64]) -> Points:
    """By report, and of each report every metric."""
    said = training.points(numbers)
    shown = {"loss": said.loss, "grad_norm": said.grad_norm}
    match pod.story.framework:
        case Framework.MEGATRON:
            shown |= {"tflops": said.tflops, "learning_rate": said.learning_rate}
        case Framework.TORCHTITAN:
            shown |= {"tflops": said.tflops, "tps": said.tokens_per_second}
        case _:
            shown |= {"epoch": said.epoch, "learning_rate": said.learning_rate}
    seconds = pod.load.warm + numbers * training.line_seconds
    at = pod.place.begins_at + np.rint(seconds * 1000 / pod.speed).astype(np.int64)
    many = len(shown)
    return Points(
        tuple(shown),
        np.tile(np.arange(many), len(numbers)),
        np.repeat(at, many),
        np.repeat(said.step, many),
        np.stack(list(shown.values()), axis=1).ravel(),
    )
