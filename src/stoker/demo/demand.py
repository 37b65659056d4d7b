"""The demand of the demo's tenants by hour of the day and day of the week.

Each tenant requests about its quota: more in working hours, so that a queue forms, and less at night. History and live
load follow the same rule.
"""

import math
import random

from stoker.domain.access.identity import Workspace
from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.resources import MILLI

SUBMIT_INTERVAL_MS = 6 * 60_000
"""How often each tenant considers a submission."""
MIN_DEMAND, MAX_DEMAND = 0.78, 1.12
"""The fraction of its quota that a tenant requests in the quietest and in the busiest hour."""
WEEKEND_FACTOR = 0.85
PEAK_HOUR = 15.0
UNLIMITED_SHARE = 0.02
"""The fraction of the cluster that a workspace without quota requests."""
SUBMIT_PROBABILITY = 0.5
"""The probability that a tenant below its demand submits when it considers to."""


def wanted_gpus(workspace: Workspace, cluster_gpus: int, at: int) -> float:
    """The number of GPUs that a tenant wants to hold or to wait for at this time."""
    quota = workspace.quota.gpu_milli
    owed = quota / MILLI if quota is not None else cluster_gpus * UNLIMITED_SHARE
    hour = at / HOUR_MS % 24
    day = (at // (24 * HOUR_MS) + 3) % 7  # the epoch began on a Thursday
    turn = 0.5 + 0.5 * math.cos((hour - PEAK_HOUR) * math.pi / 12)
    return owed * (MIN_DEMAND + (MAX_DEMAND - MIN_DEMAND) * turn) * (WEEKEND_FACTOR if day >= 5 else 1.0)


def should_submit(rolled: random.Random, wanted: float, demand: float) -> bool:
    """Whether a tenant with this demand and these requests submits now; at first it submits faster."""
    return demand < wanted and (demand < wanted * 0.7 or rolled.random() < SUBMIT_PROBABILITY)
