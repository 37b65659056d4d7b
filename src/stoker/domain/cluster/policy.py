"""The settings of a cluster that hold for every engine. They are stored among the settings of its engine."""

from functools import lru_cache

import msgspec
from msgspec import Struct


class ClusterPolicy(Struct, frozen=True):
    default_image: str = ""
    """The image of workloads that name none, where pods run images."""
    foreign_stop: bool = False
    """Whether admins may stop workloads that Stoker did not create."""


@lru_cache(maxsize=256)
def policy_from_config(config: str) -> ClusterPolicy:
    """The policy in the JSON of a cluster's settings; other settings are ignored."""
    return msgspec.json.decode(config, type=ClusterPolicy)
