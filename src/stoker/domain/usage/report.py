"""What GPUs were used for, added up over hours: the question, the amounts, and what they cost.

Amounts are those of the ledger, whole milli-GPU-milliseconds, so every way of adding them up gives the same total.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from fractions import Fraction

from msgspec import Struct, structs

from stoker.domain.usage import GPU_HOUR

EVERY_OTHER = "*"
"""The model whose price is that of all models without one."""
COST_DIGITS = 6


class UsageBy(StrEnum):
    CLUSTER = "cluster"
    WORKSPACE = "workspace"
    NAMESPACE = "namespace"
    LABEL = "label"
    USER = "user"
    WORKLOAD = "workload"
    MODEL = "model"


class UsageSort(StrEnum):
    ALLOCATED = "allocated"
    BUSY = "busy"
    IDLE = "idle"


class UsageQuery(Struct, frozen=True, kw_only=True):
    """Hours from one moment up to another, which is not included. `workspace_ids` of None is everything, with what
    nobody held; `label` is the key whose values are told apart."""

    by: UsageBy
    label: str = ""
    from_at: int
    to_at: int
    cluster_ids: tuple[str, ...]
    workspace_ids: tuple[int, ...] | None = None
    sort: UsageSort = UsageSort.ALLOCATED
    descending: bool = True

    @property
    def whole(self) -> bool:
        """Whether what nobody held belongs to one of the rows."""
        return self.workspace_ids is None and self.by in {UsageBy.CLUSTER, UsageBy.MODEL}


class Amounts(Struct, frozen=True):
    """`lost` was held while the GPU was faulty; `faulty` is all faulty time, that one included."""

    busy: int = 0
    idle: int = 0
    starting: int = 0
    unmeasured: int = 0
    lost: int = 0
    free: int = 0
    faulty: int = 0

    @property
    def allocated(self) -> int:
        return self.busy + self.idle + self.starting + self.unmeasured + self.lost

    @property
    def capacity(self) -> int:
        return self.busy + self.idle + self.starting + self.unmeasured + self.free + self.faulty

    def __add__(self, other: "Amounts") -> "Amounts":
        pairs = zip(structs.astuple(self), structs.astuple(other), strict=True)
        return Amounts(*(mine + theirs for mine, theirs in pairs))


class Group(Struct, frozen=True):
    """One row: what it is by, and its amounts by model."""

    key: str
    models: Mapping[str, Amounts]

    @property
    def amounts(self) -> Amounts:
        return sum(self.models.values(), Amounts())


class Cost(Struct, frozen=True):
    """Of what was allocated, and of the part of it that was idle; None where a model has no price."""

    allocated: float | None
    idle: float | None


class Prices:
    """What an hour of a GPU costs, by model: whole numbers of one small coin, so that costs add up as amounts do."""

    def __init__(self, by_model: Mapping[str, float]) -> None:
        exact = {model: Fraction(str(price)) for model, price in by_model.items()}
        self._coins = math.lcm(*(price.denominator for price in exact.values()))
        self._by_model = {model: int(price * self._coins) for model, price in exact.items()}

    def of(self, model: str) -> int | None:
        """In coins; None when it has no price."""
        return self._by_model.get(model, self._by_model.get(EVERY_OTHER))

    def cost(self, amounts: Iterable[tuple[str, int]]) -> float | None:
        """What amounts of models cost together; None when one of them has no price, or none has."""
        if not self._by_model:
            return None
        total = 0
        for model, amount in amounts:
            price = self.of(model)
            if amount and price is None:
                return None
            total += amount * (price or 0)
        return round(total / (self._coins * GPU_HOUR), COST_DIGITS)

    def costs(self, models: Mapping[str, Amounts]) -> Cost:
        return Cost(
            self.cost((model, each.allocated) for model, each in models.items()),
            self.cost((model, each.idle) for model, each in models.items()),
        )

    def missing(self, models: Mapping[str, Amounts]) -> list[str]:
        """The models that were held and have no price."""
        return sorted(model for model, each in models.items() if each.allocated and self.of(model) is None)
