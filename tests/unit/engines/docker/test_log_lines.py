"""Lines of a log have the same cursors for every reader, and cursors grow whatever the times do."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.cluster.engine_access import LogLine
from stoker.engines.docker.api.frames import STDERR, STDOUT, StreamFrame
from stoker.engines.docker.log_lines import MAX_LINE_BYTES, REORDER_NS, LineAssembler, cursor_time_ns

SECOND = 1_000_000_000


def frame(nanoseconds: int, text: bytes, stream: int = STDOUT) -> StreamFrame:
    stamp = f"1970-01-01T00:00:{nanoseconds // SECOND:02d}.{nanoseconds % SECOND:09d}Z"
    return StreamFrame(stream, stamp.encode() + b" " + text)


def read(frames: list[tuple[int, StreamFrame]], cursor: int = 0) -> list[LogLine]:
    """As Docker answers: only what is not older than the time of the cursor."""
    since = cursor_time_ns(0, cursor)
    assembler = LineAssembler(0, cursor)
    lines = [line for at, each in frames if at >= since for line in assembler.feed(each)]
    return lines + assembler.finish()


@given(
    st.lists(st.tuples(st.integers(0, 5 * SECOND), st.integers(-REORDER_NS // 4, 0), st.sampled_from([STDOUT, STDERR])))
)
def test_reading_can_go_on_from_any_line(parts: list[tuple[int, int, int]]) -> None:
    """Lines are written in any order that deviates from their times by less than a quarter of a second."""
    written = sorted(parts, key=lambda part: part[0])
    times = [max(0, at + late) for at, late, _ in written]
    frames = [
        (at, frame(at, f"{number}\n".encode(), stream))
        for number, (at, (_, _, stream)) in enumerate(zip(times, written, strict=True))
    ]
    whole = read(frames)
    assert [line.text for line in whole] == [str(number) for number in range(len(frames))]
    assert all(first.position < second.position for first, second in itertools.pairwise(whole))
    assert all(first.at <= second.at for first, second in itertools.pairwise(whole))
    for number, line in enumerate(whole):
        assert read(frames, line.position) == whole[number + 1 :]


def test_pieces_of_a_long_line_are_joined_up_to_the_limit() -> None:
    pieces = [(1, frame(1, b"x" * 16_384)) for _ in range(10)] + [(1, frame(1, b"end\n"))]
    lines = read(pieces)
    assert "".join(line.text for line in lines) == "x" * 163_840 + "end"
    assert all(len(line.text) <= MAX_LINE_BYTES for line in lines)
    assert read(pieces, lines[0].position) == lines[1:]


def test_a_character_is_not_cut() -> None:
    text = ("ä" * 100_000).encode()
    cuts = [text[at : at + 16_383] for at in range(0, len(text), 16_383)]
    lines = read([(1, frame(1, cut)) for cut in cuts])
    assert "".join(line.text for line in lines) == "ä" * 100_000


def test_a_line_without_an_end_is_complete_when_the_next_run_begins() -> None:
    lines = read([(1, frame(1, b"no end")), (2, frame(2, b"next\n")), (3, frame(3, b"last"))])
    assert [line.text for line in lines] == ["no end", "next", "last"]


def test_streams_do_not_mix() -> None:
    frames = [(1, frame(1, b"out")), (2, frame(2, b"err\n", STDERR)), (1, frame(1, b"put\n"))]
    assert [line.text for line in read(frames)] == ["err", "output"]
