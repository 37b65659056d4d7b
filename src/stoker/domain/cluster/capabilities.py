"""What the engine of a cluster does by itself, as data that is stored with the cluster.

Services, scheduler and controller read capabilities instead of the names of engines.
"""

from enum import StrEnum

from msgspec import Struct


class Owner(StrEnum):
    """Who decides: Stoker, or the engine with its own scheduler or controllers."""

    STOKER = "stoker"
    ENGINE = "engine"


class ImageUse(StrEnum):
    """What becomes of the image of a workload: there are none, it is ignored, or pods run it."""

    NONE = "none"
    IGNORED = "ignored"
    USED = "used"


class LogScope(StrEnum):
    """What has a log of its own."""

    CONTAINER = "container"
    WORKLOAD = "workload"


class EnvLimits(Struct, frozen=True):
    """Limits of the environment of a process, in bytes: of one variable with its name, and of all variables."""

    max_variable_bytes: int
    max_total_bytes: int


EXECVE_LIMITS = EnvLimits(131_071, 1_572_864)
"""The limits of execve(2), with room for the variables that an engine adds."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """`admission`: who decides when a workload starts. `placement`: who chooses nodes. `devices`: who chooses GPUs.
    `replacement`: who replaces ended pods. `identity`: who names pods."""

    admission: Owner = Owner.STOKER
    placement: Owner = Owner.STOKER
    devices: Owner = Owner.STOKER
    replacement: Owner = Owner.STOKER
    identity: Owner = Owner.STOKER
    logs: LogScope = LogScope.CONTAINER
    images: ImageUse = ImageUse.USED
    discovers_foreign: bool = False
    """Whether the engine reports workloads that Stoker did not create."""
    simulated: bool = False
    env_limits: EnvLimits | None = None


LOCAL_CAPABILITIES = Capabilities(images=ImageUse.NONE, env_limits=EXECVE_LIMITS)
SIMULATED_CAPABILITIES = Capabilities(images=ImageUse.IGNORED, simulated=True)
DOCKER_CAPABILITIES = Capabilities(discovers_foreign=True, env_limits=EXECVE_LIMITS)
