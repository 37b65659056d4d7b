"""Idle thresholds are compared in the whole steps in which utilisation is kept."""

import numpy as np
import pytest

from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.workload.idle import UTILIZATION_SCALE, is_idle, quantize_threshold, quantize_utilization
from stoker.domain.workload.idle_samples import idle_mask
from stoker.telemetry.tsdb.codec import QUANTIZATIONS


def test_utilisation_is_kept_and_compared_in_the_same_steps() -> None:
    assert QUANTIZATIONS[GpuMetric.UTILIZATION].steps_per_unit == UTILIZATION_SCALE


def test_every_threshold_of_whole_hundredths_of_a_percent_is_its_own_step() -> None:
    assert [quantize_threshold(step / 100) for step in range(UTILIZATION_SCALE + 1)] == list(
        range(UTILIZATION_SCALE + 1)
    )


def test_every_utilisation_that_is_kept_is_its_own_step() -> None:
    assert [quantize_utilization(step / 10_000) for step in range(UTILIZATION_SCALE + 1)] == list(
        range(UTILIZATION_SCALE + 1)
    )


@pytest.mark.parametrize(("percent", "steps"), [(2.505, 250), (2.5099, 250), (0.0049, 0), (99.999, 9999)])
def test_a_threshold_between_two_steps_is_the_lower_one(percent: float, steps: int) -> None:
    assert quantize_threshold(percent) == steps


@pytest.mark.parametrize("percent", [0, 0.07, 0.7, 2.505, 7, 28, 56, 100])
def test_one_value_and_many_are_idle_by_the_same_rule(percent: float) -> None:
    shares = np.arange(UTILIZATION_SCALE + 1) / UTILIZATION_SCALE
    assert idle_mask(shares, percent).tolist() == [is_idle(share, percent) for share in shares.tolist()]
    assert not idle_mask(np.array([np.nan]), percent).any(), "a missing sample says nothing"
