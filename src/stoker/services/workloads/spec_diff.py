"""The difference of two workload specs, as an update."""

from msgspec import UNSET

from stoker.domain.workload.model import Spec
from stoker.services.workloads.validation import UpdateWorkloadInput


def diff_specs(before: Spec, after: Spec) -> UpdateWorkloadInput:
    """The update that turns one spec into another; labels, ports and node pools stay."""
    wanted, current = after.resources, before.resources
    removed = {name: None for name in before.env if name not in after.env}
    return UpdateWorkloadInput(
        image=UNSET if after.image == before.image else after.image,
        entry_point=UNSET if after.entry_point == before.entry_point else after.entry_point,
        env=UNSET if after.env == before.env else {**removed, **after.env},
        cpu=UNSET if wanted.cpu_milli == current.cpu_milli else (wanted.cpu_milli, after.shown_cpu),
        gpu=UNSET if wanted.gpu_milli == current.gpu_milli else (wanted.gpu_milli, after.shown_gpu),
        memory=UNSET if wanted.memory_bytes == current.memory_bytes else (wanted.memory_bytes, after.shown_memory),
        replicas=UNSET if after.replicas == before.replicas else after.replicas,
    )
