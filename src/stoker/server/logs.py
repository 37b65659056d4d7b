"""Log lines for people or for machines. A line never holds a header, a body or a query string."""

import logging
import sys
from datetime import UTC, datetime

import msgspec

from stoker.domain.settings import LogFormat, LogLevel

EXTRAS = ("trace_id", "actor", "address", "milliseconds")


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in EXTRAS if (value := getattr(record, name, None)) not in (None, "")}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        extras = [f"{name}={value}" for name in EXTRAS if (value := getattr(record, name, None)) not in (None, "")]
        line = " ".join((_time(record), f"{record.levelname:7}", record.getMessage(), *extras))
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up_logs(log_format: LogFormat, level: LogLevel) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format is LogFormat.JSON else TextLines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.getLogger("uvicorn").setLevel(max(logging.getLogger().level, logging.WARNING))


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
