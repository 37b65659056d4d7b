"""Usage reports: the query, the amounts by group, and their cost.

Amounts are those of the ledger, whole milli-GPU-milliseconds, so every grouping gives the same total.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from fractions import Fraction

from msgspec import Struct, structs

from stoker.domain.usage.ledger import GPU_HOUR

DEFAULT_PRICE_KEY = "*"
"""Key of the price for models without their own."""
COST_DECIMALS = 6


class UsageGroupBy(StrEnum):
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


class UnclosedInterval(Struct, frozen=True):
    """Time of a cluster that is not in a closed hour yet."""

    cluster_id: str
    from_at: int
    to_at: int


class UsageQuery(Struct, frozen=True, kw_only=True):
    """A usage query from `from_at` up to, but not including, `to_at`. Without `workspace_ids` it covers everything,
    including unallocated time; `label` is the key to group by; allocations in `unclosed_intervals` are added."""

    group_by: UsageGroupBy
    label: str = ""
    from_at: int
    to_at: int
    cluster_ids: tuple[str, ...]
    workspace_ids: tuple[int, ...] | None = None
    unclosed_intervals: tuple[UnclosedInterval, ...] = ()
    sort: UsageSort = UsageSort.ALLOCATED
    descending: bool = True

    @property
    def includes_unallocated(self) -> bool:
        """Whether the groups contain unallocated time."""
        return self.workspace_ids is None and self.group_by in {UsageGroupBy.CLUSTER, UsageGroupBy.MODEL}


class UsageAmounts(Struct, frozen=True):
    """Amounts by category. `lost` was allocated while the GPU was faulty; `faulty` includes `lost`.
    `open` was allocated in hours that are not closed yet, so its category is unknown."""

    busy: int = 0
    idle: int = 0
    starting: int = 0
    unmeasured: int = 0
    lost: int = 0
    free: int = 0
    faulty: int = 0
    open: int = 0

    @property
    def allocated(self) -> int:
        return self.busy + self.idle + self.starting + self.unmeasured + self.lost + self.open

    @property
    def capacity(self) -> int:
        return self.busy + self.idle + self.starting + self.unmeasured + self.free + self.faulty + self.open

    def __add__(self, other: "UsageAmounts") -> "UsageAmounts":
        pairs = zip(structs.astuple(self), structs.astuple(other), strict=True)
        return UsageAmounts(*(mine + theirs for mine, theirs in pairs))


class UsageGroup(Struct, frozen=True):
    """One group of a report with its amounts by GPU model."""

    key: str
    amounts_by_model: Mapping[str, UsageAmounts]

    @property
    def total(self) -> UsageAmounts:
        return sum(self.amounts_by_model.values(), UsageAmounts())


class UsageCost(Struct, frozen=True):
    """Cost of allocated and of idle time; None if a model has no price."""

    allocated: float | None
    idle: float | None


class PriceList:
    """Prices of a GPU hour by model, as integers over a common denominator, so that costs add up exactly."""

    def __init__(self, by_model: Mapping[str, float]) -> None:
        exact = {model: Fraction(str(price)) for model, price in by_model.items()}
        self._denominator = math.lcm(*(price.denominator for price in exact.values()))
        self._price_by_model = {model: int(price * self._denominator) for model, price in exact.items()}

    def price_of(self, model: str) -> int | None:
        """The price in units of the common denominator; None without a price."""
        return self._price_by_model.get(model, self._price_by_model.get(DEFAULT_PRICE_KEY))

    def cost(self, amounts: Iterable[tuple[str, int]]) -> float | None:
        """The total cost of amounts by model; None if a model has no price."""
        if not self._price_by_model:
            return None
        total = 0
        for model, amount in amounts:
            price = self.price_of(model)
            if amount and price is None:
                return None
            total += amount * (price or 0)
        return round(total / (self._denominator * GPU_HOUR), COST_DECIMALS)

    def usage_cost(self, models: Mapping[str, UsageAmounts]) -> UsageCost:
        return UsageCost(
            self.cost((model, amounts.allocated) for model, amounts in models.items()),
            self.cost((model, amounts.idle) for model, amounts in models.items()),
        )

    def unpriced_models(self, models: Mapping[str, UsageAmounts]) -> list[str]:
        """Models with allocations and without a price."""
        return sorted(model for model, amounts in models.items() if amounts.allocated and self.price_of(model) is None)
