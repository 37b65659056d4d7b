"""From an order to pods: who begins when, and who has to go first.

Everything about a simulated pod is known beforehand, so a replacement one by one is a plan of times that is made at
once: each old pod is stopped when the new one of the rank before has been up for a while.
"""

from collections.abc import Sequence

from stoker.engines.base import Order
from stoker.engines.simulated.pods import Attempt, Place, Pod
from stoker.engines.simulated.story import FRAMEWORK, PREFIX, Story

UP_SECONDS = 1.0
COMMAND_CHARACTERS = 200
FRAMEWORK_LABEL = "framework"


def attempt_of(order: Order) -> Attempt:
    """What is kept of an order."""
    command = order.entry_point.strip().partition("\n")[0]
    labels = {**order.labels, **order.annotations}
    return Attempt(
        workload_uid=order.workload_uid,
        slug=order.slug,
        namespace=order.namespace,
        kind=order.kind,
        attempt=order.attempt,
        revision=order.revision,
        replicas=max(1, len(order.pods)),
        gpu_milli=order.resources.gpu_milli,
        cpu_milli=order.resources.cpu_milli,
        memory_bytes=order.resources.memory_bytes,
        restart=order.restart,
        command=command[:COMMAND_CHARACTERS],
        service_port=order.service.port if order.service else 0,
        framework=labels.get(FRAMEWORK, labels.get(FRAMEWORK_LABEL, "")),
        annotations={key: value for key, value in order.annotations.items() if key.startswith(PREFIX)},
    )


def stops_of(order: Order, there: Sequence[Pod], now: int, speed: float) -> list[tuple[str, int]]:
    """When each living pod that the order does not want is asked to end."""
    wanted = {pod.uid for pod in order.pods}
    ranks = sorted({pod.rank for pod in order.pods} - {pod.place.rank for pod in there if pod.uid in wanted})
    last = len(ranks)
    turn = {rank: place for place, rank in enumerate(ranks)}
    each = round(_turn_seconds(order) * 1000 / speed)
    stops = []
    for pod in there:
        if pod.uid in wanted or pod.ended(now):
            continue
        at = now + (turn.get(pod.place.rank, last) * each if order.rolling else 0)
        if pod.stop_at is None or pod.stop_at > at:
            stops.append((pod.uid, at))
    return stops


def places_of(order: Order, told: Story, there: Sequence[Pod], now: int, speed: float) -> tuple[Place, ...]:
    """The pods of the order that do not exist yet. Each begins when those in its place have ended."""
    known = {pod.uid for pod in there}
    delay = round(told.start_seconds * 1000 / speed)
    places = []
    for pod in order.pods:
        if pod.uid in known:
            continue
        before = [old for old in there if old.place.rank == pod.rank or not order.rolling]
        free_at = max((end.at for old in before if (end := old.end()) is not None), default=now)
        places.append(
            Place(
                uid=pod.uid,
                name=pod.name,
                rank=pod.rank,
                node=pod.node,
                devices=pod.devices,
                port=pod.port,
                created_at=now,
                begins_at=max(now, free_at) + delay,
            )
        )
    return tuple(places)


def _turn_seconds(order: Order) -> float:
    """How long one old pod takes to go and the new one to be up, at most."""
    return min(order.grace_seconds, 2.0) + UP_SECONDS + 4.0
