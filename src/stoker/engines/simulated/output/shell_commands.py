"""What the shell of a simulated pod knows to say."""

from collections.abc import Callable

from stoker.domain.readings import Readings
from stoker.engines.simulated.machine import Machines
from stoker.engines.simulated.phrases import NOTICE
from stoker.engines.simulated.pods import Pod
from stoker.engines.simulated.terminal import Answer


def answers(pod: Pod, machines: Machines, readings: Callable[[], Readings]) -> dict[str, Answer]:
    """The words, each with what it answers in this pod."""
    shown = ",".join(map(str, pod.place.devices))
    gpus: Answer = lambda _: _gpus(pod, machines, readings())  # noqa: E731
    known: dict[str, Answer] = {
        "echo": " ".join,
        "hostname": lambda _: pod.place.name,
        "nvidia-smi": gpus,
        "rocm-smi": gpus,
        "env": lambda _: f"POD_NAME={pod.place.name}\nNODE_NAME={pod.place.node}\nCUDA_VISIBLE_DEVICES={shown}",
        "true": lambda _: NOTICE,
    }
    return known | {"help": lambda _: f"{NOTICE}\nIt only knows {', '.join(sorted(known))}, help and exit."}


def _gpus(pod: Pod, machines: Machines, now: Readings) -> str:
    lines = [f"simulated GPUs of {pod.place.name} on {pod.place.node}"]
    for row in pod.rows:
        model = machines.nodes[int(now.node[row])].devices[int(now.device[row])].model
        lines.append(
            f"{int(now.device[row])}  {model}  {now.utilization[row]:.0%}  "
            f"{now.memory_used[row] / 2**20:.0f}MiB / {now.memory_total[row] / 2**20:.0f}MiB  "
            f"{now.power[row]:.0f} W  {now.temperature[row]:.0f} C"
        )
    return "\n".join(lines)
