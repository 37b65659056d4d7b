"""How much the people of the demo want, by the hour of the day and the day of the week.

Each team asks for about its quota: more of it in working hours, so that a queue forms, and less at night. The past
and the present are made by the same rule.
"""

import math
import random

from stoker.domain.clock import HOUR_MS
from stoker.domain.identity import Workspace
from stoker.domain.resources import MILLI

STEP_MS = 6 * 60_000
"""How often each team thinks about submitting."""
QUIET, BUSY = 0.78, 1.12
"""How much of its quota a team wants in the quietest and in the busiest hour."""
WEEKEND = 0.85
BUSIEST_HOUR = 15.0
OPEN_SHARE = 0.02
"""What a workspace without quota wants of the cluster."""
EAGER = 0.5
"""How likely a team that wants more submits at each thought."""


def wish(workspace: Workspace, cluster_gpus: int, at: int) -> float:
    """How many GPUs a team wants to hold or wait for at this moment."""
    quota = workspace.quota.gpu_milli
    owed = quota / MILLI if quota is not None else cluster_gpus * OPEN_SHARE
    hour = at / HOUR_MS % 24
    day = (at // (24 * HOUR_MS) + 3) % 7  # the epoch began on a Thursday
    turn = 0.5 + 0.5 * math.cos((hour - BUSIEST_HOUR) * math.pi / 12)
    return owed * (QUIET + (BUSY - QUIET) * turn) * (WEEKEND if day >= 5 else 1.0)


def submits(rolled: random.Random, wanted: float, demand: float) -> bool:
    """Whether a team that wants so much and has asked for so much submits now; at first it hurries."""
    return demand < wanted and (demand < wanted * 0.7 or rolled.random() < EAGER)
