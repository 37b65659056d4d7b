"""What the lists of all families have in common."""

import pytest

from stoker.store import inventory_asked


@pytest.fixture(params=[0, 12, 12_000], ids=["walked", "some gathered", "gathered"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many workloads are few: a list is found in several ways, and all of them give the same."""
    monkeypatch.setattr(inventory_asked, "GATHERED", request.param)
    monkeypatch.setattr(inventory_asked, "MOST_GATHERED", request.param)
    monkeypatch.setattr(inventory_asked, "NAMED", 8)
    monkeypatch.setattr(inventory_asked, "SIZES", (2, 8))
    return request.param
