"""Reads the output of containers, both streams in the order in which Docker wrote them.

A reader that comes back with the cursor that it was given continues an open stream; any other cursor opens one. While a
pod runs, its stream is followed and reports when there is more. What a pod has written to its end is read once more
after its end, so that nothing is missed.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from stoker.domain.cluster.engine_access import LogLine
from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.docker.api.client import DockerClient
from stoker.engines.docker.api.schema import parse_time_ns
from stoker.engines.docker.log_lines import LineAssembler, cursor_time_ns
from stoker.engines.docker.pod import DockerPod

MAX_BUFFERED_LINES = 10_000
MAX_BUFFERED_BYTES = 4 * 1024**2
_MAX_STREAMS = 2
"""Of one pod: that of the collector, and that of a user who looks at the newest lines."""


class ContainerLogStream:
    """The lines of a container from a cursor on, read ahead up to a limit."""

    def __init__(
        self, client: DockerClient, pod: DockerPod, cursor: int, *, follow: bool, grown: Callable[[], None]
    ) -> None:
        self.cursor = cursor
        self.is_followed = follow
        self.is_final = pod.is_finished
        """Whether the pod had ended when the stream was opened: then it has everything."""
        self.lock = asyncio.Lock()
        self.has_ended = False
        self._client = client
        self._container = pod.container.id
        self._created_ns = parse_time_ns(pod.container.created) or 0
        self._grown = grown
        self._lines: deque[LogLine] = deque()
        self._bytes = 0
        self._error: StokerError | None = None
        self._has_lines = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._task = asyncio.create_task(self._read_ahead())

    def take(self, limit: int) -> list[LogLine]:
        """Up to `limit` lines that are here."""
        taken = [self._lines.popleft() for _ in range(min(limit, len(self._lines)))]
        if taken:
            self.cursor = taken[-1].position
            self._bytes -= sum(len(line.text) for line in taken)
            self._has_room.set()
            if not self._lines and not self.has_ended:
                self._has_lines.clear()
        return taken

    async def wait(self) -> None:
        """Wait for lines or the end. Raises what has ended the stream."""
        await self._has_lines.wait()
        if self._error is not None and not self._lines:
            raise self._error

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _read_ahead(self) -> None:
        assembler = LineAssembler(self._created_ns, self.cursor)
        since = cursor_time_ns(self._created_ns, self.cursor)
        try:
            frames = self._client.logs(self._container, since_ns=since, follow=self.is_followed)
            async with contextlib.aclosing(frames):
                async for frame in frames:
                    if lines := assembler.feed(frame):
                        self._add(lines)
                        await self._has_room.wait()
            if self.is_final:
                self._add(assembler.finish())
        except StokerError as error:
            self._error = error
        finally:
            self.has_ended = True
            self._has_lines.set()

    def _add(self, lines: list[LogLine]) -> None:
        was_empty = not self._lines
        self._lines += lines
        self._bytes += sum(len(line.text) for line in lines)
        if len(self._lines) >= MAX_BUFFERED_LINES or self._bytes >= MAX_BUFFERED_BYTES:
            self._has_room.clear()
        if lines:
            self._has_lines.set()
        if lines and was_empty and self.is_followed:
            self._grown()


class ContainerLogReader:
    def __init__(self, client: DockerClient, grown: Callable[[str], None]) -> None:
        self._client = client
        self._grown = grown
        self._streams: dict[str, list[ContainerLogStream]] = {}

    async def read(self, pod: DockerPod, cursor: int, limit: int) -> list[LogLine]:
        """Up to `limit` lines from a cursor on. While Docker cannot be reached, a pod that has not ended has no new
        lines."""
        try:
            return await self._read(pod, cursor, limit)
        except StokerError as error:
            if error.code is ErrorCode.UNAVAILABLE and not pod.is_finished:
                return []
            raise

    async def forget(self, uid: str) -> None:
        """Close the streams of a pod."""
        for stream in self._streams.pop(uid, []):
            await stream.close()

    async def close(self) -> None:
        for uid in list(self._streams):
            await self.forget(uid)

    async def _read(self, pod: DockerPod, cursor: int, limit: int) -> list[LogLine]:
        stream = self._find(pod, cursor) or await self._open(pod, cursor, follow=False)
        async with stream.lock:
            if stream.cursor != cursor:  # somebody else has read on meanwhile
                stream = await self._open(pod, cursor, follow=False)
            while True:
                if lines := stream.take(limit):
                    return lines
                if stream.is_followed and not stream.has_ended and not pod.is_finished:
                    return []
                if not stream.is_followed:
                    try:
                        await stream.wait()
                    except StokerError:
                        await self._drop(pod, stream)
                        raise
                    if lines := stream.take(limit):
                        return lines
                    if pod.is_finished and stream.is_final:
                        await self._drop(pod, stream)
                        return []
                    if pod.running_since is not None:  # everything is read: wait for more behind the reader's back
                        await self._drop(pod, stream)
                        await self._open(pod, cursor, follow=True)
                        return []
                    if not pod.is_finished:
                        await self._drop(pod, stream)
                        return []
                await self._drop(pod, stream)
                stream = await self._open(pod, cursor, follow=False)

    def _find(self, pod: DockerPod, cursor: int) -> ContainerLogStream | None:
        return next((each for each in self._streams.get(pod.record.uid, []) if each.cursor == cursor), None)

    async def _open(self, pod: DockerPod, cursor: int, *, follow: bool) -> ContainerLogStream:
        uid = pod.record.uid
        streams = self._streams.setdefault(uid, [])
        if len(streams) >= _MAX_STREAMS:
            await streams.pop(0).close()
            self._grown(uid)  # its reader has to open it again
        stream = ContainerLogStream(self._client, pod, cursor, follow=follow, grown=lambda: self._grown(uid))
        streams.append(stream)
        return stream

    async def _drop(self, pod: DockerPod, stream: ContainerLogStream) -> None:
        streams = self._streams.get(pod.record.uid, [])
        if stream in streams:
            streams.remove(stream)
        if not streams:
            self._streams.pop(pod.record.uid, None)
        await stream.close()
