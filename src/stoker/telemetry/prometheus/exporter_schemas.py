"""How exporters name what they measure of a GPU: DCGM's, AMD's, and those that took after AMD's."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from stoker.domain.quantity import MIB
from stoker.telemetry import node_names
from stoker.telemetry.promql import first_of, literally, one_of, selector

MOST_DEVICES = 1024
"""More than any node has."""

Gpu = tuple[str, int]
"""A node and the number of a device."""


class Quantity(StrEnum):
    UTILIZATION = "utilization"
    MEMORY_USED = "memory_used"
    MEMORY_FREE = "memory_free"
    MEMORY_TOTAL = "memory_total"
    POWER = "power"
    TEMPERATURE = "temperature"
    XID = "xid"
    HEALTH = "health"


SCALE = {
    Quantity.UTILIZATION: 0.01,
    Quantity.MEMORY_USED: float(MIB),
    Quantity.MEMORY_FREE: float(MIB),
    Quantity.MEMORY_TOTAL: float(MIB),
}
"""What makes base units of them; exporters count memory in MiB and what is busy in percent."""


class Exporter(Struct, frozen=True):
    """The names of a quantity are in the order in which they are trusted."""

    node_labels: tuple[str, ...]
    device_label: str
    names: dict[Quantity, tuple[str, ...]]


DCGM = Exporter(
    ("Hostname",),
    "gpu",
    {
        Quantity.UTILIZATION: ("DCGM_FI_DEV_GPU_UTIL",),
        Quantity.MEMORY_USED: ("DCGM_FI_DEV_FB_USED",),
        Quantity.MEMORY_FREE: ("DCGM_FI_DEV_FB_FREE",),
        Quantity.POWER: ("DCGM_FI_DEV_POWER_USAGE",),
        Quantity.TEMPERATURE: ("DCGM_FI_DEV_GPU_TEMP",),
        Quantity.XID: ("DCGM_FI_DEV_XID_ERRORS",),
    },
)
AMD = Exporter(
    ("hostname", "primus_lens_node_name"),
    "gpu_id",
    {
        Quantity.UTILIZATION: ("gpu_gfx_activity", "gpu_utilization"),
        Quantity.MEMORY_USED: ("gpu_used_vram",),
        Quantity.MEMORY_TOTAL: ("gpu_total_vram",),
        Quantity.POWER: ("gpu_package_power", "gpu_average_package_power", "gpu_socket_power_watts"),
        Quantity.TEMPERATURE: ("gpu_junction_temperature",),
        Quantity.HEALTH: ("gpu_health",),
    },
)


class Wanted(Struct, frozen=True):
    """Some GPUs; no nodes or no devices means all of them."""

    nodes: Sequence[str] = ()
    devices: Sequence[int] = ()


class Names(Struct, frozen=True):
    """The exporters of one installation: what its metrics begin with, and the label of the node where it is another."""

    prefix: str = ""
    node_label: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label that may say which GPU it is."""
        return (*self._all_node_labels(), DCGM.device_label, AMD.device_label)

    def query(self, quantity: Quantity, wanted: Wanted, measure: Callable[[str], str]) -> str:
        """One expression for this quantity of these GPUs; `measure` is applied to every selector."""
        return first_of(measure(each) for each in self._selectors(quantity, wanted))

    def finder(self, known: node_names.NodeNames) -> Callable[[dict[str, str]], Gpu | None]:
        """What finds the GPU that a series is about; None if its node is none of ours, or its number is none."""
        node_labels, device_labels = self._all_node_labels(), (DCGM.device_label, AMD.device_label)
        numbers = {str(number): number for number in range(MOST_DEVICES)}

        def find(labels: dict[str, str]) -> Gpu | None:
            device = None
            for label in device_labels:
                if device is None and label in labels:
                    device = numbers.get(labels[label])
            if device is None:
                return None
            for label in node_labels:
                if label in labels and (node := known.find(labels[label])) is not None:
                    return node, device
            return None

        return find

    def _selectors(self, quantity: Quantity, wanted: Wanted) -> Iterator[str]:
        nodes = one_of(node_names.expression(node) for node in wanted.nodes)
        devices = one_of(literally(str(device)) for device in wanted.devices)
        for exporter in (DCGM, AMD):
            of_devices = {exporter.device_label: devices} if devices else {}
            for name in exporter.names.get(quantity, ()):
                if not nodes:
                    yield selector(self.prefix + name, of_devices)
                    continue
                for label in self._node_labels(exporter):
                    yield selector(self.prefix + name, {label: nodes, **of_devices})

    def _node_labels(self, exporter: Exporter) -> tuple[str, ...]:
        return (self.node_label,) if self.node_label else exporter.node_labels

    def _all_node_labels(self) -> tuple[str, ...]:
        return (self.node_label,) if self.node_label else (*DCGM.node_labels, *AMD.node_labels)
