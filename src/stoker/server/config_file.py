"""Reads the settings file. `stoker.domain.settings.loading` interprets its keys and values."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError


def load_config_file(path: str | None) -> Mapping[str, object]:
    """The keys of the file as written; empty without a path."""
    if path is None:
        return {}
    try:
        data = Path(path).expanduser().read_bytes()
    except FileNotFoundError:
        raise _config_error(f'There is no settings file "{path}". Check the path, or leave it out.') from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _config_error(f'The settings file "{path}" cannot be read: {reason}.') from None
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _config_error(
            f'The settings file "{path}", line {line}: this is not UTF-8 text. Save it as UTF-8.'
        ) from None
    except (ValueError, RecursionError) as error:
        raise _config_error(
            f'The settings file "{path}", {_error_location(str(error), data)}. Write TOML: name = value.'
        ) from None


def _error_location(error: str, data: bytes) -> str:
    """The message of the TOML parser, preceded by the line; tomllib calls the last line "end of document"."""
    if found := re.fullmatch(r"(?s)(.*) \(at line (\d+), (column \d+)\)", error):
        return f"line {found[2]}, {found[3]}: {found[1]}"
    return f"line {len(data.splitlines()) or 1}: {error.removesuffix(' (at end of document)')}"


def _config_error(message: str) -> StokerError:
    return StokerError(ErrorCode.BAD_REQUEST, message, field="config")
