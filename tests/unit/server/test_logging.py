"""A log line is one line, whatever is in it, and can be read by what reads it."""

import asyncio
import logging
import sys
import warnings
from collections.abc import Iterator

import msgspec
import pytest

from stoker.domain.settings.schema import LogFormat, LogLevel
from stoker.server.logging import JsonFormatter, TextFormatter, configure_logging

NASTY = "a\nb\r\x1b[31mc\u2028d\udc80e é"


@pytest.fixture
def restored() -> Iterator[None]:
    """The loggers of the process as they were, for the tests that come after."""
    root, stoker = logging.getLogger(), logging.getLogger("stoker")
    handlers, levels = list(root.handlers), (root.level, stoker.level)
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    stoker.setLevel(levels[1])


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("stoker.access", logging.INFO, __file__, 1, message, args, None)
    made.created = 1_700_000_000.25
    made.__dict__ |= extra
    return made


def test_a_json_line_has_the_message_and_what_is_known_of_the_request() -> None:
    line = JsonFormatter().format(record("%s %s %d", "GET", "/x", 200, trace_id="t", actor="", milliseconds=1.5))
    assert msgspec.json.decode(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "logger": "stoker.access",
        "message": "GET /x 200",
        "trace_id": "t",
        "milliseconds": 1.5,
    }


def test_a_text_line_has_the_same_in_words() -> None:
    line = TextFormatter().format(record("GET /x 200", trace_id="t", address="::1"))
    assert line == "2023-11-14T22:13:20.250Z INFO    GET /x 200 trace_id=t address=::1"


def test_nothing_breaks_a_line() -> None:
    assert JsonFormatter().format(record("%s", NASTY)).isprintable() is False  # é and U+2028 are themselves in JSON
    assert len(JsonFormatter().format(record("%s", NASTY)).split("\n")) == 1
    assert msgspec.json.decode(JsonFormatter().format(record("%s", NASTY)))["message"] == NASTY.replace(
        "\udc80", "\\udc80"
    )
    text = TextFormatter().format(record("%s", NASTY, actor="eve\nadmin"))
    assert text.endswith(r"INFO    a\nb\r\x1b[31mc\u2028d\udc80e é actor=eve\nadmin")
    assert text.isprintable()


def test_a_value_of_any_kind_can_be_written() -> None:
    line = JsonFormatter().format(record("x", address=ValueError("odd"), actor=object))
    assert msgspec.json.decode(line)["address"] == "odd"


def test_a_traceback_is_part_of_its_line() -> None:
    try:
        raise ValueError(NASTY)
    except ValueError:
        failed = record("it failed")
        failed.exc_info = sys.exc_info()
    line = JsonFormatter().format(failed)
    assert "\n" not in line
    assert msgspec.json.decode(line)["exception"].startswith("Traceback (most recent call last):\n")
    assert TextFormatter().format(failed).splitlines()[1] == "Traceback (most recent call last):"


@pytest.mark.usefixtures("restored")
def test_libraries_are_heard_from_a_warning_on(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogFormat.JSON, LogLevel.DEBUG)
    for name in ("httpx", "uvicorn.error", "stoker.api"):
        logging.getLogger(name).debug("quiet of %s", name)
        logging.getLogger(name).warning("loud of %s", name)
    shown = [msgspec.json.decode(line)["message"] for line in capsys.readouterr().err.splitlines()]
    assert shown == ["loud of httpx", "loud of uvicorn.error", "quiet of stoker.api", "loud of stoker.api"]


@pytest.mark.usefixtures("restored")
def test_a_write_that_is_tried_again_is_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogFormat.TEXT, LogLevel.DEBUG)
    logging.getLogger("psycopg").warning("error ignored terminating a pipeline")
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("restored")
def test_an_error_only_log_has_errors_only(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogFormat.TEXT, LogLevel.ERROR)
    for name in ("httpx", "stoker.api"):
        logging.getLogger(name).warning("warning")
        logging.getLogger(name).error("error")
    assert capsys.readouterr().err.count("ERROR   error") == 2


@pytest.mark.usefixtures("restored")
def test_warnings_of_python_are_log_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogFormat.JSON, LogLevel.INFO)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old", stacklevel=1)
    (line,) = capsys.readouterr().err.splitlines()
    assert "old" in msgspec.json.decode(line)["message"]


@pytest.mark.usefixtures("restored")
def test_a_request_ended_by_the_stop_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogFormat.TEXT, LogLevel.INFO)
    log = logging.getLogger("uvicorn.error")
    log.error("Exception in ASGI application", exc_info=asyncio.CancelledError())
    assert capsys.readouterr().err == ""
    log.error("Exception in ASGI application", exc_info=ValueError("a real one"))
    assert "a real one" in capsys.readouterr().err
