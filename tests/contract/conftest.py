"""What the lists of all families have in common."""

import pytest

from stoker.store.workloads.query import candidates


@pytest.fixture(params=[0, 12, 12_000], ids=["walked", "some gathered", "gathered"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many workloads are few: a list is found in several ways, and all of them give the same."""
    monkeypatch.setattr(candidates, "MIN_CANDIDATE_LIMIT", request.param)
    monkeypatch.setattr(candidates, "MAX_CANDIDATE_LIMIT", request.param)
    monkeypatch.setattr(candidates, "MAX_UID_LIST", 8)
    monkeypatch.setattr(candidates, "UID_LIST_SIZES", (2, 8))
    return request.param
