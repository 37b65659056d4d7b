"""Prints log lines of workloads: as text with time and pod, or as JSON."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stoker.cli.render.output import is_text, show_json_line
from stoker.cli.render.sanitize import sanitize_log_line

if TYPE_CHECKING:
    from stoker.client.follow import LogOutput


class LogPrinter:
    """Prints log lines, with time or pod if requested; `plain` is never JSON. Lines for a terminal are sanitized."""

    def __init__(self, *, timestamps: bool = False, pods: bool = False, plain: bool = False) -> None:
        self._text = plain or is_text()
        self._timestamps = timestamps
        self._pods = pods
        self._stdout = sys.stdout.buffer
        self._format_line = sanitize_log_line if sys.stdout.isatty() else str

    def print_line(self, output: "LogOutput") -> None:
        if not self._text:
            show_json_line(
                {"pod": output.pod, "attempt": output.attempt, "at": _timestamp(output), "line": output.line.text}
            )
            return
        pod = f"{output.pod} | " if self._pods else ""
        at = f"{_timestamp(output)} " if self._timestamps else ""
        self._stdout.write(f"{pod}{at}{self._format_line(output.line.text)}\n".encode("utf-8", "replace"))
        self._stdout.flush()


def _timestamp(output: "LogOutput") -> str:
    at = datetime.fromtimestamp(output.line.at / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
