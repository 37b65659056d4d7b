"""The response header that marks answers from stale samples, in all families."""

from collections.abc import Sequence
from typing import Any

from stoker.api.http.endpoint import Call
from stoker.services.fleet.live import ClusterLiveStatus, max_stale_seconds

STALE_HEADER = "X-Stoker-Stale"


def mark_stale(call: Call[Any], clusters: Sequence[ClusterLiveStatus]) -> None:
    """Add the age of the oldest samples to the response if they are stale."""
    age = max_stale_seconds(clusters)
    if age is not None:
        call.headers.append((STALE_HEADER, str(age)))
