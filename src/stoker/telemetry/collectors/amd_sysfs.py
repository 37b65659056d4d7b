"""Collects AMD GPUs from sysfs, numbered in the order of KFD, which is that of ROCm.

Values that sysfs does not have come from amdsmi, if it is installed.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, structs

from stoker.domain.clock import Clock
from stoker.domain.cluster.gpu_identity import uuid_of_amd
from stoker.domain.cluster.quantity import humanize_count
from stoker.domain.cluster.samples import GpuSamples
from stoker.telemetry.collectors.amd_smi import AmdSmi, load_amd_smi
from stoker.telemetry.collectors.base import GpuSample, build_node_samples
from stoker.telemetry.collectors.blocking import BlockingCollector

COLLECTOR_NAME = "amd"
_HOTSPOT_LABEL = "junction"
_MICROWATTS_PER_WATT = 1_000_000


def build_amd_collector(
    node: str, clock: Clock, root: Path = Path("/"), ecc_threshold: int = 1
) -> BlockingCollector | None:
    """The collector of this machine; None if KFD has no GPU. A GPU with `ecc_threshold` or more uncorrectable errors is
    faulty."""
    cards = find_kfd_cards(root)
    if not cards:
        return None
    driver = AmdSysfs(node, clock, cards, ecc_threshold)
    return BlockingCollector(COLLECTOR_NAME, driver.read, driver.close)


class KfdCard(Struct, frozen=True):
    """A compute GPU: its sysfs folder and its UUID, which is empty if it has none or shares it."""

    folder: Path
    uuid: str = ""


def find_kfd_cards(root: Path) -> list[KfdCard]:
    """Every compute GPU in the order of KFD. Partitions of one GPU may share its unique id."""
    cards = list(_read_kfd_cards(root))
    count = Counter(card.uuid for card in cards)
    return [card if count[card.uuid] == 1 else KfdCard(card.folder) for card in cards]


def _read_kfd_cards(root: Path) -> Iterator[KfdCard]:
    for node in sorted(root.glob("sys/class/kfd/kfd/topology/nodes/*"), key=lambda path: int(path.name)):
        facts = dict(line.split(" ", 1) for line in _read_text(node / "properties").splitlines() if " " in line)
        if _parse_number(facts.get("simd_count", "")) > 0:
            folder = root / f"sys/class/drm/renderD{facts.get('drm_render_minor', '')}/device"
            yield KfdCard(folder, _read_uuid(facts.get("unique_id", ""), folder))


def _read_uuid(unique_id: str, folder: Path) -> str:
    """The unique id is decimal in the topology of KFD and hexadecimal in the folder of the card."""
    if unique_id.isdigit() and int(unique_id):
        return uuid_of_amd(int(unique_id))
    with contextlib.suppress(ValueError):
        return uuid_of_amd(int(_read_text(folder / "unique_id"), 16))
    return ""


class AmdSysfs:
    def __init__(self, node: str, clock: Clock, cards: list[KfdCard], ecc_threshold: int = 1) -> None:
        self._ecc_threshold = ecc_threshold
        self._node = node
        self._clock = clock
        self._cards = cards
        self._amd_smi: AmdSmi | None = None
        self._amd_smi_loaded = False

    def read(self) -> GpuSamples:
        if not self._amd_smi_loaded:
            self._amd_smi_loaded = True
            self._amd_smi = load_amd_smi()
        at = self._clock.now()
        return build_node_samples(
            at, self._node, [self._read_gpu(index, card) for index, card in enumerate(self._cards)]
        )

    def close(self) -> None:
        if self._amd_smi is not None:
            self._amd_smi.close()

    def _read_gpu(self, index: int, kfd_card: KfdCard) -> GpuSample:
        card = kfd_card.folder
        if not card.exists():
            return GpuSample(index, faults=("Its driver no longer shows it.",), uuid=kfd_card.uuid)
        sample = GpuSample(
            index,
            _parse_number(_read_text(card / "gpu_busy_percent")) / 100,
            _parse_number(_read_text(card / "mem_info_vram_used")),
            _nan_to_zero(_parse_number(_read_text(card / "mem_info_vram_total"))),
            _first_sensor(card, "power1_average", "power1_input") / _MICROWATTS_PER_WATT,
            _read_temperature(card) / 1000,
            tuple(_ecc_faults(card, self._ecc_threshold)),
            kfd_card.uuid,
        )
        if self._amd_smi is None:
            return sample
        return _fill_gaps(sample, self._amd_smi.read_gpu(card.resolve().name, self._ecc_threshold))


def _fill_gaps(sample: GpuSample, other: GpuSample | None) -> GpuSample:
    """The sample of sysfs, with missing values from amdsmi."""
    if other is None:
        return sample
    gaps = {
        name: getattr(other, name)
        for name in ("utilization", "memory_used", "power", "temperature")
        if math.isnan(getattr(sample, name))
    }
    total = sample.memory_total or other.memory_total
    return structs.replace(sample, **gaps, memory_total=total, faults=sample.faults or other.faults)


def _read_temperature(card: Path) -> float:
    """The junction temperature, which throttles the GPU; old drivers have only that of the edge."""
    for label in sorted(card.glob("hwmon/hwmon*/temp*_label")):
        if _read_text(label).strip() == _HOTSPOT_LABEL:
            return _parse_number(_read_text(label.with_name(label.name.replace("_label", "_input"))))
    return _first_sensor(card, "temp2_input", "temp1_input")


def _ecc_faults(card: Path, threshold: int) -> Iterator[str]:
    """One fault for each block with uncorrectable errors, if all blocks together reach the threshold."""
    counts: dict[str, int] = {}
    for file in sorted(card.glob("ras/*_err_count")):
        for line in _read_text(file).splitlines():
            kind, _, count = line.partition(":")
            if kind.strip() == "ue" and _parse_number(count) > 0:
                counts[file.name.removesuffix("_err_count")] = int(count)
    if sum(counts.values()) >= threshold:
        for block, errors in counts.items():
            yield f"Its {block} had {humanize_count(errors, 'uncorrectable error')}."


def _first_sensor(card: Path, *names: str) -> float:
    """The value of the first of these sensors that exists."""
    for name in names:
        for file in sorted(card.glob(f"hwmon/hwmon*/{name}")):
            if not math.isnan(value := _parse_number(_read_text(file))):
                return value
    return math.nan


def _nan_to_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _parse_number(text: str) -> float:
    word = text.strip()
    return float(word) if word.isdigit() else math.nan


def _read_text(file: Path) -> str:
    """The text of a file; empty if it cannot be read, which happens in sysfs while a GPU is reset."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
