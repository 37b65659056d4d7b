"""What GPU-hours cost."""

from stoker.domain.report import Amounts, Cost, Group, Prices
from stoker.domain.usage import GPU_HOUR

USED = {"H100": Amounts(busy=2 * GPU_HOUR, idle=GPU_HOUR), "A10": Amounts(idle=GPU_HOUR, lost=GPU_HOUR // 2)}


def test_what_was_held_costs_by_its_model_and_idle_hours_are_told_apart() -> None:
    assert Prices({"H100": 2.5, "A10": 0.1}).costs(USED) == Cost(7.65, 2.6)


def test_a_model_without_a_price_has_that_of_all_others() -> None:
    assert Prices({"H100": 2.5, "*": 0.2}).costs(USED) == Cost(7.8, 2.7)


def test_without_any_price_there_is_no_cost_and_the_model_is_named() -> None:
    prices = Prices({"H100": 2.5})
    assert prices.costs(USED) == Cost(None, None)
    assert prices.missing(USED) == ["A10"]
    assert Prices({}).missing(USED) == ["A10", "H100"]


def test_a_model_that_nobody_held_needs_no_price() -> None:
    used = {"H100": Amounts(busy=GPU_HOUR), "A10": Amounts(free=GPU_HOUR, faulty=GPU_HOUR)}
    prices = Prices({"H100": 2.5})
    assert prices.costs(used) == Cost(2.5, 0.0)
    assert prices.missing(used) == []


def test_prices_are_decimal_numbers_and_not_what_a_computer_makes_of_them() -> None:
    assert Prices({"H100": 0.1}).costs({"H100": Amounts(busy=3 * GPU_HOUR)}).allocated == 0.3


def test_amounts_of_models_make_the_amounts_of_a_row() -> None:
    whole = Group("vision", USED).amounts
    assert whole == Amounts(busy=2 * GPU_HOUR, idle=2 * GPU_HOUR, lost=GPU_HOUR // 2)
    assert whole.allocated == 4 * GPU_HOUR + GPU_HOUR // 2
