"""What GPU-hours cost."""

from stoker.domain.usage.ledger import GPU_HOUR
from stoker.domain.usage.report import PriceList, UsageAmounts, UsageCost, UsageGroup

USED = {"H100": UsageAmounts(busy=2 * GPU_HOUR, idle=GPU_HOUR), "A10": UsageAmounts(idle=GPU_HOUR, lost=GPU_HOUR // 2)}


def test_what_was_held_costs_by_its_model_and_idle_hours_are_told_apart() -> None:
    assert PriceList({"H100": 2.5, "A10": 0.1}).usage_cost(USED) == UsageCost(7.65, 2.6)


def test_a_model_without_a_price_has_that_of_all_others() -> None:
    assert PriceList({"H100": 2.5, "*": 0.2}).usage_cost(USED) == UsageCost(7.8, 2.7)


def test_without_any_price_there_is_no_cost_and_the_model_is_named() -> None:
    prices = PriceList({"H100": 2.5})
    assert prices.usage_cost(USED) == UsageCost(None, None)
    assert prices.unpriced_models(USED) == ["A10"]
    assert PriceList({}).unpriced_models(USED) == ["A10", "H100"]


def test_a_model_that_nobody_held_needs_no_price() -> None:
    used = {"H100": UsageAmounts(busy=GPU_HOUR), "A10": UsageAmounts(free=GPU_HOUR, faulty=GPU_HOUR)}
    prices = PriceList({"H100": 2.5})
    assert prices.usage_cost(used) == UsageCost(2.5, 0.0)
    assert prices.unpriced_models(used) == []


def test_prices_are_decimal_numbers_and_not_what_a_computer_makes_of_them() -> None:
    assert PriceList({"H100": 0.1}).usage_cost({"H100": UsageAmounts(busy=3 * GPU_HOUR)}).allocated == 0.3


def test_amounts_of_models_make_the_amounts_of_a_row() -> None:
    whole = UsageGroup("vision", USED).total
    assert whole == UsageAmounts(busy=2 * GPU_HOUR, idle=2 * GPU_HOUR, lost=GPU_HOUR // 2)
    assert whole.allocated == 4 * GPU_HOUR + GPU_HOUR // 2
