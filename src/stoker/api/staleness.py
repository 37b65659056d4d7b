"""Old readings are still answers, as long as they say so: the header that marks them in every family."""

from collections.abc import Sequence
from typing import Any

from stoker.api.endpoint import Call
from stoker.services.live import ClusterNow, stale_seconds

HEADER = "X-Stoker-Stale"


def mark_stale(call: Call[Any], clusters: Sequence[ClusterNow]) -> None:
    """Put the age of the oldest readings beside the answer when they are older than they should be."""
    age = stale_seconds(clusters)
    if age is not None:
        call.headers.append((HEADER, str(age)))
