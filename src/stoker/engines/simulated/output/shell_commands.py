"""The commands of the simulated shell."""

from collections.abc import Callable

from stoker.domain.cluster.samples import GpuSamples
from stoker.engines.simulated.fleet.nodes import SimulatedFleet
from stoker.engines.simulated.output.log_templates import SIMULATED_NOTICE
from stoker.engines.simulated.output.terminal import ShellCommand
from stoker.engines.simulated.pods.pod import SimulatedPod


def build_shell_commands(
    pod: SimulatedPod, fleet: SimulatedFleet, readings: Callable[[], GpuSamples]
) -> dict[str, ShellCommand]:
    """The commands by name, with their output in this pod."""
    shown = ",".join(map(str, pod.plan.devices))
    gpus: ShellCommand = lambda _: _gpu_table(pod, fleet, readings())  # noqa: E731
    known: dict[str, ShellCommand] = {
        "echo": " ".join,
        "hostname": lambda _: pod.plan.name,
        "nvidia-smi": gpus,
        "rocm-smi": gpus,
        "env": lambda _: f"POD_NAME={pod.plan.name}\nNODE_NAME={pod.plan.node}\nCUDA_VISIBLE_DEVICES={shown}",
        "true": lambda _: SIMULATED_NOTICE,
    }
    return known | {"help": lambda _: f"{SIMULATED_NOTICE}\nIt only knows {', '.join(sorted(known))}, help and exit."}


def _gpu_table(pod: SimulatedPod, fleet: SimulatedFleet, now: GpuSamples) -> str:
    lines = [f"simulated GPUs of {pod.plan.name} on {pod.plan.node}"]
    for row in pod.rows:
        model = fleet.nodes[int(now.node[row])].devices[int(now.device[row])].model
        lines.append(
            f"{int(now.device[row])}  {model}  {now.utilization[row]:.0%}  "
            f"{now.memory_used[row] / 2**20:.0f}MiB / {now.memory_total[row] / 2**20:.0f}MiB  "
            f"{now.power[row]:.0f} W  {now.temperature[row]:.0f} C"
        )
    return "\n".join(lines)
