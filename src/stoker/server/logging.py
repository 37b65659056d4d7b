"""Log lines as text or JSON. A line never contains a header, a body or a query string.

Libraries log from level warning on, because their lower levels may contain any of these.
"""

import asyncio
import logging
import re
import sys
from datetime import UTC, datetime

import msgspec

from stoker.domain.settings.schema import LogFormat, LogLevel

EXTRA_FIELDS = ("trace_id", "actor", "address", "milliseconds")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _escape_surrogates(record.getMessage()),
        }
        line |= {name: value for name in EXTRA_FIELDS if (value := getattr(record, name, None)) not in (None, "")}
        if record.exc_info:
            line["exception"] = _escape_surrogates(self.formatException(record.exc_info))
        return msgspec.json.encode(line, enc_hook=str).decode()


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        extras = [
            f"{name}={value}" for name in EXTRA_FIELDS if (value := getattr(record, name, None)) not in (None, "")
        ]
        line = _escape_control_characters(
            " ".join((_timestamp(record), f"{record.levelname:7}", record.getMessage(), *extras))
        )
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_logging(log_format: LogFormat, level: LogLevel) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING), force=True)
    logging.getLogger("stoker").setLevel(number)
    logging.getLogger("uvicorn.error").addFilter(_is_reportable)
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # its warnings are also raised, and most are retried
    logging.captureWarnings(True)


def _is_reportable(record: logging.LogRecord) -> bool:
    """False for requests that were cancelled because the server stops."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _escape_control_characters(text: str) -> str:
    """Escape control characters, so that logged input cannot add lines or colours."""
    return _UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def _escape_surrogates(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
