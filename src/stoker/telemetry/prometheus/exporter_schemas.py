"""The metric and label names of GPU exporters: DCGM, AMD, and exporters with names like AMD's."""

from collections.abc import Callable, Collection, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from stoker.domain.cluster.gpu_identity import AMD_UUID, GpuId, normalize_uuid
from stoker.domain.cluster.quantity import MIB
from stoker.telemetry.prometheus import node_matching
from stoker.telemetry.prometheus.promql import alternatives, avg_by, escape_regex, max_by, or_, selector

MAX_DEVICES = 1024
"""More than any node has."""

SAME_SCRAPE_SECONDS = 1
"""Samples at most this far apart are of one scrape, even if each has its own timestamp."""


class ExporterField(StrEnum):
    UTILIZATION = "utilization"
    MEMORY_USED = "memory_used"
    MEMORY_FREE = "memory_free"
    MEMORY_TOTAL = "memory_total"
    POWER = "power"
    TEMPERATURE = "temperature"
    XID = "xid"
    UNCORRECTED_ERRORS = "uncorrected_errors"
    HEALTH = "health"


UNIT_SCALES = {
    ExporterField.UTILIZATION: 0.01,
    ExporterField.MEMORY_USED: float(MIB),
    ExporterField.MEMORY_FREE: float(MIB),
    ExporterField.MEMORY_TOTAL: float(MIB),
}
"""Factors to base units: exporters report memory in MiB and utilization in percent."""


class Exporter(Struct, frozen=True):
    """The metric names of a field are in order of preference."""

    node_labels: tuple[str, ...]
    device_label: str
    uuid_label: str
    metric_names: dict[ExporterField, tuple[str, ...]]


DCGM = Exporter(
    ("Hostname",),
    "gpu",
    "UUID",
    {
        ExporterField.UTILIZATION: ("DCGM_FI_DEV_GPU_UTIL",),
        ExporterField.MEMORY_USED: ("DCGM_FI_DEV_FB_USED",),
        ExporterField.MEMORY_FREE: ("DCGM_FI_DEV_FB_FREE",),
        ExporterField.MEMORY_TOTAL: ("DCGM_FI_DEV_FB_TOTAL",),
        ExporterField.POWER: ("DCGM_FI_DEV_POWER_USAGE",),
        ExporterField.TEMPERATURE: ("DCGM_FI_DEV_GPU_TEMP",),
        ExporterField.XID: ("DCGM_FI_DEV_XID_ERRORS",),
        ExporterField.UNCORRECTED_ERRORS: ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",),
    },
)
AMD = Exporter(
    ("hostname", "primus_lens_node_name"),
    "gpu_id",
    "gpu_uuid",
    {
        ExporterField.UTILIZATION: ("gpu_gfx_activity", "gpu_utilization"),
        ExporterField.MEMORY_USED: ("gpu_used_vram",),
        ExporterField.MEMORY_TOTAL: ("gpu_total_vram",),
        ExporterField.POWER: ("gpu_package_power", "gpu_average_package_power", "gpu_socket_power_watts"),
        ExporterField.TEMPERATURE: ("gpu_junction_temperature",),
        ExporterField.UNCORRECTED_ERRORS: ("gpu_ecc_uncorrect_total",),
        ExporterField.HEALTH: ("gpu_health",),
    },
)


DEVICE_LABELS = (DCGM.device_label, AMD.device_label)
UUID_LABELS = (DCGM.uuid_label, AMD.uuid_label)


class GpuSelector(Struct, frozen=True):
    """A set of GPUs; empty nodes or devices mean all of them. GPUs with these UUIDs are added, wherever they are."""

    nodes: Sequence[str] = ()
    devices: Sequence[int] = ()
    uuids: Sequence[str] = ()


class ExporterSchema(Struct, frozen=True):
    """The names in one installation: an optional prefix of all metrics, and an optional label that names the node."""

    prefix: str = ""
    node_label: str = ""

    @property
    def gpu_labels(self) -> tuple[str, ...]:
        """Every label that may identify a GPU."""
        return (*self._all_node_labels(), *DEVICE_LABELS, *UUID_LABELS)

    def build_query(self, field: ExporterField, wanted: GpuSelector, measure: Callable[[str], str]) -> str:
        """One expression for a field of these GPUs; `measure` is applied to every selector."""
        return or_(measure(series) for series in self._selectors(field, wanted))

    def memory_total_query(self, wanted: GpuSelector) -> str:
        """The memory size if it is exported, else the sum of used and free memory, if both are of the same scrape."""
        total, used, free = (
            self.build_query(field, wanted, lambda series: avg_by(series, self.gpu_labels))
            for field in (ExporterField.MEMORY_TOTAL, ExporterField.MEMORY_USED, ExporterField.MEMORY_FREE)
        )
        used_at, free_at = (
            self.build_query(field, wanted, lambda series: max_by(f"timestamp({series})", self.gpu_labels))
            for field in (ExporterField.MEMORY_USED, ExporterField.MEMORY_FREE)
        )
        return or_([total, f"((({used}) + ({free})) and (abs(({used_at}) - ({free_at})) < {SAME_SCRAPE_SECONDS}))"])

    def sampled_at_query(self, wanted: GpuSelector) -> str:
        """The time of each GPU's sample in seconds: of its utilization, or else of another field."""
        return or_(
            self.build_query(field, wanted, lambda series: max_by(f"timestamp({series})", self.gpu_labels))
            for field in (
                ExporterField.UTILIZATION,
                ExporterField.MEMORY_USED,
                ExporterField.POWER,
                ExporterField.TEMPERATURE,
            )
        )

    def label_resolver(
        self, known: node_matching.NodeMatcher, anywhere: Collection[str] = frozenset()
    ) -> Callable[[dict[str, str]], GpuId | None]:
        """A function from the labels of a series to its GPU; None if node or device are unknown. A GPU may have moved
        from a node that is not known; `anywhere` has the UUIDs for which that does not matter."""
        node_labels = self._all_node_labels()
        numbers = {str(number): number for number in range(MAX_DEVICES)}

        def find(labels: dict[str, str]) -> GpuId | None:
            device = None
            for label in DEVICE_LABELS:
                if device is None and label in labels:
                    device = numbers.get(labels[label])
            if device is None:
                return None
            uuid = next((normalize_uuid(labels[label]) for label in UUID_LABELS if label in labels), "")
            for label in node_labels:
                if label in labels and (node := known.match(labels[label])) is not None:
                    return GpuId(node, device, uuid)
            return GpuId("", device, uuid) if uuid in anywhere else None

        return find

    def _selectors(self, field: ExporterField, wanted: GpuSelector) -> Iterator[str]:
        nodes = alternatives(node_matching.node_regex(node) for node in wanted.nodes)
        devices = alternatives(escape_regex(str(device)) for device in wanted.devices)
        uuids = alternatives(uuid_regex(uuid) for uuid in wanted.uuids)
        for exporter in (DCGM, AMD):
            of_devices = {exporter.device_label: devices} if devices else {}
            for name in exporter.metric_names.get(field, ()):
                if not nodes:
                    yield selector(self.prefix + name, of_devices)
                    continue
                for label in self._node_labels(exporter):
                    yield selector(self.prefix + name, {label: nodes, **of_devices})
                if uuids:
                    yield selector(self.prefix + name, {exporter.uuid_label: uuids})

    def _node_labels(self, exporter: Exporter) -> tuple[str, ...]:
        return (self.node_label,) if self.node_label else exporter.node_labels

    def _all_node_labels(self) -> tuple[str, ...]:
        return (self.node_label,) if self.node_label else (*DCGM.node_labels, *AMD.node_labels)


def uuid_regex(uuid: str) -> str:
    """A regular expression for every label of the GPU with this UUID; see `normalize_uuid`."""
    if not AMD_UUID.fullmatch(uuid):
        return escape_regex(uuid)
    digits = uuid.removeprefix("GPU-").lower()
    return f"{uuid}|{digits[:2]}ff[0-9a-f]{{4}}-0000-1000-80{digits[2:4]}-{digits[4:]}"
