"""AMD GPUs as the kernel shows them, in the order in which KFD and so ROCm count them. What sysfs does not say is
asked of amdsmi where it is installed."""

import math
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from stoker.domain.clock import Clock
from stoker.domain.readings import Readings
from stoker.telemetry.amdsmi import Amdsmi, load
from stoker.telemetry.aside import Aside
from stoker.telemetry.machine import GpuNow, of_one_machine

NAME = "amd"
_HOTTEST = "junction"
_MILLION = 1_000_000


def amd(node: str, clock: Clock, root: Path = Path("/")) -> Aside | None:
    """The source of this machine; None where KFD shows no GPU."""
    cards = list(kfd_cards(root))
    if not cards:
        return None
    driver = Amd(node, clock, cards)
    return Aside(NAME, driver.read, driver.close)


def kfd_cards(root: Path) -> Iterator[Path]:
    """The folder of each GPU that can compute, by its number."""
    for node in sorted(root.glob("sys/class/kfd/kfd/topology/nodes/*"), key=lambda path: int(path.name)):
        facts = dict(line.split(" ", 1) for line in _text(node / "properties").splitlines() if " " in line)
        if _number(facts.get("simd_count", "")) > 0:
            yield root / f"sys/class/drm/renderD{facts.get('drm_render_minor', '')}/device"


class Amd:
    def __init__(self, node: str, clock: Clock, cards: list[Path]) -> None:
        self._node = node
        self._clock = clock
        self._cards = cards
        self._amdsmi: Amdsmi | None = None
        self._looked = False

    def read(self) -> Readings:
        if not self._looked:
            self._looked = True
            self._amdsmi = load()
        at = self._clock.now()
        return of_one_machine(at, self._node, [self._gpu(index, card) for index, card in enumerate(self._cards)])

    def close(self) -> None:
        if self._amdsmi is not None:
            self._amdsmi.close()

    def _gpu(self, index: int, card: Path) -> GpuNow:
        if not card.exists():
            return GpuNow(index, faults=("Its driver no longer shows it.",))
        shown = GpuNow(
            index,
            _number(_text(card / "gpu_busy_percent")) / 100,
            _number(_text(card / "mem_info_vram_used")),
            _known(_number(_text(card / "mem_info_vram_total"))),
            _first(card, "power1_average", "power1_input") / _MILLION,
            _temperature(card) / 1000,
            tuple(_faults(card)),
        )
        return shown if self._amdsmi is None else _filled(shown, self._amdsmi.gpu(card.resolve().name))


def _filled(shown: GpuNow, other: GpuNow | None) -> GpuNow:
    """What the kernel shows, with the gaps filled in."""
    if other is None:
        return shown
    gaps = {
        name: getattr(other, name)
        for name in ("utilization", "memory_used", "power", "temperature")
        if math.isnan(getattr(shown, name))
    }
    total = shown.memory_total or other.memory_total
    return structs.replace(shown, **gaps, memory_total=total, faults=shown.faults or other.faults)


def _temperature(card: Path) -> float:
    """The hottest place is what throttles a GPU; an old driver shows only its edge."""
    for label in sorted(card.glob("hwmon/hwmon*/temp*_label")):
        if _text(label).strip() == _HOTTEST:
            return _number(_text(label.with_name(label.name.replace("_label", "_input"))))
    return _first(card, "temp2_input", "temp1_input")


def _faults(card: Path) -> Iterator[str]:
    for file in sorted(card.glob("ras/*_err_count")):
        for line in _text(file).splitlines():
            kind, _, count = line.partition(":")
            if kind.strip() == "ue" and _number(count) > 0:
                yield f"Its {file.name.removesuffix('_err_count')} had {int(count)} uncorrectable errors."


def _first(card: Path, *names: str) -> float:
    """The first of these sensors that there is."""
    for name in names:
        for file in sorted(card.glob(f"hwmon/hwmon*/{name}")):
            if not math.isnan(value := _number(_text(file))):
                return value
    return math.nan


def _known(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _number(text: str) -> float:
    word = text.strip()
    return float(word) if word.isdigit() else math.nan


def _text(file: Path) -> str:
    """Many files of sysfs can be opened and not read, as while a GPU is being reset."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
