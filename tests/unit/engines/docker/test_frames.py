"""Frames and lines are put together from pieces of any size."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engines.docker.api.frames import STDERR, STDOUT, FrameDecoder, StreamFrame, read_lines


def encode(frame: StreamFrame) -> bytes:
    return bytes([frame.stream, 0, 0, 0]) + len(frame.content).to_bytes(4, "big") + frame.content


@given(
    st.lists(st.builds(StreamFrame, st.sampled_from([STDOUT, STDERR]), st.binary(max_size=40))),
    st.integers(min_value=1, max_value=50),
)
def test_frames_survive_any_cut(frames: list[StreamFrame], size: int) -> None:
    data = b"".join(map(encode, frames))
    decoder = FrameDecoder()
    found = [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]
    assert found == frames


def test_an_incomplete_frame_waits() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(encode(StreamFrame(STDOUT, b"hello"))[:-1]) == []
    assert decoder.feed(b"o") == [StreamFrame(STDOUT, b"hello")]


@pytest.mark.parametrize("pieces", [[b'{"a":1}\n{"b"', b":2}\n\n"], [b'{"a":1}\r\n{"b":2}']])
def test_lines_of_a_stream_are_whole(pieces: list[bytes]) -> None:
    async def source() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def main() -> list[bytes]:
        return [line.strip() async for line in read_lines(source())]

    assert asyncio.run(main()) == [b'{"a":1}', b'{"b":2}']
