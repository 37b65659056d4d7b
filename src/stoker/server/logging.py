"""Log lines for people or for machines. A line never holds a header, a body or a query string.

Libraries are heard from a warning on only: what they say below that may hold any of these.
"""

import asyncio
import logging
import re
import sys
from datetime import UTC, datetime

import msgspec

from stoker.domain.settings import LogFormat, LogLevel

EXTRAS = ("trace_id", "actor", "address", "milliseconds")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _encodable(record.getMessage()),
        }
        line |= {name: value for name in EXTRAS if (value := getattr(record, name, None)) not in (None, "")}
        if record.exc_info:
            line["exception"] = _encodable(self.formatException(record.exc_info))
        return msgspec.json.encode(line, enc_hook=str).decode()


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        extras = [f"{name}={value}" for name in EXTRAS if (value := getattr(record, name, None)) not in (None, "")]
        line = _on_one_line(" ".join((_time(record), f"{record.levelname:7}", record.getMessage(), *extras)))
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up_logs(log_format: LogFormat, level: LogLevel) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format is LogFormat.JSON else TextLines())
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING), force=True)
    logging.getLogger("stoker").setLevel(number)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # what it warns of is raised too, and often only tried again
    logging.captureWarnings(True)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether it is more than a request that was ended because the server stops."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _on_one_line(text: str) -> str:
    """So that nobody can write a line of their own, or colours, into the log."""
    return _UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
