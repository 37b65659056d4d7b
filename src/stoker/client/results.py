"""Results that are more than the JSON body of a response: exported files, batches, lines of a followed log."""

from typing import Self

import msgspec
from msgspec import Struct

from stoker.client.transport.request_flow import ApiRequest, ApiResponse
from stoker.client.transport.sse import ServerEvent
from stoker.domain.clock import parse_rfc3339
from stoker.wire.management import BatchAnswer, BatchFailure


class Export(Struct, frozen=True):
    """A file as the server wrote it."""

    content: bytes

    @classmethod
    def from_response(cls, request: ApiRequest, response: ApiResponse) -> Self | None:
        return cls(content=response.body) if response.status == 200 else None


class BatchResult(Struct, frozen=True, kw_only=True):
    """The outcome for each workload. `clones` are the new ids in the order of `succeeded`; `unchanged` are workloads
    that had already finished when they were to be stopped."""

    succeeded: tuple[str, ...]
    failed: tuple[BatchFailure, ...] = ()
    clones: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()

    @classmethod
    def from_response(cls, request: ApiRequest, response: ApiResponse) -> Self | None:
        """A response without a body means that every workload succeeded; any other status may have a batch as body."""
        clones, unchanged = (
            tuple(filter(None, response.headers.get(name, "").split(",")))
            for name in ("x-workload-ids", "x-unchanged-workload-ids")
        )
        if response.status == 204:
            requested = msgspec.json.decode(request.body, type=_BatchIds).workload_ids
            return cls(succeeded=tuple(dict.fromkeys(requested)), clones=clones, unchanged=unchanged)
        try:
            batch = msgspec.json.decode(response.body, type=BatchAnswer)
        except msgspec.DecodeError:
            return None
        return cls(succeeded=batch.succeeded, failed=batch.failed, clones=clones, unchanged=unchanged)


class _BatchIds(Struct, frozen=True, rename="camel"):
    workload_ids: tuple[str, ...]


class PodLogLine(Struct, frozen=True, kw_only=True):
    """One line and the time it was printed, in epoch milliseconds; 0 if the time is unknown."""

    at: int
    text: str

    @classmethod
    def from_event(cls, event: ServerEvent) -> Self:
        """A log line contains no line feed, so a line feed in the event stands for a carriage return."""
        return cls.parse_timestamped(event.data.replace("\n", "\r"))

    @classmethod
    def parse_timestamped(cls, text: str) -> Self:
        """Parse a line that begins with its time."""
        time, _, line = text.partition(" ")
        at = parse_rfc3339(time)
        return cls(at=0, text=text) if at is None else cls(at=at, text=line)
